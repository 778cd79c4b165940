//! Looking at jobs and queues without taking anything, and making away with a queue.

use axum::http::StatusCode;
use base::Problem;
use engine::queues::{JobRef, QueueName};
use serde::Serialize;

use crate::LmstfyState;
use crate::answer::LmstfyAnswer;
use crate::job::{self, Shown};

#[derive(Serialize)]
pub(crate) struct QueueSize<'a> {
    namespace: &'a str,
    queue: &'a str,
    size: u64,
}

impl<'a> QueueSize<'a> {
    pub(crate) fn of(queue: &'a QueueName, size: u64) -> Self {
        Self { namespace: queue.namespace(), queue: queue.queue(), size }
    }
}

/// The job that would be consumed next.
pub(crate) async fn peek(shared: &LmstfyState, queue: &QueueName) -> Result<LmstfyAnswer, LmstfyAnswer> {
    match shared.queues.peek(queue).await {
        Ok(job) => Ok(shown(shared, queue, Shown::at_the_head(&job))),
        Err(problem) if problem.status == 404 => {
            Err(LmstfyAnswer::error(StatusCode::NOT_FOUND, "the queue is empty"))
        }
        Err(problem) => Err(problem.into()),
    }
}

/// A job by its id, wherever it stands, also a dead one.
pub(crate) async fn job(
    shared: &LmstfyState,
    queue: &QueueName,
    id: &str,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let not_found = || LmstfyAnswer::error(StatusCode::NOT_FOUND, "job not found");
    let id = job::id(id).ok_or_else(not_found)?;
    match shared.queues.job(queue, JobRef::Id(id)).await {
        Ok(job) => return Ok(shown(shared, queue, Shown::found(&job))),
        Err(Problem { status: 404, .. }) => {}
        Err(problem) => return Err(problem.into()),
    }
    let dead = shared.queues.dead_job(queue, id).await?.ok_or_else(not_found)?;
    Ok(shown(shared, queue, Shown::dead(&dead)))
}

fn shown(shared: &LmstfyState, queue: &QueueName, job: Shown<'_>) -> LmstfyAnswer {
    let mut text = Vec::new();
    job.write(&mut text, queue.namespace(), queue.queue(), None, shared.now());
    LmstfyAnswer::json(StatusCode::OK, text)
}

/// How many jobs can be consumed.
pub(crate) async fn size(shared: &LmstfyState, queue: &QueueName) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let stats = shared.queues.stats(queue).await?;
    Ok(LmstfyAnswer::of(StatusCode::OK, &QueueSize::of(queue, stats.ready)))
}

/// What can be consumed goes; the rest of the queue stays.
pub(crate) async fn destroy(shared: &LmstfyState, queue: &QueueName) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let dropped = shared.queues.drop_ready(queue).await?;
    Ok(LmstfyAnswer::nothing().having_changed(dropped))
}
