//! What we say: packets written behind what waits to be sent.
//!
//! What answers publishes, and PINGRESP, is written here; the rest, which is rare, by the codec.

use base::Problem;
use bytes::{BufMut, BytesMut};
use rmqtt_codec::error::EncodeError;
use rmqtt_codec::types::QoS;
use rmqtt_codec::v5::{ConnectAckReason, DisconnectReasonCode, SubscribeAckReason, UnsubscribeAckReason};
use rmqtt_codec::{v3, v5};
use tokio_util::codec::Encoder;

use super::ProtocolVersion;
use super::ending::Violation;
use super::limits::{MqttLimits, REASON_BYTES_MAX, TOPIC_ALIASES_MAX};
use super::mirror::ReportCopy;
use super::rights::NOT_ALLOWED;
use super::subscriptions::Granted;
use crate::decode::UNKNOWN_TOPIC;

/// What of a CONNECT shapes our answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientCapabilities {
    pub(super) version: ProtocolVersion,
    /// Whether it wants reasons in words (MQTT 5).
    pub(super) wants_reasons: bool,
    /// The largest packet it takes, in bytes; 0 is any (MQTT 5).
    pub(super) packet_bytes_max: u32,
    /// How many of our publishes of QoS 1 it takes before it has acknowledged one.
    pub(super) receive_max: u16,
}

/// What a CONNACK tells of a connection. What is `None` is as the client asked for; 3.1.1 can only
/// be told of the session.
#[derive(Debug, Default)]
pub(super) struct ConnackProperties {
    pub(super) session_present: bool,
    /// The client id that we gave it.
    pub(super) assigned_id: Option<String>,
    /// How long its session outlives the connection, in seconds.
    pub(super) session_expiry_secs: Option<u32>,
    /// The keep-alive, in seconds.
    pub(super) keep_alive: Option<u16>,
}

/// What answers a publish, or its release, as in the first byte of the packet.
#[derive(Clone, Copy)]
#[repr(u8)]
enum AckPacketType {
    Ack = 0x40,
    Rec = 0x50,
    Comp = 0x70,
}

/// Reason codes of such answers (MQTT 5).
mod code {
    pub(super) const NOT_AUTHORIZED: u8 = 0x87;
    pub(super) const TOPIC_NAME_INVALID: u8 = 0x90;
    pub(super) const PACKET_ID_IN_USE: u8 = 0x91;
    pub(super) const PACKET_ID_NOT_FOUND: u8 = 0x92;
    pub(super) const PAYLOAD_FORMAT_INVALID: u8 = 0x99;
}

impl ClientCapabilities {
    fn packet_v5(self, packet: v5::Packet, out: &mut BytesMut) -> Result<(), Violation> {
        // The codec counts what is behind the fixed header, which has up to 5 bytes.
        let content_max =
            if self.packet_bytes_max == 0 { 0 } else { self.packet_bytes_max.saturating_sub(5).max(1) };
        v5::Codec::new(0, content_max).encode(packet, out).map_err(|error| not_written(&error))
    }

    pub(super) fn accept(
        self,
        properties: &ConnackProperties,
        limits: &MqttLimits,
        out: &mut BytesMut,
    ) -> Result<(), Violation> {
        if self.version == ProtocolVersion::V311 {
            return v311(
                v3::Packet::ConnectAck(v3::ConnectAck {
                    session_present: properties.session_present,
                    return_code: v3::ConnectAckReason::ConnectionAccepted,
                }),
                out,
            );
        }
        let ack = v5::ConnectAck {
            session_present: properties.session_present,
            session_expiry_interval_secs: properties.session_expiry_secs,
            receive_max: limits.unacknowledged_max,
            max_packet_size: Some(limits.packet_bytes_max),
            assigned_client_id: properties.assigned_id.clone().map(Into::into),
            topic_alias_max: TOPIC_ALIASES_MAX,
            // RETAIN is taken without effect: nothing is ever kept for later subscribers.
            retain_available: false,
            server_keepalive_sec: properties.keep_alive,
            subscription_identifiers_available: false,
            shared_subscription_available: false,
            ..v5::ConnectAck::default()
        };
        self.packet_v5(ack.into(), out)
    }

    pub(super) fn puback(self, packet_id: u16, problem: Option<&Problem>, out: &mut BytesMut) {
        self.answer(AckPacketType::Ack, packet_id, problem, out);
    }

