//! Room for the jobs of a stream: memory of its caller's share, until they are sent.

use std::future::pending;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use net::memory_budget::MemoryReservation;
use net::shares::SenderKey;

use crate::answer_memory::AnswerMemory;

/// What is waited for where there is no room, in bytes: an answer fits in it, of one job or more.
const ROOM_BYTES: usize = 2 * 1_024 * 1_024;

/// Where a stream takes room, and waits for it. It gives out jobs that it has while it waits, and
/// takes no others.
pub(super) struct JobMemory {
    memory: AnswerMemory,
    sender: SenderKey,
    waiting: Option<BoxFuture<'static, MemoryReservation>>,
    found: Option<MemoryReservation>,
}

impl JobMemory {
    pub(super) fn new(memory: AnswerMemory, sender: SenderKey) -> Self {
        Self { memory, sender, waiting: None, found: None }
    }

    /// Room for an answer; where there is none, it is waited for.
    pub(super) fn try_take(&mut self, bytes: usize) -> Option<MemoryReservation> {
        let taken = self.memory.try_take(&self.sender, bytes);
        if taken.is_none() && self.waiting.is_none() {
            let (memory, sender) = (self.memory.clone(), self.sender.clone());
            self.waiting = Some(async move { memory.take(&sender, ROOM_BYTES).await }.boxed());
        }
        taken
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.is_some()
    }

    /// Resolves when there is room that was waited for.
    pub(super) async fn wait(&mut self) {
        let Some(waiting) = &mut self.waiting else { return pending().await };
        let found = waiting.await;
        (self.waiting, self.found) = (None, Some(found));
    }

    /// Room that was waited for, for the next jobs.
    pub(super) fn found(&mut self) -> Option<MemoryReservation> {
        self.found.take()
    }

    /// No more jobs are sent.
    pub(super) fn give_back(&mut self) {
        (self.waiting, self.found) = (None, None);
    }
}
