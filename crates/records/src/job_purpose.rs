//! What a job of a partition of devices is for, as it is stored.
//!
//! The code of a purpose is the top byte of the number of the line that its jobs wait in. Code 0 is
//! the purpose that there was first, so that jobs which were stored before there were others mean
//! what they meant.
//!
//! To add a purpose: give its lines a code of their own in [`JobLine`], and name in [`JobPurpose`]
//! what its jobs are about. The compiler then leads to all who tell lines and jobs apart.

use base::{Incarnation, Timestamp, hash};

use crate::{AliasKey, CommandKey, DeviceSlot, OutcomeReceiver, QueueKey};

/// Bits of a line's number below the code of its purpose.
const NUMBER_BITS: u32 = 56;
/// The code of notifications: the first purpose that there was.
const NOTIFICATION: u8 = 0;
/// The code of outcomes of commands.
const OUTCOME: u8 = 1;

impl QueueKey {
    /// The line with this number among those of a purpose. Numbers count registrations, and never
    /// come near 2^56.
    #[must_use]
    pub fn of_purpose(code: u8, number: u64) -> Self {
        debug_assert!(number >> NUMBER_BITS == 0, "the number of a line leaves room for its purpose");
        Self(u64::from(code) << NUMBER_BITS | number)
    }

    /// The code of a line's purpose, and its number among the lines of that.
    #[must_use]
    pub fn purpose(self) -> (u8, u64) {
        ((self.0 >> NUMBER_BITS) as u8, self.0 & ((1 << NUMBER_BITS) - 1))
    }
}

/// Lanes of outcomes to URLs in a partition: a receiver that hangs holds up those of its own lane
/// only. Outcomes to queues have a lane besides, and so have those to streams.
const URL_LANES: u64 = 32;

/// A lane of outcomes in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutcomeLane(pub u64);

impl OutcomeLane {
    const QUEUES: Self = Self(0);
    const STREAMS: Self = Self(1 + URL_LANES);

    /// Whether its outcomes are posted to URLs.
    #[must_use]
    pub fn is_of_urls(self) -> bool {
        (1..=URL_LANES).contains(&self.0)
    }

    /// Every lane.
    pub fn all() -> impl Iterator<Item = Self> {
        (Self::QUEUES.0..=Self::STREAMS.0).map(Self)
    }

    /// The lane of a receiver.
    #[must_use]
    pub fn of(receiver: &OutcomeReceiver) -> Self {
        match receiver {
            OutcomeReceiver::Queue { .. } => Self::QUEUES,
            OutcomeReceiver::Url { url, .. } => {
                let origin =
                    url.splitn(4, '/').take(3).fold(0, |seed, part| hash::derived(seed, part.as_bytes()));
                Self(1 + origin % URL_LANES)
            }
            OutcomeReceiver::Stream { .. } => Self::STREAMS,
        }
    }
}

/// A line of jobs, which are leased one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobLine {
    /// The notifications of a client.
    Notifications(Incarnation),
    /// Some of the outcomes of commands.
    Outcomes(OutcomeLane),
}

impl JobLine {
    /// As it is stored.
    #[must_use]
    pub fn key(self) -> QueueKey {
        match self {
            Self::Notifications(client) => QueueKey::of_purpose(NOTIFICATION, client.0),
            Self::Outcomes(lane) => QueueKey::of_purpose(OUTCOME, lane.0),
        }
    }

    /// The line that was stored so; `None` if this version knows no purpose that it could have.
    #[must_use]
    pub fn of(key: QueueKey) -> Option<Self> {
        match key.purpose() {
            (NOTIFICATION, client) => Some(Self::Notifications(Incarnation(client))),
            (OUTCOME, lane) => Some(Self::Outcomes(OutcomeLane(lane))),
            _ => None,
        }
    }
}

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobPurpose {
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
pub enum OutcomeOf {
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

impl JobPurpose {
    /// The line that it waits in.
    #[must_use]
    pub fn line(self) -> JobLine {
        match self {
            Self::Notification(_, client) => JobLine::Notifications(client),
            Self::Outcome { lane, .. } => JobLine::Outcomes(lane),
        }
    }

    /// What makes the job the only one of its kind in its line.
    #[must_use]
    pub fn alias(self) -> AliasKey {
        match self {
            Self::Notification(slot, _) => AliasKey(u128::from(slot.0)),
            Self::Outcome { key: CommandKey { at, number }, of, .. } => AliasKey(
                u128::from(at.0.cast_unsigned()) << 64 | u128::from(number) << 1 | u128::from(of.bits()),
            ),
        }
    }

    /// The purpose of a stored job; `None` if this version knows none that it could be.
    #[must_use]
    pub fn of(line: QueueKey, alias: Option<AliasKey>) -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stored_before_there_were_purposes_has_the_first_one() {
        assert_eq!(QueueKey::of_purpose(0, 7), QueueKey(7));
        assert_eq!(QueueKey(7).purpose(), (0, 7));
    }

    #[test]
    fn the_code_of_a_purpose_is_read_back() {
        for (code, number) in [(0, 0), (1, 7), (255, (1 << NUMBER_BITS) - 1)] {
            assert_eq!(QueueKey::of_purpose(code, number).purpose(), (code, number));
        }
    }

    #[test]
    fn a_job_stored_before_there_were_purposes_is_a_notification() {
        let purpose = JobPurpose::Notification(DeviceSlot(3), Incarnation(7));
        assert_eq!((purpose.line().key(), purpose.alias()), (QueueKey(7), AliasKey(3)));
        assert_eq!(JobPurpose::of(QueueKey(7), Some(AliasKey(3))), Some(purpose));
    }

    #[test]
    fn each_kind_of_receiver_has_lanes_of_its_own() {
        let url = |url: &str| OutcomeReceiver::Url { url: url.into(), secret: Box::default() };
        let queue = OutcomeReceiver::Queue { namespace: "a".into(), queue: "b".into() };
        let stream = OutcomeReceiver::Stream { namespace: "a".into(), stream: "b".into() };
        let urls: Vec<_> = (0..256).map(|n| OutcomeLane::of(&url(&format!("https://h{n}/")))).collect();
        let [queues, streams] = [&queue, &stream].map(OutcomeLane::of);
        assert!(urls.iter().all(|lane| lane.is_of_urls()));
        assert!(!queues.is_of_urls() && !streams.is_of_urls() && queues != streams);
        let all: Vec<_> = OutcomeLane::all().collect();
        assert!(urls.iter().chain([&queues, &streams]).all(|lane| all.contains(lane)));
    }

    #[test]
    fn an_outcome_is_read_back() {
        let key = CommandKey { at: Timestamp(1_795_000_000_000), number: u32::MAX };
        for of in [OutcomeOf::End, OutcomeOf::WentAway, OutcomeOf::LateAnswer] {
            let purpose = JobPurpose::Outcome { lane: OutcomeLane(7), key, of };
            assert_eq!(JobPurpose::of(purpose.line().key(), Some(purpose.alias())), Some(purpose));
        }
    }

    #[test]
    fn a_job_of_another_purpose_is_no_notification() {
        assert_eq!(JobPurpose::of(QueueKey::of_purpose(2, 7), Some(AliasKey(3))), None);
        assert_eq!(JobPurpose::of(QueueKey(7), None), None);
    }
}
