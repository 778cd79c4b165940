//! Dead letters, and jobs that are done with: acknowledged, or not wanted any more.

use std::time::Duration;

use axum::http::StatusCode;
use base::Problem;
use base::limits::JOBS_PER_CALL_MAX;
use engine::queues::{Dead, JobRef, QueueName, id_text};
use serde::Serialize;

use crate::LmstfyState;
use crate::answer::LmstfyAnswer;
use crate::job;
use crate::look::QueueSize;
use crate::publish::TTL_SECONDS;
use crate::query::Query;

#[derive(Serialize)]
struct Head<'a> {
    deadletter_head: &'a str,
    deadletter_size: u64,
    namespace: &'a str,
    queue: &'a str,
}

#[derive(Serialize)]
struct RespawnedBody {
    count: usize,
    msg: &'static str,
}

/// A job is done, or is not to be done. It is the same to the caller whether there was one.
pub(crate) async fn delete_job(
    shared: &LmstfyState,
    queue: &QueueName,
    id: &str,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    if let Some(id) = job::id(id) {
        match shared.queues.cancel(queue, JobRef::Id(id)).await {
            Ok(()) => {}
            // An acknowledgement that comes too late is still one.
            Err(Problem { status: 404, .. }) => {
                shared.queues.delete_dead_job(queue, id).await?;
            }
            Err(problem) => return Err(problem.into()),
        }
    }
    Ok(LmstfyAnswer::nothing())
}

/// The oldest one, and how many there are.
pub(crate) async fn head(shared: &LmstfyState, queue: &QueueName) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let stats = shared.queues.stats(queue).await?;
    let oldest = shared.queues.dead(queue, None, 1).await?;
    let oldest = oldest.first().map(|dead| id_text(dead.dead.id)).unwrap_or_default();
    let (namespace, queue) = (queue.namespace(), queue.queue());
    let head = Head { deadletter_head: &oldest, deadletter_size: stats.dead, namespace, queue };
    Ok(LmstfyAnswer::of(StatusCode::OK, &head))
}

pub(crate) async fn size(shared: &LmstfyState, queue: &QueueName) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let stats = shared.queues.stats(queue).await?;
    Ok(LmstfyAnswer::of(StatusCode::OK, &QueueSize::of(queue, stats.dead)))
}

/// Has the oldest ones tried again.
pub(crate) async fn respawn(
    shared: &LmstfyState,
    queue: &QueueName,
    query: Query<'_>,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let limit = limit(query)?;
    let ttl =
        query.signed("ttl", TTL_SECONDS.cast_signed(), 0).ok_or_else(|| LmstfyAnswer::bad("invalid ttl"))?;
    let ttl = Some(Duration::from_secs(ttl.cast_unsigned().min(u32::MAX.into())));
    let mut count = 0;
    while count < limit {
        let step = (limit - count).min(JOBS_PER_CALL_MAX);
        let respawned = match shared.queues.respawn(queue, Dead::Oldest(step), ttl).await {
            // The answer says how far it went.
            Err(_) if count > 0 => break,
            respawned => respawned?,
        };
        count += respawned;
        if respawned < step {
            break;
        }
    }
    let answer = LmstfyAnswer::of(StatusCode::OK, &RespawnedBody { count, msg: "respawned" });
    Ok(answer.having_changed(count as u64))
}

/// Deletes the oldest ones.
pub(crate) async fn delete(
    shared: &LmstfyState,
    queue: &QueueName,
    query: Query<'_>,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let deleted = shared.queues.delete_dead(queue, Some(limit(query)?)).await?;
    Ok(LmstfyAnswer::nothing().having_changed(deleted as u64))
}

fn limit(query: Query<'_>) -> Result<usize, LmstfyAnswer> {
    let limit = query.signed("limit", 1, 1).ok_or_else(|| LmstfyAnswer::bad("invalid limit"))?;
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}
