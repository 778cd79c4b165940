//! Counts of queues and jobs, for callers and metrics.

use std::sync::Mutex;
use std::time::Duration;

use base::locks::locked;
use base::{PartitionId, Timestamp};
use records::{QueueKey, QueueSettings};

use super::{QueueName, QueueRates};

/// How many jobs of a queue stand where, and what its users set.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueStats {
    /// The queue.
    pub name: QueueName,
    /// Its number; `None` for a queue that has nothing.
    pub key: Option<QueueKey>,
    /// Jobs that wait for their time.
    pub scheduled: u64,
    /// Jobs that can be consumed.
    pub ready: u64,
    /// Jobs that consumers have.
    pub reserved: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long the oldest ready job in memory has waited.
    pub oldest_ready: Option<Duration>,
    /// Since when it has been ready.
    pub oldest_ready_at: Option<Timestamp>,
    /// How fast jobs go through it, since this process runs.
    pub rates: QueueRates,
    /// Nothing is leased.
    pub paused: bool,
    /// What its users set.
    pub settings: QueueSettings,
}

impl QueueStats {
    /// A queue that has nothing, and whose users set nothing.
    #[must_use]
    pub fn empty(name: QueueName) -> Self {
        Self {
            name,
            key: None,
            scheduled: 0,
            ready: 0,
            reserved: 0,
            dead: 0,
            oldest_ready: None,
            oldest_ready_at: None,
            rates: QueueRates::default(),
            paused: false,
            settings: QueueSettings::default(),
        }
    }
}

/// How many queues, jobs and consumers a partition has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionStats {
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
    /// Queues that give no jobs out until they are resumed.
    pub paused: u64,
    /// Locks that are held.
    pub locks: u64,
    /// Callers that wait for them.
    pub lock_waits: u64,
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

/// The latest counts of every partition, for metrics only.
#[derive(Debug, Default)]
pub(crate) struct AllPartitionStats(Mutex<Vec<PartitionStats>>);

impl AllPartitionStats {
    pub(crate) fn set(&self, partition: PartitionId, stats: PartitionStats) {
        let Some(index) = partition.queues_index().map(usize::from) else { return };
        let mut all = locked(&self.0);
        if all.len() <= index {
            all.resize(index + 1, PartitionStats::default());
        }
        all[index] = stats;
    }

    /// All together.
    pub(crate) fn sum(&self) -> PartitionStats {
        let all = locked(&self.0);
        all.iter().fold(PartitionStats::default(), |sum, one| PartitionStats {
            queues: sum.queues + one.queues,
            scheduled: sum.scheduled + one.scheduled,
            ready: sum.ready + one.ready,
            reserved: sum.reserved + one.reserved,
            dead: sum.dead + one.dead,
            parked: sum.parked + one.parked,
            waiting: sum.waiting + one.waiting,
            paused: sum.paused + one.paused,
            locks: sum.locks + one.locks,
            lock_waits: sum.lock_waits + one.lock_waits,
        })
    }
}
