//! Traffic of streams: chunks become blocks, blocks go, and sources give ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Incarnation, Timestamp};
use records::{
    BlockBounds, ExternalInterval, ExternalSpan, ExternalText, KeepBounds, Op, SaveMode, Stream, StreamBlock,
    StreamChunk, StreamCopy, StreamDue, StreamOrigin, StreamSettings, StreamSubscription, StreamTail,
    SubscriptionPush, WhenFull,
};

use super::Traffic;
use crate::conformance::streams::copy;

/// Streams that there may be in a partition at a time.
const STREAMS: usize = 5;
/// Sources that give ids.
const SOURCES: [&str; 3] = ["a", "ab", "b"];

/// What a partition of streams has.
#[derive(Clone, Debug, Default)]
pub(super) struct InStreams {
    streams: Vec<KnownStream>,
}

#[derive(Clone, Debug)]
struct KnownStream {
    stream: Stream,
    tail: StreamTail,
    chunks: Vec<StreamChunk>,
    blocks: Vec<StreamBlock>,
    intervals: Vec<ExternalInterval>,
    spans: Vec<ExternalSpan>,
    texts: Vec<ExternalText>,
    subscriptions: Vec<StreamSubscription>,
    copies: BTreeSet<Box<str>>,
}

impl Traffic {
    /// Streams that are there, with the id of the next message.
    pub fn streams(&self) -> impl Iterator<Item = (&Stream, u64)> {
        self.in_streams.streams.iter().map(|known| (&known.stream, known.tail.next))
    }

    /// Sources that give ids.
    pub fn sources() -> [&'static str; 3] {
        SOURCES
    }

    pub(super) fn change_of_streams(&mut self, ops: &mut Vec<Op>) {
        let count = self.in_streams.streams.len();
        if count == 0 || (count < STREAMS && self.below(20) == 0) {
            return self.put_stream(ops);
        }
        let at = self.below(count as u64) as usize;
        match self.below(29) {
            0..=9 => self.put_chunk(at, ops),
            10..=12 => self.put_block(at, ops),
            13..=14 => self.delete_block(at, ops),
            15..=17 => self.put_interval(at, ops),
            18..=19 => self.put_text(at, ops),
            20 => self.put_due(at, ops),
            21..=22 => self.put_stream_settings(at, ops),
            23..=25 => self.put_subscription(at, ops),
            26 => self.delete_subscription(at, ops),
            27 => self.put_copy(at, ops),
            _ => self.delete_stream(at, ops),
        }
        if let Some(known) = self.in_streams.streams.get(at) {
            ops.push(Op::PutStreamTail(Box::new(known.tail.clone())));
        }
    }

    fn stream_settings(&mut self) -> StreamSettings {
        StreamSettings {
            save: SaveMode::ALL[self.below(4) as usize],
            save_interval_ms: self.below(5_000),
            block: BlockBounds { bytes: self.below(1 << 20), age_ms: self.below(60_000), messages: 10_000 },
            keep: KeepBounds {
                age_ms: self.maybe(|traffic| traffic.below(1 << 40)),
                bytes: self.maybe(|traffic| traffic.below(1 << 40)),
                until_copied: self.below(2) == 0,
            },
            when_full: WhenFull::ALL[self.below(2) as usize],
            unload_after_ms: self.below(60_000),
            moves: (0..self.below(3))
                .map(|after| records::StreamMove { after_ms: after * 1_000, to: "cold".into() })
                .collect(),
        }
    }

    fn put_stream(&mut self, ops: &mut Vec<Op>) {
        self.head.next_incarnation += 1;
        let incarnation = Incarnation(self.head.next_incarnation);
        let (namespace, name) = (format!("ns{}", self.below(2)), format!("s{}", self.below(20)));
        let is_taken =
            |known: &KnownStream| (*known.stream.namespace == *namespace) && *known.stream.name == *name;
        if self.in_streams.streams.iter().any(is_taken) {
            return;
        }
        let stream = Stream {
            incarnation,
            namespace: namespace.into(),
            name: name.into(),
            deleted: false,
            settings: self.stream_settings(),
            created_at: self.head.now,
            origins: vec![StreamOrigin { source: "node.1".into(), from: 1 }],
        };
        let tail = StreamTail { last_at: self.head.now, ..StreamTail::begin(incarnation) };
        ops.push(Op::PutStream(Box::new(stream.clone())));
        ops.push(Op::PutStreamTail(Box::new(tail.clone())));
        self.in_streams.streams.push(KnownStream {
            stream,
            tail,
            chunks: Vec::new(),
            blocks: Vec::new(),
            intervals: Vec::new(),
            spans: Vec::new(),
            texts: Vec::new(),
            subscriptions: Vec::new(),
            copies: BTreeSet::new(),
        });
    }

