//! Time moves on: jobs become available, leases run out, jobs expire.

use base::Timestamp;
use records::{AliasKey, GroupKey, JobId, LeaseHolder, QueueKey};

use crate::entry::JobEntry;
use crate::jobs::Jobs;
use crate::jobs::lease::{Charge, ReleaseOutcome};
use crate::slab::Handle;
use crate::step::JobsStep;
use crate::timers::DueTimer;

/// What time brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// A lease ran out.
    Lapsed(Lapsed),
    /// A job expired that waited.
    Expired(ExpiredJob),
}

/// A lease that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapsed {
    /// The job.
    pub job: JobId,
    /// Its queue.
    pub queue: QueueKey,
    /// Its alias.
    pub alias: Option<AliasKey>,
    /// The attempt that ended.
    pub attempt: u32,
    /// Attempts it had.
    pub tries: u32,
    /// Its group.
    pub group: Option<GroupKey>,
    /// Who held it.
    pub holder: LeaseHolder,
    /// What became of the job.
    pub released: ReleaseOutcome,
}

/// A job that waited for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiredJob {
    /// The job, which is gone unless it comes again.
    pub job: JobId,
    /// Its queue.
    pub queue: QueueKey,
    /// Its alias.
    pub alias: Option<AliasKey>,
    /// When it is due again, by the clock it is on; `None` if it does not come again.
    pub next_run: Option<Timestamp>,
}

/// Whether all that is due has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobsProgress {
    /// Nothing is due before [`Jobs::next_wakeup`].
    Done,
    /// More is due already.
    More,
}

impl Jobs {
    /// Does what is due, `limit` jobs of it: those that expire first, then the oldest. Jobs become
    /// available, leases run out.
    pub fn advance(
        &mut self,
        limit: usize,
        passed: &mut Vec<Passed>,
        step: &mut JobsStep<'_>,
    ) -> JobsProgress {
        let time = self.clocks.at(step.now);
        self.parked.advance_to(time);
        self.unblock_lines(step);
        for _ in 0..limit {
            let Some(due) = self.timers.due(self.table.entries(), time) else { return JobsProgress::Done };
            match due {
                DueTimer::Expiry(job) => passed.push(Passed::Expired(self.expire(job, step))),
                DueTimer::Job(job) => passed.extend(self.come_due(job, step).map(Passed::Lapsed)),
                DueTimer::Refill(at, queue) => self.refill(queue, at, step),
            }
        }
        match self.timers.due(self.table.entries(), time) {
            Some(_) => JobsProgress::More,
            None => JobsProgress::Done,
        }
    }

    /// The `visible_at` of a job has come. A run whose time is over ends: the job is available from
    /// that time on, not from when it was noticed.
    fn come_due(&mut self, job: Handle<JobEntry>, step: &mut JobsStep<'_>) -> Option<Lapsed> {
        let Some(holder) = self.table.lease(job).map(|lease| lease.holder) else {
            self.displace(job);
            match self.parking_of(job, step) {
                Some(parking) => self.park(job, parking, step.batch),
                None => self.place(job, step),
            }
            return None;
        };
        let charge = match holder {
            LeaseHolder::Own(_) => Charge::NeverLast,
            LeaseHolder::Outside => Charge::Counted,
        };
        let alias = self.table.alias(job);
        let JobEntry { id, queue, attempt, tries, visible_at, .. } = self.table[job];
        let (queue, group) = (self.queues[queue].key(), self.table.group(job));
        let released = self.end_run(job, visible_at, charge, step);
        Some(Lapsed { job: id, queue, alias, attempt, tries, group, holder, released })
    }
}
