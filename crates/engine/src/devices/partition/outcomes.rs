//! Outcomes of commands: jobs that tell those who gave the commands.

use std::collections::BTreeSet;

use base::log_limit::LINES_MAX;
use base::{Problem, hash};
use commands::Moved;
use jobs::{ConflictPolicy, Jobs, NewJobHead, ReleaseOutcome};
use records::{
    CommandKey, CommandStatus, JobId, JobLine, JobPurpose, JobTerms, OutcomeOf, OutcomeReceiver, Reservation,
};
use store::StoreError;

use super::ended_job::JobEnd;
use super::{DevicePartition, DeviceStep};
use crate::devices::effect::{CommandInLog, DeviceEffect, OutcomeGivenUp};
use crate::outcomes::{OutcomeDue, OutcomeLane, SendResult};
use crate::retry_delay::delay_after;

/// Waiting outcomes at which a partition refuses new commands with `notify`. At as many, those that
/// it has do not fail for want of an answer.
const WAITING_MAX: usize = 65_536;
/// Waiting outcomes at which commands with `notify` stop expiring: very many may be due to expire
/// at one moment. The other half is left for commands that end in another way.
const WAITING_OF_EXPIRED_MAX: usize = WAITING_MAX / 2;

/// Outcomes that a lane may have waiting however many wait in others: a receiver that takes none
/// does not hold up those of other lanes. All lanes together may have so many beyond the limits.
const WAITING_OF_A_LANE: usize = 1_024;

/// How many outcomes wait.
#[derive(Clone, Copy, Debug)]
struct OutcomeBacklog {
    /// In all lanes of the partition.
    in_all: usize,
    /// In the lane of whom it is about.
    in_lane: usize,
}

impl OutcomeBacklog {
    fn of(jobs: &Jobs, lane: OutcomeLane) -> Self {
        Self {
            in_all: OutcomeLane::all().map(|lane| in_lane(jobs, lane)).sum(),
            in_lane: in_lane(jobs, lane),
        }
    }

    /// Whether a command is taken whose outcome is to be told.
    fn takes_commands(self) -> bool {
        self.in_all < WAITING_MAX || self.in_lane < WAITING_OF_A_LANE
    }

    /// Whether a command may expire whose outcome is to be told.
    fn takes_expired(self) -> bool {
        self.in_all < WAITING_OF_EXPIRED_MAX || self.in_lane < WAITING_OF_A_LANE
    }

    /// The same for commands that were put off: a look at all of them is worth it only where some
    /// more have room.
    fn takes_expired_again(self) -> bool {
        self.in_all < WAITING_OF_EXPIRED_MAX || self.in_lane < WAITING_OF_A_LANE / 2
    }
}

fn in_lane(jobs: &Jobs, lane: OutcomeLane) -> usize {
    let counts = jobs.counts_of(JobLine::Outcomes(lane).key());
    counts.scheduled + counts.ready + counts.reserved
}

/// Lanes without room for the outcomes of commands that should have expired or failed. Until there
/// is room, such a command does not go out.
#[derive(Debug, Default)]
pub(super) struct RefusedLanes(BTreeSet<OutcomeLane>);

impl RefusedLanes {
    /// Whether a command may expire, or fail for want of an answer, whose outcome this receiver is
    /// to be told.
    pub(super) fn has_room(&mut self, jobs: &Jobs, receiver: &OutcomeReceiver, end: CommandStatus) -> bool {
        let lane = OutcomeLane::of(receiver);
        let waiting = OutcomeBacklog::of(jobs, lane);
        let has_room = match end {
            CommandStatus::Expired => waiting.takes_expired(),
            _ => waiting.takes_commands(),
        };
        if !has_room {
            self.0.insert(lane);
        }
        has_room
    }

