//! Operations.

use super::Engine;
use crate::OperationCalls;
use crate::operations::OperationChanges;

impl Engine {
    /// The calls about operations.
    #[must_use]
    pub fn operations(&self) -> OperationCalls {
        OperationCalls::new(self.clone())
    }

    /// What is marked changed with operations.
    pub(crate) fn operation_changes(&self) -> &OperationChanges {
        &self.shared.context.registry.operations
    }
}
