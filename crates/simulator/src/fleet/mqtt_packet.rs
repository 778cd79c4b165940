//! The packets that a server sends to a device that only publishes, MQTT 3.1.1 and 5.

use std::io;

use super::MqttVersion;

const CONNACK: u8 = 0x20;
const PUBACK: u8 = 0x40;
const PUBREC: u8 = 0x50;
const PUBCOMP: u8 = 0x70;
const PINGRESP: u8 = 0xD0;
const DISCONNECT: u8 = 0xE0;

const SERVER_KEEP_ALIVE: u8 = 0x13;
const REASON_STRING: u8 = 0x1F;
const RECEIVE_MAXIMUM: u8 = 0x21;

/// Codes from here on are refusals.
const FIRST_REFUSAL: u8 = 0x80;

/// The remaining length has at most this many bytes.
const LENGTH_BYTES_MAX: usize = 4;

/// What a server says to a publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PacketToPublisher {
    /// The connection is accepted, or not.
    Connack(Connack),
    /// What became of a publish.
    Reply { step: AckKind, packet_id: u16, refusal: Option<String> },
    /// The server is there.
    Pingresp,
    /// The server is about to close the connection.
    Disconnect { reason: String },
}

/// What a server says to a device that connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Connack {
    /// Why it is not let in.
    pub(super) refusal: Option<String>,
    /// Publishes without an answer that the server takes.
    pub(super) receive_max: u16,
    /// How long the device may be quiet, in seconds, where the server decides that.
    pub(super) keep_alive_s: Option<u16>,
}

/// Which answer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckKind {
    /// The whole answer at QoS 1.
    Puback,
    /// The first half of it at QoS 2.
    Pubrec,
    /// The second half.
    Pubcomp,
}

/// Takes the first packet off `input`; `None` when it is not all there yet.
///
/// # Errors
/// A packet that a publisher without subscriptions cannot get.
pub(super) fn take_packet(input: &mut &[u8], version: MqttVersion) -> io::Result<Option<PacketToPublisher>> {
    let Some((length, length_bytes)) = read_length(&input[1.min(input.len())..])? else {
        return Ok(None);
    };
    let start = 1 + length_bytes;
    let Some(body) = input.get(start..start + length) else {
        return Ok(None);
    };
    let kind = input[0];
    let packet = read_packet(kind, body, version)
        .ok_or_else(|| bad_packet(&format!("unexpected packet {kind:#04x} of {length} bytes")))?;
    *input = &input[start + length..];
    Ok(Some(packet))
}

