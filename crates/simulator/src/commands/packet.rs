//! The packets of MQTT 3.1.1 that a device with subscriptions needs besides those of one that only
//! publishes.

use std::io;

use crate::fleet::mqtt_packet::{bad_packet, read_length};
use crate::fleet::mqtt_wire::write_length;

const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
const PUBACK: u8 = 0x40;
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;
const PINGRESP: u8 = 0xD0;

const QOS_1: u8 = 0x02;
const QOS_BITS: u8 = 0x06;
/// A SUBACK's code from here on is a refusal.
const FIRST_REFUSAL: u8 = 0x80;

/// What a server says to such a device.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServerPacket<'a> {
    /// It is let in.
    Connack { code: u8 },
    /// It has its subscriptions, or some were refused.
    Suback { is_granted: bool },
    /// A message for it.
    Publish { topic: &'a [u8], packet_id: Option<u16>, payload: &'a [u8] },
    /// The server has what it published.
    Puback { packet_id: u16 },
    /// The server is there.
    Pingresp,
}

/// Takes the first packet off `input`; `None` when it is not all there yet.
///
/// # Errors
/// A packet that such a device cannot get.
pub(super) fn take<'a>(input: &mut &'a [u8]) -> io::Result<Option<ServerPacket<'a>>> {
    let Some((length, length_bytes)) = read_length(&input[1.min(input.len())..])? else {
        return Ok(None);
    };
    let start = 1 + length_bytes;
    let Some(body) = input.get(start..start + length) else { return Ok(None) };
    let head = input[0];
    let packet = read(head, body)
        .ok_or_else(|| bad_packet(&format!("unexpected packet {head:#04x} of {length} bytes")))?;
    *input = &input[start + length..];
    Ok(Some(packet))
}

fn read(head: u8, body: &[u8]) -> Option<ServerPacket<'_>> {
    match head {
        CONNACK => Some(ServerPacket::Connack { code: *body.get(1)? }),
        SUBACK => {
            Some(ServerPacket::Suback { is_granted: body.get(2..)?.iter().all(|code| *code < FIRST_REFUSAL) })
        }
        PUBACK => Some(ServerPacket::Puback { packet_id: be_u16(body)? }),
        PINGRESP => Some(ServerPacket::Pingresp),
        _ if head & 0xF0 == PUBLISH => {
            let topic_end = 2 + usize::from(be_u16(body)?);
            let (topic, rest) = (body.get(2..topic_end)?, body.get(topic_end..)?);
            match head & QOS_BITS {
                0 => Some(ServerPacket::Publish { topic, packet_id: None, payload: rest }),
                QOS_1 => Some(ServerPacket::Publish {
                    topic,
                    packet_id: Some(be_u16(rest)?),
                    payload: rest.get(2..)?,
                }),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Appends a SUBSCRIBE to these topics at QoS 1.
pub(super) fn write_subscribe(packet_id: u16, topics: &[String], out: &mut Vec<u8>) {
    let length = 2 + topics.iter().map(|topic| 3 + topic.len()).sum::<usize>();
    out.push(SUBSCRIBE);
    write_length(length, out);
    out.extend_from_slice(&packet_id.to_be_bytes());
    for topic in topics {
        out.extend_from_slice(&(topic.len() as u16).to_be_bytes());
        out.extend_from_slice(topic.as_bytes());
        out.push(1);
    }
}

/// Appends a PUBLISH at QoS 1.
pub(super) fn write_publish(topic: &[u8], packet_id: u16, payload: &[u8], out: &mut Vec<u8>) {
    out.push(PUBLISH | QOS_1);
    write_length(4 + topic.len() + payload.len(), out);
    out.extend_from_slice(&(topic.len() as u16).to_be_bytes());
    out.extend_from_slice(topic);
    out.extend_from_slice(&packet_id.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Appends a PUBACK.
pub(super) fn write_puback(packet_id: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&[PUBACK, 2]);
    out.extend_from_slice(&packet_id.to_be_bytes());
}

fn be_u16(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().copied().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_taken_whole_or_not_at_all() {
        let mut bytes = vec![0x20, 2, 0, 5, 0x90, 4, 0, 1, 1, 0x80];
        write_publish(b"dev/face/a", 7, b"{}", &mut bytes);
        write_puback(9, &mut bytes);
        bytes.extend_from_slice(&[0x30, 4, 0, 1, b't', b'x', 0xD0]);
        let mut input = bytes.as_slice();
        let mut packets = Vec::new();
        while let Some(packet) = take(&mut input).expect("packets") {
            packets.push(packet);
        }
        let topic = b"dev/face/a".as_slice();
        assert_eq!(
            packets,
            [
                ServerPacket::Connack { code: 5 },
                ServerPacket::Suback { is_granted: false },
                ServerPacket::Publish { topic, packet_id: Some(7), payload: b"{}" },
                ServerPacket::Puback { packet_id: 9 },
                ServerPacket::Publish { topic: b"t", packet_id: None, payload: b"x" },
            ]
        );
        assert_eq!(input, [0xD0]);
        assert!(take(&mut [0x34, 2, 0, 0].as_slice()).is_err());
    }

    #[test]
    fn a_subscribe_has_the_bytes_of_the_standard() {
        let mut out = Vec::new();
        write_subscribe(1, &["ab".to_owned(), "c".to_owned()], &mut out);
        assert_eq!(out, [0x82, 11, 0, 1, 0, 2, b'a', b'b', 1, 0, 1, b'c', 1]);
    }
}
