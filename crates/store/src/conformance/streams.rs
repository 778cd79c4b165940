//! Streams by name, what they hold in order of id, and the ids that their sources gave.

use base::{Incarnation, PartitionId, Timestamp};
use records::{
    BlockBounds, CopyDirection, ExternalInterval, ExternalSpan, ExternalText, KeepBounds, LiveLane, Op,
    ReportsCopy, SaveMode, Stream, StreamBlock, StreamChunk, StreamCopy, StreamDue, StreamOrigin,
    StreamSettings, StreamSubscription, StreamTail, SubscriptionPush, WhenFull,
};

use super::retention::throughout;
use super::{Make, Subject};
use crate::port::View;

const STREAM: Incarnation = Incarnation(1);

pub(crate) fn stream(number: u64, namespace: &str, name: &str) -> Stream {
    Stream {
        incarnation: Incarnation(number),
        namespace: namespace.into(),
        name: name.into(),
        deleted: false,
        settings: StreamSettings {
            save: SaveMode::Periodic,
            save_interval_ms: 1_000,
            block: BlockBounds { bytes: 1_000_000, age_ms: 60_000, messages: 10_000 },
            keep: KeepBounds { age_ms: Some(7), bytes: None, until_copied: true },
            when_full: WhenFull::Reject,
            unload_after_ms: 60_000,
            moves: vec![records::StreamMove { after_ms: 1_000, to: "cold".into() }],
        },
        created_at: Timestamp(5),
        origins: vec![StreamOrigin { source: "node.1".into(), from: 1 }],
    }
}

pub(crate) fn tail(number: u64, next: u64) -> StreamTail {
    StreamTail { reserved: next, next, last_at: Timestamp(9), ..StreamTail::begin(Incarnation(number)) }
}

/// Messages with ids from `first` on; a byte each.
pub(crate) fn chunk(first: u64, messages: u32) -> StreamChunk {
    let bytes = vec![first as u8; messages as usize].into();
    StreamChunk { stream: STREAM, first, messages, at: Timestamp(9), bytes }
}

/// The file of every block here.
pub(crate) fn block_file() -> Vec<u8> {
    vec![7; 99]
}

pub(crate) fn block(first: u64, last: u64) -> StreamBlock {
    let messages = (last + 1 - first) as u32;
    StreamBlock {
        stream: STREAM,
        first,
        last,
        messages,
        bytes: messages.into(),
        stored_bytes: 99,
        checksum: crc32c::crc32c(&block_file()),
        storage: "local".into(),
        brought_by: base::Lineage(0),
        created_at: Timestamp(9),
        last_at: Timestamp(9),
        segments: vec!["east".into()],
        any_segment: false,
    }
}

pub(crate) fn span(from: u64, to: u64, block: u64) -> ExternalSpan {
    ExternalSpan { stream: STREAM, source: "till".into(), from, to, block }
}

pub(crate) fn text(text: &str, id: u64) -> ExternalText {
    ExternalText { stream: STREAM, source: "till".into(), text: text.into(), id }
}

pub(crate) fn interval(from: u64, to: u64) -> ExternalInterval {
    ExternalInterval { stream: STREAM, source: "till".into(), from, to }
}

pub(crate) fn subscription(stream: u64, name: &str, is_pushed: bool) -> StreamSubscription {
    let push = || {
        Box::new(SubscriptionPush { url: "https://a/".into(), max: 100, secret: [7; 24].as_slice().into() })
    };
    StreamSubscription {
        stream: Incarnation(stream),
        name: name.into(),
        position: 3,
        segments: vec!["east".into()],
        push: is_pushed.then(push),
        created_at: Timestamp(5),
    }
}

pub(crate) fn copy(stream: u64, name: &str) -> StreamCopy {
    StreamCopy {
        stream: Incarnation(stream),
        name: name.into(),
        direction: CopyDirection::To,
        node: "centre".into(),
        other_namespace: "shop".into(),
        other_name: "all".into(),
        segments: vec!["east".into()],
        live_permille: 250,
        rate: Some(1_000),
        paused: false,
        start: 0,
        begins: None,
        position: 3,
        live: Some(LiveLane { from: 7, position: 9 }),
        peer: Some("dc1.7".into()),
        peer_node: Some("dc1".into()),
        reset_at: None,
        copied: 3,
        duplicates: 1,
        dropped: 0,
        created_at: Timestamp(5),
        reports: Some(Box::new(ReportsCopy {
            gather: Incarnation(stream + 1),
            selector: Some("site=12".into()),
            refused: 2,
        })),
    }
}

