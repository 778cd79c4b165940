//! The CONNECT of a client: read, checked, and answered.

use bytes::{Bytes, BytesMut};
use rmqtt_codec::error::DecodeError;
use rmqtt_codec::types::QoS;
use rmqtt_codec::v5::ConnectAckReason as Reason;
use rmqtt_codec::{v3, v5};
use tokio_util::codec::Decoder;

use super::Version;
use super::limits::CLIENT_ID_BYTES_MAX;
use super::reply::{Client, Terms};
use super::topic_rules;
use super::wire::Packet;

/// A CONNECT that may be accepted.
#[derive(Debug)]
pub(super) struct Hello {
    pub(super) client: Client,
    pub(super) client_id: String,
    pub(super) terms: Terms,
    /// In seconds; 0 is none.
    pub(super) keep_alive: u16,
    pub(super) will: Option<Box<Will>>,
}

/// What is to be applied when the client is lost, as if it published it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Will {
    pub(super) topic: String,
    pub(super) payload: Bytes,
}

/// Why a CONNECT is refused; `None` if the sender speaks no MQTT that we could answer in.
pub(super) type Refusal = Option<(Version, Reason)>;

/// Reads the first packet of a connection.
pub(super) fn read(packet: Packet<'_>) -> Result<Hello, Refusal> {
    if !packet.is_connect() {
        return Err(None);
    }
    let version = version(packet.body)?;
    let refuse = |reason| Some((version, reason));
    let hello = match version {
        Version::V311 => v311(packet),
        Version::V5 => v5(packet),
    }
    .map_err(refuse)?;
    check(hello).map_err(refuse)
}

fn version(body: &[u8]) -> Result<Version, Refusal> {
    let Some(level) = body.strip_prefix(b"\0\x04MQTT").and_then(|rest| rest.first()) else {
        let is_3_1 = body.starts_with(b"\0\x06MQIsdp");
        return Err(is_3_1.then_some((Version::V311, Reason::UnsupportedProtocolVersion)));
    };
    match level {
        4 => Ok(Version::V311),
        5 => Ok(Version::V5),
        0..=3 => Err(Some((Version::V311, Reason::UnsupportedProtocolVersion))),
        6.. => Err(Some((Version::V5, Reason::UnsupportedProtocolVersion))),
    }
}

fn v311(packet: Packet<'_>) -> Result<Hello, Reason> {
    let decoded =
        v3::Codec::new(0).decode(&mut BytesMut::from(packet.bytes)).map_err(|error| refused(&error))?;
    let Some((v3::Packet::Connect(connect), _)) = decoded else { return Err(Reason::MalformedPacket) };
    let v3::Connect { keep_alive, client_id, last_will, .. } = *connect;
    Ok(Hello {
        client: Client { version: Version::V311, wants_reasons: false, packet_bytes_max: 0 },
        client_id: client_id.to_string(),
        terms: Terms::default(),
        keep_alive,
        // A will is never acknowledged, so its QoS does not matter.
        will: last_will
            .map(|will| Box::new(Will { topic: will.topic.to_string(), payload: owned(&will.message) })),
    })
}

fn v5(packet: Packet<'_>) -> Result<Hello, Reason> {
    let mut bytes = BytesMut::from(packet.bytes);
    // The codec refuses an empty client id without Clean Start, as 3.1.1 does; MQTT 5 allows it. Sessions are never
    // kept, so the flag has no other meaning here.
    if let Some(flags) = bytes.get_mut(packet.bytes.len() - packet.body.len() + CONNECT_FLAGS_AT) {
        *flags |= CLEAN_START;
    }
    let decoded = v5::Codec::new(0, 0).decode(&mut bytes).map_err(|error| refused(&error))?;
    let Some((v5::Packet::Connect(connect), _)) = decoded else { return Err(Reason::MalformedPacket) };
    if connect.auth_method.is_some() {
        return Err(Reason::BadAuthenticationMethod);
    }
    if connect.last_will.as_ref().is_some_and(|will| will.qos == QoS::ExactlyOnce) {
        return Err(Reason::QosNotSupported);
    }
    Ok(Hello {
        client: Client {
            version: Version::V5,
            wants_reasons: connect.request_problem_info,
            packet_bytes_max: connect.max_packet_size.map_or(0, u32::from),
        },
        client_id: connect.client_id.to_string(),
        terms: Terms { assigned_id: None, session_ends: connect.session_expiry_interval_secs > 0 },
        keep_alive: connect.keep_alive,
        will: connect
            .last_will
            .map(|will| Box::new(Will { topic: will.topic.to_string(), payload: owned(&will.message) })),
    })
}

/// Where the connect flags stand, behind the protocol's name and level.
const CONNECT_FLAGS_AT: usize = 7;
const CLEAN_START: u8 = 0x02;

/// A copy, so that the rest of the packet is not held with it.
fn owned(part: &Bytes) -> Bytes {
    Bytes::copy_from_slice(part)
}

fn refused(error: &DecodeError) -> Reason {
    match error {
        DecodeError::InvalidClientId => Reason::ClientIdentifierNotValid,
        _ => Reason::MalformedPacket,
    }
}

