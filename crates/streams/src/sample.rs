//! Messages that tests make up.

use std::ops::Range;

use base::{Incarnation, Timestamp};
use proptest::prelude::*;
use records::StreamChunk;

use crate::codec::ChunkWriter;
use crate::message::{ExternalId, MessageHeaders, MessageOrigin, StreamMessage, StreamPayload};

/// What a message carries, without its id and time of receipt.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampleMessage {
    /// Since the message before.
    pub(crate) after_ms: u32,
    pub(crate) ts_less: i64,
    pub(crate) origin: Option<(String, SampleId)>,
    pub(crate) segment: Option<String>,
    pub(crate) headers: Vec<(Box<str>, Box<str>)>,
    pub(crate) payload: Vec<u8>,
    pub(crate) is_json: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SampleId {
    Number(u64),
    Text(String),
}

impl SampleMessage {
    pub(crate) fn message(&self, id: u64, received_at: Timestamp) -> StreamMessage<'_> {
        let origin = self.origin.as_ref().map(|(source, external_id)| MessageOrigin {
            source,
            external_id: match external_id {
                SampleId::Number(number) => ExternalId::Number(*number),
                SampleId::Text(text) => ExternalId::Text(text),
            },
        });
        StreamMessage {
            id,
            received_at,
            ts: Timestamp(received_at.0 + self.ts_less),
            origin,
            segment: self.segment.as_deref(),
            headers: MessageHeaders::new(&self.headers),
            payload: if self.is_json {
                StreamPayload::Json(&self.payload)
            } else {
                StreamPayload::Bytes(&self.payload)
            },
        }
    }
}

/// A chunk of these messages; the first is received at `at`.
pub(crate) fn chunk_of(first: u64, at: Timestamp, samples: &[SampleMessage]) -> StreamChunk {
    chunk_behind(at, first, at, samples)
}

/// The same, behind a message that was received `before`.
pub(crate) fn chunk_behind(
    before: Timestamp,
    first: u64,
    at: Timestamp,
    samples: &[SampleMessage],
) -> StreamChunk {
    let mut writer = ChunkWriter::following(before, first, at);
    let mut received_at = at;
    for (place, sample) in samples.iter().enumerate() {
        if place > 0 {
            received_at = Timestamp(received_at.0 + i64::from(sample.after_ms));
        }
        writer.push(&sample.message(writer.next(), received_at));
    }
    writer.finish(Incarnation(1))
}

fn sample() -> impl Strategy<Value = SampleMessage> {
    let external_id = prop_oneof![
        4 => (0..500_u64).prop_map(SampleId::Number),
        1 => (0..crate::EXTERNAL_NUMBER_MAX).prop_map(SampleId::Number),
        2 => "[a-z]{1,3}".prop_map(SampleId::Text),
    ];
    let text = proptest::option::weighted(0.5, "[a-d]");
    let headers = proptest::collection::vec(("[a-z]{0,3}", ".{0,5}"), 0..3);
    let headers = proptest::option::weighted(0.2, headers);
    let origin = proptest::option::weighted(0.7, ("[a-c]", external_id));
    let ts_less = prop_oneof![3 => Just(0), 1 => -100_000..100_000_i64];
    let payload = (proptest::collection::vec(any::<u8>(), 0..12), any::<bool>());
    (0..500_u32, ts_less, origin, text, headers, payload).prop_map(
        |(after_ms, ts_less, origin, segment, headers, (payload, is_json))| SampleMessage {
            after_ms,
            ts_less,
            origin,
            segment,
            headers: headers.unwrap_or_default().into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
            payload,
            is_json,
        },
    )
}

/// Messages in a row.
pub(crate) fn samples(count: Range<usize>) -> impl Strategy<Value = Vec<SampleMessage>> {
    proptest::collection::vec(sample(), count)
}
