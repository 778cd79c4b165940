//! Goes on with operations: a [`task`] for each, as many as the engine lets go on.

use std::collections::HashMap;

use base::{EntityId, Problem};
use engine::TrackedOperation;
use engine::records::OperationError;
use tokio::task::{Id, JoinSet};
use tracing::warn;

use super::task::{self, AGAIN_AFTER};
use crate::ApiState;

/// Works until the server stops.
pub(crate) async fn run(api: ApiState) {
    let mut changes = api.engine().operations().work_changes();
    let (mut tasks, mut working) = (JoinSet::new(), HashMap::<Id, EntityId>::new());
    loop {
        changes.borrow_and_update();
        match running(&api).await {
            Ok(operations) => {
                for tracked in operations {
                    let id = tracked.operation.id;
                    if !working.values().any(|known| *known == id) {
                        let task = tasks.spawn(task::work_on(api.clone(), tracked, changes.clone()));
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
    tokio::select! {
        () = task::fail(api, id, error) => {}
        () = api.stopped() => {}
    }
}

async fn pause(api: &ApiState) {
    let at = api.engine().clock().now().after(AGAIN_AFTER);
    tokio::select! {
        () = api.engine().until(at) => {}
        () = api.stopped() => {}
    }
}