fn check(mut hello: Hello) -> Result<Hello, Reason> {
    if hello.client_id.len() > CLIENT_ID_BYTES_MAX || hello.client_id.contains('\0') {
        return Err(Reason::ClientIdentifierNotValid);
    }
    if hello.will.as_ref().is_some_and(|will| !topic_rules::is_name(&will.topic) || will.topic.contains('\0'))
    {
        return Err(Reason::TopicNameInvalid);
    }
    if hello.client_id.is_empty() {
        let random = base::random::unguessable::<8>().map_err(|_| Reason::ServerUnavailable)?;
        hello.client_id = format!("auto-{:016x}", u64::from_le_bytes(random));
        hello.terms.assigned_id = Some(hello.client_id.clone());
    }
    Ok(hello)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mqtt::wire;

    /// A CONNECT: name and level, flags, and what follows the keep-alive of 60 s.
    fn connect(name: &[u8], flags: u8, rest: &[u8]) -> Result<Hello, Refusal> {
        let body = [name, &[flags, 0, 60], rest].concat();
        let bytes = [&[0x10, body.len() as u8], &body[..]].concat();
        read(wire::packet(&bytes, 1_000).expect("a header").expect("whole"))
    }

    const V311: &[u8] = b"\0\x04MQTT\x04";
    const V5: &[u8] = b"\0\x04MQTT\x05";

    #[test]
    fn a_connect_is_read() {
        let hello = connect(V311, 0x02, b"\0\x02me").expect("right");
        assert_eq!((&*hello.client_id, hello.keep_alive, hello.will), ("me", 60, None));
        let hello = connect(V311, 0x34, b"\0\x02me\0\x01t\0\x02hi").expect("right");
        assert_eq!(hello.will.map(|will| *will), Some(Will { topic: "t".into(), payload: "hi".into() }));
        let hello = connect(V5, 0xc2, b"\x0c\x11\0\0\0\x05\x17\0\x27\0\0\0\x50\0\x02me\0\x01u\0\x01p")
            .expect("right");
        let client = Client { version: Version::V5, wants_reasons: false, packet_bytes_max: 80 };
        assert_eq!((hello.client, hello.terms.session_ends), (client, true));
        let hello = connect(V5, 0x06, b"\0\0\x02me\0\0\x01t\0\x02hi").expect("right");
        assert_eq!(hello.will.map(|will| *will), Some(Will { topic: "t".into(), payload: "hi".into() }));
    }

    #[test]
    fn a_client_without_an_id_is_given_one() {
        for (name, flags, rest) in [(V311, 2, &b"\0\0"[..]), (V5, 2, b"\0\0\0"), (V5, 0, b"\0\0\0")] {
            let hello = connect(name, flags, rest).expect("right");
            assert!(
                hello.client_id.starts_with("auto-") && hello.client_id.len() == 21,
                "{}",
                hello.client_id
            );
            assert_eq!(hello.terms.assigned_id, Some(hello.client_id));
        }
    }

    #[test]
    fn what_is_wrong_with_a_connect_is_answered_in_its_version() {
        use super::Version as V;
        for (name, flags, rest, expect) in [
            (V311, 0, &b"\0\0"[..], Some((V::V311, Reason::ClientIdentifierNotValid))),
            (V311, 2, b"\0\x02a\0", Some((V::V311, Reason::ClientIdentifierNotValid))),
            (V311, 3, b"\0\x02me", Some((V::V311, Reason::MalformedPacket))),
            (V311, 2, b"\0\x05me", Some((V::V311, Reason::MalformedPacket))),
            (V311, 6, b"\0\x02me\0\x01#\0\x02hi", Some((V::V311, Reason::TopicNameInvalid))),
            (V5, 2, b"\x05\x15\0\x02xy\0\x02me", Some((V::V5, Reason::BadAuthenticationMethod))),
            (V5, 0x16, b"\0\0\x02me\0\0\x01t\0\x02hi", Some((V::V5, Reason::QosNotSupported))),
            (b"\0\x06MQIsdp\x03", 2, b"\0\x02me", Some((V::V311, Reason::UnsupportedProtocolVersion))),
            (b"\0\x04MQTT\x03", 2, b"\0\x02me", Some((V::V311, Reason::UnsupportedProtocolVersion))),
            (b"\0\x04MQTT\x06", 2, b"\0\x02me", Some((V::V5, Reason::UnsupportedProtocolVersion))),
            (b"\0\x04HTTP\x04", 2, b"\0\x02me", None),
        ] {
            assert_eq!(
                connect(name, flags, rest).map(|hello| hello.client_id),
                Err(expect),
                "{name:?} {rest:?}"
            );
        }
        let long = [&[0x01, 0x01][..], &[b'x'; 257]].concat();
        let bytes = [&b"\x10\x8d\x02"[..], V311, &[2, 0, 60], &long].concat();
        let packet = wire::packet(&bytes, 1_000).expect("a header").expect("whole");
        assert_eq!(read(packet).map(|_| ()), Err(Some((V::V311, Reason::ClientIdentifierNotValid))));
        let ping = wire::packet(b"\xc0\0", 1_000).expect("a header").expect("whole");
        assert_eq!(read(ping).map(|_| ()), Err(None));
    }

    /// A CONNECT with everything that it can have.
    const WHOLE: &[u8] = b"\0\x04MQTT\x05\xc6\0\x3c\x05\x11\0\0\0\x05\0\x02me\0\0\x01t\0\x02hi\0\x01u\0\x01p";

    proptest! {
        #[test]
        fn no_bytes_make_a_connect_panic(flags: u8, rest in prop::collection::vec(any::<u8>(), 0..60)) {
            for name in [V311, V5] {
                drop(connect(name, flags, &rest));
                // Nearly right: the properties end where they should.
                drop(connect(name, flags, &[&[rest.len() as u8 / 2], &rest[..]].concat()));
            }
        }

        #[test]
        fn a_connect_may_break_off_anywhere(length in 0_usize..50) {
            let body = &WHOLE[..length.min(WHOLE.len())];
            let bytes = [&[0x10, body.len() as u8], body].concat();
            let accepted = read(wire::packet(&bytes, 1_000).expect("a header").expect("whole")).is_ok();
            prop_assert_eq!(accepted, length >= WHOLE.len());
        }
    }
}
