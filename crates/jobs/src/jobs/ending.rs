//! The end of a run, and of a job: what follows a run not done, a job that is gone, a successor
//! that starts.

use base::Timestamp;
use records::{Batch, JobId, Op, Recurrence};

use crate::entry::{JobEntry, Succession, head_of_successor};
use crate::jobs::Jobs;
use crate::jobs::advance::ExpiredJob;
use crate::jobs::lease::{Charge, ReleaseOutcome};
use crate::recurrence::next_run;
use crate::slab::Handle;
use crate::step::JobsStep;

/// Whether what a job carried outlives it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyDisposal {
    Deleted,
    /// As far as dead letters are kept.
    KeptForDeadLetter,
}

impl Jobs {
    /// Ends the run of a reserved job that was not done.
    pub(super) fn end_run(
        &mut self,
        job: Handle<JobEntry>,
        until: Timestamp,
        charge: Charge,
        step: &mut JobsStep<'_>,
    ) -> ReleaseOutcome {
        if let Some(superseded) = self.supersede(job, step) {
            return superseded;
        }
        let entry = &self.table[job];
        let has_expired = self.table.expires_by(job, step.now);
        let died = !has_expired && charge == Charge::Counted && entry.attempt >= entry.tries;
        if !has_expired && !died {
            return self.requeue(job, until, charge, step);
        }
        if let Some(next_run) = self.recur(job, step) {
            return ReleaseOutcome::Recurs { died, next_run };
        }
        if died {
            self.retire(job, BodyDisposal::KeptForDeadLetter, step);
            return ReleaseOutcome::Dead;
        }
        self.retire(job, BodyDisposal::Deleted, step);
        ReleaseOutcome::Expired
    }

    /// Ends a job whose run has ended if it is to be replaced then.
    pub(super) fn supersede(
        &mut self,
        job: Handle<JobEntry>,
        step: &mut JobsStep<'_>,
    ) -> Option<ReleaseOutcome> {
        if !self.table.is_superseded(job) {
            return None;
        }
        self.retire(job, BodyDisposal::Deleted, step)
            .map(|successor| ReleaseOutcome::Superseded { successor })
    }

    /// Ends the run of a job that is to be tried again.
    pub(super) fn requeue(
        &mut self,
        job: Handle<JobEntry>,
        until: Timestamp,
        charge: Charge,
        step: &mut JobsStep<'_>,
    ) -> ReleaseOutcome {
        let (is_counted, on_clocks) = (charge != Charge::Uncounted, self.clocks.at(until));
        self.update(job, step, |table| table.retry(job, is_counted, on_clocks));
        ReleaseOutcome::Waiting { until }
    }

    /// Ends a run of a recurring job and has the next one wait; answers when that is due. `None`,
    /// and nothing is changed, if the job does not come again.
    pub(super) fn recur(&mut self, job: Handle<JobEntry>, step: &mut JobsStep<'_>) -> Option<Timestamp> {
        let recurrence = self.table.recurrence(job)?;
        let JobEntry { id, run_at, clock, .. } = self.table[job];
        let (next, clock) =
            next_run(&recurrence, (id, run_at, clock), self.clocks.at(step.now), step.calendar)?;
        let (number, on_engine) = (self.numbers.take_job(), self.clocks.on_engine(clock, next));
        let left = recurrence.left.map(|left| left - 1);
        let recurrence = Recurrence { left, run: recurrence.run + 1, ..recurrence };
        self.update(job, step, |table| {
            table.begin_next_run(job, number, (clock, next, on_engine), recurrence);
        });
        Some(next)
    }

    /// A job expires that waits.
    pub(super) fn expire(&mut self, job: Handle<JobEntry>, step: &mut JobsStep<'_>) -> ExpiredJob {
        let JobEntry { id, queue, .. } = self.table[job];
        let queue = self.queues[queue].key();
        let alias = self.table.alias(job);
        let next_run = self.recur(job, step);
        if next_run.is_none() {
            self.retire(job, BodyDisposal::Deleted, step);
        }
        ExpiredJob { job: id, queue, alias, next_run }
    }

    /// Ends a job for good and starts its successor, whose id it answers.
    pub(super) fn retire(
        &mut self,
        job: Handle<JobEntry>,
        body: BodyDisposal,
        step: &mut JobsStep<'_>,
    ) -> Option<JobId> {
        let (queue, group) = (self.table[job].queue, self.table.group(job));
        self.displace(job);
        self.end_lease(job);
        let removed = self.table.remove(job);
        step.batch.ops.push(match body {
            BodyDisposal::KeptForDeadLetter if self.keeps_dead_letters => Op::DeleteJobHead(removed.id),
            BodyDisposal::KeptForDeadLetter | BodyDisposal::Deleted => Op::DeleteJob(removed.id),
        });
        let successor = removed.claim.and_then(|claim| Some((claim.alias, *claim.next.successor()?)));
        if let Some((alias, successor)) = successor {
            let visible_at = successor.run_at.max(self.clocks.at(step.now).on(successor.terms.clock));
            let head = head_of_successor(&successor, self.queues[queue].key(), alias, visible_at);
            self.admit(&head, step);
        }
        self.promote_next(queue, group, step);
        self.queues[queue].uncount_job();
        self.queues.leave(queue);
        successor.map(|(_, successor)| successor.id)
    }

    /// Sets who takes over a job. A successor that gives way is deleted, and its id answered.
    pub(super) fn set_successor(
        &mut self,
        job: Handle<JobEntry>,
        next: Succession,
        batch: &mut Batch,
    ) -> Option<JobId> {
        let gone = self.table.set_next(job, next).successor().map(|successor| successor.id);
        batch.ops.extend(gone.map(Op::DeleteJob));
        gone
    }
}
