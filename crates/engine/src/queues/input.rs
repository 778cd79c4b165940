//! What goes into a partition of queues, and what comes back.

use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use compact_str::CompactString;
use coordination::{CoordinationName, LockGrant};
use jobs::ConflictPolicy;
use records::{AliasKey, AnswerKey, GroupKey, JobId, Process, QueueSettings, WorkerControl};
use tokio::sync::oneshot;

use super::consuming::Leases;
use super::locks::LockCall;
use super::partition::{DeadView, QueuePage};
use super::stats::QueueStats;
use super::{DueTime, JobRef, PublishedJob, QueueName, ReservationToken};
use crate::kernel::idempotency::IdempotencyKey;
use crate::kernel::reply::{Answered, Reply};

/// An input to a partition of queues.
#[derive(Debug)]
pub enum QueueInput {
    /// Publish jobs, all or none.
    Publish {
        /// Where.
        queue: QueueName,
        /// Checked.
        jobs: Vec<ToPublish>,
        /// Whether it may be a repeat.
        idempotency: Option<IdempotencyKey>,
        /// Who makes such calls one after the other, if that is said.
        source: Option<AnswerKey>,
        /// Gets them in order.
        reply: Reply<Answered<Vec<PublishedJob>>>,
    },
    /// Lease jobs, or wait for some.
    Consume(ConsumeCall),
    /// Tell when there is something to lease.
    Watch {
        /// Where.
        queue: QueueName,
        /// Until when.
        until: Timestamp,
        /// Told once.
        signal: oneshot::Sender<()>,
    },
    /// Whoever was told of something to lease has not come for it.
    PassOn(QueueName),
    /// Somebody who waited has gone away. Whoever else waits is told of what the queue has.
    Left {
        /// For what.
        queue: QueueName,
        /// Until when it would have waited.
        until: Timestamp,
    },
    /// Jobs are done.
    Ack {
        /// Where.
        queue: QueueName,
        /// What their consumer shows.
        held: Vec<ReservationToken>,
        /// Gets the places of those that do not hold.
        reply: Reply<Vec<usize>>,
    },
    /// Have a lease end later, or earlier.
    Extend {
        /// Where.
        queue: QueueName,
        /// What its consumer shows.
        held: ReservationToken,
        /// How long from now.
        ttr: Duration,
        /// Gets the end.
        reply: Reply<Answered<Timestamp>>,
    },
    /// A job is given back, to be tried again.
    Release {
        /// Where.
        queue: QueueName,
        /// What its consumer shows.
        held: ReservationToken,
        /// When.
        delay: Duration,
        /// What its consumer says of it.
        error: Option<CompactString>,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// Leases whose answer did not reach its consumer: as if they had not been made.
    GiveBack(Vec<ReservationToken>),
    /// Look at a job, or at the first one that is ready.
    Look {
        /// Where.
        queue: QueueName,
        /// Which; `None` for the first ready one.
        job: Option<JobRef>,
        /// Gets it.
        reply: Reply<Answered<InspectedJob>>,
    },
    /// Change a waiting job.
    Change {
        /// Where.
        queue: QueueName,
        /// Which.
        job: JobRef,
        /// Another payload.
        payload: Option<super::JobPayload>,
        /// Another time.
        due: Option<DueTime>,
        /// Gets it as it is then.
        reply: Reply<Answered<InspectedJob>>,
    },
    /// Cancel a job, wherever it stands.
    Cancel {
        /// Where.
        queue: QueueName,
        /// Which.
        job: JobRef,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// Find what a request was answered that another edge serves.
    Recall(IdempotencyKey, Reply<Answered<Option<Arc<[u8]>>>>),
    /// Keep what such a request was answered.
    Remember(IdempotencyKey, Arc<[u8]>, Reply<Answered<()>>),
    /// A call about a queue as a whole.
    Queue(QueueCall),
    /// A call about a lock.
    Lock(LockCall),
    /// Dead letters, oldest first.
    Dead {
        /// Where.
        queue: QueueName,
        /// Behind this one.
        after: Option<u64>,
        /// At most so many.
        limit: usize,
        /// Gets them.
        reply: Reply<Vec<DeadView>>,
    },
    /// Have dead jobs tried again.
    Respawn {
        /// Where.
        queue: QueueName,
        /// Which.
        which: Dead,
        /// How long each is worth doing from now on.
        ttl: Option<Duration>,
        /// Gets how many, up to the queue's `jobs_max` and what a step can carry; 409 `queue_full`
        /// if it has room for none.
        reply: Reply<Answered<Respawned>>,
    },
    /// Find a dead letter by its job's id.
    FindDead(QueueName, JobId, Reply<Vec<DeadView>>),
    /// Delete dead letters.
    DeleteDead(QueueName, Dead, Reply<usize>),
}

/// A call about a queue, or queues, as a whole.
#[derive(Debug)]
pub enum QueueCall {
    /// How many jobs of a queue stand where.
    Stats(QueueName, Reply<QueueStats>),
    /// The same of some queues of the partition, in their order.
    ManyStats(Vec<QueueName>, Reply<Vec<QueueStats>>),
    /// Queues in order of name.
    List {
        /// Of this namespace only.
        namespace: Option<CompactString>,
        /// Behind this one.
        after: Option<QueueName>,
        /// At most so many.
        limit: usize,
        /// Gets them.
        reply: Reply<QueuePage>,
    },
    /// Set what a queue does.
    Set(QueueName, QueueSettings, Reply<Answered<()>>),
    /// Stop leasing, or go on.
    Pause(QueueName, bool, Reply<Answered<()>>),
    /// Delete a queue with all that it holds.
    Delete(QueueName, Reply<Answered<()>>),
    /// Drop the jobs of a queue that are ready, and nothing else of it. Answered when they are
    /// gone, with how many they were.
    DropReady(QueueName, Reply<u64>),
    /// Say to its workers what they are to do, or nothing any more.
    Control(QueueName, Option<Box<WorkerControl>>, Reply<Answered<()>>),
}

/// A caller that wants to hold a lock.
#[derive(Debug)]
pub struct LockCaller {
    /// The lock.
    pub name: CoordinationName,
    /// Gets the outcome.
    pub reply: Reply<Answered<LockGrant>>,
}

/// A consumer's call.
#[derive(Debug)]
pub struct ConsumeCall {
    /// Where.
    pub queue: QueueName,
    /// Most jobs.
    pub max: usize,
    /// How long each is reserved.
    pub ttr: Duration,
    /// Until when to wait for the first one; not at all if that is over.
    pub until: Timestamp,
    /// A worker of this program.
    pub process: Option<Process>,
    /// Gets what was leased.
    pub reply: Reply<Leases>,
    /// Where leases go back that do not reach their consumer.
    pub(crate) back: super::consuming::ReturnPath,
}

/// A job to be published, its body made.
#[derive(Debug)]
pub struct ToPublish {
    /// What it carries, in stored form.
    pub body: Arc<[u8]>,
    /// When it is due.
    pub due: Option<DueTime>,
    /// How long it is worth doing.
    pub ttl: Option<Duration>,
    /// Attempts it may have.
    pub tries: u32,
    /// The caller's own id.
    pub alias: Option<AliasKey>,
    /// What to do when the alias is held.
    pub on_conflict: ConflictPolicy,
    /// Its group.
    pub group: Option<GroupKey>,
    /// Its rule and how many runs there are.
    pub recurs: Option<(records::RecurrenceRule, Option<u32>)>,
    /// With which its queue publishes it once.
    pub idempotency_key: Option<CompactString>,
}

/// A job as a partition shows it: its head and its body.
#[derive(Debug)]
pub struct InspectedJob {
    /// Its head.
    pub head: records::JobHead,
    /// Where it stands.
    pub state: super::JobState,
    /// What it carries, in stored form.
    pub body: Arc<[u8]>,
}

/// How far a respawn has come.
#[derive(Clone, Debug, Default)]
pub struct Respawned {
    /// Jobs that are tried again.
    pub count: usize,
    /// Those that the step had no room for: ask for them again.
    pub left: Option<Dead>,
}

/// Which dead letters.
#[derive(Clone, Debug)]
pub enum Dead {
    /// Those of these ids.
    Ids(Vec<JobId>),
    /// The oldest ones, at most so many.
    Oldest(usize),
}
