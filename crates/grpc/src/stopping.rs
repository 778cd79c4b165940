//! The order to stop, as calls wait for it.

use tokio::sync::watch;

/// Tells when the server stops. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    pub(crate) fn new(stop: watch::Receiver<bool>) -> Self {
        Self(stop)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Resolves when the server begins to stop.
    pub(crate) async fn stopping(&mut self) {
        // An error means that the sender is gone: nobody could tell us any more.
        drop(self.0.wait_for(|stop| *stop).await);
    }
}