pub(crate) fn node(name: &str, token: Option<&str>) -> records::PeerNode {
    records::PeerNode {
        name: name.into(),
        url: "https://centre/".into(),
        token: token.map(Box::from),
        created_at: Timestamp(5),
    }
}

struct StreamsUnderTest {
    subject: Box<dyn Subject>,
    head: records::PartitionHead,
}

impl StreamsUnderTest {
    fn new(make: Make<'_>) -> Self {
        Self { subject: make(), head: records::PartitionHead::default() }
    }

    fn put(&mut self, ops: Vec<Op>) {
        let batch = super::next(&mut self.head, ops);
        let partition = PartitionId::of_streams(0);
        super::put(&mut *self.subject, records::Batch { partition, ..batch });
    }

    fn throughout(&mut self, look: impl Fn(&dyn View, &str)) {
        let view = |subject: &dyn Subject| subject.store().view(PartitionId::of_streams(0)).expect("opens");
        throughout(&mut *self.subject, |subject, context| look(&*view(subject), context));
    }
}

/// One that is deleted has no name, and another may have it while the first is swept.
pub fn a_stream_is_found_by_its_name_until_it_is_deleted(make: Make<'_>) {
    let mut store = StreamsUnderTest::new(make);
    let streams = [stream(1, "a", "b"), stream(2, "a", "c"), stream(3, "ab", "a")];
    store.put(streams.iter().map(|one| Op::PutStream(Box::new(one.clone()))).collect());
    store.put(vec![Op::PutStreamTail(Box::new(tail(1, 7)))]);
    store.throughout(|view, context| {
        let listed = |namespace, after, limit| view.streams(namespace, after, limit).expect("reads");
        assert_eq!(listed(None, None, 9), streams, "{context}");
        assert_eq!(listed(Some("a"), None, 9), streams[..2], "{context}");
        assert_eq!(listed(Some("a"), Some(("a", "b")), 9), streams[1..2], "{context}");
        assert_eq!(listed(Some("ab"), Some(("a", "c")), 9), streams[2..], "{context}");
        assert_eq!(listed(None, Some(("a", "b")), 1), streams[1..2], "{context}");
        assert_eq!(view.stream_tail(STREAM).expect("reads"), Some(tail(1, 7)), "{context}");
        assert_eq!(view.count_streams().expect("reads"), 3, "{context}");
    });
    let (gone, again) = (Stream { deleted: true, ..streams[0].clone() }, stream(4, "a", "b"));
    store.put(vec![Op::PutStream(Box::new(gone.clone())), Op::PutStream(Box::new(again.clone()))]);
    store.throughout(|view, context| {
        assert_eq!(view.stream_of("a", "b").expect("reads"), Some(again.clone()), "{context}");
        assert_eq!(view.stream(STREAM).expect("reads"), Some(gone.clone()), "{context}");
        assert_eq!(view.count_streams().expect("reads"), 3, "{context}");
    });
    store.put(vec![Op::DeleteStream(Box::new(gone)), Op::DeleteStreamTail(STREAM)]);
    store.throughout(|view, context| {
        assert_eq!(view.stream(STREAM).expect("reads"), None, "{context}");
        assert_eq!(view.stream_of("a", "b").expect("reads"), Some(again.clone()), "{context}");
    });
}

