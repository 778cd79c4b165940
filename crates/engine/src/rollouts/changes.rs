//! Callers that watch rollouts wake when one has moved on.

use tokio::sync::watch;

use crate::Rollouts;

/// Tells that some rollout has moved on.
#[derive(Debug, Default)]
pub(crate) struct ChangedRollouts(watch::Sender<()>);

impl ChangedRollouts {
    /// How far some rollout has come is durable.
    pub(crate) fn tell(&self) {
        self.0.send_replace(());
    }
}

/// What some caller has not seen yet of rollouts. However often they move on meanwhile, it is told
/// once.
#[derive(Debug)]
pub struct RolloutChanges(watch::Receiver<()>);

impl RolloutChanges {
    /// Resolves when a rollout has moved on since this was asked for, or resolved last.
    pub async fn changed(&mut self) {
        // The sender lives as long as the engine, of which nobody can ask anything after its end.
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Rollouts {
    /// The changes of all rollouts from here on.
    #[must_use]
    pub fn changes(&self) -> RolloutChanges {
        RolloutChanges(self.engine.rollout_links().changed.0.subscribe())
    }
}
