//! What the outside sees of a step of a partition of queues.

use base::Timestamp;

use super::PublishedJob;
use super::consuming::Leases;
use super::input::Seen;
use super::partition::{DeadView, Figures};
use crate::effect::{Answered, Reply};
use crate::runner::Outside;

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
    /// A queue's figures.
    Figures(Reply<Figures>, Box<Figures>),
    /// Queues.
    Listed(Reply<Vec<Figures>>, Vec<Figures>),
    /// Dead letters.
    DeadListed(Reply<Vec<DeadView>>, Vec<DeadView>),
    /// Dead jobs are tried again.
    Respawned(Reply<Answered<usize>>, Answered<usize>),
    /// Dead letters are gone.
    DeadDeleted(Reply<usize>, usize),
    /// So many jobs went their way.
    Counted(JobsCounted),
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
            Self::Leased(reply, leases) => reply.send(leases),
            Self::Ready(signal) => {
                // Whoever has gone has passed on what it was told.
                let _gone = signal.send(());
            }
            Self::Acked(reply, stale) => reply.send(stale),
            Self::Extended(reply, answer) => reply.send(answer),
            Self::Done(reply, answer) => reply.send(answer),
            Self::Seen(reply, answer) => reply.send(answer.map(|seen| *seen)),
            Self::Figures(reply, figures) => reply.send(*figures),
            Self::Listed(reply, figures) => reply.send(figures),
            Self::DeadListed(reply, dead) => reply.send(dead),
            Self::Respawned(reply, answer) => reply.send(answer),
            Self::DeadDeleted(reply, count) => reply.send(count),
            Self::Counted(counted) => outside.metrics().jobs(&counted),
        }
    }
}
