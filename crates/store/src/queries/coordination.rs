//! Locks, and what is said to workers, of a partition of queues.

use records::{Lock, WorkerControl};

use crate::key_range::KeyRange;
use crate::port::{StoreError, View};

impl dyn View + '_ {
    /// Locks, in order of namespace and name.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every query.
    pub fn locks(&self) -> Result<Vec<Lock>, StoreError> {
        self.records(KeyRange::all(), true)?.collect()
    }

    /// What the workers of queues are to do, in the same order.
    pub fn queue_controls(&self) -> Result<Vec<WorkerControl>, StoreError> {
        self.records(KeyRange::all(), true)?.collect()
    }
}
