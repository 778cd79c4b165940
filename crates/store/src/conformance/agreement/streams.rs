//! Compares what two stores show of streams.

use base::random::Random;

use super::read;
use crate::conformance::traffic::Traffic;
use crate::port::View;

pub(super) fn agree(
    view: &dyn View,
    model: &dyn View,
    traffic: &Traffic,
    random: &mut Random,
    context: &str,
) {
    let limit = random.below(8) as usize;
    for (namespace, after) in [(None, None), (Some("ns1"), None), (Some("ns1"), Some(("ns1", "s3")))] {
        let some = |view: &dyn View| read(view.streams(namespace, after, limit));
        assert_eq!(some(view), some(model), "{context} {namespace:?} {after:?}");
    }
    let lists = |view: &dyn View| (read(view.streams_due(limit)), read(view.count_streams()));
    assert_eq!(lists(view), lists(model), "{context}");
    let subscribed =
        |view: &dyn View| (read(view.subscriptions(limit)), read(view.pushed_subscriptions(limit)));
    assert_eq!(subscribed(view), subscribed(model), "{context}");
    for (stream, next) in traffic.streams() {
        let (of, at) = (stream.incarnation, random.below(next + 2));
        let itself = |view: &dyn View| {
            let by_name = read(view.stream_of(&stream.namespace, &stream.name));
            (by_name, read(view.stream(of)), read(view.stream_tail(of)))
        };
        assert_eq!(itself(view), itself(model), "{context} {of:?}");
        let after = [None, Some("r1")][random.below(2) as usize];
        let readers = |view: &dyn View| {
            (read(view.subscriptions_of(of, after, limit)), read(view.subscription(of, "r2")))
        };
        assert_eq!(readers(view), readers(model), "{context} {of:?} {after:?}");
        let (bytes_max, span) = (random.below(10_000) as usize, random.below(50));
        let held = |view: &dyn View| {
            (read(view.stream_chunks(of, at..at + span, bytes_max)), read(view.stream_blocks(of, at, limit)))
        };
        assert_eq!(held(view), held(model), "{context} {of:?} {at}");
        let up_to = |view: &dyn View| {
            let spans = read(view.spans_up_to(of, at, limit));
            (spans, read(view.texts_up_to(of, at, limit)), read(view.intervals_of_stream(of, limit)))
        };
        assert_eq!(up_to(view), up_to(model), "{context} {of:?} {at}");
        for source in Traffic::sources() {
            let (number, text) = (random.below(60), format!("order-{}", random.below(20)));
            let given = |view: &dyn View| {
                let is_even = |from: u64| from.is_multiple_of(2);
                let up_to = read(view.interval_up_to(of, source, number, &is_even));
                let intervals = (up_to, read(view.interval_at(of, source, number)));
                let blocks = read(view.blocks_with_number(of, source, number));
                (intervals, blocks, read(view.external_texts(of, source, &text)))
            };
            assert_eq!(given(view), given(model), "{context} {of:?} {source} {number}");
        }
    }
}
