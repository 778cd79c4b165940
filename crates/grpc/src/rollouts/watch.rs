//! A rollout that is watched: told as it is now, and again whenever it has moved on.
//!
//! Nothing is made ahead. The next message is looked for once the connection has room for it, so
//! whoever reads slowly is told of fewer moves.

use std::time::Duration;

use base::Problem;
use engine::rollouts::RolloutChanges;
use engine::{Engine, TrackedRollout};
use futures_util::{Stream, stream};
use net::metrics::Counted;
use net::shares::{SenderKey, Taken};
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use super::{known, shape};
use crate::proto;
use crate::status::status;
use crate::stopping::StopSignal;
use crate::store_reads::StoreReads;

/// Least time from one look at a rollout to the next: many devices may answer in that time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A watch under way.
pub(super) struct RolloutWatch {
    id: String,
    sender: SenderKey,
    engine: Engine,
    changes: RolloutChanges,
    reads: StoreReads,
    stop: StopSignal,
    told: Option<proto::Rollout>,
    looked_at: Option<Instant>,
    /// Held as long as it lasts.
    place: Option<(Taken, Counted)>,
}

impl RolloutWatch {
    pub(super) fn new(
        id: String,
        sender: &SenderKey,
        engine: &Engine,
        reads: &StoreReads,
        stop: &StopSignal,
    ) -> Self {
        Self {
            id,
            sender: sender.clone(),
            changes: engine.rollouts().changes(),
            engine: engine.clone(),
            reads: reads.clone(),
            stop: stop.clone(),
            told: None,
            looked_at: None,
            place: None,
        }
    }

    pub(super) fn holding(mut self, place: (Taken, Counted)) -> Self {
        self.place = Some(place);
        self
    }

    /// What the caller is told, until the rollout has ended or a refusal.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<proto::WatchRolloutResponse, Status>> {
        stream::unfold(Some(self), |watch| async move {
            let mut watch = watch?;
            Some(match watch.next().await {
                Ok((rollout, has_ended)) => {
                    watch.told = Some(rollout.clone());
                    let response = proto::WatchRolloutResponse { rollout: Some(rollout) };
                    (Ok(response), (!has_ended).then_some(watch))
                }
                Err(problem) => (Err(status(&problem)), None),
            })
        })
    }

    /// The rollout once it is not as it was told, and whether it has ended.
    async fn next(&mut self) -> Result<(proto::Rollout, bool), Problem> {
        loop {
            let mut stop = self.stop.clone();
            let found = tokio::select! {
                found = self.look() => found?,
                () = stop.stopping() => return Err(Problem::unavailable("the server is stopping")),
            };
            let shown = shape::rollout(&found);
            if self.told.as_ref() != Some(&shown) {
                return Ok((shown, found.state.standing.has_ended()));
            }
        }
    }

    /// The rollout when it may have moved on. A watch has its place already, so it waits for its
    /// turn however many read.
    async fn look(&mut self) -> Result<TrackedRollout, Problem> {
        self.moved().await;
        let (queries, id) = (self.engine.queries(), self.id.clone());
        let found = self.reads.run_when_free(&self.sender, move || known(&queries, &id)).await;
        self.looked_at = Some(Instant::now());
        found
    }

    /// Resolves at once at first, and then when some rollout has moved on.
    async fn moved(&mut self) {
        if let Some(looked_at) = self.looked_at {
            self.changes.changed().await;
            sleep_until(looked_at + LOOK_AGAIN_AFTER).await;
        }
    }
}
