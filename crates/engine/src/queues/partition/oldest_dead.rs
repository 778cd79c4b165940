//! The oldest dead letters of queues that have as many as they may keep. Each burial there drops
//! one, and the store is not read for every one of them.
//!
//! What is remembered of a queue is where its dead letters begin, in order and without a gap; it
//! may be less than there are.

use std::collections::VecDeque;

use records::{DeadJob, JobId, QueueKey};

use crate::kernel::hashed::HashMap;

/// Dead letters that are remembered of all queues together; at 24 bytes each, a megabyte and a
/// half. At the limit all are forgotten, and read again where they are needed.
const REMEMBERED_MAX: usize = 1 << 16;

/// A dead letter's place in its queue, and its job.
pub(super) type Place = (u64, JobId);

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct OldestDead {
    queues: HashMap<QueueKey, VecDeque<Place>>,
    remembered: usize,
}

impl OldestDead {
    /// How many are remembered of a queue.
    pub(super) fn len(&self, queue: QueueKey) -> usize {
        self.queues.get(&queue).map_or(0, VecDeque::len)
    }

    /// The first ones of a queue, at most so many.
    pub(super) fn first(&self, queue: QueueKey, most: usize) -> Vec<Place> {
        self.queues.get(&queue).into_iter().flatten().take(most).copied().collect()
    }

    /// What was read: the first ones of a queue, all up to the last of them.
    pub(super) fn remember(&mut self, queue: QueueKey, dead: &[DeadJob]) {
        self.forget(queue);
        if self.remembered + dead.len() > REMEMBERED_MAX {
            *self = Self::default();
        }
        self.remembered += dead.len();
        self.queues.insert(queue, dead.iter().map(|dead| (dead.number, dead.id)).collect());
    }

    /// One that was buried behind all that there are, which are remembered.
    pub(super) fn push(&mut self, queue: QueueKey, place: Place) {
        if self.remembered < REMEMBERED_MAX {
            self.queues.entry(queue).or_default().push_back(place);
            self.remembered += 1;
        }
    }

    /// One is gone.
    pub(super) fn remove(&mut self, queue: QueueKey, number: u64) {
        let Some(places) = self.queues.get_mut(&queue) else { return };
        let found = places.binary_search_by_key(&number, |(number, _)| *number);
        if found.is_ok_and(|place| places.remove(place).is_some()) {
            self.remembered -= 1;
        }
        if places.is_empty() {
            self.queues.remove(&queue);
        }
    }

    /// Nothing is remembered of a queue any more.
    pub(super) fn forget(&mut self, queue: QueueKey) {
        self.remembered -= self.queues.remove(&queue).map_or(0, |places| places.len());
    }
}
