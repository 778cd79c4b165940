//! A job's head: all that scheduling needs. What it carries, its body, is kept apart and is bytes to everyone here.

use base::Timestamp;

/// A job's id: unique, never used again, and without meaning to anyone but the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub [u8; 16]);

/// A queue within a partition: an incarnation, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey(pub u64);

/// The caller's own id for a job, hashed to 128 bits; unique among a queue's waiting and reserved jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AliasKey(pub u128);

/// One run of the server process. A lease held by the workers of another process is worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process(pub u64);

/// What a worker shows for its lease: the job and the lease's number. Stale once either has moved on.
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
    pub state: JobState,
    /// The caller's own id.
    pub alias: Option<AliasKey>,
    /// What takes its place when the reserved run ends.
    pub successor: Option<Successor>,
}

/// Where a job stands. What is done or dead is no longer a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Available from `visible_at` on.
    Waiting,
    /// With a worker until `visible_at`.
    Reserved {
        /// The number of the lease.
        lease: u64,
        /// Who holds it.
        holder: Holder,
    },
}

/// Who holds a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
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
