//! Bugs that a test build can switch on, to show that the checkers of the simulation find them. Any
//! other build has none.

#[cfg(feature = "sabotage")]
use std::sync::atomic::{AtomicBool, Ordering};

/// Which are on.
#[derive(Debug, Default)]
pub(super) struct FaultInjection {
    #[cfg(feature = "sabotage")]
    forgets_positions: AtomicBool,
}

impl FaultInjection {
    /// A checkpoint does not record up to where its partition is in the tables.
    #[cfg(feature = "sabotage")]
    pub(super) fn forgets_positions(&self) -> bool {
        self.forgets_positions.load(Ordering::Relaxed)
    }

    #[cfg(not(feature = "sabotage"))]
    #[expect(clippy::unused_self, reason = "it is asked in every build")]
    pub(super) fn forgets_positions(&self) -> bool {
        false
    }
}

#[cfg(feature = "sabotage")]
impl super::EmbeddedStore {
    /// From now on a checkpoint does not record up to where its partition is in the tables.
    pub fn forget_positions(&self) {
        self.fault_injection.forgets_positions.store(true, Ordering::Relaxed);
    }
}
