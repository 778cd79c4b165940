//! The task of one operation: chunk after chunk, until its list ends, it is called off, or its
//! token may no longer do it.
//!
//! A task writes the rows of its next chunk down and does its action to each. It tells what came of
//! it together with the chunk after. Whatever it has in memory may be lost: the rows that were
//! written down have their turn again after a start. Where something cannot be done now, the
//! operation shows what it waits for, tries again a bounded number of times, and can be cancelled
//! meanwhile.

use std::sync::Arc;
use std::time::Duration;

use base::{EntityId, Problem, Timestamp};
use engine::TrackedOperation;
use engine::operations::rule::chunk_rows;
use engine::operations::{ChunkOutcome, NextChunk, OPERATION_ID_PREFIX, OperationProgress};
use engine::records::{Operation, OperationError, OperationState};
use futures_util::future::join_all;
use net::shares::SenderKey;
use tokio::sync::watch;
use tracing::{info, warn};

use super::act::{RowOutcome, refusal};
use super::lane::{self, RowLane};
use super::{OperationPlan, rights};
use crate::ApiState;

/// Rows of one operation that are worked on at the same time: their writes share a sync.
const ROWS_IN_FLIGHT: usize = 20;
/// What cannot be done now is tried again after this long.
pub(super) const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Times that the next rows are asked for where they cannot be read: ten minutes. Then the
/// operation has failed.
const LIST_TRIES_MAX: u32 = 600;

/// An operation that is worked on.
pub(super) struct OperationTask {
    api: ApiState,
    operation: Arc<Operation>,
    state: OperationState,
    plan: Arc<OperationPlan>,
    /// Marked changed when an operation is called off.
    changes: watch::Receiver<()>,
    /// Whose share its reads are of.
    whose: SenderKey,
    /// Why it must not go on.
    failure: Option<OperationError>,
    /// How often the next rows could not be read, and not before when they are asked for again.
    list_tries: u32,
    list_again_at: Timestamp,
}

/// Works on an operation until it has ended.
pub(super) async fn work_on(api: ApiState, tracked: TrackedOperation, changes: watch::Receiver<()>) {
    let plan = OperationPlan::of_stored(&api, &tracked);
    let TrackedOperation { operation, state } = tracked;
    let id = operation.id;
    let plan = match plan {
        Ok(plan) => Arc::new(plan),
        Err(problem) => return fail(&api, id, refusal(&problem, "")).await,
    };
    api.engine().operations().shown(&operation).await;
    let whose = operation.by.as_deref().map_or(SenderKey::Unknown, |by| SenderKey::Token(by.into()));
    let (failure, list_again_at) = (None, state.next_at);
    let mut task =
        OperationTask { api, operation, state, plan, changes, whose, failure, list_tries: 0, list_again_at };
    task.run().await;
    let status = task.state.status.as_str();
    info!(operation = %id.to_text(OPERATION_ID_PREFIX), status, "an operation is no longer worked on");
}

/// Ends an operation that cannot go on.
pub(super) async fn fail(api: &ApiState, id: EntityId, error: OperationError) {
    let failed = OperationProgress { failure: Some(error), ..OperationProgress::default() };
    while let Err(problem) = api.engine().operations().progress(id, failed.clone()).await {
        if problem.status < 500 {
            return;
        }
        warn!(code = problem.code, detail = problem.detail, "an operation cannot be ended now");
        api.engine().until(api.engine().clock().now().after(AGAIN_AFTER)).await;
    }
}

