//! Outcomes of commands: jobs that tell those who gave the commands.

use base::{Problem, hash};
use commands::Moved;
use jobs::{Jobs, NewJob, OnConflict, Released};
use records::{CommandKey, JobId, Reservation, Terms};
use store::StoreError;

use super::attempt_ends::delay_after;
use super::purpose::{JobLine, Purpose};
use super::{DeviceStep, Partition};
use crate::kernel::job_purpose::JobEnd;
use crate::outcomes::{OutcomeDue, OutcomeLane, Told};

/// Waiting outcomes at which a partition refuses new commands with `notify`.
const WAITING_MAX: usize = 65_536;
/// Waiting outcomes at which commands with `notify` stop expiring: very many may be due to expire
/// at one moment. The other half is left for commands that end in another way.
const WAITING_OF_EXPIRED_MAX: usize = WAITING_MAX / 2;

/// Whether a command with `notify` may expire now. Until then its end is put off, and it does not
/// go out.
pub(super) fn has_room_for_expired(jobs: &Jobs) -> bool {
    waiting(jobs) < WAITING_OF_EXPIRED_MAX
}

fn waiting(jobs: &Jobs) -> usize {
    let waiting = |lane: OutcomeLane| {
        let counts = jobs.counts_of(JobLine::Outcomes(lane).key());
        counts.scheduled + counts.ready + counts.reserved
    };
    OutcomeLane::all().map(waiting).sum()
}

impl Partition {
    /// Refuses a command whose outcome would be told after too many others.
    pub(super) fn check_room_for_outcome(&self) -> Result<(), Problem> {
        if waiting(&self.jobs) < WAITING_MAX {
            return Ok(());
        }
        let detail = "too many outcomes of commands wait for receivers that do not take them; \
                      try again later, or send without notify";
        Err(Problem::new(503, "busy", detail))
    }

    /// Tells the receiver of a command that it has ended, or was answered after the end.
    pub(super) fn queue_outcome(&mut self, moved: &Moved, is_late: bool, step: &mut DeviceStep<'_>) {
        let Some(receiver) = &moved.command.notify else { return };
        let key = CommandKey::from(moved.command.id);
        let purpose = Purpose::Outcome { lane: OutcomeLane::of(receiver), key, is_late };
        let job = NewJob {
            id: self.next_job_id(),
            queue: purpose.line().key(),
            run_at: step.now,
            tries: self.settings.retry.attempts_max,
            terms: Terms::default(),
            alias: Some(purpose.alias()),
            on_conflict: OnConflict::Replace,
        };
        self.jobs.publish(job, &mut step.jobs());
    }

    pub(super) fn lease_outcomes(
        &mut self,
        lane: OutcomeLane,
        max: usize,
        step: &mut DeviceStep<'_>,
    ) -> Result<Vec<OutcomeDue>, StoreError> {
        self.lease_line(JobLine::Outcomes(lane), max, step, |partition, leased, step| {
            partition.outcome_due(leased.reservation, step)
        })
    }

    /// What a leased job tells. One whose command is gone, or is tried anew, has nothing to tell.
    fn outcome_due(
        &mut self,
        reservation: Reservation,
        step: &mut DeviceStep<'_>,
    ) -> Result<Option<OutcomeDue>, StoreError> {
        let job = reservation.job;
        let purpose = self.jobs.get(job).and_then(|head| Purpose::of(head.queue, head.alias));
        if let Some(Purpose::Outcome { key, is_late, .. }) = purpose
            && let Some(command) = self.stored_command(key, step)?
            && let Some(state) = self
                .command_state(key, step)?
                .filter(|state| state.status.has_ended() && (state.late.is_some() || !is_late))
        {
            let partition = self.id;
            return Ok(Some(OutcomeDue { partition, reservation, command, state, is_late }));
        }
        self.jobs.cancel(job, &mut step.jobs());
        Ok(None)
    }

    pub(super) fn outcome_told(&mut self, reservation: Reservation, told: Told, step: &mut DeviceStep<'_>) {
        match told {
            Told::Yes => {
                // A stale reservation: it was told, and another attempt will tell it again.
                let _stale = self.jobs.ack(reservation, &mut step.jobs());
            }
            Told::No(patience) => {
                let counted = self.jobs.get(reservation.job).map_or(1, |head| head.attempt);
                let chance = chance_of(reservation.job, counted);
                let delay = delay_after(&self.settings.retry, counted, patience, chance);
                let retry = jobs::Retry::counted(delay);
                let released = self.jobs.release(reservation, retry, &mut step.jobs());
                if matches!(released, Ok(Released::Dead)) {
                    log_given_up(counted);
                }
            }
        }
    }

    /// The job of an outcome ended without a word of its sender.
    pub(super) fn outcome_ended(end: JobEnd) {
        if let JobEnd::Lapsed(Released::Dead) | JobEnd::Cut(Released::Dead) | JobEnd::Expired(_) = end {
            log_given_up(0);
        }
    }
}

fn chance_of(job: JobId, attempt: u32) -> u64 {
    hash::derived(u64::from(attempt), &job.0)
}

fn log_given_up(attempts: u32) {
    tracing::warn!(attempts, "the outcome of a command could not be told, and is given up");
}
