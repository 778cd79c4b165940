//! What a step reads of the store: records that are not resident, as of one moment.

use std::cell::OnceCell;

use base::PartitionId;
use store::{Store, StoreError, View};

/// Reads durable records of a partition.
pub trait Fetch {
    /// What is durable, as of this step.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn view(&self) -> Result<&dyn View, StoreError>;
}

/// One view of a store, which is opened when it is first needed.
pub struct FromStore<'a> {
    store: &'a dyn Store,
    partition: PartitionId,
    view: OnceCell<Box<dyn View>>,
}

impl<'a> FromStore<'a> {
    /// Reads that partition; nothing is opened yet.
    #[must_use]
    pub fn new(store: &'a dyn Store, partition: PartitionId) -> Self {
        Self { store, partition, view: OnceCell::new() }
    }
}

impl std::fmt::Debug for FromStore<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FromStore")
    }
}

impl Fetch for FromStore<'_> {
    fn view(&self) -> Result<&dyn View, StoreError> {
        if let Some(view) = self.view.get() {
            return Ok(&**view);
        }
        let view = self.store.view(self.partition)?;
        Ok(&**self.view.get_or_init(|| view))
    }
}
