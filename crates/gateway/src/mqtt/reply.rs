//! What we say: packets written behind what waits to be sent.
//!
//! PUBACK and PINGRESP are written here; the rest, which is rare, by the codec.

use base::Problem;
use bytes::{BufMut, BytesMut};
use rmqtt_codec::error::EncodeError;
use rmqtt_codec::types::QoS;
use rmqtt_codec::v5::{ConnectAckReason, DisconnectReasonCode, SubscribeAckReason, UnsubscribeAckReason};
use rmqtt_codec::{v3, v5};
use tokio_util::codec::Encoder;

use super::Version;
use super::ending::Violation;
use super::limits::{Limits, REASON_BYTES_MAX};
use super::subscriptions::Granted;
use crate::decode::UNKNOWN_TOPIC;

/// What of a CONNECT shapes our answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) version: Version,
    /// Whether it wants reasons in words (MQTT 5).
    pub(super) wants_reasons: bool,
    /// The largest packet it takes, in bytes; 0 is any (MQTT 5).
    pub(super) packet_bytes_max: u32,
}

/// How a CONNECT that is accepted differs from what the client asked for (MQTT 5).
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// The client id that we gave it.
    pub(super) assigned_id: Option<String>,
    /// It asked for a session that outlives the connection.
    pub(super) session_ends: bool,
}

impl Client {
    fn packet_v5(self, packet: v5::Packet, out: &mut BytesMut) -> Result<(), Violation> {
        // The codec counts what is behind the fixed header, which has up to 5 bytes.
        let content_max =
            if self.packet_bytes_max == 0 { 0 } else { self.packet_bytes_max.saturating_sub(5).max(1) };
        v5::Codec::new(0, content_max).encode(packet, out).map_err(|error| not_written(&error))
    }

    pub(super) fn accept(self, terms: &Terms, limits: &Limits, out: &mut BytesMut) -> Result<(), Violation> {
        if self.version == Version::V311 {
            return v311(
                v3::Packet::ConnectAck(v3::ConnectAck {
                    session_present: false,
                    return_code: v3::ConnectAckReason::ConnectionAccepted,
                }),
                out,
            );
        }
        let ack = v5::ConnectAck {
            session_present: false,
            session_expiry_interval_secs: terms.session_ends.then_some(0),
            receive_max: limits.unacknowledged_max,
            max_qos: QoS::AtLeastOnce,
            max_packet_size: Some(limits.packet_bytes_max),
            assigned_client_id: terms.assigned_id.clone().map(Into::into),
            topic_alias_max: 0,
            subscription_identifiers_available: false,
            shared_subscription_available: false,
            ..v5::ConnectAck::default()
        };
        self.packet_v5(ack.into(), out)
    }

    pub(super) fn puback(self, packet_id: u16, problem: Option<&Problem>, out: &mut BytesMut) {
        const PUBACK: u8 = 0x40;
        let id = packet_id.to_be_bytes();
        let problem = problem.filter(|_| self.version == Version::V5);
        let Some(problem) = problem else {
            return out.put_slice(&[PUBACK, 2, id[0], id[1]]);
        };
        let code = if problem.code == UNKNOWN_TOPIC { 0x90 } else { 0x99 };
        let reason = format!("{problem}");
        let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
        // Packet id, code, length of the properties, and one of them: its identifier and a string.
        let length = 2 + 1 + varint_bytes(reason.len() + 3) + 1 + 2 + reason.len();
        let whole = 1 + varint_bytes(length) + length;
        if !self.wants_reasons || (self.packet_bytes_max != 0 && whole > self.packet_bytes_max as usize) {
            return out.put_slice(&[PUBACK, 3, id[0], id[1], code]);
        }
        out.put_u8(PUBACK);
        put_varint(length, out);
        out.put_slice(&[id[0], id[1], code]);
        put_varint(reason.len() + 3, out);
        out.put_u8(0x1f);
        out.put_u16(reason.len() as u16);
        out.put_slice(reason.as_bytes());
    }