    fn put_stream_settings(&mut self, at: usize, ops: &mut Vec<Op>) {
        let settings = self.stream_settings();
        let stream = &mut self.in_streams.streams[at].stream;
        stream.settings = settings;
        ops.push(Op::PutStream(Box::new(stream.clone())));
    }

    fn put_chunk(&mut self, at: usize, ops: &mut Vec<Op>) {
        let messages = 1 + self.below(20) as u32;
        let bytes: Arc<[u8]> = (0..self.below(2_000)).map(|_| self.random.next_u64() as u8).collect();
        let left_out = if self.below(8) == 0 { self.below(100) } else { 0 };
        let now = self.head.now;
        let KnownStream { tail, chunks, .. } = &mut self.in_streams.streams[at];
        let first = tail.next + left_out;
        let chunk = StreamChunk { stream: tail.stream, first, messages, at: now, bytes };
        tail.next = first + u64::from(messages);
        tail.reserved = tail.reserved.max(tail.next);
        tail.last_at = now;
        tail.messages += u64::from(messages);
        tail.bytes += chunk.bytes.len() as u64;
        ops.push(Op::PutStreamChunk(Box::new(chunk.clone())));
        chunks.push(chunk);
    }

    /// The first chunks become a block.
    fn put_block(&mut self, at: usize, ops: &mut Vec<Op>) {
        let count = self.below(4) as usize + 1;
        let numbers = self.maybe(|traffic| (traffic.below(50), traffic.below(3) as usize));
        let is_any_segment = self.below(3) == 0;
        let KnownStream { tail, chunks, blocks, spans, .. } = &mut self.in_streams.streams[at];
        let stored: Vec<_> = chunks.drain(..count.min(chunks.len())).collect();
        let (Some(first), Some(last)) = (stored.first(), stored.last()) else { return };
        let bytes = stored.iter().map(|chunk| chunk.bytes.len() as u64).sum();
        let block = StreamBlock {
            stream: tail.stream,
            first: first.first,
            last: last.first + u64::from(last.messages) - 1,
            messages: stored.iter().map(|chunk| chunk.messages).sum(),
            bytes,
            stored_bytes: bytes + 100,
            checksum: u32::MAX,
            storage: "local".into(),
            brought_by: base::Lineage(0),
            created_at: first.at,
            last_at: last.at,
            segments: if is_any_segment { Vec::new() } else { vec!["east".into(), "west".into()] },
            any_segment: is_any_segment,
        };
        tail.blocks += 1;
        tail.stored_bytes += block.stored_bytes;
        tail.block_messages += u64::from(block.messages);
        tail.block_bytes += block.bytes;
        if let Some((from, source)) = numbers {
            let source = SOURCES[source].into();
            let span = ExternalSpan { stream: tail.stream, source, from, to: from + 9, block: block.first };
            ops.push(Op::PutExternalSpan(Box::new(span.clone())));
            spans.push(span);
        }
        let gone = stored.iter().map(|chunk| Op::DeleteStreamChunk(chunk.stream, chunk.first));
        ops.extend(gone.chain([Op::PutStreamBlock(Box::new(block.clone()))]));
        blocks.push(block);
    }

    /// The first block goes, with the ids that lead to it.
    fn delete_block(&mut self, at: usize, ops: &mut Vec<Op>) {
        let KnownStream { tail, blocks, spans, texts, .. } = &mut self.in_streams.streams[at];
        if blocks.is_empty() {
            return;
        }
        let block = blocks.remove(0);
        tail.blocks -= 1;
        tail.stored_bytes -= block.stored_bytes;
        tail.block_messages -= u64::from(block.messages);
        tail.block_bytes -= block.bytes;
        tail.messages -= u64::from(block.messages);
        tail.bytes -= block.bytes;
        tail.dropped += u64::from(block.messages);
        tail.first = block.last + 1;
        ops.push(Op::DeleteStreamBlock(block.stream, block.first));
        let gone = spans.extract_if(.., |span| span.block == block.first);
        ops.extend(gone.map(|span| Op::DeleteExternalSpan(Box::new(span))));
        let gone = texts.extract_if(.., |text| text.id <= block.last);
        ops.extend(gone.map(|text| Op::DeleteExternalText(Box::new(text))));
    }

    /// An interval behind those of its source grows, or another begins.
    fn put_interval(&mut self, at: usize, ops: &mut Vec<Op>) {
        let (source, by, is_new) = (SOURCES[self.below(3) as usize], self.below(20), self.below(3) == 0);
        let KnownStream { stream, intervals, .. } = &mut self.in_streams.streams[at];
        let last = intervals.iter().rposition(|one| *one.source == *source);
        let grown = match last.map(|last| &mut intervals[last]) {
            Some(last) if !is_new => {
                last.to += by;
                last.clone()
            }
            last => {
                let from = last.map_or(by, |last| last.to + 2 + by);
                let one =
                    ExternalInterval { stream: stream.incarnation, source: source.into(), from, to: from };
                intervals.push(one.clone());
                one
            }
        };
        ops.push(Op::PutExternalInterval(Box::new(grown)));
        if by == 0 && !intervals.is_empty() {
            let ExternalInterval { stream, source, from, .. } = intervals.remove(0);
            ops.push(Op::DeleteExternalInterval(stream, source, from));
        }
    }