impl OperationTask {
    async fn run(&mut self) {
        while !self.state.status.has_ended() {
            let mut progress = OperationProgress::default();
            // Of a chunk that must not be gone on with, it is told that no row had its turn.
            if self.state.chunk.is_empty() {
                self.may_go_on().await;
            } else {
                progress.outcome = Some(self.chunk().await);
            }
            progress.failure = self.failure.take();
            let due = self.state.next_at.max(self.list_again_at);
            if progress.failure.is_none() && self.api.engine().clock().now() >= due {
                self.add_next(&mut progress).await;
            }
            let goes_on = match progress == OperationProgress::default() {
                true => self.wait_until(self.state.next_at.max(self.list_again_at)).await,
                false => self.tell(progress).await,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Whether it is neither called off nor stopped by what its token may do. Looks at the store
    /// only when something was told.
    async fn may_go_on(&mut self) -> bool {
        if self.changes.has_changed().unwrap_or(true) && !self.refresh().await {
            return false;
        }
        if let Err(problem) = rights::still(&self.api.shared.access, &self.operation) {
            self.failure = Some(refusal(&problem, ""));
        }
        self.failure.is_none() && !self.state.status.has_ended()
    }

    /// Does the action to each row of the chunk, again where that is not possible now. What is left
    /// when it must not go on has no turn.
    async fn chunk(&mut self) -> ChunkOutcome {
        let mut outcome = ChunkOutcome { chunk: self.state.chunk_number(), ..ChunkOutcome::default() };
        let rows = self.state.chunk.clone();
        for group in rows.chunks(ROWS_IN_FLIGHT) {
            let mut lanes = lane::of_rows(&self.api, &self.plan, group).await;
            while !lanes.is_empty() {
                if !self.may_go_on().await {
                    return outcome;
                }
                let id = self.operation.id;
                let turns = lanes.iter_mut().map(|lane| lane.run(&self.api, &self.plan, id));
                for end in join_all(turns).await.into_iter().flatten() {
                    let metrics = &self.api.shared.metrics;
                    metrics.operation_row(self.plan.action, count(&mut outcome, end));
                }
                lanes.retain(|lane| !lane.is_empty());
                if let Some(error) = lanes.first().and_then(RowLane::waits_for).cloned() {
                    self.wait_again(error).await;
                }
            }
        }
        outcome
    }

    /// Shows what it waits for, and waits.
    async fn wait_again(&mut self, error: OperationError) {
        if self.state.last_error.as_deref() != Some(&error) {
            let waits = OperationProgress { waits_for: Some(error), ..OperationProgress::default() };
            match self.api.engine().operations().progress(self.state.id, waits).await {
                Ok(state) => self.state = state,
                // It has ended meanwhile.
                Err(problem) if problem.status < 500 => self.changes.mark_changed(),
                Err(problem) => {
                    let Problem { code, detail, .. } = problem;
                    warn!(code, detail, "what an operation waits for is not shown");
                }
            }
        }
        let at = self.api.engine().clock().now().after(AGAIN_AFTER);
        // Whether it still goes on is asked before the next try.
        self.wait_until(at).await;
    }

    /// The next rows, or why there are none to be had.
    async fn add_next(&mut self, progress: &mut OperationProgress) {
        let Some(next) = self.state.next.clone() else { return };
        match self.read(next).await {
            Ok(chunk) => {
                self.list_tries = 0;
                progress.chunk = Some(chunk);
            }
            Err(problem) if is_passing(&problem) && self.list_tries < LIST_TRIES_MAX => {
                self.list_tries += 1;
                self.list_again_at = self.api.engine().clock().now().after(AGAIN_AFTER);
                let error = refusal(&problem, "");
                progress.waits_for =
                    Some(error).filter(|error| self.state.last_error.as_deref() != Some(error));
            }
            Err(problem) => progress.failure = Some(refusal(&problem, "")),
        }
    }

    async fn read(&self, next: Box<[u8]>) -> Result<NextChunk, Problem> {
        let limit = chunk_rows(self.operation.rate);
        let place = self.api.shared.lists.enter_as(&self.whose)?;
        let bytes = self.plan.rows.bytes_max(limit);
        let _held = self.api.shared.memory_of_pages.take_soon(&self.whose, bytes).await?;
        let plan = Arc::clone(&self.plan);
        let found = place.run(move || plan.rows.read(&next, limit, plan.until)).await?;
        Ok(NextChunk { rows: found.rows, next: found.next })
    }

    /// Waits, unless it is called off before; whether the operation is still there.
    async fn wait_until(&mut self, at: Timestamp) -> bool {
        loop {
            tokio::select! {
                () = self.api.engine().until(at) => return true,
                changed = self.changes.changed() => {
                    if changed.is_err() || !self.refresh().await {
                        return false;
                    }
                    if self.state.status.has_ended() {
                        return true;
                    }
                }
            }
        }
    }

    /// Tells the engine, again where it is not known whether that was written: an outcome is
    /// counted once. Whether the operation is still there.
    async fn tell(&mut self, progress: OperationProgress) -> bool {
        loop {
            match self.api.engine().operations().progress(self.state.id, progress.clone()).await {
                Ok(after) => {
                    self.state = after;
                    return true;
                }
                Err(problem) if problem.status < 500 => return false,
                Err(problem) => {
                    warn!(code = problem.code, detail = problem.detail, "an operation cannot go on now");
                    let at = self.api.engine().clock().now().after(AGAIN_AFTER);
                    self.api.engine().until(at).await;
                }
            }
        }
    }

    /// Reads how far the operation has come; whether it is still there.
    async fn refresh(&mut self) -> bool {
        self.changes.mark_unchanged();
        let (queries, id) = (self.api.queries(), self.state.id);
        match self.api.shared.lookups.run(move || queries.operation(id)).await {
            Ok(Some(found)) => {
                self.state = found.state;
                true
            }
            Ok(None) => {
                // Whoever looks again is told so too.
                self.changes.mark_changed();
                false
            }
            Err(problem) => {
                warn!(code = problem.code, detail = problem.detail, "an operation cannot be read now");
                self.changes.mark_changed();
                let at = self.api.engine().clock().now().after(AGAIN_AFTER);
                self.api.engine().until(at).await;
                true
            }
        }
    }
}

/// Whether a list that cannot be read may be readable later.
fn is_passing(problem: &Problem) -> bool {
    problem.status >= 500 && problem.code != "internal_error"
}

fn count(outcome: &mut ChunkOutcome, end: RowOutcome) -> &'static str {
    match end {
        RowOutcome::Done => {
            outcome.done += 1;
            "done"
        }
        RowOutcome::Skipped => {
            outcome.skipped += 1;
            "skipped"
        }
        RowOutcome::Refused(error) => {
            outcome.refused += 1;
            outcome.last_error = Some(error);
            "refused"
        }
    }
}