    pub(super) fn suback(
        self,
        packet_id: std::num::NonZeroU16,
        granted: impl Iterator<Item = Granted>,
        out: &mut BytesMut,
    ) -> Result<(), Violation> {
        match self.version {
            Version::V311 => {
                let status = granted.map(|granted| match granted {
                    Granted::Qos(qos) => v3::SubscribeReturnCode::Success(qos),
                    _ => v3::SubscribeReturnCode::Failure,
                });
                v311(v3::Packet::SubscribeAck { packet_id, status: status.collect() }, out)
            }
            Version::V5 => {
                let status = granted.map(|granted| match granted {
                    Granted::Qos(QoS::AtMostOnce) => SubscribeAckReason::GrantedQos0,
                    Granted::Qos(_) => SubscribeAckReason::GrantedQos1,
                    Granted::FilterInvalid => SubscribeAckReason::TopicFilterInvalid,
                    Granted::TooMany => SubscribeAckReason::QuotaExceeded,
                    Granted::SharedNotSupported => SubscribeAckReason::SharedSubscriptionNotSupported,
                });
                let ack = v5::SubscribeAck {
                    packet_id,
                    properties: Vec::new(),
                    reason_string: None,
                    status: status.collect(),
                };
                self.packet_v5(v5::Packet::SubscribeAck(ack), out)
            }
        }
    }

    pub(super) fn unsuback(
        self,
        packet_id: std::num::NonZeroU16,
        removed: impl Iterator<Item = bool>,
        out: &mut BytesMut,
    ) -> Result<(), Violation> {
        let status: Vec<_> = removed
            .map(|removed| match removed {
                true => UnsubscribeAckReason::Success,
                false => UnsubscribeAckReason::NoSubscriptionExisted,
            })
            .collect();
        if self.version == Version::V311 {
            return v311(v3::Packet::UnsubscribeAck { packet_id }, out);
        }
        let ack = v5::UnsubscribeAck { packet_id, properties: Vec::new(), reason_string: None, status };
        self.packet_v5(v5::Packet::UnsubscribeAck(ack), out)
    }

    /// Says why the connection ends; 3.1.1 has no word for it.
    pub(super) fn disconnect(self, code: DisconnectReasonCode, out: &mut BytesMut) -> Result<(), Violation> {
        match self.version {
            Version::V311 => Ok(()),
            Version::V5 => self.packet_v5(v5::Packet::Disconnect(v5::Disconnect::new(code)), out),
        }
    }
}

pub(super) fn pong(out: &mut BytesMut) {
    out.put_slice(&[0xd0, 0]);
}

/// Refuses a CONNECT; where 3.1.1 has no code for it, nothing is said.
pub(super) fn refuse(
    version: Version,
    reason: ConnectAckReason,
    out: &mut BytesMut,
) -> Result<(), Violation> {
    if version == Version::V5 {
        let ack = v5::ConnectAck { reason_code: reason, ..v5::ConnectAck::default() };
        return v5::Codec::default().encode(ack.into(), out).map_err(|error| not_written(&error));
    }
    let return_code = match reason {
        ConnectAckReason::UnsupportedProtocolVersion => v3::ConnectAckReason::UnacceptableProtocolVersion,
        ConnectAckReason::ClientIdentifierNotValid => v3::ConnectAckReason::IdentifierRejected,
        ConnectAckReason::ServerBusy | ConnectAckReason::ServerUnavailable => {
            v3::ConnectAckReason::ServiceUnavailable
        }
        _ => return Ok(()),
    };
    v311(v3::Packet::ConnectAck(v3::ConnectAck { session_present: false, return_code }), out)
}

fn v311(packet: v3::Packet, out: &mut BytesMut) -> Result<(), Violation> {
    v3::Codec::new(0).encode(packet, out).map_err(|error| not_written(&error))
}

