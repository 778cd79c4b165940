//! The few packets that a publishing device sends, MQTT 3.1.1 and 5.
//!
//! Written for load: packets are appended to one buffer and sent together. Not a client:
//! subscriptions and sessions that outlive a connection are left to `rumqttc`. What comes back is
//! read in the sibling `mqtt_packet`.

use super::{MqttDialect, MqttVersion, Qos};
use crate::access::NameAndPassword;
use crate::traffic::DeviceIds;

const CONNECT: u8 = 0x10;
const PUBLISH: u8 = 0x30;
const PUBREL: u8 = 0x62;
const PINGREQ: u8 = 0xC0;
const DISCONNECT: u8 = 0xE0;

const CLEAN_START: u8 = 0x02;
const HAS_PASSWORD: u8 = 0x40;
const HAS_NAME: u8 = 0x80;

const TOPIC_HEAD: &[u8] = b"dev/";
const TOPIC_TAIL: &[u8] = b"/state";

/// Appends a CONNECT with a clean session; `keep_alive_s` zero means without.
pub(crate) fn write_connect(
    version: MqttVersion,
    client_id: &str,
    login: Option<&NameAndPassword>,
    keep_alive_s: u16,
    out: &mut Vec<u8>,
) {
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', level(version)];
    body.push(CLEAN_START | login.map_or(0, |_| HAS_NAME | HAS_PASSWORD));
    body.extend_from_slice(&keep_alive_s.to_be_bytes());
    write_no_properties(version, &mut body);
    write_text(client_id, &mut body);
    if let Some(login) = login {
        write_text(&login.name, &mut body);
        write_text(login.password.reveal(), &mut body);
    }
    out.push(CONNECT);
    write_length(body.len(), out);
    out.append(&mut body);
}

/// Appends a DISCONNECT.
pub(crate) fn write_disconnect(out: &mut Vec<u8>) {
    out.extend_from_slice(&[DISCONNECT, 0]);
}

/// Appends a PINGREQ.
pub(crate) fn write_ping(out: &mut Vec<u8>) {
    out.extend_from_slice(&[PINGREQ, 0]);
}

/// Appends a PUBREL.
pub(super) fn write_release(packet_id: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&[PUBREL, 2]);
    out.extend_from_slice(&packet_id.to_be_bytes());
}

/// Appends a PUBLISH of `payload` to the state topic of `device`. At QoS 0 it has no packet id.
pub(super) fn write_publish(
    dialect: MqttDialect,
    devices: &DeviceIds,
    device: u32,
    packet_id: Option<u16>,
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let kind = devices.kind().as_bytes();
    let topic_bytes = TOPIC_HEAD.len() + kind.len() + 1 + devices.id_bytes() + TOPIC_TAIL.len();
    let header_bytes = packet_id.map_or(0, |_| 2) + usize::from(dialect.version == MqttVersion::V5);
    out.push(PUBLISH | qos_bits(dialect.qos));
    write_length(2 + topic_bytes + header_bytes + payload.len(), out);
    out.extend_from_slice(&(topic_bytes as u16).to_be_bytes());
    out.extend_from_slice(TOPIC_HEAD);
    out.extend_from_slice(kind);
    out.push(b'/');
    devices.write(device, out);
    out.extend_from_slice(TOPIC_TAIL);
    if let Some(packet_id) = packet_id {
        out.extend_from_slice(&packet_id.to_be_bytes());
    }
    write_no_properties(dialect.version, out);
    out.extend_from_slice(payload);
}

/// The state topic of `device`.
pub(super) fn topic(devices: &DeviceIds, device: u32) -> String {
    format!("dev/{}/{}/state", devices.kind(), devices.id(device))
}

/// Appends a remaining length.
pub(crate) fn write_length(mut length: usize, out: &mut Vec<u8>) {
    loop {
        let more = if length > 127 { 0x80 } else { 0 };
        out.push((length % 128) as u8 | more);
        length /= 128;
        if length == 0 {
            return;
        }
    }
}

const fn level(version: MqttVersion) -> u8 {
    match version {
        MqttVersion::V311 => 4,
        MqttVersion::V5 => 5,
    }
}

const fn qos_bits(qos: Qos) -> u8 {
    match qos {
        Qos::AtMostOnce => 0,
        Qos::AtLeastOnce => 0x02,
        Qos::ExactlyOnce => 0x04,
    }
}

fn write_no_properties(version: MqttVersion, out: &mut Vec<u8>) {
    if version == MqttVersion::V5 {
        out.push(0);
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Secret;

    fn dialect(version: MqttVersion, qos: Qos) -> MqttDialect {
        MqttDialect { version, qos, in_flight: 1 }
    }

    #[test]
    fn packets_have_the_bytes_of_the_standard() {
        let mut out = Vec::new();
        write_connect(MqttVersion::V311, "ab", None, 0, &mut out);
        assert_eq!(out, [0x10, 14, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, 2, b'a', b'b']);
        out.clear();
        let login = NameAndPassword { name: "n".to_owned(), password: Secret::new("p".to_owned()) };
        write_connect(MqttVersion::V5, "a", Some(&login), 60, &mut out);
        assert_eq!(out[..13], [0x10, 20, 0, 4, b'M', b'Q', b'T', b'T', 5, 0xC2, 0, 60, 0]);
        assert_eq!(out[13..], [0, 1, b'a', 0, 1, b'n', 0, 1, b'p']);
        out.clear();
        write_release(0x0102, &mut out);
        assert_eq!(out, [0x62, 2, 1, 2]);
    }

    #[test]
    fn a_publish_has_what_its_dialect_asks_for() {
        let devices = DeviceIds::new("d", 2);
        let publish = |version, qos, packet_id| {
            let mut out = Vec::new();
            write_publish(dialect(version, qos), &devices, 1, packet_id, b"0", &mut out);
            out
        };
        let old = publish(MqttVersion::V311, Qos::AtLeastOnce, Some(0x0102));
        assert_eq!(old[..4], [0x32, 22, 0, 17]);
        assert_eq!(&old[4..21], b"dev/lock/d1/state");
        assert_eq!(old[21..], [1, 2, b'0']);
        let new = publish(MqttVersion::V5, Qos::ExactlyOnce, Some(0x0102));
        assert_eq!((new[0], new[1], &new[21..]), (0x34, 23, [1, 2, 0, b'0'].as_slice()));
        let unanswered = publish(MqttVersion::V5, Qos::AtMostOnce, None);
        assert_eq!((unanswered[0], unanswered[1], &unanswered[21..]), (0x30, 21, [0, b'0'].as_slice()));
        assert_eq!(topic(&devices.of_kind("gate"), 1), "dev/gate/d1/state");
    }
}
