//! The order to stop, as everything that listens waits for it.

use tokio::sync::watch;

/// Resolves when the server stops.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone: nobody could tell us any more.
    drop(stop.wait_for(|stop| *stop).await);
}
