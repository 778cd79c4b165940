//! When a stored block goes to another storage, and to which.
//!
//! The moves of a stream are a chain. A block goes to the last one whose time has come, and never
//! back to an earlier one. Blocks grow old in order, so what each move has done is one id.

use std::time::Duration;

use base::Timestamp;
use records::{LOCAL_STORAGE, StreamBlock, StreamMove};

/// When a move takes a block. With `frees_local` the first move takes blocks of the local storage
/// at once: its disk is nearly full.
#[must_use]
pub fn moves_at(moves: &[StreamMove], place: usize, block: &StreamBlock, frees_local: bool) -> Timestamp {
    match moves.get(place) {
        Some(_) if place == 0 && frees_local && is_before_all(moves, block) => Timestamp(0),
        Some(one) => block.last_at.after(Duration::from_millis(one.after_ms)),
        None => Timestamp::MAX,
    }
}

/// The storage to which a block goes now. `None` if it stays.
#[must_use]
pub fn goes_to<'a>(
    moves: &'a [StreamMove],
    block: &StreamBlock,
    now: Timestamp,
    frees_local: bool,
) -> Option<&'a str> {
    let due = (0..moves.len()).rev().find(|place| moves_at(moves, *place, block, frees_local) <= now)?;
    let is_as_far = moves.iter().skip(due).any(|one| one.to == block.storage);
    (!is_as_far).then(|| &*moves[due].to)
}

/// Whether no move has taken a block of the local storage yet.
fn is_before_all(moves: &[StreamMove], block: &StreamBlock) -> bool {
    *block.storage == *LOCAL_STORAGE && moves.iter().all(|one| *one.to != *LOCAL_STORAGE)
}

#[cfg(test)]
mod tests {
    use base::{Incarnation, Lineage};

    use super::*;

    fn block(storage: &str) -> StreamBlock {
        StreamBlock {
            stream: Incarnation(1),
            first: 1,
            last: 9,
            messages: 9,
            bytes: 9,
            stored_bytes: 90,
            checksum: 0,
            storage: storage.into(),
            brought_by: Lineage(0),
            created_at: Timestamp(0),
            last_at: Timestamp(1_000),
            segments: Vec::new(),
            any_segment: false,
        }
    }

    fn chain() -> Vec<StreamMove> {
        [(1_000, "cold"), (5_000, "bucket")]
            .map(|(after_ms, to)| StreamMove { after_ms, to: to.into() })
            .into()
    }

    #[test]
    fn a_block_goes_to_the_last_move_whose_time_has_come_and_never_back() {
        for (storage, now, expect) in [
            ("local", 1_999, None),
            ("local", 2_000, Some("cold")),
            ("local", 6_000, Some("bucket")),
            ("cold", 5_999, None),
            ("cold", 6_000, Some("bucket")),
            ("bucket", 2_000, None),
            ("bucket", 9_000, None),
            // A storage that no move names is left behind.
            ("old", 1_999, None),
            ("old", 2_000, Some("cold")),
        ] {
            assert_eq!(goes_to(&chain(), &block(storage), Timestamp(now), false), expect, "{storage} {now}");
        }
    }

    #[test]
    fn a_local_disk_that_is_nearly_full_has_its_blocks_go_at_once() {
        for (storage, expect) in [("local", Some("cold")), ("cold", None), ("old", None)] {
            assert_eq!(goes_to(&chain(), &block(storage), Timestamp(0), true), expect, "{storage}");
        }
        let home = [StreamMove { after_ms: 1_000, to: "local".into() }];
        assert_eq!(goes_to(&home, &block("local"), Timestamp(0), true), None);
        assert_eq!(goes_to(&home, &block("cold"), Timestamp(2_000), false), Some("local"));
    }

    #[test]
    fn each_move_has_its_time() {
        let at = |place| moves_at(&chain(), place, &block("local"), false);
        assert_eq!((at(0), at(1), at(2)), (Timestamp(2_000), Timestamp(6_000), Timestamp::MAX));
    }
}
