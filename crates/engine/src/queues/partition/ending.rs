//! Runs that end: acknowledged, given back, or out of time; and jobs that come again.

use std::sync::Arc;
use std::time::Duration;

use base::{Problem, Timestamp};
use compact_str::CompactString;
use jobs::{Calendar, Jobs, JobsProgress, JobsStep, Lapsed, Passed, ReleaseOutcome};
use records::{AliasKey, DeadReason, GroupKey, JobHead, JobId, QueueKey, Reservation};
use store::StoreError;

use super::{JOBS_AT_A_TIME, QueuePartition, QueueStep};
use crate::calendar;
use crate::kernel::fetch::Fetch;
use crate::kernel::pending_writes::PendingWrites;
use crate::kernel::reply::InputFailure;
use crate::queues::rates::JobFlow;
use crate::queues::{QueueName, ReservationToken, body, id};

/// When jobs come again that a calendar governs: read from their bodies.
struct Calendars<'a> {
    bodies: &'a PendingWrites<JobId, Arc<[u8]>>,
    fetch: &'a dyn Fetch,
    /// Why a body could not be read.
    broken: Option<StoreError>,
}

impl Calendar for Calendars<'_> {
    fn next(&mut self, job: JobId, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let body = match self.bodies.get_or_read(&job, || self.fetch.view()?.job_body(job)) {
            Ok(body) => body?,
            Err(error) => {
                self.broken = Some(error);
                return None;
            }
        };
        let cron = body::read(&body).ok()?.cron?;
        calendar::next(&cron.expression, cron.zone.as_deref(), after, now)
    }
}

/// A job whose run has ended without success, as it was.
pub(super) struct EndedRun {
    pub(super) job: JobId,
    pub(super) queue: QueueKey,
    pub(super) attempt: u32,
    pub(super) tries: u32,
    pub(super) group: Option<GroupKey>,
}

impl From<&JobHead> for EndedRun {
    fn from(head: &JobHead) -> Self {
        let JobHead { id, queue, attempt, tries, terms, .. } = *head;
        Self { job: id, queue, attempt, tries, group: terms.group }
    }
}

impl From<&Lapsed> for EndedRun {
    fn from(lapsed: &Lapsed) -> Self {
        let Lapsed { job, queue, attempt, tries, group, .. } = *lapsed;
        Self { job, queue, attempt, tries, group }
    }
}

/// What a consumer showed does not hold any more.
pub(super) fn stale() -> Problem {
    Problem::conflict(
        "stale_reservation",
        "the reservation no longer holds: its ttr has passed, or the job has moved on or is gone",
    )
}

impl QueuePartition {
    /// Answers the places of those that do not hold.
    pub(super) fn ack(
        &mut self,
        queue: &QueueName,
        held: &[ReservationToken],
        step: &mut QueueStep<'_>,
    ) -> Result<Vec<usize>, StoreError> {
        let key = self.key_of(queue);
        let mut stale = Vec::new();
        for (place, held) in held.iter().enumerate() {
            let reservation = self.holding(key, *held, step.now);
            let Some((reservation, _)) = reservation else {
                stale.push(place);
                continue;
            };
            match self.with_calendars(step, |jobs, step| jobs.ack(reservation, step))? {
                Ok(_) => step.own.counted.acked += 1,
                Err(jobs::Stale) => stale.push(place),
            }
        }
        if let Some(key) = key.filter(|_| stale.len() < held.len()) {
            self.flowed(key, JobFlow::Acked, held.len() - stale.len(), step.now);
            step.own.touched.push(key);
        }
        Ok(stale)
    }

    pub(super) fn extend(
        &mut self,
        queue: &QueueName,
        held: ReservationToken,
        ttr: Duration,
        step: &mut QueueStep<'_>,
    ) -> Result<Timestamp, Problem> {
        let (reservation, _) = self.holding(self.key_of(queue), held, step.now).ok_or_else(stale)?;
        self.jobs.extend(reservation, ttr, &mut step.jobs()).map_err(|jobs::Stale| stale())
    }

    pub(super) fn release(
        &mut self,
        queue: &QueueName,
        held: ReservationToken,
        delay: Duration,
        error: Option<CompactString>,
        step: &mut QueueStep<'_>,
    ) -> Result<(), InputFailure> {
        let (reservation, head) = self.holding(self.key_of(queue), held, step.now).ok_or_else(stale)?;
        let terms = jobs::ReleaseTerms::counted(delay);
        let released = self.with_calendars(step, |jobs, step| jobs.release(reservation, terms, step))?;
        let released = released.map_err(|jobs::Stale| stale())?;
        step.own.counted.released += 1;
        self.run_ended(&EndedRun::from(&head), &released, DeadReason::Released, error, step)?;
        Ok(())
    }

