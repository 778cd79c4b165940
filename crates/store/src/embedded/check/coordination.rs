//! What locks, and what is said to workers, say of their partition.

use base::hash::queue_partition;
use records::{Lock, WorkerControl};

use super::rows::{CheckedPartition, RowCheck};

impl RowCheck<'_, '_> {
    /// Each is in the partition of its name, and no fence is ahead of those that were given.
    pub(super) fn coordination(&mut self, within: &CheckedPartition) {
        let (partition, next) = (within.partition, within.head.next_fence);
        self.indexed(partition, |check, lock: &Lock| {
            let right = queue_partition(&lock.namespace, &lock.name, check.partitions);
            match lock.fence < next {
                _ if right != partition => Err(format!("the lock belongs to partition {right}")),
                false => Err(format!("no holder ever had fence {}", lock.fence)),
                true => Ok(()),
            }
        });
        self.indexed(partition, |check, control: &WorkerControl| {
            let right = queue_partition(&control.namespace, &control.queue, check.partitions);
            if right == partition { Ok(()) } else { Err(format!("its queue belongs to partition {right}")) }
        });
    }
}
