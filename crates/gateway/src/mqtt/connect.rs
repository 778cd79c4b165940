//! The CONNECT of a client: read, checked, and answered.

use access::Credentials;
use bytes::{Bytes, BytesMut};
use rmqtt_codec::error::DecodeError;
use rmqtt_codec::v5::ConnectAckReason as Reason;
use rmqtt_codec::{v3, v5};
use tokio_util::codec::Decoder;

use super::ProtocolVersion;
use super::limits::{
    CLIENT_ID_BYTES_MAX, COMMANDS_UNACKNOWLEDGED_V5_MAX, COMMANDS_UNACKNOWLEDGED_V311_MAX, USERNAME_BYTES_MAX,
};
use super::reply::ClientCapabilities;
use super::topic_rules;
use super::will::Will;
use super::wire::Packet;

/// A CONNECT that may be accepted.
#[derive(Debug)]
pub(super) struct Hello {
    pub(super) client: ClientCapabilities,
    pub(super) client_id: String,
    /// The client id is ours: it gave none.
    pub(super) id_is_assigned: bool,
    pub(super) credentials: Option<Credentials>,
    /// Whether a session that may be there is of no use to it.
    pub(super) clean_start: bool,
    /// How long its session is to outlive the connection, in seconds.
    pub(super) session_expiry_secs: u32,
    /// In seconds; 0 is none.
    pub(super) keep_alive: u16,
    pub(super) will: Option<Box<Will>>,
}

/// Why a CONNECT is refused; `None` if the sender speaks no MQTT that we could answer in.
pub(super) type Refusal = Option<(ProtocolVersion, Reason)>;

/// Reads the first packet of a connection.
pub(super) fn read(packet: Packet<'_>) -> Result<Hello, Refusal> {
    if !packet.is_connect() {
        return Err(None);
    }
    let version = version(packet.body)?;
    let refuse = |reason| Some((version, reason));
    let hello = match version {
        ProtocolVersion::V311 => v311(packet),
        ProtocolVersion::V5 => v5(packet),
    }
    .map_err(refuse)?;
    check(hello).map_err(refuse)
}

fn version(body: &[u8]) -> Result<ProtocolVersion, Refusal> {
    let Some(level) = body.strip_prefix(b"\0\x04MQTT").and_then(|rest| rest.first()) else {
        let is_3_1 = body.starts_with(b"\0\x06MQIsdp");
        return Err(is_3_1.then_some((ProtocolVersion::V311, Reason::UnsupportedProtocolVersion)));
    };
    match level {
        4 => Ok(ProtocolVersion::V311),
        5 => Ok(ProtocolVersion::V5),
        0..=3 => Err(Some((ProtocolVersion::V311, Reason::UnsupportedProtocolVersion))),
        6.. => Err(Some((ProtocolVersion::V5, Reason::UnsupportedProtocolVersion))),
    }
}

fn v311(packet: Packet<'_>) -> Result<Hello, Reason> {
    let decoded =
        v3::Codec::new(0).decode(&mut BytesMut::from(packet.bytes)).map_err(|error| refused(&error))?;
    let Some((v3::Packet::Connect(connect), _)) = decoded else { return Err(Reason::MalformedPacket) };
    let v3::Connect { clean_session, keep_alive, client_id, last_will, username, password, .. } = *connect;
    if username.is_none() && password.is_some() {
        return Err(Reason::MalformedPacket);
    }
    // A will is never acknowledged, so its QoS does not matter.
    let will = last_will.map(|will| Will {
        topic: will.topic.to_string(),
        payload: owned(&will.message),
        id: None,
        delay_secs: 0,
    });
    Ok(Hello {
        client: ClientCapabilities {
            version: ProtocolVersion::V311,
            wants_reasons: false,
            packet_bytes_max: 0,
            receive_max: COMMANDS_UNACKNOWLEDGED_V311_MAX,
        },
        client_id: client_id.to_string(),
        id_is_assigned: false,
        credentials: credentials(username.as_deref(), password.as_ref()),
        clean_start: clean_session,
        session_expiry_secs: if clean_session { 0 } else { u32::MAX },
        keep_alive,
        will: will.map(Box::new),
    })
}

