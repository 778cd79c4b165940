//! Operations.

use super::Engine;
use crate::Operations;
use crate::operations::OperationChanges;

impl Engine {
    /// The calls about operations.
    #[must_use]
    pub fn operations(&self) -> Operations {
        Operations::new(self.clone())
    }

    /// What is marked changed with operations.
    pub(crate) fn operation_changes(&self) -> &OperationChanges {
        &self.shared.context.registry.operations
    }
}
