//! When the open block of a stream is closed.

use std::time::Duration;

use base::Timestamp;
use records::{BlockBounds, StreamChunk};

/// The block that takes what is appended. It has at least one message, or is about to have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenBlock {
    /// The first message's id.
    pub first: u64,
    /// When the first message was received.
    pub opened_at: Timestamp,
    /// Messages so far.
    pub messages: u32,
    /// Bytes of these, encoded.
    pub bytes: u64,
}

/// The bound that closes a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReachedBound {
    /// It has as many bytes as it may have.
    Bytes,
    /// It has as many messages as it may have.
    Messages,
    /// Its first message is as old as it may be.
    Age,
}

impl OpenBlock {
    /// An empty block, for a message with this id that was received then.
    #[must_use]
    pub fn new(first: u64, opened_at: Timestamp) -> Self {
        Self { first, opened_at, messages: 0, bytes: 0 }
    }

    /// Adds messages.
    pub fn add(&mut self, messages: u32, bytes: u64) {
        self.messages = self.messages.saturating_add(messages);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The bound that closes the block; `None` while it stays open. Asked behind each message, it
    /// keeps the bound on messages exactly, and the one on bytes but for the last message.
    #[must_use]
    pub fn closes(&self, bounds: &BlockBounds, now: Timestamp) -> Option<ReachedBound> {
        if self.bytes >= bounds.bytes {
            Some(ReachedBound::Bytes)
        } else if self.messages >= bounds.messages {
            Some(ReachedBound::Messages)
        } else if now >= self.closes_at(bounds) {
            Some(ReachedBound::Age)
        } else {
            None
        }
    }

    /// When it is closed for its age.
    #[must_use]
    pub fn closes_at(&self, bounds: &BlockBounds) -> Timestamp {
        self.opened_at.after(Duration::from_millis(bounds.age_ms))
    }
}

/// The blocks that chunks of a stream make, oldest first; the last is open. After a load this finds
/// the blocks that were closed and not stored: a chunk never goes on in the next block.
#[must_use]
pub fn blocks_of<'a>(
    chunks: impl IntoIterator<Item = &'a StreamChunk>,
    bounds: &BlockBounds,
) -> Vec<OpenBlock> {
    let mut blocks: Vec<OpenBlock> = Vec::new();
    for chunk in chunks {
        let goes_on = blocks.last().is_some_and(|block| block.closes(bounds, chunk.at).is_none());
        if !goes_on {
            blocks.push(OpenBlock::new(chunk.first, chunk.at));
        }
        if let Some(block) = blocks.last_mut() {
            block.add(chunk.messages, chunk.bytes.len() as u64);
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::Incarnation;
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: BlockBounds = BlockBounds { bytes: 1_000, age_ms: 500, messages: 10 };

    #[test]
    fn the_first_bound_that_is_reached_closes_a_block() {
        let block = OpenBlock::new(1, Timestamp(7_000));
        for (messages, bytes, now, expect) in [
            (1, 999, 7_499, None),
            (1, 1_000, 7_000, Some(ReachedBound::Bytes)),
            (9, 10, 7_000, None),
            (10, 10, 7_000, Some(ReachedBound::Messages)),
            (1, 10, 7_500, Some(ReachedBound::Age)),
            (1, 10, 6_000, None),
        ] {
            let block = OpenBlock { messages, bytes, ..block };
            assert_eq!(block.closes(&BOUNDS, Timestamp(now)), expect, "{messages}, {bytes}, {now}");
        }
        assert_eq!(block.closes_at(&BOUNDS), Timestamp(7_500));
    }

    proptest! {
        /// Messages are appended one by one, as the engine does it, and chunks are cut by steps.
        #[test]
        fn blocks_keep_their_bounds_and_are_found_again(
            appended in proptest::collection::vec((1..400_usize, 0..200_i64, any::<bool>()), 1..80),
        ) {
            let mut at = 0;
            let (mut chunks, mut naive): (Vec<StreamChunk>, Vec<OpenBlock>) = (Vec::new(), Vec::new());
            let mut is_cut = true;
            for (first, (bytes, after_ms, ends_step)) in (1_u64..).zip(appended) {
                at += after_ms;
                let stays_open = |block: &OpenBlock| block.closes(&BOUNDS, Timestamp(at)).is_none();
                let is_open = naive.last().is_some_and(stays_open);
                if !is_open {
                    naive.push(OpenBlock::new(first, Timestamp(at)));
                }
                if is_cut || !is_open {
                    let (stream, at) = (Incarnation(1), Timestamp(at));
                    chunks.push(StreamChunk { stream, first, messages: 0, at, bytes: Arc::default() });
                }
                let (block, chunk) = (naive.last_mut().expect("open"), chunks.last_mut().expect("cut"));
                block.add(1, bytes as u64);
                chunk.messages += 1;
                chunk.bytes = vec![0_u8; chunk.bytes.len() + bytes].into();
                is_cut = ends_step;
                prop_assert!(block.messages <= BOUNDS.messages);
                prop_assert!(block.bytes < BOUNDS.bytes + bytes as u64);
                prop_assert!(at - block.opened_at.0 < 500, "none is added to a block that is too old");
            }
            prop_assert_eq!(blocks_of(&chunks, &BOUNDS), naive);
        }
    }
}
