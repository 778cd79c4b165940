//! Which blocks go, and whether there is room for an append.
//!
//! Messages go by whole blocks, oldest first. A block goes for its age once its last message is too
//! old. So every message is kept at least as long as was asked for.

use std::time::Duration;

use base::Timestamp;
use records::{KeepBounds, StreamBlock, StreamSettings, WhenFull};

use crate::free_space::FreeSpace;

/// Whether an append fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRoom {
    /// It does.
    Enough,
    /// It does once so many of the oldest blocks are dropped, at least one.
    AfterDropping(usize),
    /// It is refused.
    Full,
}

/// What a stream takes, and what is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceRequest {
    /// Bytes of messages that are kept, saved or not.
    pub kept_bytes: u64,
    /// Bytes of the append.
    pub appended_bytes: u64,
    /// What the disk has left, or the memory of all streams.
    pub room: FreeSpace,
}

/// When a block goes for its age. `None` if it does not.
#[must_use]
pub fn expires_at(keep: &KeepBounds, block: &StreamBlock) -> Option<Timestamp> {
    Some(block.last_at.after(Duration::from_millis(keep.age_ms?)))
}

/// How many of the oldest blocks go for their age. `blocks` come oldest first; messages from
/// `uncopied_from` on have not been taken by every copy.
#[must_use]
pub fn expired<'a>(
    keep: &KeepBounds,
    blocks: impl IntoIterator<Item = &'a StreamBlock>,
    uncopied_from: Option<u64>,
    now: Timestamp,
) -> usize {
    let waits_from = uncopied_from.filter(|_| keep.until_copied);
    let goes = |block: &&StreamBlock| {
        let is_copied = waits_from.is_none_or(|from| block.last < from);
        is_copied && expires_at(keep, block).is_some_and(|at| at <= now)
    };
    blocks.into_iter().take_while(goes).count()
}

/// Whether an append fits. `blocks` come oldest first, and no more are looked at than are dropped.
/// A block that is open, or not stored yet, is never dropped: it is a small part of what is kept.
/// Where nothing can be dropped, what is left of the disk is used before an append is refused.
#[must_use]
pub fn room<'a>(
    settings: &StreamSettings,
    asked: SpaceRequest,
    blocks: impl IntoIterator<Item = &'a StreamBlock>,
) -> StreamRoom {
    let needed = asked.kept_bytes.saturating_add(asked.appended_bytes);
    let over = settings.keep.bytes.map_or(0, |bytes| needed.saturating_sub(bytes));
    let to_free = match asked.room {
        FreeSpace::Enough => over,
        FreeSpace::Low | FreeSpace::Exhausted => over.max(asked.appended_bytes).max(1),
    };
    if to_free == 0 {
        return StreamRoom::Enough;
    }
    if settings.when_full == WhenFull::Reject {
        return StreamRoom::Full;
    }
    let mut freed = 0_u64;
    let is_needed = |block: &&StreamBlock| {
        let is_needed = freed < to_free;
        freed = freed.saturating_add(block.bytes);
        is_needed
    };
    match blocks.into_iter().take_while(is_needed).count() {
        0 if asked.room == FreeSpace::Exhausted => StreamRoom::Full,
        0 => StreamRoom::Enough,
        dropped => StreamRoom::AfterDropping(dropped),
    }
}

#[cfg(test)]
mod tests;
