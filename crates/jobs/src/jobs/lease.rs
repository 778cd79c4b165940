//! A job's run: leased, extended, and ended by its worker, or by the end of the worker's process.

use std::time::Duration;

use base::Timestamp;
use records::{HeadState, JobHead, JobId, LeaseHolder, QueueKey, Reservation};

use crate::entry::JobEntry;
use crate::jobs::Jobs;
use crate::jobs::ending::BodyDisposal;
use crate::queues::QueueEntry;
use crate::slab::Handle;
use crate::step::JobsStep;

/// A job that was leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    /// What the worker shows.
    pub reservation: Reservation,
    /// Counts the job's attempts from 1.
    pub attempt: u32,
    /// Attempts it may have; an attempt that makes up for an interrupted one may be beyond.
    pub tries: u32,
    /// When it was first due.
    pub run_at: Timestamp,
    /// Its publish number.
    pub number: u64,
    /// When the lease ends.
    pub until: Timestamp,
    /// When it expires unless it is done, if it does.
    pub expires_at: Option<Timestamp>,
}

/// A reservation that no longer holds: its time is over, or the job has moved on or is gone.
/// Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reservation no longer holds")]
pub struct Stale;

/// A job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckedJob {
    /// The job that started in its place.
    pub successor: Option<JobId>,
    /// When it is due again, by the clock it is on; `None` if it does not come again.
    pub next_run: Option<Timestamp>,
}

/// On what terms a job is given back: when it is available again, and what the attempt costs. What
/// a consumer says of the attempt is no part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseTerms {
    /// It is available again after this.
    pub delay: Duration,
    /// What the attempt costs.
    pub charge: Charge,
}

/// What an attempt that ended without success costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// A try; the job is dead if it was the last.
    Counted,
    /// A try, but never the last: the job was not to blame.
    NeverLast,
    /// Nothing: as if it had not been leased.
    Uncounted,
}

impl ReleaseTerms {
    /// The attempt was made and came to nothing.
    #[must_use]
    pub fn counted(delay: Duration) -> Self {
        Self { delay, charge: Charge::Counted }
    }

    /// The attempt was cut off by something that is not the job's fault.
    #[must_use]
    pub fn interrupted(delay: Duration) -> Self {
        Self { delay, charge: Charge::NeverLast }
    }

    /// The attempt was never begun, or is not to be held against the job.
    #[must_use]
    pub fn uncounted(delay: Duration) -> Self {
        Self { delay, charge: Charge::Uncounted }
    }
}

/// What became of a job whose run ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// It waits for its next attempt.
    Waiting {
        /// From when on it is available.
        until: Timestamp,
    },
    /// It has no tries left, and is gone. A successor has started.
    Dead,
    /// It was worth making until now only, and is gone. A successor has started.
    Expired,
    /// The run is over, and the next one waits.
    Recurs {
        /// Whether the run had no tries left; otherwise it had expired.
        died: bool,
        /// When the next one is due, by the clock it is on.
        next_run: Timestamp,
    },
    /// A `Replace` came during its run: it is gone, and its successor has started.
    Superseded {
        /// The successor.
        successor: JobId,
    },
}

/// What loading a job made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOutcome {
    /// It is as it was stored.
    Kept,
    /// The worker that held it is gone with its process: the attempt counts, but never as the last.
    Interrupted {
        /// The job.
        job: JobId,
        /// The attempt that was cut.
        attempt: u32,
        /// What became of it: waiting from now on, or superseded.
        released: ReleaseOutcome,
    },
}

impl Jobs {
    /// Takes in a job from the store. A lease of this very process is kept: its worker may be at it
    /// while the partition is loaded again.
    pub fn load(&mut self, head: &JobHead, step: &mut JobsStep<'_>) -> LoadOutcome {
        debug_assert!(head.number < self.numbers.next_job, "counters are never behind the data");
        let step = &mut step.loading();
        let job = self.enter(head);
        match head.state {
            HeadState::Reserved { holder: LeaseHolder::Own(process), .. } if process != self.process => {
                // One that has expired meanwhile does so when time moves on.
                let superseded = self.supersede(job, step);
                let released =
                    superseded.unwrap_or_else(|| self.requeue(job, step.now, Charge::NeverLast, step));
                LoadOutcome::Interrupted { job: head.id, attempt: head.attempt, released }
            }
            HeadState::Reserved { .. } | HeadState::Waiting => {
                self.place(job, step);
                self.restore_group(job, step);
                LoadOutcome::Kept
            }
        }
    }

    /// Leases the first ready job of a queue for `ttr`, if there is one and the queue's rules allow
    /// it. The worker may act when the batch is durable.
    pub fn lease(
        &mut self,
        queue: QueueKey,
        holder: LeaseHolder,
        ttr: Duration,
        step: &mut JobsStep<'_>,
    ) -> Option<Leased> {
        debug_assert!(
            matches!(holder, LeaseHolder::Outside) || holder == LeaseHolder::Own(self.process),
            "workers of another process do not ask here"
        );
        let queue = self.queues.find(queue)?;
        self.pass_over_expired(queue, step.now);
        if !self.can_lease(queue, step.now) {
            self.mark_closed(queue);
            return None;
        }
        let job = self.queues[queue].line().first(self.table.entries())?;
        self.withdraw(job);
        self.stop_expiry(job);
        let leased = self.reserve(job, step.now, holder, ttr);
        self.timers.time(self.table.entries_mut(), job);
        self.put(job, step.batch);
        if !self.can_lease(queue, step.now) {
            self.mark_closed(queue);
        }
        Some(leased)
    }