/// An error about what the server has sent.
pub(crate) fn bad_packet(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn read_packet(kind: u8, body: &[u8], version: MqttVersion) -> Option<PacketToPublisher> {
    let reply = |step| read_reply(step, body);
    match kind {
        CONNACK => read_connack(body, version).map(PacketToPublisher::Connack),
        PUBACK => reply(AckKind::Puback),
        PUBREC => reply(AckKind::Pubrec),
        PUBCOMP => reply(AckKind::Pubcomp),
        PINGRESP => Some(PacketToPublisher::Pingresp),
        DISCONNECT => {
            let (code, properties) = body.split_first().unwrap_or((&0, &[]));
            Some(PacketToPublisher::Disconnect {
                reason: reason(*code, AckProperties::of(properties)?.reason),
            })
        }
        _ => None,
    }
}

fn read_connack(body: &[u8], version: MqttVersion) -> Option<Connack> {
    let [_, code, properties @ ..] = body else { return None };
    let mut connack = Connack { refusal: None, receive_max: u16::MAX, keep_alive_s: None };
    match version {
        MqttVersion::V311 => {
            connack.refusal = (*code != 0).then(|| format!("connection refused with code {code}"));
        }
        MqttVersion::V5 => {
            let properties = AckProperties::of(properties)?;
            connack.refusal = (*code >= FIRST_REFUSAL).then(|| reason(*code, properties.reason));
            connack.receive_max = properties.receive_max.unwrap_or(u16::MAX);
            connack.keep_alive_s = properties.keep_alive_s;
        }
    }
    Some(connack)
}

/// In 3.1.1 there is nothing behind the packet id, in 5 there may be nothing when all is well.
fn read_reply(step: AckKind, body: &[u8]) -> Option<PacketToPublisher> {
    let [high, low, rest @ ..] = body else { return None };
    let (code, properties) = rest.split_first().unwrap_or((&0, &[]));
    let refusal =
        if *code < FIRST_REFUSAL { None } else { Some(reason(*code, AckProperties::of(properties)?.reason)) };
    Some(PacketToPublisher::Reply { step, packet_id: u16::from_be_bytes([*high, *low]), refusal })
}

/// A refusal in few words: the code that the server's reason string begins with, or what the
/// standard calls it. The rest of the string speaks of one report, and refusals are counted by
/// reason.
fn reason(code: u8, string: Option<&str>) -> String {
    let is_word =
        |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let own_code = string.and_then(|string| string.split(':').next()).filter(is_word);
    own_code.map_or_else(|| name_of(code), str::to_owned)
}

fn name_of(code: u8) -> String {
    let name = match code {
        0x80 => "unspecified error",
        0x81 => "malformed packet",
        0x82 => "protocol error",
        0x83 => "implementation specific error",
        0x84 => "unsupported protocol version",
        0x85 => "client identifier not valid",
        0x86 => "bad user name or password",
        0x87 => "not authorized",
        0x88 => "server unavailable",
        0x89 => "server busy",
        0x8B => "server shutting down",
        0x8D => "keep alive timeout",
        0x8E => "session taken over",
        0x90 => "topic name invalid",
        0x93 => "receive maximum exceeded",
        0x95 => "packet too large",
        0x96 => "message rate too high",
        0x97 => "quota exceeded",
        0x99 => "payload format invalid",
        0x9B => "QoS not supported",
        _ => return format!("reason code {code:#04x}"),
    };
    name.to_owned()
}

/// Those properties that matter here.
#[derive(Debug, Default)]
struct AckProperties<'a> {
    reason: Option<&'a str>,
    receive_max: Option<u16>,
    keep_alive_s: Option<u16>,
}

impl<'a> AckProperties<'a> {
    /// Reads what follows a code: nothing, or a length and so many bytes. `None` if that is not so.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut properties = Self::default();
        if bytes.is_empty() {
            return Some(properties);
        }
        let (length, length_bytes) = read_length(bytes).ok()??;
        let mut rest = bytes.get(length_bytes..length_bytes + length)?;
        while let Some((identifier, after)) = rest.split_first() {
            let size = property_bytes(*identifier, after)?;
            let value = after.get(..size)?;
            match *identifier {
                SERVER_KEEP_ALIVE => properties.keep_alive_s = Some(be_u16(value)?),
                RECEIVE_MAXIMUM => properties.receive_max = Some(be_u16(value)?),
                REASON_STRING => properties.reason = Some(std::str::from_utf8(value.get(2..)?).ok()?),
                _ => {}
            }
            rest = &after[size..];
        }
        Some(properties)
    }
}

/// The bytes of a property behind its identifier.
fn property_bytes(identifier: u8, after: &[u8]) -> Option<usize> {
    let string = |after: &[u8]| Some(2 + usize::from(be_u16(after)?));
    match identifier {
        0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28 | 0x29 | 0x2A => Some(1),
        0x13 | 0x21 | 0x22 | 0x23 => Some(2),
        0x02 | 0x11 | 0x18 | 0x27 => Some(4),
        0x0B => Some(read_length(after).ok()??.1),
        0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1A | 0x1C | 0x1F => string(after),
        0x26 => {
            let name = string(after)?;
            Some(name + string(after.get(name..)?)?)
        }
        _ => None,
    }
}

fn be_u16(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().copied().map(u16::from_be_bytes)
}

