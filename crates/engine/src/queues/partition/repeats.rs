//! Answers that are kept for a day, so that a request that comes again is answered like the first.

use std::sync::Arc;

use super::{QueuePartition, Turn};
use crate::devices::partition::Stop;
use crate::kernel::idempotency::Within;
use crate::queues::Once;

impl QueuePartition {
    /// What the first request with this key was answered.
    pub(super) fn recall(&mut self, once: Once, turn: &mut Turn<'_>) -> Result<Option<Arc<[u8]>>, Stop> {
        self.answers.recall(once, within(turn))
    }

    /// Keeps what a request with this key was answered.
    pub(super) fn remember(&mut self, once: Once, answer: Arc<[u8]>, turn: &mut Turn<'_>) {
        self.answers.remember(once, answer, within(turn));
    }
}

pub(super) fn within<'a>(turn: &'a mut Turn<'_>) -> Within<'a> {
    Within { now: turn.now, seq: turn.seq, fetch: turn.fetch, ops: &mut turn.batch.ops }
}