    pub(super) fn pubrec(self, packet_id: u16, problem: Option<&Problem>, out: &mut BytesMut) {
        self.answer(AckPacketType::Rec, packet_id, problem, out);
    }

    /// Answers a QoS 2 publish that came again; `known` if what came first was taken.
    pub(super) fn pubrec_again(self, packet_id: u16, known: bool, out: &mut BytesMut) {
        self.answer_in_code(AckPacketType::Rec, packet_id, (!known).then_some(code::PACKET_ID_IN_USE), out);
    }

    /// Answers a release; `known` if it released something.
    pub(super) fn pubcomp(self, packet_id: u16, known: bool, out: &mut BytesMut) {
        self.answer_in_code(
            AckPacketType::Comp,
            packet_id,
            (!known).then_some(code::PACKET_ID_NOT_FOUND),
            out,
        );
    }

    fn answer_in_code(self, answer: AckPacketType, packet_id: u16, code: Option<u8>, out: &mut BytesMut) {
        let id = packet_id.to_be_bytes();
        match code.filter(|_| self.version == ProtocolVersion::V5) {
            Some(code) => out.put_slice(&[answer as u8, 3, id[0], id[1], code]),
            None => out.put_slice(&[answer as u8, 2, id[0], id[1]]),
        }
    }