/// The remaining length at the start of `input` and the bytes it takes; `None` when it is not all
/// there yet.
pub(crate) fn read_length(input: &[u8]) -> io::Result<Option<(usize, usize)>> {
    let mut length = 0;
    for (position, byte) in input.iter().enumerate().take(LENGTH_BYTES_MAX) {
        length |= usize::from(byte & 0x7F) << (7 * position);
        if byte & 0x80 == 0 {
            return Ok(Some((length, position + 1)));
        }
    }
    if input.len() < LENGTH_BYTES_MAX { Ok(None) } else { Err(bad_packet("endless remaining length")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MqttVersion::{V5, V311};

    fn one(bytes: &[u8], version: MqttVersion) -> PacketToPublisher {
        let mut input = bytes;
        let packet = take_packet(&mut input, version).expect("well formed").expect("whole");
        assert!(input.is_empty());
        packet
    }

    fn reply(step: AckKind, packet_id: u16, refusal: Option<&str>) -> PacketToPublisher {
        PacketToPublisher::Reply { step, packet_id, refusal: refusal.map(str::to_owned) }
    }

    #[test]
    fn packets_are_taken_whole_or_not_at_all() {
        let bytes = [0x20, 2, 0, 5, 0x40, 2, 1, 2, 0x40, 2, 9];
        let mut input = bytes.as_slice();
        let first = take_packet(&mut input, V311).expect("well formed");
        assert!(
            matches!(first, Some(PacketToPublisher::Connack(Connack { refusal: Some(_), .. }))),
            "{first:?}"
        );
        assert_eq!(
            take_packet(&mut input, V311).expect("well formed"),
            Some(reply(AckKind::Puback, 0x0102, None))
        );
        assert_eq!(take_packet(&mut input, V311).expect("well formed"), None);
        assert_eq!(input.len(), 3);
        assert_eq!(take_packet(&mut [].as_slice(), V5).expect("well formed"), None);
    }

    #[test]
    fn a_connack_says_what_the_server_takes() {
        let connack = one(&[0x20, 9, 0, 0, 6, 0x21, 0, 20, 0x13, 0, 60], V5);
        assert_eq!(
            connack,
            PacketToPublisher::Connack(Connack { refusal: None, receive_max: 20, keep_alive_s: Some(60) })
        );
        let refused = one(&[0x20, 3, 0, 0x87, 0], V5);
        assert!(
            matches!(&refused, PacketToPublisher::Connack(Connack { refusal: Some(why), .. }) if why == "not authorized"),
            "{refused:?}"
        );
    }

    #[test]
    fn a_refusal_is_told_by_its_code_alone() {
        assert_eq!(one(&[0x40, 3, 1, 2, 0x10], V5), reply(AckKind::Puback, 0x0102, None));
        assert_eq!(
            one(&[0x50, 3, 1, 2, 0x99], V5),
            reply(AckKind::Pubrec, 0x0102, Some("payload format invalid"))
        );
        let string = b"unknown_device: there is no d7";
        let mut bytes = vec![0x40, 37, 1, 2, 0x99, 33, 0x1F, 0, 30];
        bytes.extend_from_slice(string);
        assert_eq!(one(&bytes, V5), reply(AckKind::Puback, 0x0102, Some("unknown_device")));
    }

    #[test]
    fn other_properties_are_passed_over() {
        let pair = [0x26, 0, 1, b'a', 0, 1, b'b'];
        let mut bytes = vec![0x20, 15, 0, 0, 12, 0x24, 1];
        bytes.extend_from_slice(&pair);
        bytes.extend_from_slice(&[0x21, 0, 7]);
        let connack = one(&bytes, V5);
        assert!(matches!(connack, PacketToPublisher::Connack(Connack { receive_max: 7, .. })), "{connack:?}");
    }

    #[test]
    fn a_goodbye_has_its_reason() {
        let reason = "server shutting down".to_owned();
        assert_eq!(one(&[0xE0, 2, 0x8B, 0], V5), PacketToPublisher::Disconnect { reason });
        assert_eq!(one(&[0xD0, 0], V5), PacketToPublisher::Pingresp);
    }

    #[test]
    fn nonsense_is_an_error() {
        for bytes in [
            [0x90, 2, 0, 0, 0, 0].as_slice(),
            &[0x40, 0xFF, 0xFF, 0xFF, 0xFF, 1],
            &[0x40, 1, 0],
            &[0x20, 4, 0, 0, 1, 0x7E],
            &[0x20, 5, 0, 0, 2, 0x1F, 9],
        ] {
            assert!(take_packet(&mut &*bytes, V5).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn lengths_of_any_size_are_read_back() {
        for length in [0, 127, 128, 16_383, 16_384, 2_097_152] {
            let mut out = Vec::new();
            super::super::mqtt_wire::write_length(length, &mut out);
            assert_eq!(read_length(&out).expect("well formed"), Some((length, out.len())));
        }
    }
}
