//! Tails, beside a model that knows every message there ever was.

use base::Incarnation;
use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

const STREAM: Incarnation = Incarnation(1);

fn saved(first: u64, messages: u64) -> SavedMessages {
    let (last, bytes) = (first + messages - 1, messages * 10);
    SavedMessages { first, last, messages, bytes, last_at: Timestamp(5) }
}

fn block(first: u64, last: u64, messages: u32, bytes: u64) -> StreamBlock {
    StreamBlock {
        stream: STREAM,
        first,
        last,
        messages,
        bytes,
        stored_bytes: bytes,
        checksum: 0,
        storage: "local".into(),
        brought_by: base::Lineage(0),
        created_at: Timestamp(5),
        last_at: Timestamp(5),
        segments: Vec::new(),
        any_segment: false,
    }
}

#[test]
fn ids_are_reserved_before_half_of_them_are_given() {
    let mut tail = StreamTail::begin(STREAM);
    assert!(reserve(&mut tail, 2) && tail.reserved == 10_002);
    assert!(!reserve(&mut tail, 5_002) && tail.reserved == 10_002);
    assert!(reserve(&mut tail, 5_003) && tail.reserved == 15_003);
}

#[test]
fn a_stop_without_a_crash_leaves_no_id_out() {
    let mut tail = StreamTail::begin(STREAM);
    reserve(&mut tail, 4);
    save(&mut tail, &saved(1, 3));
    assert_eq!(next_after_load(&tail), 10_004);
    assert!(close(&mut tail, 4) && !close(&mut tail, 4));
    assert_eq!((next_after_load(&tail), tail.first, tail.last_at), (4, 1, Timestamp(5)));
}

#[derive(Clone, Debug)]
enum Do {
    /// So many messages; whether their callers are answered at once.
    Append(u64, bool),
    Save,
    Store,
    Drop,
    Crash,
    Restart,
}

fn doing() -> impl Strategy<Value = (Do, bool)> {
    let doing = prop_oneof![
        8 => (1..4_000_u64, any::<bool>()).prop_map(|(count, at_once)| Do::Append(count, at_once)),
        4 => Just(Do::Save),
        2 => Just(Do::Store),
        1 => Just(Do::Drop),
        1 => Just(Do::Crash),
        1 => Just(Do::Restart),
    ];
    // Whether the process lives until the step's batch is durable.
    (doing, proptest::bool::weighted(0.95))
}

/// The rows, the memory of the process, and all that callers were told.
struct World {
    row: StreamTail,
    tail: StreamTail,
    next: u64,
    unsaved: Vec<u64>,
    /// Saved, and in no block.
    saved: Vec<u64>,
    blocks: VecDeque<Vec<u64>>,
    gone: Vec<u64>,
    answered: BTreeSet<u64>,
    has_lost: bool,
}

impl World {
    fn new() -> Self {
        let row = StreamTail::begin(STREAM);
        Self {
            row: row.clone(),
            tail: row,
            next: 1,
            unsaved: Vec::new(),
            saved: Vec::new(),
            blocks: VecDeque::new(),
            gone: Vec::new(),
            answered: BTreeSet::new(),
            has_lost: false,
        }
    }

    fn act(&mut self, doing: &Do, lives: bool) -> Result<(), TestCaseError> {
        match doing {
            Do::Append(count, at_once) => return self.append(*count, *at_once, lives),
            Do::Crash => self.crash(),
            Do::Restart => {
                self.save();
                close(&mut self.tail, self.next);
                self.row = self.tail.clone();
                self.load();
            }
            _ if !lives => self.crash(),
            Do::Save => self.save(),
            Do::Store => self.store(),
            Do::Drop => self.drop_oldest(),
        }
        Ok(())
    }

    fn append(&mut self, count: u64, at_once: bool, lives: bool) -> Result<(), TestCaseError> {
        let appended = self.next..self.next + count;
        prop_assert!(self.answered.range(appended.clone()).next().is_none(), "no id is given twice");
        self.next += count;
        self.unsaved.extend(appended.clone());
        if !at_once {
            return Ok(());
        }
        let is_written = reserve(&mut self.tail, self.next);
        if is_written && !lives {
            self.crash();
            return Ok(());
        }
        if is_written {
            self.row = self.tail.clone();
        }
        prop_assert!(appended.end <= self.row.reserved, "callers are told of reserved ids");
        self.answered.extend(appended);
        Ok(())
    }

