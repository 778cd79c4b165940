//! New jobs, and what becomes of one whose alias is held.

use base::Timestamp;
use records::{AliasKey, HeadState, JobHead, JobId, JobTerms, QueueKey, Starts, Successor};

use crate::entry::{JobEntry, Succession};
use crate::jobs::Jobs;
use crate::jobs::advance::ExpiredJob;
use crate::recurrence::comes_again;
use crate::slab::Handle;
use crate::step::JobsStep;
use crate::table::FoundJob;

/// A job to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJobHead {
    /// Its id, never given out before.
    pub id: JobId,
    /// The queue it goes to.
    pub queue: QueueKey,
    /// When it is due, by the clock of its terms. A time in the past places it before what was due
    /// later.
    pub run_at: Timestamp,
    /// Attempts it may have; at most 2^31 - 1.
    pub tries: u32,
    /// What else holds of it.
    pub terms: JobTerms,
    /// The caller's own id.
    pub alias: Option<AliasKey>,
    /// What to do when the alias is held.
    pub on_conflict: ConflictPolicy,
}

/// What to do when the alias of a new job is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConflictPolicy {
    /// Refuse the new job.
    #[default]
    Reject,
    /// The first wins: a waiting job stays as it is; behind a reserved one the new job waits.
    Keep,
    /// The newest wins: in place of a waiting job, or as soon as the run of a reserved one ends.
    Replace,
}

/// What became of a new job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// It was stored.
    New,
    /// This waiting job stays, or this successor of a reserved one; nothing was stored.
    Kept(JobId),
    /// It took the place of a waiting job, whose id it has: the caller stores the body under that
    /// id.
    Replaced {
        /// The waiting job.
        job: JobId,
        /// The waiting job's successor, which was deleted.
        dropped: Option<JobId>,
    },
    /// It was stored as the successor of the reserved job that holds the alias.
    Succeeds {
        /// The successor that gave way, which was deleted.
        replaced: Option<JobId>,
    },
    /// The alias is held by this job; nothing was stored.
    Conflict(JobId),
}

impl Jobs {
    /// Takes a new job in. Where the answer says that something was stored, its body is for the
    /// caller to put.
    pub fn publish(&mut self, job: NewJobHead, step: &mut JobsStep<'_>) -> PublishOutcome {
        let holder = job.alias.and_then(|alias| self.table.by_alias(self.queues.find(job.queue)?, alias));
        if let Some(holder) = holder {
            return self.publish_behind(holder, &job, step);
        }
        let head = JobHead {
            id: job.id,
            queue: job.queue,
            number: self.numbers.take_job(),
            run_at: job.run_at,
            visible_at: job.run_at,
            attempt: 0,
            tries: job.tries,
            state: HeadState::Waiting,
            alias: job.alias,
            terms: job.terms,
            successor: None,
        };
        self.admit(&head, step);
        PublishOutcome::New
    }

    /// Has the job that holds an alias, or its successor, expire now if that is due. So who
    /// publishes under the alias before [`Jobs::advance`] comes to it finds what it would find
    /// after. A successor expires only here, or when it has started.
    pub fn expire_holder(
        &mut self,
        queue: QueueKey,
        alias: AliasKey,
        step: &mut JobsStep<'_>,
    ) -> Option<ExpiredJob> {
        let holder = self.table.by_alias(self.queues.find(queue)?, alias)?;
        let now = step.now;
        let is_over = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        if self.table[holder].lease.is_none() && is_over(self.table.expires_at(holder)) {
            return Some(self.expire(holder, step));
        }
        // One that comes again makes its next run when it has started.
        let ends = |successor: &&Successor| {
            let comes_again = successor.terms.recurrence.as_ref().is_some_and(comes_again);
            is_over(successor.terms.expires_at) && !comes_again
        };
        let job = self.table.successor(holder).filter(ends)?.id;
        self.set_successor(holder, Succession::Nobody, step.batch);
        self.put(holder, step.batch);
        Some(ExpiredJob { job, queue, alias: Some(alias), next_run: None })
    }

    /// Has a job that waits expire now, if that is due: a call is about it, before
    /// [`Jobs::advance`] comes to it.
    pub fn expire_waiting(&mut self, id: JobId, step: &mut JobsStep<'_>) -> Option<ExpiredJob> {
        let Some(FoundJob::Job(job)) = self.table.find(id) else { return None };
        let is_over = self.table.expires_by(job, step.now);
        if self.table[job].lease.is_some() || !is_over {
            return None;
        }
        Some(self.expire(job, step))
    }

    /// Publishes a job whose alias `holder` holds.
    fn publish_behind(
        &mut self,
        holder: Handle<JobEntry>,
        job: &NewJobHead,
        step: &mut JobsStep<'_>,
    ) -> PublishOutcome {
        let successor = self.table.successor(holder).map(|successor| successor.id);
        let (id, is_reserved) = (self.table[holder].id, self.table[holder].lease.is_some());
        match (job.on_conflict, successor) {
            (ConflictPolicy::Reject, _) => PublishOutcome::Conflict(successor.unwrap_or(id)),
            (ConflictPolicy::Keep, _) if !is_reserved => PublishOutcome::Kept(id),
            (ConflictPolicy::Keep, Some(successor)) => PublishOutcome::Kept(successor),
            (ConflictPolicy::Keep, None) => self.succeed(holder, job, Starts::AfterJob, step),
            (ConflictPolicy::Replace, _) if is_reserved => self.succeed(holder, job, Starts::AfterRun, step),
            (ConflictPolicy::Replace, _) => self.replace(holder, job, step),
        }
    }

    fn succeed(
        &mut self,
        holder: Handle<JobEntry>,
        job: &NewJobHead,
        starts: Starts,
        step: &mut JobsStep<'_>,
    ) -> PublishOutcome {
        let number = self.numbers.take_job();
        let NewJobHead { id, run_at, tries, terms, .. } = *job;
        let successor = Successor { id, number, run_at, tries, terms, starts };
        let replaced =
            self.set_successor(holder, Succession::from_stored(Some(Box::new(successor))), step.batch);
        self.put(holder, step.batch);
        PublishOutcome::Succeeds { replaced }
    }

    fn replace(
        &mut self,
        waiting: Handle<JobEntry>,
        job: &NewJobHead,
        step: &mut JobsStep<'_>,
    ) -> PublishOutcome {
        let dropped = self.set_successor(waiting, Succession::Nobody, step.batch);
        let (replaced, number) = (self.table[waiting].id, self.numbers.take_job());
        self.update(waiting, step, |table| {
            table.replace(waiting, number, (job.run_at, job.tries), &job.terms);
        });
        PublishOutcome::Replaced { job: replaced, dropped }
    }
}
