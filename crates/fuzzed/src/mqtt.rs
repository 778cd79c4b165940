//! What a client of the MQTT listener says, from its CONNECT on: packets of both versions, right or
//! wrong.
//!
//! The input is what the client sends, cut into pieces at places that follow from it. The client
//! sends it twice, and the second connection may go on with the session of the first. A reader of
//! its own (the codec, which the listener does not read publishes with) says which answers are
//! owed. Each answer must come once and in order, and the answers together must be bounded. Nothing
//! may be counted as there when it is gone, and a client that behaves must be served afterwards as
//! before.

use std::ops::Range;
use std::time::Duration;

use bytes::BytesMut;
use gateway::mqtt::MqttLimits;
use gateway::mqtt::dialogue::Dialogues;
use prometheus_client::registry::Registry;
use rmqtt_codec::types::QoS;
use rmqtt_codec::{v3, v5};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::task::yield_now;
use tokio_util::codec::Decoder;

use crate::pieces;
use crate::server::{FuzzedServer, LOCK, with_server};

/// How long a session waits for its client at most, so that its end is seen as well.
const SESSION_EXPIRY_MAX: Duration = Duration::from_secs(4);
/// What both sides may have on their way, in bytes: little, so that either waits for the other at
/// times.
const UNDER_WAY_BYTES_MAX: usize = 4_096;
/// Answers may take this many bytes, and as many more for each byte that was sent: the shortest
/// publish is refused with a reason string.
const ANSWER_BYTES: (usize, usize) = (2_048, 40);
const PIECES_MAX: u64 = 64;
/// The second connection's bytes are cut elsewhere.
const CHANGED_CUT: usize = 3;

/// Serves the bytes as the listener would.
pub fn run(data: &[u8]) {
    with_server(1, async |server| {
        let limits = MqttLimits { session_expiry_max: SESSION_EXPIRY_MAX, ..MqttLimits::default() };
        let dialogues = Dialogues::new(server.engine.clone(), limits);
        let mut metrics = Registry::default();
        dialogues.register_metrics(&mut metrics);
        let first = Heard::of(&dialogues, &pieces::cut(data, PIECES_MAX)).await;
        first.check(data, endings(&metrics));
        let before = endings(&metrics);
        let second = Heard::of(&dialogues, &data.chunks(CHANGED_CUT).collect::<Vec<_>>()).await;
        second.check(data, difference(endings(&metrics), before));
        check_that_others_are_served(&dialogues, server).await;
        tokio::time::sleep(SESSION_EXPIRY_MAX + Duration::from_secs(1)).await;
        check_that_nothing_is_left(&metrics);
    });
}

/// How many connections ended as their client wished: with a goodbye, or by closing.
type WellEnded = u64;

fn endings(metrics: &Registry) -> WellEnded {
    let text = text_of(metrics);
    let count = |reason: &str| {
        let name = format!("fieldpost_mqtt_disconnects_total{{reason=\"{reason}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok()).unwrap_or(0)
    };
    count("goodbye") + count("gone")
}

fn difference(now: WellEnded, before: WellEnded) -> WellEnded {
    now - before
}

fn text_of(metrics: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, metrics).expect("a String takes all text");
    text
}

