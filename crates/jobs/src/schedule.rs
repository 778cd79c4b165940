//! When jobs become available: the timer, and the ready jobs of each queue.
//!
//! A queue is kept only while it has ready jobs.

use base::{Timestamp, hash};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as QueuePlace;
use records::QueueKey;

use crate::entry::{Entry, Place};
use crate::heap::Heap;
use crate::slab::{Handle, Slab};
use crate::table::is_sparse;

/// The timer and the queues.
#[derive(Default)]
pub(crate) struct Schedule {
    timer: Heap,
    queues: HashTable<Queue>,
    ready: usize,
}

struct Queue {
    key: QueueKey,
    ready: Heap,
}

impl Schedule {
    /// The job whose time comes next, and when.
    pub(crate) fn next(&self, entries: &Slab<Entry>) -> Option<(Handle<Entry>, Timestamp)> {
        self.timer.first().map(|job| (job, entries[job].visible_at))
    }

    /// The first ready job of a queue.
    pub(crate) fn first_ready(&self, queue: QueueKey) -> Option<Handle<Entry>> {
        self.queue(queue).and_then(|queue| queue.ready.first())
    }

    /// Ready jobs of a queue.
    pub(crate) fn ready_in(&self, queue: QueueKey) -> usize {
        self.queue(queue).map_or(0, |queue| queue.ready.len())
    }

    /// Ready jobs.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Has a job wait for its `visible_at`.
    pub(crate) fn time(&mut self, entries: &mut Slab<Entry>, job: Handle<Entry>) {
        debug_assert_eq!(entries[job].place, Place::Nowhere, "a job is in one heap at a time");
        entries[job].place = Place::Timed;
        self.timer.insert(entries, job);
    }

    /// Makes a job available; whether its queue had none.
    pub(crate) fn make_ready(&mut self, entries: &mut Slab<Entry>, job: Handle<Entry>) -> bool {
        debug_assert_eq!(entries[job].place, Place::Nowhere, "a job is in one heap at a time");
        entries[job].place = Place::Ready;
        self.ready += 1;
        let key = entries[job].queue;
        let place = self.queues.entry(hash_of(key), |queue| queue.key == key, |queue| hash_of(queue.key));
        let queue = place.or_insert_with(|| Queue { key, ready: Heap::default() }).into_mut();
        queue.ready.insert(entries, job);
        queue.ready.len() == 1
    }

    /// Takes a job out of the heap that it is in.
    pub(crate) fn remove(&mut self, entries: &mut Slab<Entry>, job: Handle<Entry>) {
        match std::mem::replace(&mut entries[job].place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::Timed => self.timer.remove(entries, job),
            Place::Ready => self.remove_ready(entries, job),
        }
    }

    fn remove_ready(&mut self, entries: &mut Slab<Entry>, job: Handle<Entry>) {
        let key = entries[job].queue;
        let place = self.queues.entry(hash_of(key), |queue| queue.key == key, |queue| hash_of(queue.key));
        let QueuePlace::Occupied(mut place) = place else {
            unreachable!("a queue is kept while it has ready jobs")
        };
        place.get_mut().ready.remove(entries, job);
        self.ready -= 1;
        if place.get().ready.first().is_none() {
            place.remove();
            if is_sparse(&self.queues) {
                self.queues.shrink_to(2 * self.queues.len(), |queue| hash_of(queue.key));
            }
        }
    }

    fn queue(&self, key: QueueKey) -> Option<&Queue> {
        self.queues.find(hash_of(key), |queue| queue.key == key)
    }
}

fn hash_of(key: QueueKey) -> u64 {
    hash::derived(0, &key.0.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::{PartitionId, Timestamp};
    use records::{AliasKey, Batch, Holder, JobId, Process, QueueKey, Terms};

    use crate::{Jobs, NewJob, Numbers, OnConflict};

    /// What tables and slabs may keep for the next jobs, in entries.
    const KEPT_MAX: usize = 1 << 13;

    #[test]
    fn queues_that_once_had_a_job_leave_nothing_behind() {
        let mut jobs = Jobs::new(Process(1), Numbers::default());
        let (mut batch, mut wakes) = (Batch::new(PartitionId(0)), Vec::new());
        let now = Timestamp(0);
        for n in 0..50_000_u64 {
            let job = NewJob {
                id: JobId(u128::from(n).to_be_bytes()),
                queue: QueueKey(n),
                run_at: now,
                tries: 1,
                terms: Terms::default(),
                alias: Some(AliasKey(u128::from(n))),
                on_conflict: OnConflict::Reject,
            };
            jobs.publish(now, job, &mut batch, &mut wakes);
        }
        assert_eq!((jobs.schedule.queues.len(), wakes.len()), (50_000, 50_000));
        for queue in wakes.split_off(0) {
            let leased = jobs.lease(now, queue, Holder::Outside, Duration::from_secs(1), &mut batch);
            let reservation = leased.expect("it was named").reservation;
            jobs.ack(now, reservation, &mut batch, &mut wakes).expect("it was just leased");
        }
        assert_eq!((jobs.schedule.queues.len(), jobs.table.entries.len()), (0, 0));
        assert!(jobs.schedule.queues.capacity() <= KEPT_MAX);
        assert!(jobs.table.indexed_max() <= KEPT_MAX, "{}", jobs.table.indexed_max());
    }
}