    /// Nobody gets what has expired, though time has not moved on yet: it waits for that. Any
    /// number may have expired together. So a caller that bounds its steps asks
    /// [`Jobs::is_first_unsettled`] where [`Jobs::advance`] did not come to its end.
    fn pass_over_expired(&mut self, queue: Handle<QueueEntry>, now: Timestamp) {
        while let Some(first) = self.queues[queue].line().first(self.table.entries())
            && self.table.expires_by(first, now)
        {
            self.withdraw(first);
            self.timers.time(self.table.entries_mut(), first);
        }
    }

    fn reserve(
        &mut self,
        job: Handle<JobEntry>,
        now: Timestamp,
        holder: LeaseHolder,
        ttr: Duration,
    ) -> Leased {
        let number = self.numbers.take_lease();
        self.table.begin_lease(job, number, holder, now.after(ttr));
        let entry = &self.table[job];
        self.queues[entry.queue].begin_run(now);
        Leased {
            reservation: Reservation { job: entry.id, lease: number },
            attempt: entry.attempt,
            tries: entry.tries,
            run_at: entry.run_at,
            number: entry.number,
            until: entry.visible_at,
            expires_at: self.table.expires_at(job),
        }
    }

    /// Whether [`Jobs::lease`] would give a job now.
    #[must_use]
    pub fn may_lease(&mut self, queue: QueueKey, now: Timestamp) -> bool {
        let Some(queue) = self.queues.find(queue) else { return false };
        let may = self.can_lease(queue, now);
        if !may {
            self.mark_closed(queue);
        }
        may
    }

    /// The job that a reservation holds, if it does.
    #[must_use]
    pub fn held(&self, now: Timestamp, reservation: Reservation) -> Option<JobHead> {
        self.table.by_reservation(now, reservation).map(|job| self.head(job))
    }

    /// The job is done, and gone unless it comes again.
    ///
    /// # Errors
    /// When the reservation no longer holds.
    pub fn ack(&mut self, reservation: Reservation, step: &mut JobsStep<'_>) -> Result<AckedJob, Stale> {
        let job = self.holding(reservation, step)?;
        let next_run = if self.table.is_superseded(job) { None } else { self.recur(job, step) };
        let successor = match next_run {
            Some(_) => None,
            None => self.retire(job, BodyDisposal::Deleted, step),
        };
        Ok(AckedJob { successor, next_run })
    }

    /// The job is given back, to be tried again.
    ///
    /// # Errors
    /// When the reservation no longer holds.
    pub fn release(
        &mut self,
        reservation: Reservation,
        terms: ReleaseTerms,
        step: &mut JobsStep<'_>,
    ) -> Result<ReleaseOutcome, Stale> {
        let job = self.holding(reservation, step)?;
        Ok(self.end_run(job, step.now.after(terms.delay), terms.charge, step))
    }

    /// A lease did not reach its worker: it is as if it had not been made. The attempt was none,
    /// the job has its old place in line, and the queue's rate its token. Where that place is not
    /// known any more, since a load, the job is ready from now on.
    ///
    /// # Errors
    /// When the reservation no longer holds.
    pub fn give_back(
        &mut self,
        reservation: Reservation,
        step: &mut JobsStep<'_>,
    ) -> Result<ReleaseOutcome, Stale> {
        let job = self.holding(reservation, step)?;
        let now = step.now;
        if let Some(rules) = self.queues[self.table[job].queue].rules_mut() {
            rules.give_back_token(now);
        }
        let is_over = self.table.is_superseded(job) || self.table.expires_by(job, now);
        let visible_at_before =
            self.table.lease(job).and_then(|lease| lease.visible_at_before).filter(|_| !is_over);
        let Some(visible_at_before) = visible_at_before else {
            return Ok(self.end_run(job, now, Charge::Uncounted, step));
        };
        self.update(job, step, |table| table.take_run_back(job, visible_at_before));
        Ok(ReleaseOutcome::Waiting { until: now })
    }

    /// Has the lease end `ttr` from now, later or earlier than it would have; answers when.
    ///
    /// # Errors
    /// When the reservation no longer holds.
    pub fn extend(
        &mut self,
        reservation: Reservation,
        ttr: Duration,
        step: &mut JobsStep<'_>,
    ) -> Result<Timestamp, Stale> {
        let job = self.holding(reservation, step)?;
        let until = step.now.after(ttr);
        self.withdraw(job);
        self.table.extend_lease(job, until);
        self.timers.time(self.table.entries_mut(), job);
        self.put(job, step.batch);
        Ok(until)
    }

    fn holding(&self, reservation: Reservation, step: &JobsStep<'_>) -> Result<Handle<JobEntry>, Stale> {
        self.table.by_reservation(step.now, reservation).ok_or(Stale)
    }
}
