//! The queues that have jobs, or rules: what each has ready, how many stand where, and whether its consumers were told.
//!
//! A queue's record is there while it has jobs, rules or parked jobs, and gone with the last of them.

use base::{Timestamp, hash};
use hashbrown::HashTable;
use records::{QueueKey, QueueOrder};

use crate::entry::{Entry, Place};
use crate::heap::Heap;
use crate::parked::ParkedQueue;
use crate::rules::Rules;
use crate::slab::{Handle, Slab};
use crate::table::is_sparse;

/// A queue.
pub(crate) struct Queue {
    pub(crate) key: QueueKey,
    pub(crate) ready: Heap,
    pub(crate) order: QueueOrder,
    /// Whether something could be leased when this was last looked at: then it has been named.
    pub(crate) is_open: bool,
    /// Resident jobs of it, wherever they stand.
    pub(crate) jobs: u32,
    /// Of these, those behind another of their group.
    pub(crate) behind: u32,
    /// And those with a worker.
    pub(crate) reserved: u32,
    /// None of those that wait for their time has a `visible_at` before this, by whichever clock.
    pub(crate) timed_from: Timestamp,
    pub(crate) rules: Option<Box<Rules>>,
    pub(crate) parked: Option<Box<ParkedQueue>>,
}

const _: () = assert!(size_of::<Option<Queue>>() == 56, "there may be as many of these as of jobs");

impl Queue {
    fn new(key: QueueKey) -> Self {
        Self {
            key,
            ready: Heap::default(),
            order: QueueOrder::Fifo,
            is_open: false,
            jobs: 0,
            behind: 0,
            reserved: 0,
            timed_from: Timestamp::MAX,
            rules: None,
            parked: None,
        }
    }

    /// Jobs whose time has come and which nobody works at.
    pub(crate) fn due(&self) -> usize {
        self.ready.len() + self.behind as usize
    }

    /// One more waits for its time, which is counted already.
    pub(crate) fn note_timed(&mut self, at: Timestamp) {
        self.timed_from = if self.scheduled() <= 1 { at } else { self.timed_from.min(at) };
    }

    /// Jobs that wait for their time.
    pub(crate) fn scheduled(&self) -> usize {
        (self.jobs - self.reserved) as usize - self.due()
    }
}

/// The queues.
#[derive(Default)]
pub(crate) struct Queues {
    records: Slab<Queue>,
    index: HashTable<Handle<Queue>>,
    /// Jobs of all queues whose time has come and which nobody works at.
    due: usize,
}

impl Queues {
    pub(crate) fn find(&self, key: QueueKey) -> Option<Handle<Queue>> {
        self.index.find(hash_of(key), |queue| self.records[*queue].key == key).copied()
    }

    pub(crate) fn get(&self, key: QueueKey) -> Option<&Queue> {
        self.find(key).map(|queue| &self.records[queue])
    }

    pub(crate) fn due(&self) -> usize {
        self.due
    }

    /// How many have a record.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    #[cfg(test)]
    pub(crate) fn indexed_max(&self) -> usize {
        self.index.capacity()
    }

    /// The record of a queue, made if need be. It stays while something needs it; see [`Queues::leave`].
    pub(crate) fn enter(&mut self, key: QueueKey) -> Handle<Queue> {
        let Self { records, index, .. } = self;
        let found = index.find(hash_of(key), |queue| records[*queue].key == key);
        if let Some(found) = found {
            return *found;
        }
        let queue = records.insert(Queue::new(key));
        index.insert_unique(hash_of(key), queue, |queue| hash_of(records[*queue].key));
        queue
    }

    /// Drops the record of a queue if nothing needs it any more: whether it is gone.
    pub(crate) fn leave(&mut self, queue: Handle<Queue>) -> bool {
        let Self { records, index, .. } = self;
        let Queue { key, jobs, ref rules, ref parked, .. } = records[queue];
        if jobs > 0 || rules.is_some() || parked.is_some() {
            return false;
        }
        let found = index.find_entry(hash_of(key), |place| *place == queue);
        let Ok(found) = found else { unreachable!("every queue is indexed by its key") };
        found.remove();
        if is_sparse(index) {
            index.shrink_to(2 * index.len(), |queue| hash_of(records[*queue].key));
        }
        records.remove(queue);
        true
    }

