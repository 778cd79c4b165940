//! Packets on the wire: where one ends, and what a PUBLISH, PUBACK or PUBREL says, read in place.
//!
//! These are nearly all there is, so they are read here without a copy; every other packet goes
//! through the codec (`connect.rs`, `control.rs`). The codec lets NUL and wildcards through: text
//! is checked here.

use rmqtt_codec::types::QoS;

use super::ProtocolVersion;
use super::ending::Violation;
use super::topic_rules;

/// Types of packets, as in the high bits of their first byte.
pub(super) const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
/// The whole first byte of a PUBACK and of a PUBREL: their flags are fixed.
const PUBACK_FIRST: u8 = 0x40;
const PUBREL_FIRST: u8 = 0x62;

/// A whole packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    /// Type and flags.
    pub(super) first: u8,
    /// Everything behind the fixed header.
    pub(super) body: &'a [u8],
    /// Everything.
    pub(super) bytes: &'a [u8],
}

impl Packet<'_> {
    pub(super) fn is_publish(self) -> bool {
        self.first >> 4 == PUBLISH
    }

    pub(super) fn is_puback(self) -> bool {
        self.first == PUBACK_FIRST
    }

    pub(super) fn is_pubrel(self) -> bool {
        self.first == PUBREL_FIRST
    }

    pub(super) fn is_connect(self) -> bool {
        self.first >> 4 == CONNECT
    }
}

/// The packet that `bytes` begins with; `None` if it is not all there.
pub(super) fn packet(bytes: &[u8], bytes_max: u32) -> Result<Option<Packet<'_>>, Violation> {
    let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
    let mut rest = PacketReader(rest);
    let length = match rest.variable() {
        Ok(length) => length,
        Err(_) if rest.0.is_empty() && bytes.len() < 5 => return Ok(None),
        Err(violation) => return Err(violation),
    };
    let header = bytes.len() - rest.0.len();
    let whole = header + length as usize;
    if whole > bytes_max as usize {
        return Err(Violation::PacketTooLarge);
    }
    Ok(bytes.get(..whole).map(|bytes| Packet { first, body: &bytes[header..], bytes }))
}

/// A PUBLISH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Publish<'a> {
    /// Empty only with an alias that stands for it.
    pub(super) topic: &'a str,
    pub(super) alias: Option<u16>,
    pub(super) qos: QoS,
    /// 0 with QoS 0.
    pub(super) packet_id: u16,
    /// The MQTT 5 user property `id`.
    pub(super) id: Option<&'a str>,
    pub(super) payload: &'a [u8],
}

