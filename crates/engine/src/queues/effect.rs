//! What the outside sees of a step of a partition of queues.

use std::sync::Arc;

use base::{PartitionId, Timestamp};
use coordination::{LockGrant, LockStatus};
use records::WorkerControl;

use super::consuming::Leases;
use super::input::{InspectedJob, Respawned};
use super::partition::{DeadView, QueuePage};
use super::stats::{JobsCounted, PartitionStats, QueueStats};
use super::{NamedChange, PublishedJob, QueueName, TroubleChange};
use crate::kernel::reply::{Answered, Reply};
use crate::notices::Signal;

/// What the outside may see once it is durable.
#[derive(Debug)]
pub enum QueueEffect {
    /// Jobs were published, or that was refused.
    Published(Reply<Answered<Vec<PublishedJob>>>, Answered<Vec<PublishedJob>>),
    /// Jobs were leased, or there were none in time.
    Leased(Reply<Leases>, Leases),
    /// Something to lease is there.
    Ready(tokio::sync::oneshot::Sender<()>),
    /// Jobs are done but these.
    Acked(Reply<Vec<usize>>, Vec<usize>),
    /// A lease ends at another time.
    Extended(Reply<Answered<Timestamp>>, Answered<Timestamp>),
    /// Something was done, or refused.
    Done(Reply<Answered<()>>, Answered<()>),
    /// A job was looked at, or changed.
    Seen(Reply<Answered<InspectedJob>>, Answered<Box<InspectedJob>>),
    /// What a request was answered before.
    Recalled(Reply<Answered<Option<Arc<[u8]>>>>, Answered<Option<Arc<[u8]>>>),
    /// How a queue stands.
    Stats(Reply<QueueStats>, Box<QueueStats>),
    /// How some queues stand.
    ManyStats(Reply<Vec<QueueStats>>, Vec<QueueStats>),
    /// Queues.
    Listed(Reply<QueuePage>, QueuePage),
    /// Dead letters.
    DeadListed(Reply<Vec<DeadView>>, Vec<DeadView>),
    /// Dead jobs are tried again.
    Respawned(Reply<Answered<Respawned>>, Answered<Respawned>),
    /// Dead letters are gone.
    DeadDeleted(Reply<usize>, usize),
    /// Jobs that were ready are gone.
    ReadyDropped(Reply<u64>, u64),
    /// Somebody holds a lock, or not.
    Locked(Reply<Answered<LockGrant>>, Answered<LockGrant>),
    /// A lock as it stands.
    LockStatus(Reply<LockStatus>, Box<LockStatus>),
    /// Locks that are held.
    LocksListed(Reply<Vec<LockStatus>>, Vec<LockStatus>),
    /// The workers of a queue are told something else.
    Control(PartitionId, QueueName, Option<Box<WorkerControl>>),
    /// A queue is in another condition.
    Condition(Box<Signal>),
    /// So many jobs went their way.
    Counted(JobsCounted),
    /// A partition has other counts than before.
    StatsChanged(PartitionId, PartitionStats),
    /// Queues that a partition names in metrics have other counts than before.
    NamedQueues(PartitionId, Vec<NamedChange>),
    /// Queues that somebody should look at stand otherwise than before.
    TroubledQueues(PartitionId, Vec<TroubleChange>),
}
