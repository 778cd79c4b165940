//! A job in memory: the 80 bytes that every one needs, and apart from them what only some have.

use base::Timestamp;
use records::{
    AliasKey, GroupKey, HeadState, JobClock, JobHead, JobId, JobTerms, LeaseHolder, QueueKey, Recurrence,
    Starts, Successor,
};

use crate::queues::QueueEntry;
use crate::slab::Handle;

/// What every job needs. Every part reads it, and only the table changes it: no `&mut JobEntry`
/// leaves that. Priority queues are linked by way of [`crate::table::Entries`].
pub(crate) struct JobEntry {
    pub(crate) id: JobId,
    pub(crate) queue: Handle<QueueEntry>,
    pub(crate) number: u64,
    pub(crate) run_at: Timestamp,
    pub(crate) visible_at: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) tries: u32,
    /// There while the job is reserved.
    pub(crate) lease: Option<Handle<JobLease>>,
    /// There if the job has an alias.
    pub(crate) claim: Option<Handle<Claim>>,
    /// There if more holds of the job than of most.
    pub(crate) extra: Option<Handle<Extra>>,
    /// The clock that `run_at` is on.
    pub(crate) clock: JobClock,
    pub(crate) links: Links,
    /// Its rank in a heap; 0 in a list and in no queue.
    pub(crate) rank: u8,
    pub(crate) place: JobPlace,
}

const _: () = assert!(size_of::<Option<JobEntry>>() == 80, "millions of these are resident");

impl JobEntry {
    /// The order of jobs, in a queue and in time.
    pub(crate) fn order(&self) -> (Timestamp, u64) {
        (self.visible_at, self.number)
    }

    /// The order of the jobs of a group.
    pub(crate) fn order_in_group(&self) -> (Timestamp, u64) {
        (self.run_at, self.number)
    }

    /// Whether an attempt at this run was begun, and not taken back.
    pub(crate) fn is_started(&self) -> bool {
        self.attempt > 0 || self.lease.is_some()
    }

    /// The clock of `visible_at`: from the first lease on, it is the engine's.
    pub(crate) fn clock_of_wait(&self) -> JobClock {
        if self.is_started() { JobClock::Engine } else { self.clock }
    }
}

#[cfg(test)]
impl JobEntry {
    /// A job that is due then, in no place and of no queue that is anywhere else.
    pub(crate) fn sample(at: i64, number: u64) -> Self {
        Self {
            id: JobId([0; 16]),
            queue: Handle::from_number(std::num::NonZeroU32::MIN),
            number,
            run_at: Timestamp(at),
            visible_at: Timestamp(at),
            attempt: 0,
            tries: 1,
            lease: None,
            claim: None,
            extra: None,
            clock: JobClock::Engine,
            links: Links::default(),
            rank: 0,
            place: JobPlace::Nowhere,
        }
    }
}

/// A job's place among the others of its heap or list. In a list the left one is before it, and the
/// right one behind it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Links {
    pub(crate) left: Option<Handle<JobEntry>>,
    pub(crate) right: Option<Handle<JobEntry>>,
    /// In a heap only.
    pub(crate) parent: Option<Handle<JobEntry>>,
}

/// In which priority queue a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobPlace {
    /// In none.
    Nowhere,
    /// Waits for its `visible_at`.
    Timed,
    /// Is the next of its group, if it has one, and can be leased when its queue allows it.
    Ready,
    /// Its time has come, but another of its group goes first.
    Behind,
}

/// A lease that is out.
#[derive(Clone, Copy)]
pub(crate) struct JobLease {
    pub(crate) number: u64,
    pub(crate) holder: LeaseHolder,
    /// The job's `visible_at` before it was leased; not known any more after a load.
    pub(crate) visible_at_before: Option<Timestamp>,
}

const _: () = assert!(size_of::<Option<JobLease>>() == 40, "as many of these as reserved jobs");

/// An alias that is held, and who holds it next.
pub(crate) struct Claim {
    pub(crate) alias: AliasKey,
    pub(crate) next: Succession,
}

const _: () = assert!(size_of::<Option<Claim>>() == 32, "as many of these as jobs with an alias");

/// What holds of some jobs only, apart from their clock.
pub(crate) struct Extra {
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) group: Option<GroupKey>,
    pub(crate) recurrence: Option<Box<Recurrence>>,
}

const _: () = assert!(size_of::<Option<Extra>>() == 40, "as many of these as jobs that expire");

impl Extra {
    /// `None` if nothing of it holds.
    pub(crate) fn of(terms: &JobTerms) -> Option<Self> {
        let JobTerms { clock: _, expires_at, group, recurrence } = *terms;
        let plain = expires_at.is_none() && group.is_none() && recurrence.is_none();
        (!plain).then(|| Self { expires_at, group, recurrence: recurrence.map(Box::new) })
    }
}

/// The job that takes over, and from when on it may.
#[derive(Default)]
pub(crate) enum Succession {
    #[default]
    Nobody,
    /// When the job is done, dead or cancelled: its retries come first.
    AfterJob(Box<Successor>),
    /// When its run ends, in whatever way.
    AfterRun(Box<Successor>),
}

impl Succession {
    pub(crate) fn successor(&self) -> Option<&Successor> {
        match self {
            Self::Nobody => None,
            Self::AfterJob(successor) | Self::AfterRun(successor) => Some(successor),
        }
    }

    pub(crate) fn successor_mut(&mut self) -> Option<&mut Successor> {
        match self {
            Self::Nobody => None,
            Self::AfterJob(successor) | Self::AfterRun(successor) => Some(successor),
        }
    }

    pub(crate) fn from_stored(stored: Option<Box<Successor>>) -> Self {
        match stored {
            None => Self::Nobody,
            Some(successor) => match successor.starts {
                Starts::AfterJob => Self::AfterJob(successor),
                Starts::AfterRun => Self::AfterRun(successor),
            },
        }
    }

    pub(crate) fn to_stored(&self) -> Option<Box<Successor>> {
        match self {
            Self::Nobody => None,
            Self::AfterJob(successor) | Self::AfterRun(successor) => Some(successor.clone()),
        }
    }
}

/// A successor as the job it will be: it waits, and its predecessor holds its alias for it.
pub(crate) fn head_of_successor(
    successor: &Successor,
    queue: QueueKey,
    alias: AliasKey,
    visible_at: Timestamp,
) -> JobHead {
    JobHead {
        id: successor.id,
        queue,
        number: successor.number,
        run_at: successor.run_at,
        visible_at,
        attempt: 0,
        tries: successor.tries,
        state: HeadState::Waiting,
        alias: Some(alias),
        terms: successor.terms,
        successor: None,
    }
}
