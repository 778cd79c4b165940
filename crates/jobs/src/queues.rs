//! The queues that have jobs, or rules: what each has ready, how many stand where, and whether its
//! consumers were told.
//!
//! A queue's record is there while it has jobs, rules or parked jobs, and gone with the last of
//! them.

use base::{Timestamp, hash};
use hashbrown::HashTable;
use records::{QueueKey, QueueOrder};

use crate::entry::{JobEntry, JobPlace};
use crate::jobs::JobCounts;
use crate::parked::queue::ParkedQueue;
use crate::ready_line::ReadyLine;
use crate::rules::{Allowance, EnforcedRules};
use crate::slab::{Handle, Slab};
use crate::table::{Entries, is_sparse};

/// A queue.
pub(crate) struct QueueEntry {
    key: QueueKey,
    line: ReadyLine,
    /// Resident jobs of it, wherever they stand.
    jobs: u32,
    /// Of these, those with a worker.
    reserved: u32,
    /// None of those that wait for their time has a `visible_at` before this, by whichever clock.
    timed_from: Timestamp,
    rules: Option<Box<EnforcedRules>>,
    parked: Option<Box<ParkedQueue>>,
}

const _: () = assert!(size_of::<Option<QueueEntry>>() == 64, "there may be as many of these as of jobs");

impl QueueEntry {
    fn new(key: QueueKey) -> Self {
        let timed_from = Timestamp::MAX;
        Self { key, line: ReadyLine::new(), jobs: 0, reserved: 0, timed_from, rules: None, parked: None }
    }

    pub(crate) fn key(&self) -> QueueKey {
        self.key
    }

    /// Its jobs whose time has come. They come and go by [`QueueTable::make_due`] and
    /// [`QueueTable::take_out`].
    pub(crate) fn line(&self) -> &ReadyLine {
        &self.line
    }

    pub(crate) fn order(&self) -> QueueOrder {
        self.line.order()
    }

    /// Notes whether something can be leased; answers whether it could before.
    pub(crate) fn set_open(&mut self, is_open: bool) -> bool {
        self.line.set_open(is_open)
    }

    /// One more job is resident.
    pub(crate) fn count_job(&mut self, is_reserved: bool) {
        self.jobs += 1;
        self.reserved += u32::from(is_reserved);
    }

    /// A job is resident no longer; no worker has it.
    pub(crate) fn uncount_job(&mut self) {
        self.jobs -= 1;
    }

    /// A worker got a job.
    pub(crate) fn begin_run(&mut self, now: Timestamp) {
        self.reserved += 1;
        if let Some(rules) = &mut self.rules {
            rules.take_token(now);
        }
    }

    /// No worker has a job any more.
    pub(crate) fn end_run(&mut self) {
        self.reserved -= 1;
    }

    /// Whether any job is resident.
    pub(crate) fn has_jobs(&self) -> bool {
        self.jobs > 0
    }

    /// Where its resident jobs stand.
    pub(crate) fn counts(&self) -> JobCounts {
        let reserved = self.reserved as usize;
        JobCounts {
            scheduled: self.jobs as usize - reserved - self.line.len(),
            ready: self.line.len(),
            reserved,
        }
    }

    /// One more waits for its time, which is counted already.
    pub(crate) fn note_timed(&mut self, at: Timestamp) {
        self.timed_from = if self.counts().scheduled <= 1 { at } else { self.timed_from.min(at) };
    }

    /// None of the jobs that wait for their time has a `visible_at` before this, by whichever
    /// clock; `None` if there are none.
    pub(crate) fn timed_from(&self) -> Option<Timestamp> {
        (self.counts().scheduled > 0).then_some(self.timed_from)
    }

    /// What its users allow, unless that is all.
    pub(crate) fn rules(&self) -> Option<&EnforcedRules> {
        self.rules.as_deref()
    }

    pub(crate) fn rules_mut(&mut self) -> Option<&mut EnforcedRules> {
        self.rules.as_deref_mut()
    }

    /// Sets what its users allow; answers what they allowed before.
    pub(crate) fn set_rules(&mut self, rules: Option<EnforcedRules>) -> Option<Box<EnforcedRules>> {
        std::mem::replace(&mut self.rules, rules.map(Box::new))
    }

    /// When its rules allow a lease, as things stand.
    pub(crate) fn allowance(&self, now: Timestamp) -> Allowance {
        self.rules.as_ref().map_or(Allowance::Now, |rules| rules.allowance(self.reserved, now))
    }

    /// What is parked of it, if anything is or was until now.
    pub(crate) fn parked(&self) -> Option<&ParkedQueue> {
        self.parked.as_deref()
    }

    pub(crate) fn parked_mut(&mut self) -> &mut Option<Box<ParkedQueue>> {
        &mut self.parked
    }
}

/// The queues.
#[derive(Default)]
pub(crate) struct QueueTable {
    records: Slab<QueueEntry>,
    index: HashTable<Handle<QueueEntry>>,
    /// Jobs of all queues whose time has come and which nobody works at.
    due: usize,
}