fn check_that_nothing_is_left(metrics: &Registry) {
    let text = text_of(metrics);
    let gauges = ["connections", "subscriptions", "unacknowledged_reports", "unreleased_publishes"];
    let of_sessions = ["absent_sessions", "absent_sessions_bytes"];
    for gauge in gauges.into_iter().chain(of_sessions) {
        let name = format!("fieldpost_mqtt_{gauge} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&name));
        assert_eq!(value, Some("0"), "{name}is not 0 when all connections are gone");
    }
}

async fn check_that_others_are_served(dialogues: &Dialogues, server: &FuzzedServer) {
    let state = format!("dev/lock/{LOCK}/state");
    let mut bytes = b"\x10\x12\0\x04MQTT\x04\x02\0\0\0\x06polite".to_vec();
    bytes.extend_from_slice(&[0x32, 2 + state.len() as u8 + 2 + 1, 0, state.len() as u8]);
    bytes.extend_from_slice(state.as_bytes());
    bytes.extend_from_slice(b"\x12\x341\xe0\0");
    let answers = Heard::of(dialogues, &[&bytes]).await.bytes;
    assert_eq!(answers, b"\x20\x02\0\0\x40\x02\x12\x34", "a client that behaves is served");
    assert!(server.engine.failure().is_none(), "the engine goes on");
}

/// What a client heard until its connection was closed.
struct Heard {
    bytes: Vec<u8>,
}

impl Heard {
    async fn of(dialogues: &Dialogues, pieces: &[&[u8]]) -> Self {
        let (ours, theirs) = duplex(UNDER_WAY_BYTES_MAX);
        let (mut answers, mut say) = split(ours);
        let talk = async {
            for piece in pieces {
                // The server may have closed already: then nobody hears the rest.
                if say.write_all(piece).await.is_err() {
                    break;
                }
                yield_now().await;
            }
            drop(say.shutdown().await);
        };
        let mut bytes = Vec::new();
        let hear = async {
            let read = answers.read_to_end(&mut bytes).await;
            read.expect("a stream in memory ends, and does not break");
        };
        tokio::join!(talk, hear, dialogues.converse(theirs));
        Self { bytes }
    }

    /// The answers are those that the packets in `said` are owed.
    fn check(&self, said: &[u8], well_ended: WellEnded) {
        let bound = ANSWER_BYTES.0 + ANSWER_BYTES.1 * said.len();
        assert!(self.bytes.len() <= bound, "{} bytes of answers to {}", self.bytes.len(), said.len());
        let answers = answers_in(&self.bytes);
        let Some((connack, answers)) = answers.split_first() else { return };
        assert_eq!(connack.kind, 2, "a CONNACK comes first");
        if self.bytes[connack.body.start + 1] != 0 {
            assert!(answers.is_empty(), "nothing follows a refusal");
            return;
        }
        let owed = Owed::to(said);
        for (kind, owed_ids) in &owed.answers {
            let given = answers.iter().filter(|answer| answer.kind == *kind);
            let given: Vec<u16> = given.map(|answer| self.id_of(answer)).collect();
            let whole = owed.is_whole && well_ended == 1;
            let agree = owed_ids.starts_with(&given) || (!owed.is_whole && given.starts_with(owed_ids));
            assert!(agree, "answers of type {kind}: owed {owed_ids:?}, given {given:?}");
            assert!(!whole || given.len() == owed_ids.len(), "type {kind}: {owed_ids:?}, {given:?}");
        }
        let known = |answer: &AnswerPacket| {
            answer.kind == 14 || owed.answers.iter().any(|(kind, _)| *kind == answer.kind)
        };
        assert!(answers.iter().all(known), "nothing else is said: {:x?}", self.bytes);
        let goodbyes = answers.iter().filter(|answer| answer.kind == 14).count();
        let last = answers.last().is_some_and(|answer| answer.kind == 14);
        assert!(goodbyes == usize::from(last), "a DISCONNECT is the last word: {:x?}", self.bytes);
    }

    fn id_of(&self, answer: &AnswerPacket) -> u16 {
        let body = &self.bytes[answer.body.clone()];
        body.first_chunk().map_or(0, |id| u16::from_be_bytes(*id))
    }
}

/// A packet of ours: its type, and where its body is.
struct AnswerPacket {
    kind: u8,
    body: Range<usize>,
}

/// Cuts what was heard into packets; all of it must be whole ones.
fn answers_in(bytes: &[u8]) -> Vec<AnswerPacket> {
    let mut answers = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let kind = bytes[at] >> 4;
        let (mut length, mut shift) = (0, 0);
        at += 1;
        loop {
            let byte = bytes[at];
            length |= usize::from(byte & 0x7f) << shift;
            (at, shift) = (at + 1, shift + 7);
            if byte & 0x80 == 0 {
                break;
            }
        }
        answers.push(AnswerPacket { kind, body: at..at + length });
        at += length;
    }
    assert_eq!(at, bytes.len(), "the last answer is whole: {bytes:x?}");
    answers
}