    fn answer(self, answer: AckPacketType, packet_id: u16, problem: Option<&Problem>, out: &mut BytesMut) {
        let Some(problem) = problem.filter(|_| self.version == ProtocolVersion::V5) else {
            return self.answer_in_code(answer, packet_id, None, out);
        };
        let id = packet_id.to_be_bytes();
        let code = reason_code(problem);
        let reason = format!("{problem}");
        let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
        // Packet id, code, length of the properties, and one of them: its identifier and a string.
        let length = 2 + 1 + varint_bytes(reason.len() + 3) + 1 + 2 + reason.len();
        let whole = 1 + varint_bytes(length) + length;
        if !self.wants_reasons || (self.packet_bytes_max != 0 && whole > self.packet_bytes_max as usize) {
            return self.answer_in_code(answer, packet_id, Some(code), out);
        }
        out.put_u8(answer as u8);
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
        reason: Option<&str>,
        out: &mut BytesMut,
    ) -> Result<(), Violation> {
        let reason = reason.filter(|_| self.wants_reasons);
        let reason = reason.map(|reason| &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]);
        match self.version {
            ProtocolVersion::V311 => {
                let status = granted.map(|granted| match granted {
                    Granted::Qos(qos) => v3::SubscribeReturnCode::Success(qos),
                    _ => v3::SubscribeReturnCode::Failure,
                });
                v311(v3::Packet::SubscribeAck { packet_id, status: status.collect() }, out)
            }
            ProtocolVersion::V5 => {
                let status = granted.map(|granted| match granted {
                    Granted::Qos(QoS::AtMostOnce) => SubscribeAckReason::GrantedQos0,
                    Granted::Qos(_) => SubscribeAckReason::GrantedQos1,
                    Granted::FilterInvalid => SubscribeAckReason::TopicFilterInvalid,
                    Granted::TooMany | Granted::WatchedByTooMany => SubscribeAckReason::QuotaExceeded,
                    Granted::NotAuthorized => SubscribeAckReason::NotAuthorized,
                    Granted::SharedNotSupported => SubscribeAckReason::SharedSubscriptionNotSupported,
                });
                let ack = v5::SubscribeAck {
                    packet_id,
                    properties: Vec::new(),
                    reason_string: reason.map(Into::into),
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
        if self.version == ProtocolVersion::V311 {
            return v311(v3::Packet::UnsubscribeAck { packet_id }, out);
        }
        let ack = v5::UnsubscribeAck { packet_id, properties: Vec::new(), reason_string: None, status };
        self.packet_v5(v5::Packet::UnsubscribeAck(ack), out)
    }

    /// Says why the connection ends; 3.1.1 has no word for it.
    pub(super) fn disconnect(self, code: DisconnectReasonCode, out: &mut BytesMut) -> Result<(), Violation> {
        match self.version {
            ProtocolVersion::V311 => Ok(()),
            ProtocolVersion::V5 => self.packet_v5(v5::Packet::Disconnect(v5::Disconnect::new(code)), out),
        }
    }
}

/// The reason code of a refused report.
fn reason_code(problem: &Problem) -> u8 {
    match problem.code {
        UNKNOWN_TOPIC => code::TOPIC_NAME_INVALID,
        NOT_ALLOWED => code::NOT_AUTHORIZED,
        _ => code::PAYLOAD_FORMAT_INVALID,
    }
}

/// How large a PUBLISH is at most beside its topic and payload, in bytes.
const PUBLISH_HEAD_BYTES_MAX: usize = 1 + 4 + 2 + 2 + 1;

/// A PUBLISH of ours.
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'a> {
    pub(super) topic: &'a str,
    pub(super) payload: &'a [u8],
    /// `None` with QoS 0.
    pub(super) packet_id: Option<u16>,
}

impl<'a> Outgoing<'a> {
    /// A copy of a report.
    pub(super) fn copy_of(report: &'a ReportCopy) -> Self {
        Self { topic: &report.topic, payload: &report.payload, packet_id: None }
    }
}

/// Writes a PUBLISH if the client takes one of that size: whether it does.
pub(super) fn publish(client: ClientCapabilities, outgoing: Outgoing<'_>, out: &mut BytesMut) -> bool {
    let ClientCapabilities { version, packet_bytes_max, .. } = client;
    let Outgoing { topic, payload, packet_id } = outgoing;
    let bytes_max = PUBLISH_HEAD_BYTES_MAX + topic.len() + payload.len();
    if packet_bytes_max != 0 && bytes_max > packet_bytes_max as usize {
        return false;
    }
    let properties: &[u8] = match version {
        ProtocolVersion::V311 => &[],
        ProtocolVersion::V5 => &[0],
    };
    let id_bytes = if packet_id.is_some() { 2 } else { 0 };
    let mut length = 2 + topic.len() + id_bytes + properties.len() + payload.len();
    out.reserve(bytes_max);
    out.put_u8(if packet_id.is_some() { 0x32 } else { 0x30 });
    while length >= 128 {
        out.put_u8((length % 128) as u8 | 0x80);
        length /= 128;
    }
    out.put_u8(length as u8);
    out.put_u16(topic.len() as u16);
    out.put_slice(topic.as_bytes());
    if let Some(packet_id) = packet_id {
        out.put_u16(packet_id);
    }
    out.put_slice(properties);
    out.put_slice(payload);
    true
}

pub(super) fn pong(out: &mut BytesMut) {
    out.put_slice(&[0xd0, 0]);
}

/// Refuses a CONNECT; where 3.1.1 has no code for it, nothing is said.
pub(super) fn refuse(
    version: ProtocolVersion,
    reason: ConnectAckReason,
    out: &mut BytesMut,
) -> Result<(), Violation> {
    if version == ProtocolVersion::V5 {
        let ack = v5::ConnectAck { reason_code: reason, ..v5::ConnectAck::default() };
        return v5::Codec::default().encode(ack.into(), out).map_err(|error| not_written(&error));
    }
    let return_code = match reason {
        ConnectAckReason::UnsupportedProtocolVersion => v3::ConnectAckReason::UnacceptableProtocolVersion,
        ConnectAckReason::ClientIdentifierNotValid => v3::ConnectAckReason::IdentifierRejected,
        ConnectAckReason::BadUserNameOrPassword => v3::ConnectAckReason::BadUserNameOrPassword,
        ConnectAckReason::NotAuthorized => v3::ConnectAckReason::NotAuthorized,
        ConnectAckReason::ServerBusy
        | ConnectAckReason::ServerUnavailable
        | ConnectAckReason::QuotaExceeded => v3::ConnectAckReason::ServiceUnavailable,
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

    const V5: ClientCapabilities = ClientCapabilities {
        version: ProtocolVersion::V5,
        wants_reasons: true,
        packet_bytes_max: 0,
        receive_max: 9,
    };
    const V311: ClientCapabilities = ClientCapabilities { version: ProtocolVersion::V311, ..V5 };

    fn puback(client: ClientCapabilities, problem: Option<&Problem>) -> BytesMut {
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
            ("not_allowed", 10, v5::PublishAckReason::NotAuthorized),
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
    fn the_answers_of_qos_2_have_their_own_types_and_codes() {
        let problem = Problem::unreadable("x");
        for (client, expect) in [
            (V311, &b"\x50\x02\0\x07\x50\x02\0\x07\x50\x02\0\x07\x70\x02\0\x07\x70\x02\0\x07"[..]),
            (
                ClientCapabilities { wants_reasons: false, ..V5 },
                b"\x50\x03\0\x07\x99\x50\x02\0\x07\x50\x03\0\x07\x91\x70\x02\0\x07\x70\x03\0\x07\x92",
            ),
        ] {
            let mut out = BytesMut::new();
            client.pubrec(7, Some(&problem), &mut out);
            client.pubrec_again(7, true, &mut out);
            client.pubrec_again(7, false, &mut out);
            client.pubcomp(7, true, &mut out);
            client.pubcomp(7, false, &mut out);
            assert_eq!(&out[..], expect, "{client:?}");
        }
    }

    #[test]
    fn a_connack_tells_what_there_is_and_what_not() {
        let mut out = BytesMut::new();
        V5.accept(&ConnackProperties::default(), &MqttLimits::default(), &mut out).expect("it fits");
        let (packet, _) = v5::Codec::default().decode(&mut out).expect("readable").expect("whole");
        let v5::Packet::ConnectAck(ack) = packet else { panic!("{packet:?}") };
        assert_eq!(ack.max_qos, QoS::ExactlyOnce);
        assert!(ack.wildcard_subscription_available && !ack.retain_available);
        assert!(!ack.subscription_identifiers_available && !ack.shared_subscription_available);
    }

    fn copy(client: ClientCapabilities, topic: &str, payload: &[u8], out: &mut BytesMut) -> bool {
        publish(client, Outgoing { topic, payload, packet_id: None }, out)
    }

    #[test]
    fn a_publish_of_qos_1_has_its_packet_id() {
        for (client, expect) in
            [(V311, &b"\x32\x06\0\x01t\x01\x021"[..]), (V5, b"\x32\x07\0\x01t\x01\x02\x001")]
        {
            let mut out = BytesMut::new();
            let outgoing = Outgoing { topic: "t", payload: b"1", packet_id: Some(0x102) };
            assert!(publish(client, outgoing, &mut out));
            assert_eq!(&out[..], expect, "{client:?}");
        }
    }

    #[test]
    fn a_copy_is_a_publish_that_a_client_reads() {
        for bytes in [0, 1, 100, 130, 20_000] {
            let payload = vec![b'1'; bytes];
            let mut out = BytesMut::new();
            assert!(copy(V5, "dev/lock/0xA/state", &payload, &mut out));
            let (packet, _) = v5::Codec::default().decode(&mut out).expect("readable").expect("whole");
            let v5::Packet::Publish(publish) = packet else { panic!("{packet:?}") };
            assert_eq!((&*publish.topic, &publish.payload[..]), ("dev/lock/0xA/state", &payload[..]));
            assert!(out.is_empty() && publish.qos == QoS::AtMostOnce);
        }
        let mut out = BytesMut::new();
        assert!(copy(V311, "t", b"1", &mut out));
        assert_eq!(&out[..], b"\x30\x04\0\x01t1");
        assert!(!copy(ClientCapabilities { packet_bytes_max: 100, ..V5 }, "t", &[b'1'; 100], &mut out));
    }

    #[test]
    fn reasons_are_left_out_where_they_are_not_wanted_or_do_not_fit() {
        let problem = Problem::unreadable("x".repeat(80));
        for client in [
            ClientCapabilities { wants_reasons: false, ..V5 },
            ClientCapabilities { packet_bytes_max: 100, ..V5 },
        ] {
            assert_eq!(&puback(client, Some(&problem))[..], b"\x40\x03\x01\x02\x99");
        }
        assert!(puback(ClientCapabilities { packet_bytes_max: 101, ..V5 }, Some(&problem)).len() <= 101);
    }

    #[test]
    fn an_old_version_is_refused_in_its_own_words() {
        let refused = |version, reason| {
            let mut out = BytesMut::new();
            refuse(version, reason, &mut out).expect("it fits");
            out.to_vec()
        };
        assert_eq!(
            refused(ProtocolVersion::V311, ConnectAckReason::UnsupportedProtocolVersion),
            b"\x20\x02\0\x01"
        );
        assert_eq!(refused(ProtocolVersion::V311, ConnectAckReason::ServerBusy), b"\x20\x02\0\x03");
        assert_eq!(
            refused(ProtocolVersion::V311, ConnectAckReason::BadUserNameOrPassword),
            b"\x20\x02\0\x04"
        );
        assert_eq!(refused(ProtocolVersion::V311, ConnectAckReason::NotAuthorized), b"\x20\x02\0\x05");
        assert_eq!(refused(ProtocolVersion::V311, ConnectAckReason::MalformedPacket), b"");
        assert_eq!(refused(ProtocolVersion::V5, ConnectAckReason::ServerBusy), b"\x20\x03\0\x89\0");
    }
}
