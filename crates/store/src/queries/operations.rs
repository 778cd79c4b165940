//! Operations.

use base::EntityId;
use records::{Operation, OperationState};

use crate::codec::key;
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};

impl dyn View + '_ {
    /// An operation as it was asked for.
    pub fn operation(&self, id: EntityId) -> Result<Option<Operation>, StoreError> {
        self.record(&key::operation(id))
    }

    /// How far an operation has come.
    pub fn operation_state(&self, id: EntityId) -> Result<Option<OperationState>, StoreError> {
        self.record(&key::operation(id))
    }

    /// How far operations have come, the newest first.
    pub fn operation_states(
        &self,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<OperationState>, StoreError> {
        let range = KeyRange::of(&[]).before(after.map(key::operation));
        self.records(range, false)?.take(limit).collect()
    }
}
