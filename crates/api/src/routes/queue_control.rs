//! `/v1/queues/{ns}/{queue}/control`: what the workers of a queue are to do.

use axum::extract::State;
use base::Problem;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::openapi::Call;
use crate::openapi::refusals::OF_A_QUEUE;
use crate::path::QueueInPath;
use crate::shape::{self, QueueControlShape};

const CONTROL: &str = "/v1/queues/{ns}/{queue}/control";

pub(super) fn routes() -> Routes {
    let put = Call::new("Says what the workers of a queue are to do, all of it")
        .takes(shape::queue_control_schema())
        .gives_nothing(204, "it is durable, and the workers are told")
        .refuses(OF_A_QUEUE)
        .refuses(&[
            (422, "invalid_number"),
            (422, "missing_field"),
            (422, "too_long"),
            (422, "unknown_word"),
            (429, "too_many_controls"),
        ]);
    let shown = Call::new("What the workers of a queue are to do")
        .gives::<QueueControlShape<'_>>(200, "what was said")
        .refuses(OF_A_QUEUE)
        .refuses(&[(404, "no_control")]);
    let deleted = Call::new("Says nothing more to the workers of a queue")
        .gives_nothing(204, "nothing is said")
        .refuses(OF_A_QUEUE);
    Routes::default().put(CONTROL, put_one, put).get(CONTROL, show, shown).delete(CONTROL, delete, deleted)
}

async fn put_one(
    State(api): State<ApiState>,
    QueueInPath(queue): QueueInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let control = shape::queue_control(&queue, &body)?;
    api.queues().put_control(&queue, Some(control)).await?;
    Ok(ApiAnswer::nothing())
}

async fn show(State(api): State<ApiState>, QueueInPath(queue): QueueInPath) -> Result<ApiAnswer, Refused> {
    let found = api.queues().control(&queue);
    let missing = || Problem::unknown("no_control", format!("nothing is said to the workers of {queue}"));
    Ok(ApiAnswer::ok(&QueueControlShape::from(&*found.ok_or_else(missing)?)))
}

async fn delete(State(api): State<ApiState>, QueueInPath(queue): QueueInPath) -> Result<ApiAnswer, Refused> {
    api.queues().put_control(&queue, None).await?;
    Ok(ApiAnswer::nothing())
}