    fn save(&mut self) {
        let Some(first) = self.unsaved.first() else { return };
        save(&mut self.tail, &saved(*first, self.unsaved.len() as u64));
        self.row = self.tail.clone();
        self.answered.extend(&self.unsaved);
        self.saved.append(&mut self.unsaved);
    }

    fn store(&mut self) {
        if !self.saved.is_empty() {
            let ids = std::mem::take(&mut self.saved);
            store(&mut self.tail, &row_of(&ids));
            self.blocks.push_back(ids);
            self.row = self.tail.clone();
        }
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.blocks.pop_front() else { return };
        let first_left = self.blocks.front().or(Some(&self.saved)).and_then(|left| left.first());
        drop_block(&mut self.tail, &row_of(&oldest), first_left.copied());
        self.row = self.tail.clone();
        self.gone.extend(oldest);
    }

    fn crash(&mut self) {
        self.has_lost |= !self.unsaved.is_empty() || self.row.reserved > self.row.next;
        self.load();
    }

    fn load(&mut self) {
        self.unsaved.clear();
        self.tail = self.row.clone();
        self.next = next_after_load(&self.tail);
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let kept: Vec<u64> = self.blocks.iter().flatten().chain(&self.saved).copied().collect();
        let tail = &self.tail;
        prop_assert_eq!((tail.messages, tail.bytes), (kept.len() as u64, kept.len() as u64 * 10));
        prop_assert_eq!((tail.blocks as usize, tail.dropped), (self.blocks.len(), self.gone.len() as u64));
        let stored = self.blocks.iter().map(Vec::len).sum::<usize>() as u64;
        prop_assert_eq!((tail.block_messages, tail.block_bytes), (stored, stored * 10));
        prop_assert_eq!(kept.first().copied().unwrap_or(tail.next), tail.first);
        prop_assert!(kept.last().is_none_or(|last| last + 1 == tail.next) && tail.next <= tail.reserved);
        for after in [0, tail.first / 2, tail.first - 1, tail.first] {
            let exact = self.gone.iter().filter(|id| **id > after).count() as u64;
            let found = skipped(tail, after);
            prop_assert!(found == exact || (self.has_lost && found > exact && found <= tail.dropped));
        }
        Ok(())
    }
}

/// The row of a block with these messages.
fn row_of(ids: &[u64]) -> StreamBlock {
    block(ids[0], ids[ids.len() - 1], ids.len() as u32, ids.len() as u64 * 10)
}

proptest! {
    #[test]
    fn no_id_is_given_twice_and_counts_are_right(doings in proptest::collection::vec(doing(), 1..60)) {
        let mut world = World::new();
        for (doing, lives) in doings {
            world.act(&doing, lives)?;
            world.check()?;
        }
    }
}

#[test]
fn blocks_are_counted_where_they_lie() {
    let mut tail = StreamTail::begin(STREAM);
    let blocks = [block(1, 2, 2, 10), block(3, 4, 2, 20), block(5, 6, 2, 40)];
    save(&mut tail, &saved(1, 6));
    blocks.iter().for_each(|block| store(&mut tail, block));
    move_block(&mut tail, &blocks[0], "cold");
    move_block(&mut tail, &blocks[1], "cold");
    let in_cold = StreamBlock { storage: "cold".into(), ..blocks[1].clone() };
    move_block(&mut tail, &in_cold, "bucket");
    let found = by_storage(&tail);
    let found: Vec<_> = found.iter().map(|(name, blocks, bytes)| (&**name, *blocks, *bytes)).collect();
    assert_eq!(found, [("local", 1, 40), ("bucket", 1, 20), ("cold", 1, 10)]);
    drop_block(&mut tail, &StreamBlock { storage: "cold".into(), ..blocks[0].clone() }, Some(3));
    move_block(&mut tail, &StreamBlock { storage: "bucket".into(), ..blocks[1].clone() }, "local");
    assert_eq!(by_storage(&tail), [("local".into(), 2, 60)]);
}