/// The answers that a client's packets are owed, as the codec reads them: packet ids by type of
/// answer.
struct Owed {
    answers: [(u8, Vec<u16>); 6],
    /// Every byte was read, up to a goodbye or the end.
    is_whole: bool,
}

const PUBACK: usize = 0;
const PUBREC: usize = 1;
const PUBCOMP: usize = 2;
const SUBACK: usize = 3;
const UNSUBACK: usize = 4;
const PINGRESP: usize = 5;

/// What a packet is owed: which answer under which id; nothing; or nothing more at all.
enum OwedAnswer {
    Answer(usize, u16),
    Nothing,
    End,
}

impl Owed {
    fn to(said: &[u8]) -> Self {
        let answers = [4, 5, 7, 9, 11, 13].map(|kind| (kind, Vec::new()));
        let mut owed = Self { answers, is_whole: false };
        let body = answers_header(said);
        let is_v5 = said.get(body + 6) == Some(&5);
        let mut bytes = BytesMut::from(said);
        if is_v5 {
            let mut codec = v5::Codec::new(0, 0);
            owed.read(|| {
                Ok::<_, ()>(codec.decode(&mut bytes).map_err(drop)?.map(|(packet, _)| due_v5(&packet)))
            });
        } else {
            let mut codec = v3::Codec::new(0);
            owed.read(|| {
                Ok::<_, ()>(codec.decode(&mut bytes).map_err(drop)?.map(|(packet, _)| due_v3(&packet)))
            });
        }
        owed
    }

    fn read(&mut self, mut next: impl FnMut() -> Result<Option<OwedAnswer>, ()>) {
        loop {
            match next() {
                Ok(Some(OwedAnswer::Answer(answer, id))) => self.answers[answer].1.push(id),
                Ok(Some(OwedAnswer::Nothing)) => {}
                Ok(Some(OwedAnswer::End) | None) => {
                    self.is_whole = true;
                    return;
                }
                Err(()) => return,
            }
        }
    }
}

/// Where the body of the first packet begins.
fn answers_header(said: &[u8]) -> usize {
    1 + said.iter().skip(1).take_while(|byte| **byte & 0x80 != 0).count() + 1
}

fn due_for(qos: QoS, packet_id: u16) -> OwedAnswer {
    match qos {
        QoS::AtMostOnce => OwedAnswer::Nothing,
        QoS::AtLeastOnce => OwedAnswer::Answer(PUBACK, packet_id),
        QoS::ExactlyOnce => OwedAnswer::Answer(PUBREC, packet_id),
    }
}

fn due_v5(packet: &v5::Packet) -> OwedAnswer {
    match packet {
        v5::Packet::Publish(publish) => due_for(publish.qos, publish.packet_id.map_or(0, Into::into)),
        v5::Packet::PublishRelease(release) => OwedAnswer::Answer(PUBCOMP, release.packet_id.into()),
        v5::Packet::Subscribe(subscribe) => OwedAnswer::Answer(SUBACK, subscribe.packet_id.into()),
        v5::Packet::Unsubscribe(unsubscribe) => OwedAnswer::Answer(UNSUBACK, unsubscribe.packet_id.into()),
        v5::Packet::PingRequest => OwedAnswer::Answer(PINGRESP, 0),
        v5::Packet::Disconnect(_) => OwedAnswer::End,
        _ => OwedAnswer::Nothing,
    }
}

fn due_v3(packet: &v3::Packet) -> OwedAnswer {
    match packet {
        v3::Packet::Publish(publish) => due_for(publish.qos, publish.packet_id.map_or(0, Into::into)),
        v3::Packet::PublishRelease { packet_id } => OwedAnswer::Answer(PUBCOMP, (*packet_id).into()),
        v3::Packet::Subscribe { packet_id, .. } => OwedAnswer::Answer(SUBACK, (*packet_id).into()),
        v3::Packet::Unsubscribe { packet_id, .. } => OwedAnswer::Answer(UNSUBACK, (*packet_id).into()),
        v3::Packet::PingRequest => OwedAnswer::Answer(PINGRESP, 0),
        v3::Packet::Disconnect => OwedAnswer::End,
        _ => OwedAnswer::Nothing,
    }
}