fn v5(packet: Packet<'_>) -> Result<Hello, Reason> {
    let mut bytes = BytesMut::from(packet.bytes);
    // The codec refuses an empty client id without Clean Start, as 3.1.1 does; MQTT 5 allows it. So
    // the codec is shown the flag, and it is read here.
    let mut clean_start = false;
    if let Some(flags) = bytes.get_mut(packet.bytes.len() - packet.body.len() + CONNECT_FLAGS_AT) {
        clean_start = *flags & CLEAN_START != 0;
        *flags |= CLEAN_START;
    }
    let decoded = v5::Codec::new(0, 0).decode(&mut bytes).map_err(|error| refused(&error))?;
    let Some((v5::Packet::Connect(connect), _)) = decoded else { return Err(Reason::MalformedPacket) };
    if connect.auth_method.is_some() {
        return Err(Reason::BadAuthenticationMethod);
    }
    let connect = *connect;
    Ok(Hello {
        client: ClientCapabilities {
            version: ProtocolVersion::V5,
            wants_reasons: connect.request_problem_info,
            packet_bytes_max: connect.max_packet_size.map_or(0, u32::from),
            receive_max: connect.receive_max.map_or(u16::MAX, u16::from).min(COMMANDS_UNACKNOWLEDGED_V5_MAX),
        },
        client_id: connect.client_id.to_string(),
        id_is_assigned: false,
        credentials: credentials(connect.username.as_deref(), connect.password.as_ref()),
        clean_start,
        session_expiry_secs: connect.session_expiry_interval_secs,
        keep_alive: connect.keep_alive,
        will: connect.last_will.as_ref().map(will_v5),
    })
}

fn will_v5(will: &v5::LastWill) -> Box<Will> {
    let id = will.user_properties.iter().find(|(key, _)| &**key == "id");
    Box::new(Will {
        topic: will.topic.to_string(),
        payload: owned(&will.message),
        id: id.map(|(_, id)| id.to_string()),
        delay_secs: will.will_delay_interval_sec.unwrap_or(0),
    })
}

/// A username alone is one with an empty password; a password alone, which MQTT 5 allows, is
/// nobody's.
fn credentials(username: Option<&str>, password: Option<&Bytes>) -> Option<Credentials> {
    let password = password.map(|password| password.to_vec()).unwrap_or_default();
    username.map(|username| Credentials { username: username.into(), password })
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
    let is_username = |name: &str| name.len() <= USERNAME_BYTES_MAX && !name.contains('\0');
    if hello.credentials.as_ref().is_some_and(|credentials| !is_username(&credentials.username)) {
        return Err(Reason::BadUserNameOrPassword);
    }
    if hello.will.as_ref().is_some_and(|will| !topic_rules::is_name(&will.topic) || will.topic.contains('\0'))
    {
        return Err(Reason::TopicNameInvalid);
    }
    if hello.client_id.is_empty() {
        let random = base::random::unguessable::<8>().map_err(|_| Reason::ServerUnavailable)?;
        hello.client_id = format!("auto-{:016x}", u64::from_le_bytes(random));
        hello.id_is_assigned = true;
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
        let will = Will { topic: "t".into(), payload: "hi".into(), id: None, delay_secs: 0 };
        assert_eq!(hello.will.as_deref(), Some(&will));
        assert_eq!((hello.clean_start, hello.session_expiry_secs), (false, u32::MAX));
        let hello = connect(V5, 0xc2, b"\x0c\x11\0\0\0\x05\x17\0\x27\0\0\0\x50\0\x02me\0\x01u\0\x01p")
            .expect("right");
        let receive_max = COMMANDS_UNACKNOWLEDGED_V5_MAX;
        let client = ClientCapabilities {
            version: ProtocolVersion::V5,
            wants_reasons: false,
            packet_bytes_max: 80,
            receive_max,
        };
        assert_eq!((hello.client, hello.clean_start, hello.session_expiry_secs), (client, true, 5));
        let credentials = hello.credentials.expect("some");
        assert_eq!((&*credentials.username, &*credentials.password), ("u", &b"p"[..]));
        let properties = b"\0\0\x02me\x0f\x18\0\0\0\x09\x26\0\x02id\0\x03w-1\0\x01t\0\x02hi";
        let hello = connect(V5, 0x14, properties).expect("right");
        assert_eq!(hello.will.as_deref(), Some(&Will { id: Some("w-1".into()), delay_secs: 9, ..will }));
        assert_eq!((hello.clean_start, hello.session_expiry_secs), (false, 0));
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
            assert_eq!((hello.id_is_assigned, hello.clean_start), (true, flags == 2));
        }
    }

    #[test]
    fn what_is_wrong_with_a_connect_is_answered_in_its_version() {
        use super::ProtocolVersion as V;
        for (name, flags, rest, expect) in [
            (V311, 0, &b"\0\0"[..], Some((V::V311, Reason::ClientIdentifierNotValid))),
            (V311, 2, b"\0\x02a\0", Some((V::V311, Reason::ClientIdentifierNotValid))),
            (V311, 3, b"\0\x02me", Some((V::V311, Reason::MalformedPacket))),
            (V311, 2, b"\0\x05me", Some((V::V311, Reason::MalformedPacket))),
            (V311, 6, b"\0\x02me\0\x01#\0\x02hi", Some((V::V311, Reason::TopicNameInvalid))),
            (V5, 2, b"\x05\x15\0\x02xy\0\x02me", Some((V::V5, Reason::BadAuthenticationMethod))),
            (V311, 0x42, b"\0\x02me\0\x01p", Some((V::V311, Reason::MalformedPacket))),
            (V5, 0x82, b"\0\0\x02me\0\x02a\0", Some((V::V5, Reason::BadUserNameOrPassword))),
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