/// Reads a PUBLISH; DUP and RETAIN are without effect.
pub(super) fn publish(version: ProtocolVersion, packet: Packet<'_>) -> Result<Publish<'_>, Violation> {
    let qos = match packet.first >> 1 & 3 {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        2 => QoS::ExactlyOnce,
        _ => return Err(Violation::Malformed),
    };
    let mut body = PacketReader(packet.body);
    let topic = body.text()?;
    let packet_id = if qos == QoS::AtMostOnce { 0 } else { body.packet_id()? };
    let Properties { id, alias } =
        if version == ProtocolVersion::V5 { publish_properties(&mut body)? } else { Properties::default() };
    if topic.is_empty() && version == ProtocolVersion::V5 {
        // An empty topic is what an alias stands for; without one it is no topic at all.
        alias.ok_or(Violation::Protocol)?;
    } else if !topic_rules::is_name(topic) {
        return Err(Violation::TopicInvalid);
    }
    Ok(Publish { topic, alias, qos, packet_id, id, payload: body.0 })
}

/// Reads a PUBACK: its packet id. A client that refuses a command will not answer it either.
pub(super) fn puback(version: ProtocolVersion, packet: Packet<'_>) -> Result<u16, Violation> {
    const REASONS: &[u8] = &[0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];
    acknowledgement(version, packet, REASONS)
}

/// Reads a PUBREL: its packet id. A reason only says that the client does not know the id either.
pub(super) fn pubrel(version: ProtocolVersion, packet: Packet<'_>) -> Result<u16, Violation> {
    acknowledgement(version, packet, &[0, 0x92])
}

/// Reads a packet id, and with MQTT 5 one of these reason codes, and properties.
fn acknowledgement(version: ProtocolVersion, packet: Packet<'_>, reasons: &[u8]) -> Result<u16, Violation> {
    let mut body = PacketReader(packet.body);
    let packet_id = body.packet_id()?;
    if version == ProtocolVersion::V5 && !body.0.is_empty() {
        if !reasons.contains(&body.u8()?) {
            return Err(Violation::Malformed);
        }
        if !body.0.is_empty() {
            acknowledgement_properties(&mut body)?;
        }
    }
    if body.0.is_empty() { Ok(packet_id) } else { Err(Violation::Malformed) }
}

fn acknowledgement_properties(body: &mut PacketReader<'_>) -> Result<(), Violation> {
    let length = body.variable()? as usize;
    let mut properties = PacketReader(body.take(length)?);
    let mut reason_seen = false;
    while !properties.0.is_empty() {
        match properties.u8()? {
            property::REASON if reason_seen => return Err(Violation::Protocol),
            property::REASON => {
                reason_seen = true;
                properties.text()?;
            }
            property::USER => {
                properties.text()?;
                properties.text()?;
            }
            _ => return Err(Violation::Malformed),
        }
    }
    Ok(())
}

/// Properties of PUBLISH, PUBACK and PUBREL (MQTT 5, 2.2.2.2), by identifier.
mod property {
    pub(super) const PAYLOAD_FORMAT: u8 = 0x01;
    pub(super) const MESSAGE_EXPIRY: u8 = 0x02;
    pub(super) const CONTENT_TYPE: u8 = 0x03;
    pub(super) const RESPONSE_TOPIC: u8 = 0x08;
    pub(super) const CORRELATION_DATA: u8 = 0x09;
    pub(super) const SUBSCRIPTION_ID: u8 = 0x0b;
    pub(super) const REASON: u8 = 0x1f;
    pub(super) const TOPIC_ALIAS: u8 = 0x23;
    pub(super) const USER: u8 = 0x26;
}

/// The properties of a PUBLISH that have an effect.
#[derive(Default)]
struct Properties<'a> {
    /// The first user property `id`.
    id: Option<&'a str>,
    alias: Option<u16>,
}

/// Checks the properties. A request for a response is without effect: nobody is there to respond.
fn publish_properties<'a>(body: &mut PacketReader<'a>) -> Result<Properties<'a>, Violation> {
    let length = body.variable()? as usize;
    let mut properties = PacketReader(body.take(length)?);
    let mut found = Properties::default();
    let mut seen = 0_u64;
    while !properties.0.is_empty() {
        let property = properties.u8()?;
        let once = 1_u64.checked_shl(property.into()).unwrap_or(0);
        if seen & once != 0 {
            return Err(Violation::Protocol);
        }
        match property {
            property::PAYLOAD_FORMAT if properties.u8()? > 1 => return Err(Violation::Protocol),
            property::PAYLOAD_FORMAT => {}
            property::MESSAGE_EXPIRY => drop(properties.take(4)?),
            property::CONTENT_TYPE => drop(properties.text()?),
            property::RESPONSE_TOPIC if !topic_rules::is_name(properties.text()?) => {
                return Err(Violation::Protocol);
            }
            property::RESPONSE_TOPIC => {}
            property::CORRELATION_DATA => drop(properties.binary()?),
            property::TOPIC_ALIAS => found.alias = Some(properties.u16()?),
            property::USER => {
                let (key, value) = (properties.text()?, properties.text()?);
                if key == "id" {
                    found.id = found.id.or(Some(value));
                }
                continue;
            }
            // Only a server says it.
            property::SUBSCRIPTION_ID => return Err(Violation::Protocol),
            _ => return Err(Violation::Malformed),
        }
        seen |= once;
    }
    Ok(found)
}

/// Reads from the front of a packet.
#[derive(Clone, Copy, Debug)]
struct PacketReader<'a>(&'a [u8]);

