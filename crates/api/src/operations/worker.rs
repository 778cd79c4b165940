//! Goes on with operations: a task for each, as many as the engine lets go on.
//!
//! A task writes the rows of its next chunk down, does its action to each, and tells what came of
//! it together with the chunk after. Whatever it has in memory may be lost: the rows that were
//! written down have their turn again after a start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::{EntityId, Problem};
use engine::TrackedOperation;
use engine::operations::rule::chunk_rows;
use engine::operations::{ChunkOutcome, NextChunk, OperationProgress};
use engine::records::{OperationError, OperationState};
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tracing::{info, warn};

use super::act::{RowOutcome, act, refusal};
use super::{OperationPlan, rights};
use crate::ApiState;

/// Rows of one operation that are worked on at the same time: their writes share a sync.
const ROWS_IN_FLIGHT: usize = 20;
/// What cannot be done now is tried again after this long.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Works until the server stops.
pub(crate) async fn run(api: ApiState) {
    let mut changes = api.engine().operations().changes();
    let (mut tasks, mut working) = (JoinSet::new(), HashMap::<Id, EntityId>::new());
    loop {
        changes.borrow_and_update();
        match running(&api).await {
            Ok(operations) => {
                for tracked in operations {
                    let id = tracked.operation.id;
                    if !working.values().any(|known| *known == id) {
                        let task = tasks.spawn(work_on(api.clone(), tracked, changes.clone()));
                        working.insert(task.id(), id);
                    }
                }
            }
            Err(problem) => {
                warn!(code = problem.code, detail = problem.detail, "operations cannot be looked for now");
                pause(&api).await;
                continue;
            }
        }
        api.shared.metrics.operations_running.set(working.len().cast_signed() as i64);
        tokio::select! {
            () = api.stopped() => return,
            changed = changes.changed() => if changed.is_err() { return },
            Some(ended) = tasks.join_next_with_id() => {
                let (task, panicked) = match ended {
                    Ok((task, ())) => (task, false),
                    Err(ended) => (ended.id(), true),
                };
                if let Some(id) = working.remove(&task).filter(|_| panicked) {
                    give_up(&api, id).await;
                }
            }
        }
    }
}

async fn running(api: &ApiState) -> Result<Vec<TrackedOperation>, Problem> {
    let operations = api.engine().operations();
    api.shared.lookups.run(move || operations.running()).await
}

/// An operation whose task has panicked goes on no longer.
async fn give_up(api: &ApiState, id: EntityId) {
    let detail = "an internal error; the server's log says more";
    let error =
        OperationError { code: "internal_error".into(), detail: detail.into(), subject: Box::default() };
    let failed = OperationProgress { failure: Some(error), ..OperationProgress::default() };
    if let Err(problem) = api.engine().operations().progress(id, failed).await {
        warn!(code = problem.code, detail = problem.detail, "an operation cannot be ended");
        pause(api).await;
    }
}

async fn pause(api: &ApiState) {
    let at = api.engine().clock().now().after(AGAIN_AFTER);
    tokio::select! {
        () = api.engine().until(at) => {}
        () = api.stopped() => {}
    }
}

async fn work_on(api: ApiState, mut tracked: TrackedOperation, mut changes: watch::Receiver<()>) {
    let id = tracked.operation.id;
    let plan = match OperationPlan::of_stored(&api, &tracked) {
        Ok(plan) => Arc::new(plan),
        Err(problem) => {
            let failed = OperationProgress { failure: Some(refusal(&problem, "")), ..Default::default() };
            tell(&api, &mut tracked.state, failed).await;
            return;
        }
    };
    api.engine().operations().shown(&tracked.operation).await;
    while !tracked.state.status.has_ended() {
        let mut progress = OperationProgress::default();
        if let Err(problem) = rights::still(&api.shared.access, &tracked.operation) {
            progress.failure = Some(refusal(&problem, ""));
            tell(&api, &mut tracked.state, progress).await;
            return;
        }
        if !tracked.state.chunk.is_empty() {
            progress.outcome = Some(chunk(&api, &plan, id, &tracked.state.chunk).await);
        }
        if api.engine().clock().now() >= tracked.state.next_at {
            add_next(&api, &plan, &tracked, &mut progress).await;
        }
        if progress == OperationProgress::default() {
            tokio::select! {
                () = api.engine().until(tracked.state.next_at) => {}
                changed = changes.changed() => {
                    if changed.is_err() || !is_known(&api, &mut tracked.state).await {
                        return;
                    }
                }
            }
            continue;
        }
        if !tell(&api, &mut tracked.state, progress).await {
            return;
        }
    }
    let status = tracked.state.status.as_str();
    info!(operation = %id.to_text(engine::operations::OPERATION_ID_PREFIX), status, "an operation has ended");
}

/// The next rows, or why there are none to be had.
async fn add_next(
    api: &ApiState,
    plan: &Arc<OperationPlan>,
    tracked: &TrackedOperation,
    progress: &mut OperationProgress,
) {
    let TrackedOperation { operation, state } = tracked;
    let Some(next) = &state.next else { return };
    let (limit, until) = (chunk_rows(operation.rate), plan.until);
    let (plan, next) = (Arc::clone(plan), next.clone());
    match api.shared.lists.run(move || plan.rows.read(&next, limit, until)).await {
        Ok(found) => progress.chunk = Some(NextChunk { rows: found.rows, next: found.next }),
        Err(problem) if problem.status >= 500 && problem.code != "internal_error" => pause(api).await,
        Err(problem) => progress.failure = Some(refusal(&problem, "")),
    }
}

/// Does the action to each row, again where that is not possible now.
async fn chunk(api: &ApiState, plan: &OperationPlan, id: EntityId, rows: &[Box<str>]) -> ChunkOutcome {
    let mut outcome = ChunkOutcome::default();
    for group in rows.chunks(ROWS_IN_FLIGHT) {
        let mut left: Vec<&str> = group.iter().map(|row| &**row).collect();
        while !left.is_empty() {
            let ends = join_all(left.iter().map(|row| act(api, plan, id, row))).await;
            let mut again = Vec::new();
            for (row, end) in left.iter().zip(ends) {
                match end {
                    Ok(end) => api.shared.metrics.operation_row(plan.action, count(&mut outcome, end)),
                    Err(_) => again.push(*row),
                }
            }
            left = again;
            if !left.is_empty() {
                pause(api).await;
            }
        }
    }
    outcome
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

/// Tells the engine; whether the operation is still to be gone on with.
async fn tell(api: &ApiState, state: &mut OperationState, progress: OperationProgress) -> bool {
    match api.engine().operations().progress(state.id, progress).await {
        Ok(after) => {
            *state = after;
            true
        }
        Err(problem) if problem.status < 500 => false,
        // Whether it was written is not known: what is there says it.
        Err(_) => {
            pause(api).await;
            is_known(api, state).await
        }
    }
}

/// Reads how far the operation has come; whether it is still there.
async fn is_known(api: &ApiState, state: &mut OperationState) -> bool {
    let (queries, id) = (api.queries(), state.id);
    match api.shared.lookups.run(move || queries.operation(id)).await {
        Ok(Some(found)) => {
            *state = found.state;
            true
        }
        Ok(None) => false,
        Err(_) => {
            pause(api).await;
            true
        }
    }
}