/// Blocks and chunks from the one on that has a message; streams by when they are due.
pub fn what_a_stream_holds_is_read_in_order(make: Make<'_>) {
    let mut store = StreamsUnderTest::new(make);
    let (blocks, chunks) = ([block(1, 4), block(7, 9)], [chunk(10, 3), chunk(13, 1), chunk(20, 300)]);
    let due = |at, stream| StreamDue { at: Timestamp(at), stream: Incarnation(stream) };
    let mut ops: Vec<_> = blocks.iter().map(|one| Op::PutStreamBlock(Box::new(one.clone()))).collect();
    ops.extend(chunks.iter().map(|one| Op::PutStreamChunk(Box::new(one.clone()))));
    ops.extend([due(30, 1), due(20, 2), due(-5, 3)].map(Op::PutStreamDue));
    store.put(ops);
    store.put(vec![Op::DeleteStreamDue(due(20, 2))]);
    store.throughout(|view, context| {
        assert_eq!(view.streams_due(9).expect("reads"), [due(-5, 3), due(30, 1)], "{context}");
        for (from, expect) in [(0, 0), (4, 0), (5, 1), (9, 1), (10, 2)] {
            let found = view.stream_blocks(STREAM, from, 9).expect("reads");
            assert_eq!(found, blocks[expect..], "{context} {from}");
        }
        for (from, expect) in [(0, 0), (12, 0), (13, 1), (14, 2), (319, 2), (320, 3)] {
            let found = view.stream_chunks(STREAM, from..u64::MAX, usize::MAX).expect("reads");
            assert_eq!(found, chunks[expect..], "{context} {from}");
        }
        let found = view.stream_chunks(STREAM, 1..u64::MAX, 4).expect("reads");
        assert_eq!(found, chunks[..2], "{context}: until four bytes are there");
        for (messages, expect) in [(12..13, 0..1), (12..14, 0..2), (13..20, 1..2), (14..21, 2..3)] {
            let found = view.stream_chunks(STREAM, messages.clone(), usize::MAX).expect("reads");
            assert_eq!(found, chunks[expect], "{context} {messages:?}");
        }
        assert_eq!(view.stream_block(STREAM, 7).expect("reads"), Some(blocks[1].clone()), "{context}");
        let ends = [STREAM, Incarnation(2)].map(|stream| view.end_of_blocks(stream).expect("reads"));
        assert_eq!(ends, [10, 0], "{context}");
        assert_eq!(view.stream_blocks(Incarnation(2), 0, 9).expect("reads"), [], "{context}");
    });
    store.put(vec![Op::DeleteStreamBlock(STREAM, 1), Op::DeleteStreamChunk(STREAM, 20)]);
    store.throughout(|view, context| {
        assert_eq!(view.stream_blocks(STREAM, 0, 9).expect("reads"), blocks[1..], "{context}");
        assert_eq!(
            view.stream_chunks(STREAM, 0..u64::MAX, usize::MAX).expect("reads"),
            chunks[..2],
            "{context}"
        );
    });
}

/// Numbers by interval and by block, texts by themselves and by their message.
pub fn ids_of_sources_are_found_in_each_of_their_orders(make: Make<'_>) {
    let mut store = StreamsUnderTest::new(make);
    let (intervals, spans) = ([interval(0, 9), interval(20, 25)], [span(0, 5, 1), span(3, 25, 7)]);
    let texts = [text("x", 2), text("y", 5), text("x", 8)];
    let mut ops: Vec<_> =
        intervals.iter().map(|one| Op::PutExternalInterval(Box::new(one.clone()))).collect();
    ops.extend(spans.iter().map(|one| Op::PutExternalSpan(Box::new(one.clone()))));
    ops.extend(texts.iter().map(|one| Op::PutExternalText(Box::new(one.clone()))));
    store.put(ops);
    store.throughout(|view, context| {
        for (source, number, left_out, expect) in [
            ("till", 19, 99, Some(&intervals[0])),
            ("till", 20, 99, Some(&intervals[1])),
            ("till", u64::MAX, 20, Some(&intervals[0])),
            ("till", 0, 0, None),
            ("til", 99, 99, None),
        ] {
            let found = view.interval_up_to(STREAM, source, number, &|from| from == left_out);
            assert_eq!(found.expect("reads").as_ref(), expect, "{context} {source} {number}");
        }
        for (number, expect) in [(20, Some(&intervals[1])), (21, None)] {
            let found = view.interval_at(STREAM, "till", number).expect("reads");
            assert_eq!(found.as_ref(), expect, "{context} {number}");
        }
        for (number, expect) in [(0, &[1][..]), (4, &[7, 1]), (6, &[7]), (26, &[])] {
            let found = view.blocks_with_number(STREAM, "till", number).expect("reads");
            assert_eq!(found, expect, "{context} {number}");
        }
        assert_eq!(view.external_texts(STREAM, "till", "x").expect("reads"), [2, 8], "{context}");
        assert_eq!(view.external_texts(STREAM, "other", "x").expect("reads"), [0_u64; 0], "{context}");
        assert_eq!(view.texts_up_to(STREAM, 5, 9).expect("reads"), texts[..2], "{context}");
        assert_eq!(view.texts_up_to(STREAM, 9, 1).expect("reads"), texts[..1], "{context}");
        assert_eq!(view.spans_up_to(STREAM, 6, 9).expect("reads"), spans[..1], "{context}");
        assert_eq!(view.intervals_of_stream(STREAM, 9).expect("reads"), intervals, "{context}");
    });
    store.put(vec![
        Op::DeleteExternalInterval(STREAM, "till".into(), 20),
        Op::DeleteExternalSpan(Box::new(spans[0].clone())),
        Op::DeleteExternalText(Box::new(texts[0].clone())),
    ]);
    store.throughout(|view, context| {
        assert_eq!(view.intervals_of_stream(STREAM, 9).expect("reads"), intervals[..1], "{context}");
        assert_eq!(view.blocks_with_number(STREAM, "till", 0).expect("reads"), [0_u64; 0], "{context}");
        assert_eq!(view.spans_up_to(STREAM, 9, 9).expect("reads"), spans[1..], "{context}");
        assert_eq!(view.external_texts(STREAM, "till", "x").expect("reads"), [8], "{context}");
        assert_eq!(view.texts_up_to(STREAM, 9, 9).expect("reads"), texts[1..], "{context}");
    });
}

