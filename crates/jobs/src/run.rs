//! A job's run: leased, extended, and ended by its worker, or by the end of the worker's process.

use std::time::Duration;

use base::Timestamp;
use records::{Batch, Holder, JobHead, JobId, JobState, QueueKey, Reservation};

use crate::entry::{Entry, Lease, Next};
use crate::jobs::{Jobs, Turn};
use crate::slab::Handle;
use crate::table::Found;

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
}

/// A reservation that no longer holds: its time is over, or the job has moved on or is gone. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reservation no longer holds")]
pub struct Stale;

/// A job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// The job that started in its place.
    pub successor: Option<JobId>,
}

/// How a job is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
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

impl Retry {
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
pub enum Released {
    /// It waits for its next attempt.
    Waiting {
        /// From when on it is available.
        until: Timestamp,
    },
    /// It has no tries left, and is gone. A successor has started.
    Dead,
    /// A `Replace` came during its run: it is gone, and its successor has started.
    Superseded {
        /// The successor.
        successor: JobId,
    },
}

/// What loading a job made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// It is as it was stored.
    Kept,
    /// The worker that held it is gone with its process: the attempt counts, but never as the last.
    Interrupted {
        /// The job.
        job: JobId,
        /// The attempt that was cut.
        attempt: u32,
        /// What became of it: waiting from now on, or superseded.
        released: Released,
    },
}

impl Jobs {
    /// Takes in a job from the store. A lease of this very process is kept: its worker may be at it while the partition is
    /// loaded again.
    pub fn load(&mut self, now: Timestamp, head: &JobHead, batch: &mut Batch) -> Loaded {
        debug_assert!(head.number < self.numbers.next_job, "counters are never behind the data");
        let mut turn = Turn { now, batch, wakes: None };
        let job = self.table.insert(head);
        match head.state {
            JobState::Reserved { holder: Holder::Own(process), .. } if process != self.process => {
                let (job_id, attempt) = (head.id, head.attempt);
                let released = self.end_run(job, now, Charge::NeverLast, &mut turn);
                Loaded::Interrupted { job: job_id, attempt, released }
            }
            JobState::Reserved { .. } | JobState::Waiting => {
                self.file(job, &mut turn);
                Loaded::Kept
            }
        }
    }

    /// Leases the first ready job of a queue for `ttr`. The worker may act when the batch is durable.
    pub fn lease(
        &mut self,
        now: Timestamp,
        queue: QueueKey,
        holder: Holder,
        ttr: Duration,
        batch: &mut Batch,
    ) -> Option<Leased> {
        debug_assert!(
            matches!(holder, Holder::Outside) || holder == Holder::Own(self.process),
            "workers of another process do not ask here"
        );
        let job = self.schedule.first_ready(queue)?;
        self.schedule.remove(&mut self.table.entries, job);
        let number = self.numbers.take_lease();
        let lease = self.table.leases.insert(Lease { number, holder });
        let entry = &mut self.table.entries[job];
        debug_assert!(entry.visible_at <= now, "the time never goes back");
        entry.lease = Some(lease);
        entry.attempt = entry.attempt.saturating_add(1);
        entry.visible_at = now.after(ttr);
        let leased = Leased {
            reservation: Reservation { job: entry.id, lease: number },
            attempt: entry.attempt,
            tries: entry.tries,
            run_at: entry.run_at,
            number: entry.number,
            until: entry.visible_at,
        };
        self.schedule.time(&mut self.table.entries, job);
        self.put(job, batch);
        Some(leased)
    }

    /// The job that a reservation holds, if it does.
    #[must_use]
    pub fn held(&self, now: Timestamp, reservation: Reservation) -> Option<JobHead> {
        self.reserved(now, reservation).ok().map(|job| self.table.head(job))
    }

    /// The job is done.
    ///
    /// # Errors
    /// When the reservation no longer holds.
    pub fn ack(
        &mut self,
        now: Timestamp,
        reservation: Reservation,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) -> Result<Acked, Stale> {
        let job = self.reserved(now, reservation)?;
        let successor = self.retire(job, &mut Turn { now, batch, wakes: Some(wakes) });
        Ok(Acked { successor })
    }

    /// The job is given back, to be tried again.
    ///
    /// # Errors
    /// When the reservation no longer holds.
    pub fn release(
        &mut self,
        now: Timestamp,
        reservation: Reservation,
        retry: Retry,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) -> Result<Released, Stale> {
        let job = self.reserved(now, reservation)?;
        let until = now.after(retry.delay);
        Ok(self.end_run(job, until, retry.charge, &mut Turn { now, batch, wakes: Some(wakes) }))
    }

    /// Has the lease end `ttr` from now, later or earlier than it would have; answers when.
    ///
    /// # Errors
    /// When the reservation no longer holds.
    pub fn extend(
        &mut self,
        now: Timestamp,
        reservation: Reservation,
        ttr: Duration,
        batch: &mut Batch,
    ) -> Result<Timestamp, Stale> {
        let job = self.reserved(now, reservation)?;
        let until = now.after(ttr);
        self.schedule.remove(&mut self.table.entries, job);
        self.table.entries[job].visible_at = until;
        self.schedule.time(&mut self.table.entries, job);
        self.put(job, batch);
        Ok(until)
    }

    /// Ends the run of a reserved job that was not done.
    pub(crate) fn end_run(
        &mut self,
        job: Handle<Entry>,
        until: Timestamp,
        charge: Charge,
        turn: &mut Turn<'_>,
    ) -> Released {
        if let Some(Next::AfterRun(successor)) = self.table.claim(job).map(|claim| &claim.next) {
            let successor = successor.id;
            self.retire(job, turn);
            return Released::Superseded { successor };
        }
        let entry = &self.table.entries[job];
        if charge == Charge::Counted && entry.attempt >= entry.tries {
            self.retire(job, turn);
            return Released::Dead;
        }
        self.schedule.remove(&mut self.table.entries, job);
        self.table.end_lease(job);
        let entry = &mut self.table.entries[job];
        entry.visible_at = until;
        if charge == Charge::Uncounted {
            entry.attempt = entry.attempt.saturating_sub(1);
        }
        self.settle(job, turn);
        Released::Waiting { until }
    }

    fn reserved(&self, now: Timestamp, reservation: Reservation) -> Result<Handle<Entry>, Stale> {
        let Some(Found::Job(job)) = self.table.find(reservation.job) else { return Err(Stale) };
        let holds = self.table.lease(job).is_some_and(|lease| lease.number == reservation.lease)
            && now < self.table.entries[job].visible_at;
        if holds { Ok(job) } else { Err(Stale) }
    }
}
