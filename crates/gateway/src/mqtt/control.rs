//! Packets of a connected client other than PUBLISH and PUBREL, the same for both versions.

use std::num::NonZeroU16;

use bytes::BytesMut;
use rmqtt_codec::error::DecodeError;
use rmqtt_codec::types::QoS;
use rmqtt_codec::{v3, v5};
use tokio_util::codec::Decoder;

use super::ProtocolVersion;
use super::ending::Violation;
use super::wire::Packet;

/// What a connected client may say besides publishing and releasing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Control {
    Ping,
    Subscribe {
        packet_id: NonZeroU16,
        filters: Vec<(String, QoS)>,
    },
    Unsubscribe {
        packet_id: NonZeroU16,
        filters: Vec<String>,
    },
    /// The session expiry replaces that of the CONNECT, in seconds (MQTT 5).
    Goodbye {
        with_will: bool,
        session_expiry_secs: Option<u32>,
    },
}

/// Reads a packet that is neither PUBLISH nor PUBREL.
pub(super) fn read(version: ProtocolVersion, packet: Packet<'_>) -> Result<Control, Violation> {
    let mut bytes = BytesMut::from(packet.bytes);
    match version {
        ProtocolVersion::V311 => {
            v3::Codec::new(0).decode(&mut bytes).map_err(|error| violation(&error)).and_then(v311)
        }
        ProtocolVersion::V5 => {
            v5::Codec::new(0, 0).decode(&mut bytes).map_err(|error| violation(&error)).and_then(v5)
        }
    }
}

fn v311(decoded: Option<(v3::Packet, u32)>) -> Result<Control, Violation> {
    match decoded.map(|(packet, _)| packet) {
        Some(v3::Packet::PingRequest) => Ok(Control::Ping),
        Some(v3::Packet::Disconnect) => Ok(Control::Goodbye { with_will: false, session_expiry_secs: None }),
        Some(v3::Packet::Subscribe { packet_id, topic_filters }) => {
            let filters = topic_filters.into_iter().map(|(filter, qos)| (filter.to_string(), qos)).collect();
            Ok(Control::Subscribe { packet_id, filters })
        }
        Some(v3::Packet::Unsubscribe { packet_id, topic_filters }) => {
            let filters = topic_filters.iter().map(ToString::to_string).collect();
            Ok(Control::Unsubscribe { packet_id, filters })
        }
        // A second CONNECT, what only a server says, or an answer to a publish that we never sent.
        _ => Err(Violation::Protocol),
    }
}

fn v5(decoded: Option<(v5::Packet, u32)>) -> Result<Control, Violation> {
    match decoded.map(|(packet, _)| packet) {
        Some(v5::Packet::PingRequest) => Ok(Control::Ping),
        Some(v5::Packet::Disconnect(said)) => {
            let with_will = said.reason_code != v5::DisconnectReasonCode::NormalDisconnection;
            Ok(Control::Goodbye { with_will, session_expiry_secs: said.session_expiry_interval_secs })
        }
        Some(v5::Packet::Subscribe(subscribe)) if subscribe.id.is_some() => {
            Err(Violation::SubscriptionIdNotSupported)
        }
        Some(v5::Packet::Subscribe(v5::Subscribe { packet_id, topic_filters, .. })) => {
            let filters = topic_filters
                .into_iter()
                .map(|(filter, options)| (filter.to_string(), options.qos))
                .collect();
            Ok(Control::Subscribe { packet_id, filters })
        }
        Some(v5::Packet::Unsubscribe(v5::Unsubscribe { packet_id, topic_filters, .. })) => {
            let filters = topic_filters.iter().map(ToString::to_string).collect();
            Ok(Control::Unsubscribe { packet_id, filters })
        }
        _ => Err(Violation::Protocol),
    }
}

