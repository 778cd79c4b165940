//! A job in memory: the 80 bytes that every one needs, and apart from them what only some have.

use base::Timestamp;
use records::{AliasKey, Holder, JobHead, JobId, JobState, QueueKey, Starts, Successor};

use crate::heap::Links;
use crate::slab::Handle;

/// What every job needs.
pub(crate) struct Entry {
    pub(crate) id: JobId,
    pub(crate) queue: QueueKey,
    pub(crate) number: u64,
    pub(crate) run_at: Timestamp,
    pub(crate) visible_at: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) tries: u32,
    /// There while the job is reserved.
    pub(crate) lease: Option<Handle<Lease>>,
    /// There if the job has an alias.
    pub(crate) claim: Option<Handle<Claim>>,
    pub(crate) links: Links,
    /// The place's height in its heap, see there.
    pub(crate) rank: u8,
    pub(crate) place: Place,
}

const _: () = assert!(size_of::<Option<Entry>>() == 80, "millions of these are resident");

impl Entry {
    /// The order of jobs, in a queue and in time.
    pub(crate) fn order(&self) -> (Timestamp, u64) {
        (self.visible_at, self.number)
    }
}

/// In which heap a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In none.
    Nowhere,
    /// Waits for its `visible_at`.
    Timed,
    /// Can be leased.
    Ready,
}

/// A lease that is out.
#[derive(Clone, Copy)]
pub(crate) struct Lease {
    pub(crate) number: u64,
    pub(crate) holder: Holder,
}

/// An alias that is held, and who holds it next.
pub(crate) struct Claim {
    pub(crate) alias: AliasKey,
    pub(crate) next: Next,
}

const _: () = assert!(size_of::<Option<Claim>>() == 32, "as many of these as jobs with an alias");

/// The job that takes over, and from when on it may.
#[derive(Default)]
pub(crate) enum Next {
    #[default]
    Nobody,
    /// When the job is done, dead or cancelled: its retries come first.
    AfterJob(Box<Successor>),
    /// When its run ends, in whatever way.
    AfterRun(Box<Successor>),
}

impl Next {
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

    pub(crate) fn from_stored(stored: Option<Successor>) -> Self {
        match stored {
            None => Self::Nobody,
            Some(successor) => match successor.starts {
                Starts::AfterJob => Self::AfterJob(Box::new(successor)),
                Starts::AfterRun => Self::AfterRun(Box::new(successor)),
            },
        }
    }

    pub(crate) fn to_stored(&self) -> Option<Successor> {
        self.successor().copied()
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
        state: JobState::Waiting,
        alias: Some(alias),
        successor: None,
    }
}
