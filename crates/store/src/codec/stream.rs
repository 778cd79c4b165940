//! Stored forms of streams and of what they hold.

use std::borrow::Cow;

use base::{Incarnation, Timestamp};
use records::{
    BlockBounds, ExternalInterval, ExternalSpan, ExternalText, KeepBounds, SaveMode, StoredElsewhere, Stream,
    StreamBlock, StreamChunk, StreamDue, StreamMove, StreamOrigin, StreamSettings, StreamTail, WhenFull,
};

use super::field::{choices, fields, stored};
use super::key::{self, TableKey};
use crate::record::{Index, record};
use crate::table::Table;

stored!(
    Stream, "a stream", version 1:
    incarnation, namespace, name, deleted, settings, created_at, origins
);

stored!(
    StreamTail, "how far a stream has come", version 1:
    stream, reserved, next, first, last_at, messages, bytes, blocks, block_messages, block_bytes,
    stored_bytes, dropped, due, elsewhere, moved
);

stored!(
    StreamDue, "when a stream is due", version 1:
    at, stream
);

stored!(
    StreamChunk, "messages of a stream", version 1:
    stream, first, messages, at, bytes
);

stored!(
    StreamBlock, "a block of a stream", version 1:
    stream, first, last, messages, bytes, stored_bytes, checksum, storage, brought_by, created_at,
    last_at, segments, any_segment
);

stored!(
    ExternalInterval, "numbers of a source", version 1:
    stream, source, from, to
);

stored!(
    ExternalSpan, "numbers of a source in a block", version 1:
    stream, source, from, to, block
);

stored!(
    ExternalText, "a text of a source", version 1:
    stream, source, text, id
);

fields! {
    StreamSettings: save, save_interval_ms, block, keep, when_full, unload_after_ms, moves;
    StreamMove: after_ms, to;
    StoredElsewhere: storage, blocks, bytes;
    BlockBounds: bytes, age_ms, messages;
    StreamOrigin: source, from;
    KeepBounds: age_ms, bytes, until_copied;
}

choices! {
    SaveMode, "a save mode": Sync = 0, Wait = 1, Periodic = 2, Memory = 3;
    WhenFull, "what a full stream does": DropOldest = 0, Reject = 1;
}

/// All by which a stream is found. One that is deleted has no name.
#[derive(Clone, Debug)]
pub(crate) struct StreamPlace {
    stream: Incarnation,
    name: Option<TableKey>,
}

impl StreamPlace {
    /// The name that a stream has no more once it is deleted.
    fn left_by(stream: &Stream) -> impl Iterator<Item = (Table, TableKey)> {
        let name = || key::stream_name(&stream.namespace, &stream.name);
        stream.deleted.then(|| (Table::StreamsByName, name())).into_iter()
    }
}

record!(
    Stream: Streams by StreamPlace,
    key: |place| key::incarnation(place.stream),
    place: |stream| Cow::Owned(StreamPlace {
        stream: stream.incarnation,
        name: (!stream.deleted).then(|| key::stream_name(&stream.namespace, &stream.name)),
    }),
    left: |stream| StreamPlace::left_by(stream),
    indexes: [Index {
        table: Table::StreamsByName,
        rows: |place, row| {
            let stream = key::incarnation(place.stream);
            place.name.iter().for_each(|name| row(name.clone(), &stream));
        },
        names: |_, stream| Ok(TableKey::from_slice(stream)),
    }],
);

record!(
    StreamTail: StreamTails by Incarnation,
    key: |stream| key::incarnation(*stream),
    place: |tail| Cow::Borrowed(&tail.stream),
);

record!(
    StreamDue: StreamsByDue by (Timestamp, Incarnation),
    key: |(at, stream)| key::stream_due(*at, *stream),
    place: |due| Cow::Owned((due.at, due.stream)),
);

record!(
    StreamChunk: StreamChunks by (Incarnation, u64),
    key: |(stream, first)| key::in_stream(*stream, *first),
    place: |chunk| Cow::Owned((chunk.stream, chunk.first)),
);

record!(
    StreamBlock: StreamBlocks by (Incarnation, u64),
    key: |(stream, first)| key::in_stream(*stream, *first),
    place: |block| Cow::Owned((block.stream, block.first)),
);

record!(
    ExternalInterval: ExternalIntervals by (Incarnation, Box<str>, u64),
    key: |(stream, source, from)| key::external_number(*stream, source, *from),
    place: |interval| Cow::Owned((interval.stream, interval.source.clone(), interval.from)),
);

/// All by which a span is found.
#[derive(Clone, Debug)]
pub(crate) struct SpanPlace {
    by_number: TableKey,
    by_block: TableKey,
}

impl SpanPlace {
    fn of(span: &ExternalSpan) -> Self {
        Self {
            by_number: key::external_span(span.stream, &span.source, span.from, span.block),
            by_block: key::span_of_block(span.stream, span.block, &span.source, span.from),
        }
    }
}

record!(
    ExternalSpan: ExternalSpans by SpanPlace,
    key: |place| place.by_number.clone(),
    place: |span| Cow::Owned(SpanPlace::of(span)),
    indexes: [Index {
        table: Table::SpansByBlock,
        rows: |place, row| row(place.by_block.clone(), &[]),
        names: |row, _| key::span_from(row),
    }],
);

/// All by which a text is found.
#[derive(Clone, Debug)]
pub(crate) struct TextPlace {
    by_text: TableKey,
    by_message: TableKey,
}

impl TextPlace {
    fn of(text: &ExternalText) -> Self {
        Self {
            by_text: key::external_text(text.stream, &text.source, &text.text, text.id),
            by_message: key::in_stream(text.stream, text.id),
        }
    }
}

record!(
    ExternalText: ExternalTexts by TextPlace,
    key: |place| place.by_text.clone(),
    place: |text| Cow::Owned(TextPlace::of(text)),
    indexes: [Index {
        table: Table::TextsByMessage,
        rows: |place, row| row(place.by_message.clone(), &place.by_text),
        names: |_, text| Ok(TableKey::from_slice(text)),
    }],
);