fn violation(error: &DecodeError) -> Violation {
    match error {
        DecodeError::InvalidTopicFilter => Violation::Protocol,
        _ => Violation::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mqtt::wire;

    fn said(version: ProtocolVersion, bytes: &[u8]) -> Result<Control, Violation> {
        read(version, wire::packet(bytes, 1_000).expect("a header").expect("whole"))
    }

    #[test]
    fn what_clients_say_is_read() {
        let packet_id = NonZeroU16::new(7).expect("not 0");
        let subscribe = |qos| Control::Subscribe { packet_id, filters: vec![("a/+".into(), qos)] };
        let goodbye = |with_will, session_expiry_secs| Control::Goodbye { with_will, session_expiry_secs };
        let unsubscribe = || Control::Unsubscribe { packet_id, filters: vec!["a/+".into()] };
        for (version, bytes, expect) in [
            (ProtocolVersion::V311, &b"\xc0\0"[..], Control::Ping),
            (ProtocolVersion::V5, b"\xc0\0", Control::Ping),
            (ProtocolVersion::V311, b"\x82\x08\0\x07\0\x03a/+\x01", subscribe(QoS::AtLeastOnce)),
            (ProtocolVersion::V5, b"\x82\x09\0\x07\0\0\x03a/+\x02", subscribe(QoS::ExactlyOnce)),
            (ProtocolVersion::V311, b"\xa2\x07\0\x07\0\x03a/+", unsubscribe()),
            (ProtocolVersion::V5, b"\xa2\x08\0\x07\0\0\x03a/+", unsubscribe()),
            (ProtocolVersion::V311, b"\xe0\0", goodbye(false, None)),
            (ProtocolVersion::V5, b"\xe0\0", goodbye(false, None)),
            (ProtocolVersion::V5, b"\xe0\x01\x04", goodbye(true, None)),
            (ProtocolVersion::V5, b"\xe0\x07\0\x05\x11\0\0\0\x09", goodbye(false, Some(9))),
        ] {
            assert_eq!(said(version, bytes), Ok(expect), "{version:?} {bytes:x?}");
        }
    }

    #[test]
    fn what_clients_must_not_say_breaks_the_rules() {
        for (version, bytes, expect) in [
            (
                ProtocolVersion::V5,
                &b"\x82\x0b\0\x07\x02\x0b\x01\0\x03a/+\x01"[..],
                Violation::SubscriptionIdNotSupported,
            ),
            (ProtocolVersion::V311, b"\x82\x02\0\x07", Violation::Protocol),
            (ProtocolVersion::V311, b"\x80\x08\0\x07\0\x03a/+\x01", Violation::Malformed),
            (ProtocolVersion::V311, b"\x82\x08\0\0\0\x03a/+\x01", Violation::Malformed),
            (ProtocolVersion::V311, b"\xf0\0", Violation::Malformed),
            (ProtocolVersion::V5, b"\xf0\0", Violation::Protocol),
            (ProtocolVersion::V311, b"\xd0\0", Violation::Protocol),
            (ProtocolVersion::V311, b"\x40\x02\0\x01", Violation::Protocol),
            (ProtocolVersion::V5, b"\x50\x02\0\x01", Violation::Protocol),
            (ProtocolVersion::V5, b"\x60\x02\0\x01", Violation::Malformed),
            (ProtocolVersion::V311, b"\0\0", Violation::Malformed),
        ] {
            assert_eq!(said(version, bytes), Err(expect), "{version:?} {bytes:x?}");
        }
    }

    proptest! {
        /// The codec is not ours, and what it reads comes from anyone.
        #[test]
        fn no_bytes_make_the_codec_panic(first: u8, body in prop::collection::vec(any::<u8>(), 0..60)) {
            for version in [ProtocolVersion::V311, ProtocolVersion::V5] {
                for first in [first, 0x82, 0xa2, 0xe0, 0x40] {
                    let bytes = [&[first, body.len() as u8], &body[..]].concat();
                    let _ = said(version, &bytes);
                }
            }
        }
    }
}
