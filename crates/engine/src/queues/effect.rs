//! What the outside sees of a step of a partition of queues.

use std::sync::{Arc, Mutex, PoisonError};

use base::{PartitionId, Timestamp};

use super::consuming::Leases;
use super::input::{Respawned, Seen};
use super::partition::{DeadView, Figures, Listed};
use super::{NamedChange, PublishedJob};
use crate::devices::effect::{Answered, Reply};
use crate::kernel::runner::Outside;

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
    Seen(Reply<Answered<Seen>>, Answered<Box<Seen>>),
    /// What a request was answered before.
    Recalled(Reply<Answered<Option<Arc<[u8]>>>>, Answered<Option<Arc<[u8]>>>),
    /// A queue's figures.
    Figures(Reply<Figures>, Box<Figures>),
    /// Queues.
    Listed(Reply<Listed>, Listed),
    /// Dead letters.
    DeadListed(Reply<Vec<DeadView>>, Vec<DeadView>),
    /// Dead jobs are tried again.
    Respawned(Reply<Answered<Respawned>>, Answered<Respawned>),
    /// Dead letters are gone.
    DeadDeleted(Reply<usize>, usize),
    /// So many jobs went their way.
    Counted(JobsCounted),
    /// A partition stands like this.
    Stands(PartitionId, Standing),
    /// Queues that a partition names stand otherwise than before.
    Named(PartitionId, Vec<NamedChange>),
}

/// How a partition stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Queues.
    pub queues: u64,
    /// Jobs that wait for their time.
    pub scheduled: u64,
    /// Jobs that can be consumed.
    pub ready: u64,
    /// Jobs that consumers have.
    pub reserved: u64,
    /// Dead letters.
    pub dead: u64,
    /// Jobs that are in the store only; they are scheduled or ready.
    pub parked: u64,
    /// Consumers that wait.
    pub waiting: u64,
}

/// What became of jobs in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobsCounted {
    /// Published; those that only kept another not counted.
    pub published: u64,
    /// Leased.
    pub leased: u64,
    /// Done.
    pub acked: u64,
    /// Given back by their consumer.
    pub released: u64,
    /// Leases whose time ran out.
    pub lapsed: u64,
    /// Jobs that were not done in time.
    pub expired: u64,
    /// Jobs that failed for good.
    pub dead: u64,
    /// Cancelled, or gone with their queue.
    pub cancelled: u64,
    /// Dead letters that were dropped to keep a queue's limits.
    pub dead_dropped: u64,
}

impl QueueEffect {
    pub(crate) fn release(self, outside: &Outside) {
        match self {
            Self::Published(reply, answer) => reply.send(answer),
            Self::Leased(reply, leases) => reply.send(leases.durable()),
            Self::Ready(signal) => {
                // Whoever has gone has passed on what it was told.
                let _gone = signal.send(());
            }
            Self::Acked(reply, stale) => reply.send(stale),
            Self::Extended(reply, answer) => reply.send(answer),
            Self::Done(reply, answer) => reply.send(answer),
            Self::Seen(reply, answer) => reply.send(answer.map(|seen| *seen)),
            Self::Recalled(reply, answer) => reply.send(answer),
            Self::Figures(reply, figures) => reply.send(*figures),
            Self::Listed(reply, figures) => reply.send(figures),
            Self::DeadListed(reply, dead) => reply.send(dead),
            Self::Respawned(reply, answer) => reply.send(answer),
            Self::DeadDeleted(reply, count) => reply.send(count),
            Self::Counted(counted) => outside.metrics().jobs(&counted),
            Self::Named(partition, changes) => outside.named_queues().change(partition, changes),
            Self::Stands(partition, standing) => outside.standings().set(partition, standing),
        }
    }
}

/// How all partitions stand, for figures only.
#[derive(Debug, Default)]
pub(crate) struct Standings(Mutex<Vec<Standing>>);

impl Standings {
    fn set(&self, partition: PartitionId, standing: Standing) {
        let Some(index) = partition.queues_index().map(usize::from) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() <= index {
            all.resize(index + 1, Standing::default());
        }
        all[index] = standing;
    }

    /// All together.
    pub(crate) fn sum(&self) -> Standing {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().fold(Standing::default(), |sum, one| Standing {
            queues: sum.queues + one.queues,
            scheduled: sum.scheduled + one.scheduled,
            ready: sum.ready + one.ready,
            reserved: sum.reserved + one.reserved,
            dead: sum.dead + one.dead,
            parked: sum.parked + one.parked,
            waiting: sum.waiting + one.waiting,
        })
    }
}