impl QueueTable {
    pub(crate) fn find(&self, key: QueueKey) -> Option<Handle<QueueEntry>> {
        self.index.find(hash_of(key), |queue| self.records[*queue].key == key).copied()
    }

    pub(crate) fn get(&self, key: QueueKey) -> Option<&QueueEntry> {
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

    /// The record of a queue, made if need be. It stays while something needs it; see
    /// [`QueueTable::leave`].
    pub(crate) fn enter(&mut self, key: QueueKey) -> Handle<QueueEntry> {
        let Self { records, index, .. } = self;
        let found = index.find(hash_of(key), |queue| records[*queue].key == key);
        if let Some(found) = found {
            return *found;
        }
        let queue = records.insert(QueueEntry::new(key));
        index.insert_unique(hash_of(key), queue, |queue| hash_of(records[*queue].key));
        queue
    }

    /// Drops the record of a queue if nothing needs it any more: whether it is gone.
    pub(crate) fn leave(&mut self, queue: Handle<QueueEntry>) -> bool {
        let Self { records, index, .. } = self;
        let QueueEntry { key, ref rules, ref parked, .. } = records[queue];
        if records[queue].has_jobs() || rules.is_some() || parked.is_some() {
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
    pub(crate) fn make_due(&mut self, entries: &mut Entries, job: Handle<JobEntry>, place: JobPlace) {
        self.records[entries[job].queue].line.insert(entries, job, place);
        self.due += 1;
    }

    /// Takes a job out of its queue's line, where its place was `place`.
    pub(crate) fn take_out(&mut self, entries: &mut Entries, job: Handle<JobEntry>, place: JobPlace) {
        self.records[entries[job].queue].line.remove(entries, job, place);
        self.due -= 1;
    }

    /// Has a queue's ready jobs be in another order from now on: whether it is another.
    pub(crate) fn reorder(
        &mut self,
        entries: &mut Entries,
        queue: Handle<QueueEntry>,
        order: QueueOrder,
    ) -> bool {
        self.records[queue].line.reorder(entries, order)
    }
}

impl std::ops::Index<Handle<QueueEntry>> for QueueTable {
    type Output = QueueEntry;

    fn index(&self, queue: Handle<QueueEntry>) -> &QueueEntry {
        &self.records[queue]
    }
}

impl std::ops::IndexMut<Handle<QueueEntry>> for QueueTable {
    fn index_mut(&mut self, queue: Handle<QueueEntry>) -> &mut QueueEntry {
        &mut self.records[queue]
    }
}

fn hash_of(key: QueueKey) -> u64 {
    hash::derived(0, &key.0.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::QueueRules;

    #[test]
    fn a_queue_is_there_while_it_has_jobs_or_rules() {
        let mut queues = QueueTable::default();
        let queue = queues.enter(QueueKey(7));
        assert!(queues.enter(QueueKey(7)) == queue && queues.len() == 1);
        queues[queue].count_job(false);
        assert!(!queues.leave(queue));
        queues[queue].uncount_job();
        let paused = QueueRules { paused: true, ..QueueRules::default() };
        queues[queue].set_rules(Some(EnforcedRules::new(&paused, None, Timestamp(0))));
        assert!(!queues.leave(queue));
        queues[queue].set_rules(None);
        assert!(queues.leave(queue) && queues.find(QueueKey(7)).is_none());
    }

    #[test]
    fn its_jobs_are_scheduled_unless_they_are_due_or_with_a_worker() {
        let (mut queues, mut entries) = (QueueTable::default(), Entries::default());
        let queue = queues.enter(QueueKey(7));
        assert!(queues[queue].timed_from().is_none());
        for number in 0..3 {
            queues[queue].count_job(number == 0);
        }
        let job = entries.add(JobEntry { queue, ..JobEntry::sample(10, 1) });
        queues.make_due(&mut entries, job, JobPlace::Ready);
        queues[queue].note_timed(Timestamp(50));
        assert_eq!(queues[queue].counts(), JobCounts { scheduled: 1, ready: 1, reserved: 1 });
        assert_eq!((queues[queue].timed_from(), queues.due()), (Some(Timestamp(50)), 1));
        queues[queue].end_run();
        queues[queue].note_timed(Timestamp(70));
        assert_eq!(queues[queue].timed_from(), Some(Timestamp(50)), "two wait now");
    }

    #[test]
    fn concurrency_counts_the_jobs_with_a_worker() {
        let mut queues = QueueTable::default();
        let queue = queues.enter(QueueKey(7));
        let one = QueueRules { concurrency: Some(1), ..QueueRules::default() };
        queues[queue].count_job(false);
        queues[queue].set_rules(Some(EnforcedRules::new(&one, None, Timestamp(0))));
        assert_eq!(queues[queue].allowance(Timestamp(0)), Allowance::Now);
        queues[queue].begin_run(Timestamp(0));
        assert_eq!(queues[queue].allowance(Timestamp(0)), Allowance::Never);
        queues[queue].end_run();
        assert_eq!(queues[queue].allowance(Timestamp(0)), Allowance::Now);
    }
}
