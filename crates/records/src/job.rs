//! A job's head: all that scheduling needs. What it carries, its body, is kept apart and is bytes
//! to everyone here.

use std::ops::Range;
use std::sync::Arc;

use base::Timestamp;

use crate::weight::{RECORD_BYTES, weighs};

/// A job's id: unique, never used again, and without meaning to anyone but the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub [u8; 16]);

impl JobId {
    /// Where its run stands: two bytes that are the same of jobs published one after the other, and
    /// change with every 65,536 of a partition. What is sorted by runs may be sorted otherwise
    /// within them.
    pub const RUN: Range<usize> = 6..8;
}

/// A queue within a partition: an incarnation, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey(pub u64);

/// The caller's own id for a job, hashed to 128 bits; unique among a queue's waiting and reserved
/// jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AliasKey(pub u128);

/// One run of the server process. A lease held by the workers of another process is worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process(pub u64);

/// What a worker shows for its lease: the job and the lease's number. Stale once either has moved
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The job.
    pub job: JobId,
    /// The number of the lease, unique within the partition.
    pub lease: u64,
}

/// A job as the engine of jobs keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobHead {
    /// The job.
    pub id: JobId,
    /// The queue it waits in.
    pub queue: QueueKey,
    /// Its publish number: the order among jobs due at the same time.
    pub number: u64,
    /// When it is, or was first, due.
    pub run_at: Timestamp,
    /// When it becomes available: its time, its retry's, or the end of its lease.
    pub visible_at: Timestamp,
    /// Attempts begun.
    pub attempt: u32,
    /// Attempts it may have.
    pub tries: u32,
    /// Waiting or reserved.
    pub state: HeadState,
    /// The caller's own id.
    pub alias: Option<AliasKey>,
    /// What else holds of it.
    pub terms: JobTerms,
    /// What takes its place when the reserved run ends.
    pub successor: Option<Box<Successor>>,
}

weighs!(JobHead: |_| RECORD_BYTES);

impl JobHead {
    /// The clock of `visible_at`: from the first lease on, it is the engine's.
    #[must_use]
    pub fn clock_of_wait(&self) -> JobClock {
        let is_reserved = matches!(self.state, HeadState::Reserved { .. });
        if self.attempt > 0 || is_reserved { JobClock::Engine } else { self.terms.clock }
    }
}

/// What holds of some jobs only; the default is a job of which nothing of it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTerms {
    /// The clock that `run_at` and, until the first lease, `visible_at` are on.
    pub clock: JobClock,
    /// When it is gone unless it is done, on the engine clock; a run under way may end first.
    pub expires_at: Option<Timestamp>,
    /// Jobs of a queue with the same group run one at a time, in order.
    pub group: Option<GroupKey>,
    /// It comes again.
    pub recurrence: Option<Recurrence>,
}

/// A clock by which a job is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobClock {
    /// The engine clock: delays, retries and leases.
    #[default]
    Engine,
    /// The wall clock: a moment that the caller named, or a calendar's.
    Wall,
}

/// The caller's name for a group, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey(pub u64);

/// How a job comes again, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrence {
    /// When its next run is due.
    pub rule: RecurrenceRule,
    /// Runs that are left, the present one included; `None` for ever.
    pub left: Option<u32>,
    /// Counts the runs from 1.
    pub run: u64,
    /// How long each run is worth making from its due time on, in milliseconds.
    pub ttl_ms: Option<u64>,
}

/// When a recurring job is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrenceRule {
    /// This long after it was due before, in milliseconds; not 0.
    Every(u64),
    /// By a calendar that the job's body names.
    Calendar,
}

/// A job that is not resident, and where the store's order has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedJob {
    /// The job; it waits, and has no successor.
    pub head: JobHead,
    /// Until when.
    pub parking: Parking,
    /// What it carries, if that is with it; otherwise it is where that of every other job is.
    pub body: Option<Arc<[u8]>>,
}

weighs!(ParkedJob: |job| RECORD_BYTES + job.body.as_ref().map_or(0, |body| body.len()));

/// What a job that is not resident waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Parking {
    /// Its time: it is found by its clock and `visible_at`.
    Time,
    /// A worker: it is found in the line of its queue, or of its group, and by when it expires.
    Worker,
    /// A worker, as the first of its group: it is found in its queue's line, in its group's, and by
    /// when it expires.
    Head,
}

/// All by which a job that is not resident is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkedKey {
    /// The job.
    pub id: JobId,
    /// The queue it waits in.
    pub queue: QueueKey,
    /// What it waits for.
    pub parking: Parking,
    /// The clock of `visible_at`.
    pub clock: JobClock,
    /// When it becomes, or became, available.
    pub visible_at: Timestamp,
    /// Its publish number: its place in its line among those of the same `visible_at`.
    pub number: u64,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// Its group.
    pub group: Option<GroupKey>,
    /// The caller's own id.
    pub alias: Option<AliasKey>,
}

weighs!(ParkedKey: |_| 0);

impl ParkedJob {
    /// All by which it is found.
    #[must_use]
    pub fn key(&self) -> ParkedKey {
        let JobHead { id, queue, number, visible_at, alias, terms, .. } = self.head;
        let (parking, clock) = (self.parking, self.head.clock_of_wait());
        let JobTerms { expires_at, group, .. } = terms;
        ParkedKey { id, queue, parking, clock, visible_at, number, expires_at, group, alias }
    }
}

/// Where a job stands. What is done or dead is no longer a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadState {
    /// Available from `visible_at` on.
    Waiting,
    /// With a worker until `visible_at`.
    Reserved {
        /// The number of the lease.
        lease: u64,
        /// Who holds it.
        holder: LeaseHolder,
    },
}

/// Who holds a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseHolder {
    /// A worker of this program; the lease ends with its process.
    Own(Process),
    /// A consumer outside; the lease survives a restart of the server.
    Outside,
}

/// The job that starts when the reserved one ends: it takes over alias and queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// Its own id.
    pub id: JobId,
    /// Its publish number.
    pub number: u64,
    /// Its own time; it starts no earlier.
    pub run_at: Timestamp,
    /// Attempts it may have.
    pub tries: u32,
    /// What else holds of it.
    pub terms: JobTerms,
    /// What it waits for.
    pub starts: Starts,
}

/// When a successor takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starts {
    /// When the job before it is done, dead or gone: its retries come first.
    AfterJob,
    /// When the run before it ends, in whatever way.
    AfterRun,
}
