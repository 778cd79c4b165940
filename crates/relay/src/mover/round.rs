//! Rounds: the calls of a plan, one for each destination at a time, and what became of them written
//! down before the next.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{MoverError, RelayConfig};
use crate::announce::SharedProgress;
use crate::call_sizes::CallSizes;
use crate::lanes::{LANES_MAX, PAUSE_ASKED_MAX, PAUSE_FIRST, PAUSE_MAX, WaitingLanes};
use crate::outbox::{HELD_ROWS_MAX, OutboxTable};
use crate::outgoing::RowRefusal;
use crate::plan::{HeldKeys, OnRefused, PlannedCall, RowOutcomes, SendPlan};
use crate::publish::OutgoingCall;
use crate::verdict::{self, CallVerdict};

/// What rounds go by.
pub(super) struct Rounds<'a> {
    config: &'a RelayConfig,
    progress: &'a SharedProgress,
    outbox: &'a OutboxTable,
    pub(super) held: HeldKeys,
    pub(super) lanes: WaitingLanes,
    sizes: CallSizes,
    stop: watch::Receiver<bool>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(
        config: &'a RelayConfig,
        progress: &'a SharedProgress,
        outbox: &'a OutboxTable,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            config,
            progress,
            outbox,
            held: HeldKeys::default(),
            lanes: WaitingLanes::default(),
            sizes: CallSizes::default(),
            stop,
        }
    }

    /// Sends all of a plan. When this returns every row of it is deleted, refused or held, or its
    /// destination is among those that wait.
    pub(super) async fn send(&mut self, mut plan: SendPlan) -> Result<(), MoverError> {
        let (on_refused, mut outcomes) = (self.config.on_refused, RowOutcomes::default());
        let holds = on_refused == OnRefused::Hold;
        loop {
            let calls = plan.next_calls((&mut self.held, on_refused), &self.sizes, &mut outcomes);
            self.outbox.settle(&outcomes, holds).await?;
            self.count(&outcomes);
            outcomes = RowOutcomes::default();
            if self.held.len() > HELD_ROWS_MAX {
                return Err(MoverError::TooManyHeld);
            }
            if calls.is_empty() {
                let lanes = &self.lanes;
                self.sizes.keep_only(|destination| lanes.has(destination));
                return Ok(());
            }
            self.outbox.confirm().await?;
            let verdicts = join_all(calls.iter().map(|call| self.make(call))).await;
            for (call, verdict) in calls.into_iter().zip(verdicts) {
                let verdict = verdict?;
                if verdict == CallVerdict::Taken {
                    self.lanes.took(&call.destination);
                }
                let state = (&mut self.held, on_refused);
                let waits = plan.ended(call, verdict, state, &mut self.sizes, &mut outcomes);
                if let Some(waits) = waits {
                    let (to, error) = (&waits.destination, waits.error);
                    self.progress.stuck(format!("{to}: {error}"));
                    self.lanes.wait(to, waits.first_id, waits.retry_after, Instant::now());
                }
            }
            if self.lanes.len() > LANES_MAX {
                return Err(MoverError::TooManyBehind);
            }
        }
    }

    fn count(&self, outcomes: &RowOutcomes) {
        for (id, why) in outcomes.refused.iter().take(1) {
            let RowRefusal { status, code, detail } = why;
            let rows = outcomes.refused.len();
            tracing::warn!(
                id,
                status,
                code,
                detail,
                rows,
                "rows are refused for good; the first of them is told"
            );
        }
        if !(outcomes.taken.is_empty() && outcomes.refused.is_empty()) && self.lanes.len() == 0 {
            self.progress.moves();
        }
        let mut progress = self.progress.get();
        progress.moved += outcomes.taken.len() as u64;
        progress.refused += outcomes.refused.len() as u64;
    }

    /// A destination has no more rows behind the others.
    pub(super) fn caught_up(&mut self, destination: &str) {
        self.lanes.caught_up(destination);
        if self.lanes.len() == 0 {
            self.progress.moves();
        }
    }

    /// Makes a call, again and again until it is known what became of it.
    async fn make(&self, call: &PlannedCall) -> Result<CallVerdict, MoverError> {
        let Some((path, body)) = call.request() else {
            let (code, detail) = ("invalid_destination".to_owned(), call.destination.clone());
            return Ok(CallVerdict::Refused(RowRefusal { status: 422, code, detail }));
        };
        let (mut pause, mut stop) = (PAUSE_FIRST, self.stop.clone());
        loop {
            let request = OutgoingCall {
                is_put: false,
                path: path.clone(),
                parameter: call.parameter(),
                body: body.clone(),
            };
            let answer = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return Err(MoverError::Stopping),
                answer = (self.config.make_call)(request) => answer,
            };
            let (error, retry_after) = match verdict::of(answer) {
                CallVerdict::Again { error, retry_after } => (error, retry_after),
                known => return Ok(known),
            };
            self.progress.stuck(error);
            if self.outbox.session.client.is_closed() {
                return Err(MoverError::SessionEnded);
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return Err(MoverError::Stopping),
                () = sleep(waited(pause, retry_after)) => {}
            }
            self.outbox.confirm().await?;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Half of a pause is certain, half by chance, so that many relays do not come at once.
fn waited(pause: Duration, asked: Option<Duration>) -> Duration {
    let chance = f64::from(getrandom::u32().unwrap_or(u32::MAX)) / f64::from(u32::MAX);
    let pause = pause / 2 + (pause / 2).mul_f64(chance);
    pause.max(asked.unwrap_or_default().min(PAUSE_ASKED_MAX))
}
