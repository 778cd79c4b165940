//! Queues.

use super::Engine;
use crate::QueueCalls;
use crate::coordination::Coordination;
use crate::kernel::partition_handle::PartitionHandle;
use crate::queues::{Locks, QueueInput};

impl Engine {
    /// The calls about queues.
    #[must_use]
    pub fn queues(&self) -> QueueCalls {
        QueueCalls::new(self.clone())
    }

    /// The calls about locks.
    #[must_use]
    pub fn locks(&self) -> Locks {
        Locks::new(self.queues())
    }

    /// The calls about limits, the cache and channels.
    #[must_use]
    pub fn coordination(&self) -> Coordination {
        Coordination::new(self.clone())
    }

    pub(crate) fn queue_partitions(&self) -> &[PartitionHandle<QueueInput>] {
        &self.shared.queues
    }
}
