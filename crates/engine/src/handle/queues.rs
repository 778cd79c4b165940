//! Queues.

use super::Engine;
use crate::Queues;
use crate::kernel::partition_handle::PartitionHandle;
use crate::queues::QueueInput;

impl Engine {
    /// The calls about queues.
    #[must_use]
    pub fn queues(&self) -> Queues {
        Queues::new(self.clone())
    }

    pub(crate) fn queue_partitions(&self) -> &[PartitionHandle<QueueInput>] {
        &self.shared.queues
    }
}