/// Those of a stream in order of name, and those of all streams that are pushed.
pub fn subscriptions_are_found_by_stream_and_by_push(make: Make<'_>) {
    let mut store = StreamsUnderTest::new(make);
    let all = [subscription(1, "a", true), subscription(1, "b", false), subscription(2, "a", true)];
    store.put(all.iter().map(|one| Op::PutSubscription(Box::new(one.clone()))).collect());
    store.throughout(|view, context| {
        let of =
            |stream, after, limit| view.subscriptions_of(Incarnation(stream), after, limit).expect("reads");
        assert_eq!(of(1, None, 9), all[..2], "{context}");
        assert_eq!(of(1, Some("a"), 9), all[1..2], "{context}");
        assert_eq!(of(1, None, 1), all[..1], "{context}");
        assert_eq!(of(3, None, 9), [], "{context}");
        assert_eq!(view.subscription(STREAM, "b").expect("reads"), Some(all[1].clone()), "{context}");
        assert_eq!(view.subscriptions(2).expect("reads"), all[..2], "{context}");
        let pushed = view.pushed_subscriptions(9).expect("reads");
        assert_eq!(pushed, [all[0].clone(), all[2].clone()], "{context}");
    });
    let read_now = StreamSubscription { push: None, position: 9, ..all[0].clone() };
    let pushed_now = subscription(1, "b", true);
    store.put(vec![
        Op::PutSubscription(Box::new(read_now.clone())),
        Op::PutSubscription(Box::new(pushed_now.clone())),
        Op::DeleteSubscription(Incarnation(2), "a".into()),
    ]);
    store.throughout(|view, context| {
        let found = view.subscriptions(9).expect("reads");
        assert_eq!(found, [read_now.clone(), pushed_now.clone()], "{context}");
        let pushed = view.pushed_subscriptions(9).expect("reads");
        assert_eq!(pushed, std::slice::from_ref(&pushed_now), "{context}");
    });
}

/// Those of a stream in order of name, each as it was last put.
pub fn copies_are_found_by_stream(make: Make<'_>) {
    let mut store = StreamsUnderTest::new(make);
    let all = [copy(1, "a"), copy(1, "b"), copy(2, "a")];
    store.put(all.iter().map(|one| Op::PutStreamCopy(Box::new(one.clone()))).collect());
    store.throughout(|view, context| {
        let of = |stream, after, limit| view.copies_of(Incarnation(stream), after, limit).expect("reads");
        assert_eq!(of(1, None, 9), all[..2], "{context}");
        assert_eq!(of(1, Some("a"), 9), all[1..2], "{context}");
        assert_eq!(view.stream_copy(STREAM, "b").expect("reads"), Some(all[1].clone()), "{context}");
        assert_eq!(view.stream_copies(9).expect("reads"), all, "{context}");
    });
    let moved = StreamCopy { position: 9, live: None, ..all[0].clone() };
    store.put(vec![
        Op::PutStreamCopy(Box::new(moved.clone())),
        Op::DeleteStreamCopy(Incarnation(2), "a".into()),
    ]);
    store.throughout(|view, context| {
        let found = view.stream_copies(9).expect("reads");
        assert_eq!(found, [moved.clone(), all[1].clone()], "{context}");
    });
}