impl<'a> PacketReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Violation> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Violation::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, Violation> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Result<u16, Violation> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn packet_id(&mut self) -> Result<u16, Violation> {
        match self.u16()? {
            0 => Err(Violation::Malformed),
            packet_id => Ok(packet_id),
        }
    }

    fn binary(&mut self) -> Result<&'a [u8], Violation> {
        let length = self.u16()?;
        self.take(length.into())
    }

    fn text(&mut self) -> Result<&'a str, Violation> {
        let text = std::str::from_utf8(self.binary()?).map_err(|_| Violation::Malformed)?;
        if text.as_bytes().contains(&0) { Err(Violation::Malformed) } else { Ok(text) }
    }

    /// A variable byte integer: at most four bytes of seven bits, the lowest first.
    fn variable(&mut self) -> Result<u32, Violation> {
        let mut number = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.u8()?;
            number |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Violation::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first(bytes: &[u8]) -> Result<Option<usize>, Violation> {
        packet(bytes, 100).map(|found| found.map(|packet| packet.bytes.len()))
    }

    #[test]
    fn a_packet_ends_where_its_header_says() {
        assert_eq!(first(b""), Ok(None));
        assert_eq!(first(b"\xc0"), Ok(None));
        assert_eq!(first(b"\xc0\x00"), Ok(Some(2)));
        assert_eq!(first(b"\xc0\x00rest"), Ok(Some(2)));
        assert_eq!(first(b"\x30\x03ab"), Ok(None));
        assert_eq!(first(b"\x30\x03abc"), Ok(Some(5)));
        assert_eq!(first(b"\x30\x80"), Ok(None));
        assert_eq!(first(b"\x30\x83\x00abc"), Ok(Some(6)));
        assert_eq!(first(b"\x30\x80\x80\x80"), Ok(None));
        assert_eq!(first(b"\x30\x80\x80\x80\x80"), Err(Violation::Malformed));
        assert_eq!(first(b"\x30\x62"), Ok(None));
        assert_eq!(first(b"\x30\x63"), Err(Violation::PacketTooLarge), "101 bytes with the header");
    }

    fn read(version: ProtocolVersion, first: u8, body: &[u8]) -> Result<Publish<'_>, Violation> {
        publish(version, Packet { first, body, bytes: body })
    }

    #[test]
    fn a_publish_is_read_in_place() {
        let plain = Publish {
            topic: "ab",
            alias: None,
            qos: QoS::AtMostOnce,
            packet_id: 0,
            id: None,
            payload: b"xy",
        };
        let (once, twice) = (
            Publish { qos: QoS::AtLeastOnce, packet_id: 0x102, ..plain },
            Publish { qos: QoS::ExactlyOnce, packet_id: 0x102, ..plain },
        );
        let v311 = |first, body| read(ProtocolVersion::V311, first, body);
        assert_eq!(v311(0x30, b"\0\x02abxy"), Ok(plain));
        assert_eq!(v311(0x31, b"\0\x02abxy"), Ok(plain), "RETAIN is without effect");
        assert_eq!(v311(0x3a, b"\0\x02ab\x01\x02xy"), Ok(once), "so is DUP");
        assert_eq!(v311(0x34, b"\0\x02ab\x01\x02xy"), Ok(twice));
        assert_eq!(v311(0x30, b"\0\x02ab"), Ok(Publish { payload: b"", ..plain }));
        let v5 = |first, body| read(ProtocolVersion::V5, first, body);
        assert_eq!(v5(0x30, b"\0\x02ab\0xy"), Ok(plain));
        let properties =
            b"\0\x02ab\0\x07\x23\x01\x01\x02\0\0\0\x09\x03\0\x01c\x08\0\x01r\x09\0\x01d\x26\0\x01k\0\x01v\x26\0\x02id\0\x02i7xy";
        assert_eq!(v5(0x32, properties), Ok(Publish { packet_id: 7, id: Some("i7"), ..once }));
        assert_eq!(
            v5(0x30, b"\0\0\x03\x23\0\x01xy"),
            Ok(Publish { topic: "", alias: Some(1), ..plain }),
            "an alias stands for the topic"
        );
    }

    #[test]
    fn a_publish_that_breaks_the_rules_says_which() {
        for (version, first, body, expect) in [
            (ProtocolVersion::V311, 0x36, &b"\0\x02ab\0\x01xy"[..], Violation::Malformed),
            (ProtocolVersion::V311, 0x34, b"\0\x02ab\0\0xy", Violation::Malformed),
            (ProtocolVersion::V311, 0x32, b"\0\x02ab\0\0xy", Violation::Malformed),
            (ProtocolVersion::V311, 0x32, b"\0\x02ab\0", Violation::Malformed),
            (ProtocolVersion::V311, 0x30, b"\0\x03ab", Violation::Malformed),
            (ProtocolVersion::V311, 0x30, b"\0\0xy", Violation::TopicInvalid),
            (ProtocolVersion::V311, 0x30, b"\0\x02a+xy", Violation::TopicInvalid),
            (ProtocolVersion::V311, 0x30, b"\0\x02#axy", Violation::TopicInvalid),
            (ProtocolVersion::V311, 0x30, b"\0\x02a\0xy", Violation::Malformed),
            (ProtocolVersion::V311, 0x30, b"\0\x02a\xffxy", Violation::Malformed),
            (ProtocolVersion::V5, 0x30, b"\0\x02ab", Violation::Malformed),
            (ProtocolVersion::V5, 0x30, b"\0\x02ab\x05\x01", Violation::Malformed),
            (ProtocolVersion::V5, 0x30, b"\0\0\0xy", Violation::Protocol),
            (ProtocolVersion::V5, 0x30, b"\0\x02ab\x02\x01\x02xy", Violation::Protocol),
            (ProtocolVersion::V5, 0x30, b"\0\x02ab\x04\x08\0\x01#xy", Violation::Protocol),
            (ProtocolVersion::V5, 0x30, b"\0\x02ab\x04\x01\x01\x01\x01xy", Violation::Protocol),
            (ProtocolVersion::V5, 0x30, b"\0\x02ab\x02\x0b\x01xy", Violation::Protocol),
            (ProtocolVersion::V5, 0x30, b"\0\x02ab\x02\x7e\x01xy", Violation::Malformed),
        ] {
            assert_eq!(read(version, first, body), Err(expect), "{first:x} {body:?}");
        }
    }

    #[test]
    fn a_release_names_its_publish() {
        for (version, body, expect) in [
            (ProtocolVersion::V311, &b"\x01\x02"[..], Ok(0x102)),
            (ProtocolVersion::V5, b"\x01\x02", Ok(0x102)),
            (ProtocolVersion::V5, b"\x01\x02\x92", Ok(0x102)),
            (ProtocolVersion::V5, b"\x01\x02\0\0", Ok(0x102)),
            (ProtocolVersion::V5, b"\x01\x02\0\x04\x1f\0\x01r", Ok(0x102)),
            (ProtocolVersion::V5, b"\x01\x02\0\x07\x26\0\x01k\0\x01v", Ok(0x102)),
            (ProtocolVersion::V311, b"\x01\x02\0", Err(Violation::Malformed)),
            (ProtocolVersion::V311, b"\0\0", Err(Violation::Malformed)),
            (ProtocolVersion::V5, b"\x01", Err(Violation::Malformed)),
            (ProtocolVersion::V5, b"\x01\x02\x10", Err(Violation::Malformed)),
            (ProtocolVersion::V5, b"\x01\x02\0\x08\x1f\0\x01r\x1f\0\x01r", Err(Violation::Protocol)),
            (ProtocolVersion::V5, b"\x01\x02\0\x02\x01\0", Err(Violation::Malformed)),
            (ProtocolVersion::V5, b"\x01\x02\0\0\0", Err(Violation::Malformed)),
        ] {
            let released = pubrel(version, Packet { first: PUBREL_FIRST, body, bytes: body });
            assert_eq!(released, expect, "{version:?} {body:x?}");
        }
    }

    #[test]
    fn a_puback_may_refuse_with_mqtt_5() {
        for (version, body, expect) in [
            (ProtocolVersion::V311, &b"\x01\x02"[..], Ok(0x102)),
            (ProtocolVersion::V5, b"\x01\x02\x83\0", Ok(0x102)),
            (ProtocolVersion::V311, b"\x01\x02\x83", Err(Violation::Malformed)),
            (ProtocolVersion::V5, b"\x01\x02\x92", Err(Violation::Malformed)),
            (ProtocolVersion::V5, b"\0\0", Err(Violation::Malformed)),
        ] {
            let acknowledged = puback(version, Packet { first: PUBACK_FIRST, body, bytes: body });
            assert_eq!(acknowledged, expect, "{version:?} {body:x?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_reading_panic(bytes: Vec<u8>, first: u8) {
            let _ = packet(&bytes, 64);
            for version in [ProtocolVersion::V311, ProtocolVersion::V5] {
                let _ = read(version, first, &bytes);
                let _ = puback(version, Packet { first: PUBACK_FIRST, body: &bytes, bytes: &bytes });
                let _ = pubrel(version, Packet { first, body: &bytes, bytes: &bytes });
            }
        }
    }
}
