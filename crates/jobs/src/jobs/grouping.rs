//! Where a job of a group waits, and which job of a group goes first.

use records::{GroupKey, JobClock};

use crate::entry::{JobEntry, JobPlace};
use crate::jobs::Jobs;
use crate::queues::QueueEntry;
use crate::slab::Handle;
use crate::step::JobsStep;

impl Jobs {
    /// Has a job of a group wait that is in no place.
    pub(super) fn place_in_group(
        &mut self,
        job: Handle<JobEntry>,
        key: GroupKey,
        is_due: bool,
        step: &mut JobsStep<'_>,
    ) {
        let queue = self.table[job].queue;
        if self.table[job].is_started() {
            let line = self.group_line(queue, key);
            self.groups.start(queue, key, job, line);
            self.place_alone(job, is_due, step);
        } else if is_due {
            self.put_behind(job, key);
            self.regroup(queue, key, step);
        } else {
            self.place_alone(job, is_due, step);
        }
    }

    /// Has the first of a group be active, and consumers be told of it.
    pub(super) fn regroup(&mut self, queue: Handle<QueueEntry>, key: GroupKey, step: &mut JobsStep<'_>) {
        self.choose_active(queue, key, step);
        self.schedule_read(queue, Some(key));
        // Leases of the queue may have waited for this group to be read, and do so no more.
        self.announce_if_open(queue, step);
    }

    /// Makes the first of a group active if none is, or if the active one was due later and never
    /// started.
    fn choose_active(&mut self, queue: Handle<QueueEntry>, key: GroupKey, step: &mut JobsStep<'_>) {
        let line = self.group_line(queue, key);
        let Some(first) = self.groups.candidate(queue, key, line) else { return };
        if self.parked.may_miss_of(&self.queues[queue], first.order) {
            self.block_line(queue, Some(key), first.order);
            return;
        }
        if !first.goes_first(self.table.entries()) {
            return;
        }
        self.groups.activate(queue, key, first.job);
        self.withdraw(first.job);
        // Nobody gets one that has expired: it blocks the others until time moves on.
        let has_expired = self.table.expires_by(first.job, step.now);
        self.place_alone(first.job, !has_expired, step);
        if let Some(before) = first.active {
            self.withdraw(before);
            self.put_behind(before, key);
        }
    }

    /// A job was loaded by which its group is known, if others of that are parked. If it waits for
    /// the wall clock, its time had come before, and the clock has gone back since. The others do
    /// not wait for it to come again.
    pub(super) fn restore_group(&mut self, job: Handle<JobEntry>, step: &mut JobsStep<'_>) {
        let entry = &self.table[job];
        let (queue, clock) = (entry.queue, entry.clock_of_wait());
        if let Some(group) = self.table.group(job).filter(|_| clock == JobClock::Wall) {
            self.regroup(queue, group, step);
        }
    }

    fn put_behind(&mut self, job: Handle<JobEntry>, key: GroupKey) {
        let JobEntry { queue, .. } = self.table[job];
        let line = self.group_line(queue, key);
        self.groups.insert_behind(queue, key, (self.table[job].order_in_group(), job), line);
        self.queues.make_due(self.table.entries_mut(), job, JobPlace::Behind);
    }
}