/// Only a client whose maximum packet size is absurdly small comes here.
fn not_written(error: &EncodeError) -> Violation {
    tracing::debug!(%error, "a packet could not be written");
    Violation::PacketTooLarge
}

fn varint_bytes(number: usize) -> usize {
    if number < 128 { 1 } else { 2 }
}

/// A variable byte integer below 16,384.
fn put_varint(number: usize, out: &mut BytesMut) {
    if number < 128 {
        out.put_u8(number as u8);
    } else {
        out.put_slice(&[(number % 128) as u8 | 0x80, (number / 128) as u8]);
    }
}

const _: () = assert!(REASON_BYTES_MAX + 16 < 16_384, "the length of a PUBACK takes two bytes at most");

#[cfg(test)]
mod tests {
    use tokio_util::codec::Decoder;

    use super::*;

    const V5: Client = Client { version: Version::V5, wants_reasons: true, packet_bytes_max: 0 };
    const V311: Client = Client { version: Version::V311, ..V5 };

    fn puback(client: Client, problem: Option<&Problem>) -> BytesMut {
        let mut out = BytesMut::new();
        client.puback(0x102, problem, &mut out);
        out
    }

    #[test]
    fn an_accepted_report_is_acknowledged_in_four_bytes() {
        assert_eq!(&puback(V311, None)[..], b"\x40\x02\x01\x02");
        assert_eq!(&puback(V5, None)[..], b"\x40\x02\x01\x02");
    }

    #[test]
    fn a_refused_report_is_acknowledged_with_the_reason() {
        for (code, detail_chars, expect) in [
            ("unknown_device", 10, v5::PublishAckReason::PayloadFormatInvalid),
            ("unknown_topic", 10, v5::PublishAckReason::TopicNameInvalid),
            ("unreadable", 115, v5::PublishAckReason::PayloadFormatInvalid),
            ("unreadable", 1_000, v5::PublishAckReason::PayloadFormatInvalid),
        ] {
            let problem = Problem::not_allowed(code, "é".repeat(detail_chars));
            assert_eq!(&puback(V311, Some(&problem))[..], b"\x40\x02\x01\x02", "3.1.1 has no reasons");
            let mut out = puback(V5, Some(&problem));
            let (packet, _) = v5::Codec::default().decode(&mut out).expect("readable").expect("whole");
            let v5::Packet::PublishAck(ack) = packet else { panic!("{packet:?}") };
            assert!(out.is_empty());
            assert_eq!((ack.packet_id.get(), ack.reason_code), (0x102, expect));
            let reason = ack.reason_string.expect("a reason");
            assert!(
                problem.to_string().starts_with(&*reason) && reason.len() <= REASON_BYTES_MAX,
                "{reason}"
            );
        }
    }

    #[test]
    fn reasons_are_left_out_where_they_are_not_wanted_or_do_not_fit() {
        let problem = Problem::unreadable("x".repeat(80));
        for client in [Client { wants_reasons: false, ..V5 }, Client { packet_bytes_max: 100, ..V5 }] {
            assert_eq!(&puback(client, Some(&problem))[..], b"\x40\x03\x01\x02\x99");
        }
        assert!(puback(Client { packet_bytes_max: 101, ..V5 }, Some(&problem)).len() <= 101);
    }

    #[test]
    fn an_old_version_is_refused_in_its_own_words() {
        let refused = |version, reason| {
            let mut out = BytesMut::new();
            refuse(version, reason, &mut out).expect("it fits");
            out.to_vec()
        };
        assert_eq!(refused(Version::V311, ConnectAckReason::UnsupportedProtocolVersion), b"\x20\x02\0\x01");
        assert_eq!(refused(Version::V311, ConnectAckReason::ServerBusy), b"\x20\x02\0\x03");
        assert_eq!(refused(Version::V311, ConnectAckReason::MalformedPacket), b"");
        assert_eq!(refused(Version::V5, ConnectAckReason::ServerBusy), b"\x20\x03\0\x89\0");
    }
}
