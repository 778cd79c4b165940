//! How far a stream has come: what appends, stored blocks and dropped blocks change of its tail.

use base::Timestamp;
use records::{LOCAL_STORAGE, StoredElsewhere, StreamBlock, StreamTail};

/// Ids that are reserved ahead where callers are answered before their messages are saved.
pub const IDS_RESERVED_AHEAD: u64 = 10_000;

/// The id of the first message that is appended after a load. Ids that may have been given to
/// callers whose messages were lost are left out.
#[must_use]
pub fn next_after_load(tail: &StreamTail) -> u64 {
    tail.next.max(tail.reserved)
}

/// Reserves ids ahead, if fewer than half of those are left behind `next`, the id that comes next.
/// Whether the row has to be written: it is durable before callers are told of an id whose message
/// is not saved.
pub fn reserve(tail: &mut StreamTail, next: u64) -> bool {
    let is_short = next.saturating_add(IDS_RESERVED_AHEAD / 2) > tail.reserved;
    if is_short {
        tail.reserved = next.saturating_add(IDS_RESERVED_AHEAD);
    }
    is_short
}

/// Messages that are saved with one batch, all that were not saved before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedMessages {
    /// The id of the first.
    pub first: u64,
    /// The id of the last.
    pub last: u64,
    /// How many there are; fewer than ids where a crash left some out.
    pub messages: u64,
    /// Bytes of these, encoded.
    pub bytes: u64,
    /// When the last was received.
    pub last_at: Timestamp,
}

/// Messages are saved.
pub fn save(tail: &mut StreamTail, saved: &SavedMessages) {
    if tail.messages == 0 {
        tail.first = saved.first;
    }
    tail.next = saved.last + 1;
    tail.reserved = tail.reserved.max(tail.next);
    tail.last_at = tail.last_at.max(saved.last_at);
    tail.messages += saved.messages;
    tail.bytes += saved.bytes;
}

/// A block is stored: its messages are counted already.
pub fn store(tail: &mut StreamTail, block: &StreamBlock) {
    tail.blocks = tail.blocks.saturating_add(1);
    tail.block_messages += u64::from(block.messages);
    tail.block_bytes += block.bytes;
    tail.stored_bytes += block.stored_bytes;
}

/// The oldest block goes. `first_left` is the id of the message behind it; `None` if it was the
/// last.
pub fn drop_block(tail: &mut StreamTail, block: &StreamBlock, first_left: Option<u64>) {
    let messages = u64::from(block.messages);
    tail.first = first_left.unwrap_or(tail.next);
    tail.messages = tail.messages.saturating_sub(messages);
    tail.bytes = tail.bytes.saturating_sub(block.bytes);
    tail.blocks = tail.blocks.saturating_sub(1);
    tail.block_messages = tail.block_messages.saturating_sub(messages);
    tail.block_bytes = tail.block_bytes.saturating_sub(block.bytes);
    tail.stored_bytes = tail.stored_bytes.saturating_sub(block.stored_bytes);
    tail.dropped += messages;
    leaves(tail, &block.storage, block.stored_bytes);
}

/// A stored block goes from the storage that it names to another one.
pub fn move_block(tail: &mut StreamTail, block: &StreamBlock, to: &str) {
    leaves(tail, &block.storage, block.stored_bytes);
    if *to == *LOCAL_STORAGE {
        return;
    }
    match tail.elsewhere.iter_mut().find(|one| *one.storage == *to) {
        Some(stored) => {
            stored.blocks = stored.blocks.saturating_add(1);
            stored.bytes += block.stored_bytes;
        }
        None => {
            let stored = StoredElsewhere { storage: to.into(), blocks: 1, bytes: block.stored_bytes };
            tail.elsewhere.push(stored);
            tail.elsewhere.sort_unstable_by(|a, b| a.storage.cmp(&b.storage));
        }
    }
}

/// A block is in a storage no more. What is in the local one follows from the others.
fn leaves(tail: &mut StreamTail, storage: &str, bytes: u64) {
    for stored in tail.elsewhere.iter_mut().filter(|one| *one.storage == *storage) {
        stored.blocks = stored.blocks.saturating_sub(1);
        stored.bytes = stored.bytes.saturating_sub(bytes);
    }
    tail.elsewhere.retain(|stored| stored.blocks > 0);
}

/// What a stream has in each storage, the local one first: name, blocks, bytes of their files.
#[must_use]
pub fn by_storage(tail: &StreamTail) -> Vec<(Box<str>, u64, u64)> {
    let (mut blocks, mut bytes) = (u64::from(tail.blocks), tail.stored_bytes);
    for stored in &tail.elsewhere {
        blocks = blocks.saturating_sub(stored.blocks.into());
        bytes = bytes.saturating_sub(stored.bytes);
    }
    let elsewhere = tail.elsewhere.iter().map(|one| (one.storage.clone(), one.blocks.into(), one.bytes));
    [(LOCAL_STORAGE.into(), blocks, bytes)].into_iter().chain(elsewhere).collect()
}

/// All messages are saved, none is appended any more, and `next` is the id that comes next. So no
/// id is left out after the next load. Whether the row has to be written.
pub fn close(tail: &mut StreamTail, next: u64) -> bool {
    let changes = tail.reserved != next;
    tail.reserved = next;
    changes
}

/// How many messages behind `after` are gone. Exact where no crash left ids out; else ids that were
/// never used may count, but no more than messages are gone.
#[must_use]
pub fn skipped(tail: &StreamTail, after: u64) -> u64 {
    tail.first.saturating_sub(1).saturating_sub(after).min(tail.dropped)
}

#[cfg(test)]
mod tests;
