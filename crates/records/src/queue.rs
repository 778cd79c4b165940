//! A queue of jobs that users publish, and what became of jobs that failed for good.

use base::Timestamp;
use compact_str::CompactString;

use crate::weight::weighs;
use crate::{GroupKey, JobId, QueueKey};

/// A queue. There while it has jobs, dead letters or settings, and a little longer.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its number; a queue that is deleted and comes again has another.
    pub key: QueueKey,
    /// The namespace it is in.
    pub namespace: CompactString,
    /// Its name there.
    pub name: CompactString,
    /// It was deleted: what it held is being swept, and its name may be another queue's.
    pub deleted: bool,
    /// Nothing is leased until it is resumed.
    pub paused: bool,
    /// What its users set.
    pub settings: QueueSettings,
}

weighs!(Queue: |queue| queue.namespace.len() + queue.name.len());

/// What users set of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueSettings {
    /// Which of the ready jobs is first.
    pub order: QueueOrder,
    /// Most jobs that are reserved at the same time.
    pub concurrency: Option<u32>,
    /// Most jobs that are leased in a second.
    pub rate: Option<f64>,
    /// Most jobs, dead letters not counted.
    pub jobs_max: Option<u64>,
    /// Most dead letters; then the oldest go.
    pub dead_max: Option<u64>,
    /// How long a dead letter is kept, in milliseconds.
    pub dead_max_age_ms: Option<u64>,
}

/// Which of a queue's ready jobs is first. Jobs of a group keep their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueOrder {
    /// The one that became available first.
    #[default]
    Fifo,
    /// The one that became available last.
    Lifo,
}

/// How many jobs a queue has that are not resident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Those that wait for their time.
    pub parked_scheduled: u64,
    /// Those that wait for a worker.
    pub parked_ready: u64,
    /// Dead letters.
    pub dead: u64,
}

weighs!(QueueCounts: |_| 0);

/// A job that failed for good. What it carried is kept under its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadJob {
    /// The queue.
    pub queue: QueueKey,
    /// Its place among the queue's dead letters: the partition's number of it.
    pub number: u64,
    /// Its id; a dead run of a recurring job has one of its own.
    pub id: JobId,
    /// Attempts made.
    pub attempt: u32,
    /// Attempts it had.
    pub tries: u32,
    /// Why it is here.
    pub reason: DeadReason,
    /// What its last worker said of it.
    pub error: Option<CompactString>,
    /// When.
    pub died_at: Timestamp,
    /// Its group.
    pub group: Option<GroupKey>,
}

weighs!(DeadJob: |dead| dead.error.as_ref().map_or(0, |error| error.len()));

/// Why a job failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadReason {
    /// Its last try was released.
    Released,
    /// Its last try ran out of time.
    TimedOut,
}

base::names! {
    /// Every reason.
    pub DeadReason: Released = "released", TimedOut = "timed_out"
}
