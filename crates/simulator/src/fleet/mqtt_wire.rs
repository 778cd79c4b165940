//! The few packets of MQTT 3.1.1 that a publishing device needs.
//!
//! Written for load: packets are appended to one buffer and sent together. Not a client: subscriptions, QoS 2 and
//! sessions that outlive a connection are left to `rumqttc`.

use std::io;

use super::Payload;
use crate::traffic::{DeviceIds, Report};
use crate::wire_time::format_ms;

const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
const PUBLISH_QOS1: u8 = 0x32;
const PUBACK: u8 = 0x40;
const DISCONNECT: u8 = 0xE0;

const TOPIC_HEAD: &[u8] = b"dev/lock/";
const TOPIC_TAIL: &[u8] = b"/state";

/// The remaining length has at most this many bytes.
const LENGTH_BYTES_MAX: usize = 4;

/// What a server says to a publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packet {
    /// The connection is accepted, or not.
    Connack { return_code: u8 },
    /// A publish is acknowledged.
    Puback { packet_id: u16 },
}

/// Appends a CONNECT with a clean session and without keep-alive.
pub(super) fn write_connect(client_id: &str, out: &mut Vec<u8>) {
    let clean_session = 0x02;
    let header = [0, 4, b'M', b'Q', b'T', b'T', 4, clean_session, 0, 0];
    out.push(CONNECT);
    write_length(header.len() + 2 + client_id.len(), out);
    out.extend_from_slice(&header);
    out.extend_from_slice(&(client_id.len() as u16).to_be_bytes());
    out.extend_from_slice(client_id.as_bytes());
}

/// Appends a DISCONNECT.
pub(super) fn write_disconnect(out: &mut Vec<u8>) {
    out.extend_from_slice(&[DISCONNECT, 0]);
}

/// Appends a PUBLISH at QoS 1 of `payload` to the state topic of `device`.
pub(super) fn write_publish(
    devices: &DeviceIds,
    device: u32,
    packet_id: u16,
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let topic_bytes = TOPIC_HEAD.len() + devices.id_bytes() + TOPIC_TAIL.len();
    out.push(PUBLISH_QOS1);
    write_length(2 + topic_bytes + 2 + payload.len(), out);
    out.extend_from_slice(&(topic_bytes as u16).to_be_bytes());
    out.extend_from_slice(TOPIC_HEAD);
    devices.write(device, out);
    out.extend_from_slice(TOPIC_TAIL);
    out.extend_from_slice(&packet_id.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The state topic of `device`.
pub(super) fn topic(devices: &DeviceIds, device: u32) -> String {
    format!("dev/lock/{}/state", devices.id(device))
}

/// Appends what `report` says.
pub(super) fn write_payload(form: Payload, report: Report, out: &mut Vec<u8>) {
    let value = b'0' + report.value;
    match form {
        Payload::Value => out.push(value),
        Payload::Dated => {
            out.extend_from_slice(b"{\"data\":");
            out.push(value);
            out.extend_from_slice(b",\"ts\":\"");
            out.extend_from_slice(format_ms(report.ts_ms).as_bytes());
            out.extend_from_slice(b"\"}");
        }
    }
}

/// Takes the first packet off `input`; `None` when it is not all there yet.
///
/// # Errors
/// A packet that a publisher at QoS 1 without subscriptions cannot get.
pub(super) fn take_packet(input: &mut &[u8]) -> io::Result<Option<Packet>> {
    let Some((length, length_bytes)) = read_length(&input[1.min(input.len())..])? else {
        return Ok(None);
    };
    let start = 1 + length_bytes;
    let Some(body) = input.get(start..start + length) else {
        return Ok(None);
    };
    let packet = match (input[0], body) {
        (CONNACK, [_, return_code]) => Packet::Connack { return_code: *return_code },
        (PUBACK, [high, low]) => Packet::Puback { packet_id: u16::from_be_bytes([*high, *low]) },
        (kind, _) => return Err(bad_packet(&format!("unexpected packet {kind:#04x} of {length} bytes"))),
    };
    *input = &input[start + length..];
    Ok(Some(packet))
}

/// An error about what the server has sent.
pub(super) fn bad_packet(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn write_length(mut length: usize, out: &mut Vec<u8>) {
    loop {
        let more = if length > 127 { 0x80 } else { 0 };
        out.push((length % 128) as u8 | more);
        length /= 128;
        if length == 0 {
            return;
        }
    }
}

/// The remaining length at the start of `input` and the bytes it takes; `None` when it is not all there yet.
fn read_length(input: &[u8]) -> io::Result<Option<(usize, usize)>> {
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

    #[test]
    fn packets_have_the_bytes_of_the_standard() {
        let mut out = Vec::new();
        write_connect("ab", &mut out);
        assert_eq!(out, [0x10, 14, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, 2, b'a', b'b']);
        out.clear();
        write_publish(&DeviceIds::new("d", 2), 1, 0x0102, b"0", &mut out);
        assert_eq!(out[..4], [0x32, 22, 0, 17]);
        assert_eq!(&out[4..21], b"dev/lock/d1/state");
        assert_eq!(out[21..], [1, 2, b'0']);
        assert_eq!(topic(&DeviceIds::new("d", 2), 1), "dev/lock/d1/state");
    }

    #[test]
    fn a_dated_payload_is_an_envelope() {
        let mut out = Vec::new();
        write_payload(Payload::Dated, Report { device: 0, ts_ms: 0, value: 1 }, &mut out);
        assert_eq!(out, br#"{"data":1,"ts":"1970-01-01T00:00:00.000Z"}"#);
    }

    #[test]
    fn packets_are_taken_whole_or_not_at_all() {
        let bytes = [0x20, 2, 0, 5, 0x40, 2, 1, 2, 0x40, 2, 9];
        let mut input = bytes.as_slice();
        assert_eq!(take_packet(&mut input).unwrap(), Some(Packet::Connack { return_code: 5 }));
        assert_eq!(take_packet(&mut input).unwrap(), Some(Packet::Puback { packet_id: 0x0102 }));
        assert_eq!(take_packet(&mut input).unwrap(), None);
        assert_eq!(input.len(), 3);
        assert_eq!(take_packet(&mut [].as_slice()).unwrap(), None);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(take_packet(&mut [0x90, 2, 0, 0].as_slice()).is_err());
        assert!(take_packet(&mut [0x40, 0xFF, 0xFF, 0xFF, 0xFF, 1].as_slice()).is_err());
    }

    #[test]
    fn long_packets_have_long_lengths() {
        for length in [0, 127, 128, 16_383, 16_384, 2_097_152] {
            let mut out = Vec::new();
            write_length(length, &mut out);
            assert_eq!(read_length(&out).unwrap(), Some((length, out.len())));
        }
    }
}
