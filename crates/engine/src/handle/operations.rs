//! Operations.

use tokio::sync::watch;

use super::Engine;
use crate::Operations;

impl Engine {
    /// The calls about operations.
    #[must_use]
    pub fn operations(&self) -> Operations {
        Operations::new(self.clone())
    }

    /// Marked changed when an operation begins or is called off.
    pub(crate) fn operation_changes(&self) -> &watch::Sender<()> {
        &self.shared.context.registry.operations
    }
}
