//! Where a job waits: for a time, for its group, or for a consumer; and when consumers are told.

use records::{Batch, GroupKey, HeadState, JobHead, Op};

use crate::entry::{JobEntry, JobPlace};
use crate::jobs::Jobs;
use crate::queues::QueueEntry;
use crate::slab::Handle;
use crate::step::JobsStep;
use crate::table::JobTable;

impl Jobs {
    /// Takes a job in that is new in memory.
    pub(super) fn admit(&mut self, head: &JobHead, step: &mut JobsStep<'_>) {
        let job = self.enter(head);
        self.store_or_park(job, step);
    }

    /// Has a job in memory, in no place yet.
    pub(super) fn enter(&mut self, head: &JobHead) -> Handle<JobEntry> {
        let queue = self.queues.enter(head.queue);
        self.queues[queue].count_job(matches!(head.state, HeadState::Reserved { .. }));
        self.table.insert(head, queue)
    }

    /// Changes a job, whose run is over if it had one, and has it wait as it must then.
    pub(super) fn update(
        &mut self,
        job: Handle<JobEntry>,
        step: &mut JobsStep<'_>,
        change: impl FnOnce(&mut JobTable),
    ) {
        let (queue, group) = (self.table[job].queue, self.table.group(job));
        self.displace(job);
        self.end_lease(job);
        change(&mut self.table);
        self.store_or_park(job, step);
        self.promote_next(queue, group, step);
    }

    /// Stores a job that has changed, and has it wait: here, or where only the store has it.
    fn store_or_park(&mut self, job: Handle<JobEntry>, step: &mut JobsStep<'_>) {
        if let Some(parking) = self.parking_of(job, step) {
            self.park(job, parking, step.batch);
            return;
        }
        self.put(job, step.batch);
        self.place(job, step);
    }

    /// Has a job wait for a time, for its group or for a consumer.
    pub(super) fn place(&mut self, job: Handle<JobEntry>, step: &mut JobsStep<'_>) {
        self.place_as(job, self.is_due(job, step), step);
    }

    /// Whether the time has come that a job waits for. While loading it never has: all jobs go
    /// through the timers then, and the first advance names their queues.
    pub(super) fn is_due(&self, job: Handle<JobEntry>, step: &JobsStep<'_>) -> bool {
        let entry = &self.table[job];
        !step.is_loading() && entry.visible_at <= self.clocks.at(step.now).on(entry.clock_of_wait())
    }

    /// Has a job wait that is due, or not. One that has expired waits for time to move on.
    pub(super) fn place_as(&mut self, job: Handle<JobEntry>, mut is_due: bool, step: &mut JobsStep<'_>) {
        let JobEntry { lease, number, .. } = self.table[job];
        if lease.is_some() {
            is_due = false;
        } else if let Some(at) = self.table.expires_at(job) {
            self.timers.note_expiry(at, number, job);
            is_due &= at > step.now;
        }
        match self.table.group(job) {
            Some(group) => self.place_in_group(job, group, is_due, step),
            None => self.place_alone(job, is_due, step),
        }
    }

    /// Has a job wait for a time or for a consumer.
    pub(super) fn place_alone(&mut self, job: Handle<JobEntry>, is_due: bool, step: &mut JobsStep<'_>) {
        if is_due {
            self.make_ready(job, step);
        } else {
            let JobEntry { queue, visible_at, lease, .. } = self.table[job];
            if lease.is_none() {
                self.queues[queue].note_timed(visible_at);
            }
            self.timers.time(self.table.entries_mut(), job);
        }
    }

    pub(super) fn make_ready(&mut self, job: Handle<JobEntry>, step: &mut JobsStep<'_>) {
        self.queues.make_due(self.table.entries_mut(), job, JobPlace::Ready);
        self.announce_if_open(self.table[job].queue, step);
    }

    /// Takes a job from where it waits, and from its group. Others are then moved up by
    /// [`Jobs::promote_next`].
    pub(super) fn displace(&mut self, job: Handle<JobEntry>) {
        self.withdraw(job);
        self.stop_expiry(job);
        if let Some(group) = self.table.group(job) {
            self.groups.leave(self.table[job].queue, group, job);
        }
    }

    /// Takes a job from where it waits.
    pub(super) fn withdraw(&mut self, job: Handle<JobEntry>) {
        let place = self.table.entries_mut().set_place(job, JobPlace::Nowhere);
        match place {
            JobPlace::Nowhere => {}
            JobPlace::Timed => self.timers.take_out(self.table.entries_mut(), job),
            JobPlace::Ready => {
                self.queues.take_out(self.table.entries_mut(), job, place);
                let queue = self.table[job].queue;
                if self.queues[queue].line().ready() == 0 {
                    self.mark_closed(queue);
                }
            }
            JobPlace::Behind => {
                self.queues.take_out(self.table.entries_mut(), job, place);
                let entry = &self.table[job];
                if let Some(group) = self.table.group(job) {
                    self.groups.remove_behind(entry.queue, group, entry.order_in_group());
                }
            }
        }
    }

    pub(super) fn stop_expiry(&mut self, job: Handle<JobEntry>) {
        if let Some(at) = self.table.expires_at(job) {
            self.timers.forget_expiry(at, self.table[job].number);
        }
    }

    pub(super) fn end_lease(&mut self, job: Handle<JobEntry>) {
        if self.table.end_lease(job) {
            self.queues[self.table[job].queue].end_run();
        }
    }

    /// A job of the queue, and of the group, has gone elsewhere: what it stood in the way of comes
    /// forward.
    pub(super) fn promote_next(
        &mut self,
        queue: Handle<QueueEntry>,
        group: Option<GroupKey>,
        step: &mut JobsStep<'_>,
    ) {
        if let Some(group) = group {
            self.regroup(queue, group, step);
        }
        self.announce_if_open(queue, step);
    }

    pub(super) fn put(&self, job: Handle<JobEntry>, batch: &mut Batch) {
        batch.ops.push(Op::PutJob(Box::new(self.head(job))));
    }
}