    /// Puts a job among the ready ones of its queue, or has it wait behind another of its group.
    pub(crate) fn make_due(&mut self, entries: &mut Slab<Entry>, job: Handle<Entry>, place: Place) {
        debug_assert_eq!(entries[job].place, Place::Nowhere, "a job is in one place at a time");
        entries[job].place = place;
        let queue = &mut self.records[entries[job].queue];
        match place {
            Place::Ready => queue.ready.insert(entries, job, queue.order),
            Place::Behind => queue.behind += 1,
            Place::Nowhere | Place::Timed => unreachable!("a job that is due is ready or behind another"),
        }
        self.due += 1;
    }

    /// Takes a job out whose place is `place`.
    pub(crate) fn take_out(&mut self, entries: &mut Slab<Entry>, job: Handle<Entry>, place: Place) {
        let queue = &mut self.records[entries[job].queue];
        match place {
            Place::Ready => queue.ready.remove(entries, job, queue.order),
            Place::Behind => queue.behind -= 1,
            Place::Nowhere | Place::Timed => unreachable!("a job that is due is ready or behind another"),
        }
        self.due -= 1;
    }

    /// Has a queue's ready jobs be in another order from now on: whether it is another.
    pub(crate) fn reorder(
        &mut self,
        entries: &mut Slab<Entry>,
        queue: Handle<Queue>,
        order: QueueOrder,
    ) -> bool {
        let queue = &mut self.records[queue];
        let from = std::mem::replace(&mut queue.order, order);
        if from != order {
            queue.ready.reorder(entries, from, order);
        }
        from != order
    }
}

impl std::ops::Index<Handle<Queue>> for Queues {
    type Output = Queue;

    fn index(&self, queue: Handle<Queue>) -> &Queue {
        &self.records[queue]
    }
}

impl std::ops::IndexMut<Handle<Queue>> for Queues {
    fn index_mut(&mut self, queue: Handle<Queue>) -> &mut Queue {
        &mut self.records[queue]
    }
}

fn hash_of(key: QueueKey) -> u64 {
    hash::derived(0, &key.0.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::{PartitionId, Timestamp};
    use records::{AliasKey, Batch, GroupKey, Holder, JobId, Process, QueueKey, Terms};

    use crate::{Jobs, NewJob, NoCalendar, Numbers, OnConflict};

    /// What tables and slabs may keep for the next jobs, in entries.
    const KEPT_MAX: usize = 1 << 13;

    #[test]
    fn queues_that_once_had_a_job_leave_nothing_behind() {
        let mut jobs = Jobs::new(Process(1), Numbers::default());
        let (mut batch, mut wakes) = (Batch::new(PartitionId(0)), Vec::new());
        let now = Timestamp(0);
        for n in 0..50_000_u64 {
            let expires_at = n.is_multiple_of(3).then_some(Timestamp(1));
            let group = n.is_multiple_of(2).then_some(GroupKey(n));
            let job = NewJob {
                id: JobId(u128::from(n).to_be_bytes()),
                queue: QueueKey(n),
                run_at: now,
                tries: 1,
                terms: Terms { expires_at, group, ..Terms::default() },
                alias: Some(AliasKey(u128::from(n))),
                on_conflict: OnConflict::Reject,
            };
            jobs.publish(now, job, &mut batch, &mut wakes);
        }
        assert_eq!((jobs.queues.len(), wakes.len(), jobs.groups.len()), (50_000, 50_000, 25_000));
        for queue in wakes.split_off(0) {
            let leased = jobs.lease(now, queue, Holder::Outside, Duration::from_secs(1), &mut batch);
            let reservation = leased.expect("it was named").reservation;
            let acked = jobs.ack(now, reservation, &mut NoCalendar, &mut batch, &mut wakes);
            acked.expect("it was just leased");
        }
        assert_eq!((jobs.queues.len(), jobs.table.len(), jobs.groups.len()), (0, 0, 0));
        assert_eq!(jobs.next_wakeup(), None);
        assert!(jobs.queues.indexed_max() <= KEPT_MAX);
        assert!(jobs.table.indexed_max() <= KEPT_MAX, "{}", jobs.table.indexed_max());
    }
}
