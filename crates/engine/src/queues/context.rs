//! Where the effects of partitions of queues go: answers, and what metrics tell of queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{PartitionId, Timestamp};
use records::Batch;

use super::QueueEffect;
use super::controls::ControlBoard;
use super::queue_metrics::NamedQueues;
use super::stats::AllPartitionStats;
use super::troubled::TroubledQueues;
use crate::followers::Followers;
use crate::kernel::machine::MachineContext;
use crate::metrics::BatchMetrics;
use crate::notices::links::NoticeLinks;

/// What partitions of queues reach outside.
#[derive(Debug)]
pub struct QueueContext {
    pub(crate) stats: AllPartitionStats,
    pub(crate) named_queues: NamedQueues,
    pub(crate) troubled: TroubledQueues,
    pub(crate) controls: ControlBoard,
    /// Callers that have asked for locks.
    lock_tickets: AtomicU64,
    followers: Arc<Followers>,
    notices: Arc<NoticeLinks>,
    metrics: Arc<BatchMetrics>,
}

impl QueueContext {
    pub(crate) fn new(
        metrics: Arc<BatchMetrics>,
        followers: Arc<Followers>,
        notices: Arc<NoticeLinks>,
    ) -> Self {
        let (stats, named_queues) = (AllPartitionStats::default(), NamedQueues::default());
        let (troubled, controls) = (TroubledQueues::default(), ControlBoard::default());
        let lock_tickets = AtomicU64::new(0);
        Self { stats, named_queues, troubled, controls, lock_tickets, followers, notices, metrics }
    }

    /// Numbers the callers that ask for locks, in the order in which they come; from 1.
    pub(super) fn next_lock_ticket(&self) -> u64 {
        self.lock_tickets.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl MachineContext for QueueContext {
    type Effect = QueueEffect;
    /// Where queues may stand otherwise.
    type Update = PartitionId;

    fn release(&self, effect: QueueEffect) {
        use QueueEffect as E;
        match effect {
            E::Published(reply, answer) => reply.send(answer),
            E::Leased(reply, leases) => reply.send(leases.durable()),
            E::Ready(signal) => {
                // Whoever has gone has passed on what it was told.
                let _gone = signal.send(());
            }
            E::Acked(reply, stale) => reply.send(stale),
            E::Extended(reply, answer) => reply.send(answer),
            E::Done(reply, answer) => reply.send(answer),
            E::Seen(reply, answer) => reply.send(answer.map(|seen| *seen)),
            E::Recalled(reply, answer) => reply.send(answer),
            E::Stats(reply, stats) => reply.send(*stats),
            E::ManyStats(reply, stats) => reply.send(stats),
            E::Listed(reply, listed) => reply.send(listed),
            E::DeadListed(reply, dead) => reply.send(dead),
            E::Respawned(reply, answer) => reply.send(answer),
            E::DeadDeleted(reply, count) => reply.send(count),
            E::ReadyDropped(reply, count) => reply.send(count),
            E::Locked(reply, answer) => reply.send(answer),
            E::LockStatus(reply, shown) => reply.send(*shown),
            E::LocksListed(reply, held) => reply.send(held),
            E::Control(partition, queue, control) => {
                self.controls.put(partition, queue, control.map(|control| *control));
            }
            E::Condition(signal) => self.notices.signal(*signal),
            E::Counted(counted) => self.metrics.jobs(&counted),
            E::NamedQueues(partition, changes) => self.named_queues.change(partition, changes),
            E::TroubledQueues(partition, changes) => self.troubled.change(partition, changes),
            E::StatsChanged(partition, stats) => {
                self.stats.set(partition, stats);
                // Jobs come due without a batch.
                self.followers.queues_changed(Some(partition));
            }
        }
    }

    fn batch_made(&self, partition: PartitionId, _: &Batch) -> Option<PartitionId> {
        self.metrics.batch();
        Some(partition)
    }

    fn batch_durable(&self, _: Timestamp, partition: Option<&PartitionId>) {
        self.followers.queues_changed(partition.copied());
    }
}
