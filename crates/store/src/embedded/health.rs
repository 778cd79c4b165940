//! Whether the store still accepts: the first failure ends that for good.

use std::sync::{Arc, OnceLock};

use crate::port::StoreError;

/// The first failure, once there is one.
#[derive(Debug, Default)]
pub(super) struct StoreHealth(OnceLock<Arc<StoreError>>);

impl StoreHealth {
    /// Notes a failure, and gives what a caller is told of it.
    pub(super) fn fail(&self, error: StoreError) -> StoreError {
        let text = error.to_string();
        if self.0.set(Arc::new(error)).is_ok() {
            tracing::error!(error = text, "the store accepts nothing more");
        }
        StoreError::Poisoned(text)
    }

    /// The first failure.
    pub(super) fn failure(&self) -> Option<Arc<StoreError>> {
        self.0.get().cloned()
    }

    /// Refuses after a failure.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.failure().map_or(Ok(()), |failure| Err(StoreError::Poisoned(failure.to_string())))
    }
}