    /// Whether one of them may have room now.
    pub(super) fn has_room_again(&self, jobs: &Jobs) -> bool {
        self.0.iter().any(|lane| OutcomeBacklog::of(jobs, *lane).takes_expired_again())
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

impl DevicePartition {
    /// Refuses a command whose outcome would be told after too many others.
    pub(super) fn check_room_for_outcome(&self, receiver: &OutcomeReceiver) -> Result<(), Problem> {
        if OutcomeBacklog::of(&self.jobs, OutcomeLane::of(receiver)).takes_commands() {
            return Ok(());
        }
        let detail = "too many outcomes of commands wait for receivers that do not take them; \
                      try again later, or send without notify";
        Err(Problem::new(503, "busy", detail))
    }

    /// Tells the receiver of a command that it has ended, unless it was taken back in silence. The
    /// command of a pick ends whatever the room: without room its receiver is not told.
    pub(super) fn queue_end(&mut self, moved: &Moved, step: &mut DeviceStep<'_>) {
        let key = CommandKey::from(moved.command.id);
        if moved.command.cause.pick().is_some()
            && let Some(receiver) = moved.command.notify.as_deref()
            && self.check_room_for_outcome(receiver).is_err()
        {
            step.emit(DeviceEffect::PickResultDropped);
            return;
        }
        let of = match self.commands.taking_back {
            Some((taken_back, of)) if taken_back == key => of,
            _ => Some(OutcomeOf::End),
        };
        of.into_iter().for_each(|of| self.queue_outcome(moved, of, step));
    }

    /// Tells the receiver of a command that it was answered after the end. Of a pick it is told
    /// once.
    pub(super) fn queue_late(&mut self, moved: &Moved, step: &mut DeviceStep<'_>) {
        if moved.command.cause.pick().is_none() {
            self.queue_outcome(moved, OutcomeOf::LateAnswer, step);
        }
    }

    fn queue_outcome(&mut self, moved: &Moved, of: OutcomeOf, step: &mut DeviceStep<'_>) {
        let Some(receiver) = &moved.command.notify else { return };
        let key = CommandKey::from(moved.command.id);
        let purpose = JobPurpose::Outcome { lane: OutcomeLane::of(receiver), key, of };
        let job = NewJobHead {
            id: self.next_job_id(),
            queue: purpose.line().key(),
            run_at: step.now,
            tries: self.settings.retry.attempts_max,
            terms: JobTerms::default(),
            alias: Some(purpose.alias()),
            on_conflict: ConflictPolicy::Replace,
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
        let purpose = self.jobs.get(job).and_then(|head| JobPurpose::of(head.queue, head.alias));
        let is_late = matches!(purpose, Some(JobPurpose::Outcome { of: OutcomeOf::LateAnswer, .. }));
        if let Some(JobPurpose::Outcome { key, of, .. }) = purpose
            && let Some(command) = self.stored_command(key, step)?
            && let Some(state) = self
                .command_state(key, step)?
                .filter(|state| state.status.has_ended() && (state.late.is_some() || !is_late))
        {
            let partition = self.id;
            let went_away = of == OutcomeOf::WentAway;
            return Ok(Some(OutcomeDue { partition, reservation, command, state, is_late, went_away }));
        }
        self.jobs.cancel(job, &mut step.jobs());
        Ok(None)
    }

    pub(super) fn outcome_told(
        &mut self,
        reservation: Reservation,
        result: SendResult,
        step: &mut DeviceStep<'_>,
    ) {
        match result {
            SendResult::Delivered => {
                // A stale reservation: it was told, and another attempt will tell it again.
                let _stale = self.jobs.ack(reservation, &mut step.jobs());
            }
            SendResult::Failed(patience) => {
                let head = self.jobs.get(reservation.job);
                let counted = head.as_ref().map_or(1, |head| head.attempt);
                let purpose = head.and_then(|head| JobPurpose::of(head.queue, head.alias));
                let chance = chance_of(reservation.job, counted);
                let delay = delay_after(&self.settings.retry, counted, patience, chance);
                let terms = jobs::ReleaseTerms::counted(delay);
                let released = self.jobs.release(reservation, terms, &mut step.jobs());
                if matches!(released, Ok(ReleaseOutcome::Dead))
                    && let Some(JobPurpose::Outcome { lane, key, .. }) = purpose
                {
                    self.outcome_given_up((lane, key), Some(counted), step);
                }
            }
        }
    }

    /// The job of an outcome ended without a word of its sender.
    pub(super) fn outcome_ended(
        &self,
        of: (OutcomeLane, CommandKey),
        end: JobEnd,
        step: &mut DeviceStep<'_>,
    ) {
        if let JobEnd::Lapsed(ReleaseOutcome::Dead) | JobEnd::Cut(ReleaseOutcome::Dead) | JobEnd::Expired(_) =
            end
        {
            self.outcome_given_up(of, None, step);
        }
    }

    fn outcome_given_up(
        &self,
        (lane, key): (OutcomeLane, CommandKey),
        attempts: Option<u32>,
        step: &mut DeviceStep<'_>,
    ) {
        let given_up = step.own.outcomes_given_up.entry(lane).or_default();
        *given_up += 1;
        // Of more than these the log tells only the count, and no command is read for that. Nor is
        // a line left out where the store cannot be read: it says less.
        let is_told = *given_up <= LINES_MAX;
        let command = if is_told { self.stored_command(key, step).ok().flatten() } else { None };
        let command = command.as_deref().map(CommandInLog::of);
        step.emit(DeviceEffect::OutcomeGivenUp(Box::new(OutcomeGivenUp { command, lane, attempts })));
    }
}

fn chance_of(job: JobId, attempt: u32) -> u64 {
    hash::derived(u64::from(attempt), &job.0)
}

#[cfg(test)]
mod tests {
    use jobs::Numbers;
    use records::Process;

    use super::*;

    #[test]
    fn a_lane_that_takes_nothing_leaves_room_to_the_others() {
        let rules = |in_all, in_lane| {
            let waiting = OutcomeBacklog { in_all, in_lane };
            [waiting.takes_commands(), waiting.takes_expired(), waiting.takes_expired_again()]
        };
        let (half, all, own) = (WAITING_OF_EXPIRED_MAX, WAITING_MAX, WAITING_OF_A_LANE);
        assert_eq!(rules(half - 1, half - 1), [true; 3], "there is room for whomever");
        assert_eq!(rules(half, half), [true, false, false], "expired ones wait");
        assert_eq!(rules(all, all), [false; 3]);
        assert_eq!(rules(all, own), [false; 3]);
        assert_eq!(rules(all, own - 1), [true, true, false], "another lane has few");
        assert_eq!(rules(all, own / 2 - 1), [true; 3]);
    }

    #[test]
    fn a_lane_that_was_refused_is_looked_at_once_it_has_room() {
        let jobs = &Jobs::new(Process(1), Numbers { next_job: 1, next_lease: 1 });
        let mut refused = RefusedLanes::default();
        assert!(!refused.has_room_again(jobs), "nobody was refused");
        refused.0.insert(OutcomeLane(1));
        assert!(refused.has_room_again(jobs));
        refused.forget();
        assert!(!refused.has_room_again(jobs));
    }
}