    /// Leases that did not reach their consumer: as if they had not been made.
    pub(super) fn give_back(
        &mut self,
        held: &[ReservationToken],
        step: &mut QueueStep<'_>,
    ) -> Result<(), StoreError> {
        for held in held {
            let Some(reservation) = held.reservation(self.lineage) else { continue };
            let Some(head) = self.jobs.held(step.now, reservation) else { continue };
            let released = self.with_calendars(step, |jobs, step| jobs.give_back(reservation, step))?;
            if let Ok(released) = released {
                self.run_ended(&EndedRun::from(&head), &released, DeadReason::Released, None, step)?;
            }
        }
        Ok(())
    }

    /// A call of the jobs in which some may come again.
    fn with_calendars<T>(
        &mut self,
        step: &mut QueueStep<'_>,
        call: impl FnOnce(&mut Jobs, &mut JobsStep<'_>) -> T,
    ) -> Result<T, StoreError> {
        let mut calendars = Calendars { bodies: &self.bodies, fetch: step.fetch, broken: None };
        let answer = call(&mut self.jobs, &mut step.jobs_by(&mut calendars));
        calendars.broken.map_or(Ok(answer), Err)
    }

    /// What is left to do when a run has ended without success.
    fn run_ended(
        &mut self,
        ended: &EndedRun,
        released: &ReleaseOutcome,
        reason: DeadReason,
        error: Option<CompactString>,
        step: &mut QueueStep<'_>,
    ) -> Result<(), StoreError> {
        step.own.touched.push(ended.queue);
        match released {
            ReleaseOutcome::Dead => self.bury(ended, ended.job, reason, error, step),
            ReleaseOutcome::Recurs { died: true, .. } => {
                // The job goes on under its id; what died has another.
                let number = self.jobs.take_number();
                let dead = id::job_id(self.lineage, self.id, number, step.now);
                let body = self.body(ended.job, step)?;
                self.put_body(dead, body, step);
                self.bury(ended, dead, reason, error, step)
            }
            ReleaseOutcome::Expired | ReleaseOutcome::Recurs { died: false, .. } => {
                step.own.counted.expired += 1;
                Ok(())
            }
            ReleaseOutcome::Waiting { .. } | ReleaseOutcome::Superseded { .. } => Ok(()),
        }
    }

    /// Makes the job that holds an alias resident, so that the rules see it. If it has expired, or
    /// its successor has, that is noticed now, though many others may expire before it.
    pub(super) fn settle_alias(
        &mut self,
        queue: QueueKey,
        alias: AliasKey,
        step: &mut QueueStep<'_>,
    ) -> Result<(), StoreError> {
        loop {
            self.read_in_alias(queue, alias, step)?;
            let expired = self.with_calendars(step, |jobs, step| jobs.expire_holder(queue, alias, step))?;
            if expired.is_none() {
                return Ok(());
            }
            step.own.counted.expired += 1;
            step.own.touched.push(queue);
        }
    }

    /// A job that a call is about has waited for too long.
    pub(super) fn expire_now(&mut self, id: JobId, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        let expired = self.with_calendars(step, |jobs, step| jobs.expire_waiting(id, step))?;
        if let Some(expired) = expired {
            step.own.counted.expired += 1;
            step.own.touched.push(expired.queue);
        }
        Ok(())
    }

    /// Does what is due, as far as the step has room, and some of it in any case. Whether there is
    /// more of it.
    pub(super) fn advance_jobs_with_room(&mut self, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        loop {
            if !step.own.budget.may_advance() {
                // Whether more is due is seen in the next step.
                step.own.is_behind = true;
                break;
            }
            step.own.budget.spent.advanced += JOBS_AT_A_TIME;
            step.own.is_behind = self.advance_jobs(step)?;
            // Counted here: of each job that ends, another may have to be read in in this step.
            self.read_at_once(step)?;
            if !step.own.is_behind || !step.has_room() {
                break;
            }
        }
        Ok(step.own.is_behind)
    }

    /// Jobs come due, leases run out, jobs expire. Whether there is more of it.
    fn advance_jobs(&mut self, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        let mut passed = Vec::new();
        let progress =
            self.with_calendars(step, |jobs, step| jobs.advance(JOBS_AT_A_TIME, &mut passed, step))?;
        for passed in passed {
            match passed {
                Passed::Lapsed(lapsed) => self.lapsed(&lapsed, step)?,
                Passed::Expired(expired) => {
                    step.own.counted.expired += 1;
                    step.own.touched.push(expired.queue);
                }
            }
        }
        Ok(progress == JobsProgress::More)
    }

    fn lapsed(&mut self, lapsed: &Lapsed, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        step.own.counted.lapsed += 1;
        self.run_ended(&EndedRun::from(lapsed), &lapsed.released, DeadReason::TimedOut, None, step)
    }

    /// The lease that a consumer of this queue holds, and its job.
    fn holding(
        &self,
        queue: Option<QueueKey>,
        held: ReservationToken,
        now: Timestamp,
    ) -> Option<(Reservation, JobHead)> {
        let reservation = held.reservation(self.lineage)?;
        let head = self.jobs.held(now, reservation)?;
        (Some(head.queue) == queue).then_some((reservation, head))
    }
}
