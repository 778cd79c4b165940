//! What messages are called that a stream was given without a source.
//!
//! A copy must call them something that no other message is ever called. That holds even after a
//! stream is made again under its name, or a backup is restored. It also holds after a device is
//! set up anew under its old name. So the source has three parts. The node's name is followed by a
//! number drawn from the data directory's lineage, which is random and which a restore renews. A
//! data directory that was copied has the lineage of the first. So a number goes in beside it,
//! which is drawn anew wherever the directory finds itself in another place. Then comes the
//! stream's incarnation, which is never used twice within a lineage. The external id is the
//! message's own id.
//!
//! A stream remembers its origins, each with its first id. A message that comes back by a loop
//! under one of them is the one with that id. What a restored stream has not got, it takes as new:
//! its former origin ends where its messages do.

use base::{Incarnation, Lineage, hash};
use records::StreamOrigin;

use crate::message::EXTERNAL_NUMBER_MAX;

/// Longest source: what any source may have.
const SOURCE_CHARS_MAX: usize = base::limits::STREAM_LABEL_CHARS_MAX;
/// Of these the number, and the dot before it.
const NUMBER_CHARS: usize = 17;
/// Origins that a stream remembers; each restore of a backup begins one.
const ORIGINS_MAX: usize = 256;

/// The source of a stream's messages on this node. What does not fit of the node's name is left
/// out: the number alone tells streams apart.
#[must_use]
pub fn own_source(node: &str, lineage: Lineage, stream: Incarnation) -> Box<str> {
    let number = hash::derived(lineage.0, &stream.0.to_le_bytes());
    let name = node.get(..node.len().min(SOURCE_CHARS_MAX - NUMBER_CHARS)).unwrap_or_default();
    format!("{name}.{number:016x}").into()
}

/// Begins an origin at the stream's next durable message, unless it is the newest already. Whether
/// it did. One that has no message is replaced; of very many the oldest is forgotten.
pub fn begin_origin(origins: &mut Vec<StreamOrigin>, source: &str, next: u64) -> bool {
    if origins.last().is_some_and(|newest| *newest.source == *source) {
        return false;
    }
    origins.pop_if(|newest| newest.from >= next);
    if origins.last().is_some_and(|newest| *newest.source == *source) {
        return true;
    }
    if origins.len() >= ORIGINS_MAX {
        origins.remove(0);
    }
    origins.push(StreamOrigin { source: source.into(), from: next });
    true
}

/// What the message with an id is called, if it was given no source.
#[must_use]
pub fn origin_of(origins: &[StreamOrigin], id: u64) -> Option<&str> {
    let at = origins.partition_point(|origin| origin.from <= id);
    origins.get(at.checked_sub(1)?).map(|origin| &*origin.source)
}

/// The message of the stream that is called so: one of its own, whose id is below `next`.
#[must_use]
pub fn own_id(origins: &[StreamOrigin], next: u64, source: &str, number: u64) -> Option<u64> {
    if number == 0 || number > EXTERNAL_NUMBER_MAX {
        return None;
    }
    // A node may be called what it was called before: the same source then stands for two spans.
    let is_its = |(at, origin): (usize, &StreamOrigin)| {
        let until = origins.get(at + 1).map_or(next, |following| following.from.min(next));
        *origin.source == *source && (origin.from..until).contains(&number)
    };
    origins.iter().enumerate().any(is_its).then_some(number)
}

/// Whether a message of the stream will be called so, one that is not there yet: its newest origin
/// goes on from `next`.
#[must_use]
pub fn is_ahead(origins: &[StreamOrigin], next: u64, source: &str, number: u64) -> bool {
    number >= next && origins.last().is_some_and(|newest| *newest.source == *source)
}

#[cfg(test)]
mod tests {
    use base::random::Random;

    use super::*;

    fn origins(of: &[(&str, u64)]) -> Vec<StreamOrigin> {
        of.iter().map(|(source, from)| StreamOrigin { source: (*source).into(), from: *from }).collect()
    }

    #[test]
    fn a_source_differs_by_lineage_and_by_incarnation() {
        let of = |lineage, stream| own_source("till-4", Lineage(lineage), Incarnation(stream));
        assert_eq!(of(1, 1), of(1, 1));
        let all: std::collections::BTreeSet<_> =
            (0..50).flat_map(|a| (0..50).map(move |b| of(a, b))).collect();
        assert_eq!(all.len(), 2_500);
        assert!(all.iter().all(|source| source.starts_with("till-4.") && source.len() == 7 + 16));
        let longest = own_source(&"n".repeat(64), Lineage(7), Incarnation(7));
        assert_eq!(longest.len(), 64, "{longest}");
    }

    #[test]
    fn a_restored_stream_takes_as_new_what_it_has_not_got() {
        let mut known = origins(&[("a", 1)]);
        // The backup had 100 messages; the node had given 150 before it was restored.
        assert!(begin_origin(&mut known, "b", 101));
        assert!(!begin_origin(&mut known, "b", 130));
        for (source, number, next, expect) in [
            ("a", 100, 101, Some(100)),
            ("a", 101, 101, None),
            ("a", 140, 180, None),
            ("b", 101, 101, None),
            ("b", 101, 102, Some(101)),
            ("b", 100, 180, None),
            ("c", 50, 180, None),
            ("a", 0, 180, None),
        ] {
            assert_eq!(own_id(&known, next, source, number), expect, "{source} {number} {next}");
        }
        assert_eq!(
            [1, 100, 101, 500].map(|id| origin_of(&known, id)),
            [Some("a"), Some("a"), Some("b"), Some("b")]
        );
        assert_eq!(origin_of(&[], 5), None);
        let ahead = [("b", 179), ("b", 180), ("b", 900), ("a", 180), ("c", 180)];
        let ahead = ahead.map(|(source, number)| is_ahead(&known, 180, source, number));
        assert_eq!(ahead, [false, true, true, false, false]);
    }

    #[test]
    fn an_origin_without_messages_leaves_no_trace() {
        let mut known = origins(&[("a", 1)]);
        for source in ["b", "c", "d"] {
            assert!(begin_origin(&mut known, source, 5));
        }
        assert_eq!(known, origins(&[("a", 1), ("d", 5)]));
        assert!(begin_origin(&mut known, "a", 5), "it is what it was before");
        assert_eq!(known, origins(&[("a", 1)]));
    }

    /// Lives of a node that is named anew, restored and set back, beside a list of all that it
    /// called its messages.
    #[test]
    fn no_two_messages_are_called_the_same() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let (mut known, mut next, mut lineage, mut backup) = (Vec::new(), 1_u64, 1, (Vec::new(), 1));
            let mut called = std::collections::BTreeMap::<(Box<str>, u64), u64>::new();
            let mut message = 0_u64;
            for _ in 0..100 {
                match random.below(8) {
                    0 => backup = (known.clone(), next),
                    1 => {
                        (known, next) = backup.clone();
                        lineage += 1;
                    }
                    _ => {
                        let source = own_source("n", Lineage(lineage), Incarnation(1));
                        begin_origin(&mut known, &source, next);
                        message += 1;
                        let by = origin_of(&known, next).expect("an origin");
                        assert_eq!(called.insert((by.into(), next), message), None, "seed {seed}");
                        next += 1;
                    }
                }
                let own =
                    called.iter().filter(|((source, id), _)| own_id(&known, next, source, *id).is_some());
                assert_eq!(own.count() as u64, next - 1, "seed {seed}: its own, and no others");
            }
        }
    }
}
