//! What the jobs of a partition of devices are for, and who hears of one that ended without its
//! worker.
//!
//! To add a purpose: give its lines a code of their own in [`JobLine`], and name in [`Purpose`]
//! what its jobs are about. The compiler then leads to the two places here that tell of lines and
//! jobs.

use base::{Incarnation, Timestamp};
use records::{AliasKey, CommandKey, DeviceSlot, QueueKey};

use super::{DeviceStep, Partition};
use crate::devices::effect::DeviceEffect;
use crate::kernel::job_purpose::{EndedJob, line_key, line_parts};
use crate::outcomes::OutcomeLane;

/// The code of notifications: the first purpose that there was.
const NOTIFICATION: u8 = 0;
/// The code of outcomes of commands.
const OUTCOME: u8 = 1;

/// A line of jobs, which are leased one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobLine {
    /// The notifications of a client.
    Notifications(Incarnation),
    /// Some of the outcomes of commands.
    Outcomes(OutcomeLane),
}

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To tell a client of a device.
    Notification(DeviceSlot, Incarnation),
    /// To tell how a command ended.
    Outcome {
        /// Where it waits.
        lane: OutcomeLane,
        /// The command.
        key: CommandKey,
        /// What it tells of the command.
        of: OutcomeOf,
    },
}

/// What an outcome tells of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutcomeOf {
    /// How it ended.
    End,
    /// That it ended because the picked device went away.
    WentAway,
    /// An answer after the end.
    LateAnswer,
}

impl OutcomeOf {
    /// Its bits in an alias: below and above a command's number.
    const LATE: u64 = 1;
    const WENT_AWAY: u64 = 1 << 33;

    fn bits(self) -> u64 {
        match self {
            Self::End => 0,
            Self::WentAway => Self::WENT_AWAY,
            Self::LateAnswer => Self::LATE,
        }
    }

    fn from_bits(bits: u64) -> Self {
        match (bits & Self::LATE, bits & Self::WENT_AWAY) {
            (0, 0) => Self::End,
            (0, _) => Self::WentAway,
            _ => Self::LateAnswer,
        }
    }
}

impl JobLine {
    /// As it is stored.
    pub(super) fn key(self) -> QueueKey {
        match self {
            Self::Notifications(client) => line_key(NOTIFICATION, client.0),
            Self::Outcomes(lane) => line_key(OUTCOME, lane.0),
        }
    }

    fn of(key: QueueKey) -> Option<Self> {
        match line_parts(key) {
            (NOTIFICATION, client) => Some(Self::Notifications(Incarnation(client))),
            (OUTCOME, lane) => Some(Self::Outcomes(OutcomeLane(lane))),
            _ => None,
        }
    }
}

impl Purpose {
    pub(super) fn line(self) -> JobLine {
        match self {
            Self::Notification(_, client) => JobLine::Notifications(client),
            Self::Outcome { lane, .. } => JobLine::Outcomes(lane),
        }
    }

    /// What makes the job the only one of its kind in its line.
    pub(super) fn alias(self) -> AliasKey {
        match self {
            Self::Notification(slot, _) => AliasKey(u128::from(slot.0)),
            Self::Outcome { key: CommandKey { at, number }, of, .. } => AliasKey(
                u128::from(at.0.cast_unsigned()) << 64 | u128::from(number) << 1 | u128::from(of.bits()),
            ),
        }
    }

    /// The purpose of a stored job; `None` if this version knows none that it could be.
    pub(super) fn of(line: QueueKey, alias: Option<AliasKey>) -> Option<Self> {
        match JobLine::of(line)? {
            JobLine::Notifications(client) => {
                Some(Self::Notification(DeviceSlot(u32::try_from(alias?.0).ok()?), client))
            }
            JobLine::Outcomes(lane) => {
                let alias = alias?.0;
                let at = Timestamp(((alias >> 64) as u64).cast_signed());
                let key = CommandKey { at, number: (alias as u64 >> 1) as u32 };
                Some(Self::Outcome { lane, key, of: OutcomeOf::from_bits(alias as u64) })
            }
        }
    }
}

impl Partition {
    /// A job ended without a word of its worker.
    pub(super) fn job_ended(&mut self, ended: EndedJob, step: &mut DeviceStep<'_>) {
        match Purpose::of(ended.line, ended.alias) {
            Some(Purpose::Notification(slot, client)) => {
                self.notification_ended(slot, client, ended.end, step);
            }
            Some(Purpose::Outcome { .. }) => Self::outcome_ended(ended.end),
            None => debug_assert!(false, "a job has a purpose: {ended:?}"),
        }
    }

    /// Says which lines have something to lease since this step.
    pub(super) fn announce_lines(&mut self, step: &mut DeviceStep<'_>) {
        if step.wakes.is_empty() {
            return;
        }
        let (mut clients, mut outcomes) = (Vec::new(), Vec::new());
        for line in step.wakes.iter().filter_map(|line| JobLine::of(*line)) {
            match line {
                JobLine::Notifications(client) => clients.push(client),
                JobLine::Outcomes(lane) => outcomes.push(lane),
            }
        }
        if !clients.is_empty() {
            step.emit(DeviceEffect::LanesDue(self.id, clients));
        }
        if !outcomes.is_empty() {
            step.emit(DeviceEffect::OutcomesDue(self.id, outcomes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_stored_before_there_were_purposes_is_a_notification() {
        let purpose = Purpose::Notification(DeviceSlot(3), Incarnation(7));
        assert_eq!((purpose.line().key(), purpose.alias()), (QueueKey(7), AliasKey(3)));
        assert_eq!(Purpose::of(QueueKey(7), Some(AliasKey(3))), Some(purpose));
    }

    #[test]
    fn an_outcome_is_read_back() {
        let key = CommandKey { at: Timestamp(1_795_000_000_000), number: u32::MAX };
        for of in [OutcomeOf::End, OutcomeOf::WentAway, OutcomeOf::LateAnswer] {
            let purpose = Purpose::Outcome { lane: OutcomeLane(7), key, of };
            assert_eq!(Purpose::of(purpose.line().key(), Some(purpose.alias())), Some(purpose));
        }
    }

    #[test]
    fn a_job_of_another_purpose_is_no_notification() {
        assert_eq!(Purpose::of(line_key(2, 7), Some(AliasKey(3))), None);
        assert_eq!(Purpose::of(QueueKey(7), None), None);
    }
}
