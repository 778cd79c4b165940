//! Retention, beside a list of messages.

use base::Incarnation;
use proptest::prelude::*;

use super::*;

/// A block of these messages: id and time of receipt.
fn block(messages: &[(u64, i64)], bytes: u64) -> StreamBlock {
    let (first, last) = (messages[0], messages[messages.len() - 1]);
    StreamBlock {
        stream: Incarnation(1),
        first: first.0,
        last: last.0,
        messages: messages.len() as u32,
        bytes,
        stored_bytes: bytes,
        checksum: 0,
        storage: "local".into(),
        brought_by: base::Lineage(0),
        created_at: Timestamp(first.1),
        last_at: Timestamp(last.1),
        segments: Vec::new(),
        any_segment: false,
    }
}

fn blocks(sizes: &[u64]) -> Vec<StreamBlock> {
    (1..).zip(sizes).map(|(id, bytes)| block(&[(id, 0)], *bytes)).collect()
}

fn settings(bytes: Option<u64>, when_full: WhenFull) -> StreamSettings {
    let mut settings = StreamSettings { when_full, ..StreamSettings::default() };
    settings.keep.bytes = bytes;
    settings
}

#[test]
fn an_append_that_does_not_fit_drops_the_oldest_or_is_refused() {
    let blocks = blocks(&[100, 100, 100]);
    for (bytes, kept_bytes, appended_bytes, room_left, expect) in [
        (None, u64::MAX, 50, FreeSpace::Enough, StreamRoom::Enough),
        (Some(400), 350, 50, FreeSpace::Enough, StreamRoom::Enough),
        (Some(400), 350, 51, FreeSpace::Enough, StreamRoom::AfterDropping(1)),
        (Some(400), 350, 150, FreeSpace::Enough, StreamRoom::AfterDropping(1)),
        (Some(400), 350, 151, FreeSpace::Enough, StreamRoom::AfterDropping(2)),
        (Some(400), 350, 9_999, FreeSpace::Enough, StreamRoom::AfterDropping(3)),
        (None, 350, 0, FreeSpace::Low, StreamRoom::AfterDropping(1)),
        (None, 350, 150, FreeSpace::Low, StreamRoom::AfterDropping(2)),
        (Some(400), 500, 10, FreeSpace::Exhausted, StreamRoom::AfterDropping(2)),
    ] {
        let asked = SpaceRequest { kept_bytes, appended_bytes, room: room_left };
        let found = room(&settings(bytes, WhenFull::DropOldest), asked, &blocks);
        assert_eq!(found, expect, "{bytes:?} {asked:?}");
        let refused = if expect == StreamRoom::Enough { StreamRoom::Enough } else { StreamRoom::Full };
        assert_eq!(room(&settings(bytes, WhenFull::Reject), asked, &blocks), refused, "{bytes:?} {asked:?}");
    }
}

#[test]
fn where_nothing_can_be_dropped_only_a_disk_without_any_room_refuses() {
    let drops = settings(Some(400), WhenFull::DropOldest);
    for (left, expect) in [
        (FreeSpace::Enough, StreamRoom::Enough),
        (FreeSpace::Low, StreamRoom::Enough),
        (FreeSpace::Exhausted, StreamRoom::Full),
    ] {
        let asked = SpaceRequest { kept_bytes: 350, appended_bytes: 100, room: left };
        assert_eq!(room(&drops, asked, &[]), expect, "{left:?}");
    }
    let asked = SpaceRequest { kept_bytes: 0, appended_bytes: 1, room: FreeSpace::Low };
    assert_eq!(room(&settings(None, WhenFull::Reject), asked, &[]), StreamRoom::Full);
}

#[test]
fn no_more_blocks_are_looked_at_than_are_dropped_and_one() {
    let blocks = blocks(&[100; 50]);
    let mut looked_at = 0;
    let counted = blocks.iter().inspect(|_| looked_at += 1);
    let asked = SpaceRequest { kept_bytes: 5_000, appended_bytes: 150, room: FreeSpace::Enough };
    let found = room(&settings(Some(5_000), WhenFull::DropOldest), asked, counted);
    assert_eq!((found, looked_at), (StreamRoom::AfterDropping(2), 3));
}

#[test]
fn without_an_age_nothing_expires() {
    let keep = KeepBounds { age_ms: None, bytes: None, until_copied: true };
    let blocks = blocks(&[1]);
    assert_eq!(expired(&keep, &blocks, None, Timestamp::MAX), 0);
    assert_eq!(expires_at(&keep, &blocks[0]), None);
}

proptest! {
    #[test]
    fn what_is_young_or_not_copied_stays(
        sizes in proptest::collection::vec((1..6_usize, 0..50_i64), 0..12),
        (age_ms, now) in (1..400_u64, 0..900_i64),
        uncopied_from in proptest::option::of(0..60_u64),
        until_copied: bool,
    ) {
        let (mut blocks, mut messages) = (Vec::new(), Vec::new());
        let (mut id, mut at) = (0, 0);
        for (count, after_ms) in sizes {
            let of_block: Vec<_> = (0..count)
                .map(|_| {
                    (id, at) = (id + 1, at + after_ms);
                    (id, at)
                })
                .collect();
            blocks.push(block(&of_block, 1));
            messages.push(of_block);
        }
        let keep = KeepBounds { age_ms: Some(age_ms), bytes: None, until_copied };
        let gone = expired(&keep, &blocks, uncopied_from, Timestamp(now));
        let stays = |(id, at): &(u64, i64)| {
            let is_young = now < at + age_ms.cast_signed();
            is_young || (until_copied && uncopied_from.is_some_and(|from| *id >= from))
        };
        prop_assert!(!messages[..gone].iter().flatten().any(stays), "each that goes is old and copied");
        let next = messages.get(gone);
        prop_assert!(next.is_none_or(|block| block.iter().any(stays)), "no block stays in vain");
        if let Some(block) = blocks.get(gone).filter(|_| uncopied_from.is_none()) {
            let goes_at = expires_at(&keep, block).expect("there is an age");
            prop_assert!(goes_at > Timestamp(now));
            prop_assert!(expired(&keep, &blocks, None, goes_at) > gone, "that is when the next one goes");
        }
    }

    #[test]
    fn what_is_dropped_is_no_more_than_needed(
        sizes in proptest::collection::vec(1..200_u64, 0..12),
        (bound, appended_bytes) in (1..2_000_u64, 0..900_u64),
        left in 0..3_usize,
    ) {
        let blocks = blocks(&sizes);
        let kept_bytes = sizes.iter().sum::<u64>() + 70;
        let left = [FreeSpace::Enough, FreeSpace::Low, FreeSpace::Exhausted][left];
        let asked = SpaceRequest { kept_bytes, appended_bytes, room: left };
        let found = room(&settings(Some(bound), WhenFull::DropOldest), asked, &blocks);
        let fits = |dropped: usize| {
            let freed: u64 = sizes[..dropped].iter().sum();
            let has_bytes = kept_bytes + appended_bytes <= bound + freed;
            has_bytes && (left == FreeSpace::Enough || (freed >= appended_bytes && freed > 0))
        };
        let naive = (0..=sizes.len()).find(|dropped| fits(*dropped)).unwrap_or(sizes.len());
        let expect = match naive {
            0 if left == FreeSpace::Exhausted => StreamRoom::Full,
            0 => StreamRoom::Enough,
            dropped => StreamRoom::AfterDropping(dropped),
        };
        prop_assert_eq!(found, expect);
    }
}