    fn put_text(&mut self, at: usize, ops: &mut Vec<Op>) {
        let (source, text) = (SOURCES[self.below(3) as usize], format!("order-{}", self.below(20)));
        let KnownStream { tail, texts, .. } = &mut self.in_streams.streams[at];
        let id = tail.next - 1;
        if id == 0 || texts.iter().any(|text| text.id == id) {
            return;
        }
        let text = ExternalText { stream: tail.stream, source: source.into(), text: text.into(), id };
        ops.push(Op::PutExternalText(Box::new(text.clone())));
        texts.push(text);
    }

    /// One is made, or moves on, or is pushed from now on or no more.
    fn put_subscription(&mut self, at: usize, ops: &mut Vec<Op>) {
        let (name, is_pushed, max) = (format!("r{}", self.below(4)), self.below(2) == 0, self.below(9));
        let (by, segment) = (self.below(50), self.below(3));
        let KnownStream { tail, subscriptions, .. } = &mut self.in_streams.streams[at];
        let push = SubscriptionPush {
            url: "https://shop/".into(),
            max: max as u32,
            secret: [max as u8; 24].as_slice().into(),
        };
        let one = StreamSubscription {
            stream: tail.stream,
            name: name.into(),
            position: by.min(tail.next - 1),
            segments: SOURCES.iter().take(segment as usize).map(|segment| Box::from(*segment)).collect(),
            push: is_pushed.then(|| Box::new(push)),
            created_at: self.head.now,
        };
        ops.push(Op::PutSubscription(Box::new(one.clone())));
        subscriptions.retain(|other| other.name != one.name);
        subscriptions.push(one);
    }

    fn delete_subscription(&mut self, at: usize, ops: &mut Vec<Op>) {
        let gone = self.in_streams.streams[at].subscriptions.pop();
        ops.extend(gone.map(|gone| Op::DeleteSubscription(gone.stream, gone.name)));
    }

    /// One is made, or moves on.
    fn put_copy(&mut self, at: usize, ops: &mut Vec<Op>) {
        let (name, by) = (format!("c{}", self.below(3)), self.below(50));
        let KnownStream { tail, copies, .. } = &mut self.in_streams.streams[at];
        let one = StreamCopy { position: by, ..copy(tail.stream.0, &name) };
        ops.push(Op::PutStreamCopy(Box::new(one.clone())));
        copies.insert(one.name);
    }

    fn put_due(&mut self, at: usize, ops: &mut Vec<Op>) {
        let due = self.some_ts();
        let tail = &mut self.in_streams.streams[at].tail;
        if tail.due != Timestamp::MAX {
            ops.push(Op::DeleteStreamDue(StreamDue { at: tail.due, stream: tail.stream }));
        }
        tail.due = due;
        ops.push(Op::PutStreamDue(StreamDue { at: due, stream: tail.stream }));
    }

    /// Deleted first, then swept.
    fn delete_stream(&mut self, at: usize, ops: &mut Vec<Op>) {
        let known = self.in_streams.streams.remove(at);
        let stream = Stream { deleted: true, ..known.stream };
        ops.push(Op::PutStream(Box::new(stream.clone())));
        if known.tail.due != Timestamp::MAX {
            ops.push(Op::DeleteStreamDue(StreamDue { at: known.tail.due, stream: stream.incarnation }));
        }
        let of = stream.incarnation;
        ops.push(Op::DeleteStreamTail(of));
        ops.extend(known.chunks.into_iter().map(|chunk| Op::DeleteStreamChunk(of, chunk.first)));
        ops.extend(known.blocks.into_iter().map(|block| Op::DeleteStreamBlock(of, block.first)));
        ops.extend(known.spans.into_iter().map(|span| Op::DeleteExternalSpan(Box::new(span))));
        ops.extend(known.texts.into_iter().map(|text| Op::DeleteExternalText(Box::new(text))));
        let gone = known.subscriptions.into_iter();
        ops.extend(gone.map(|one| Op::DeleteSubscription(of, one.name)));
        ops.extend(known.copies.into_iter().map(|name| Op::DeleteStreamCopy(of, name)));
        let gone = known.intervals.into_iter();
        ops.extend(gone.map(|one| Op::DeleteExternalInterval(of, one.source, one.from)));
        if self.below(2) == 0 {
            ops.push(Op::DeleteStream(Box::new(stream)));
        }
    }
}
