//! `/v1/queues`: which there are, how they stand, and what they are set to.

use axum::extract::State;
use axum::response::Response;
use engine::QueueCalls;
use engine::queries::BoundedPage;
use engine::queues::{QueueName, QueueStats};
use net::problem::Refused;
use tokio::runtime::Handle;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::OF_A_QUEUE;
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::QueueInPath;
use crate::shape::{self, QueueShape};

const QUEUE: &str = "/v1/queues/{ns}/{queue}";

pub(super) fn routes() -> Routes {
    let listed = Call::new("Queues that have jobs, dead letters or settings, in order of namespace and name")
        .query("namespace", words::queue_name())
        .lists::<QueueShape<'_>>();
    let shown = Call::new("A queue; zeros for one that has nothing")
        .gives::<QueueShape<'_>>(200, "the queue")
        .refuses(OF_A_QUEUE);
    let set = Call::new("Sets a queue; what is left out is as if it had never been set")
        .takes(shape::queue_settings_schema())
        .gives_nothing(204, "it is set")
        .refuses(OF_A_QUEUE)
        .refuses(&[
            (422, "invalid_duration"),
            (422, "invalid_number"),
            (422, "invalid_settings"),
            (422, "unknown_word"),
        ]);
    let paused = Call::new("Gives no more jobs out until it is resumed")
        .gives_nothing(204, "it is paused")
        .refuses(OF_A_QUEUE);
    let resumed =
        Call::new("Gives jobs out again").gives_nothing(204, "it is not paused").refuses(OF_A_QUEUE);
    let deleted = Call::new("Deletes a queue with its jobs, dead letters and settings")
        .gives_nothing(204, "it is gone")
        .refuses(OF_A_QUEUE);
    Routes::default()
        .get("/v1/queues", list, listed)
        .get(QUEUE, show, shown)
        .delete(QUEUE, delete, deleted)
        .put("/v1/queues/{ns}/{queue}/settings", set_settings, set)
        .post("/v1/queues/{ns}/{queue}/pause", pause, paused)
        .post("/v1/queues/{ns}/{queue}/resume", resume, resumed)
}

/// Queues, asked for by a thread that may wait for them.
struct QueueListing {
    queues: QueueCalls,
    namespace: Option<String>,
    executor: Handle,
}

impl List for QueueListing {
    type Key = QueueName;
    type Found = QueueStats;
    type Shown<'a> = QueueShape<'a>;

    fn look(&self, after: Option<&QueueName>, limit: usize, _: usize) -> PageOfList<Self> {
        self.executor
            .block_on(self.queues.list(self.namespace.as_deref(), after, limit))
            .map(BoundedPage::indexed)
    }

    fn key(stats: &QueueStats) -> QueueName {
        stats.name.clone()
    }

    fn show(stats: &QueueStats) -> QueueShape<'_> {
        stats.into()
    }
}

async fn list(State(api): State<ApiState>, mut params: Params) -> Result<Response, Refused> {
    let namespace = params.namespace()?;
    let page = params.page()?;
    list::answer(&api, page, QueueListing { queues: api.queues(), namespace, executor: Handle::current() })
        .await
}

async fn show(State(api): State<ApiState>, QueueInPath(queue): QueueInPath) -> Result<ApiAnswer, Refused> {
    let stats = api.queues().stats(&queue).await?;
    Ok(ApiAnswer::ok(&QueueShape::from(&stats)))
}

async fn set_settings(
    State(api): State<ApiState>,
    QueueInPath(queue): QueueInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    api.queues().set(&queue, shape::queue_settings(&body)?).await?;
    Ok(ApiAnswer::nothing())
}

async fn pause(State(api): State<ApiState>, QueueInPath(queue): QueueInPath) -> Result<ApiAnswer, Refused> {
    api.queues().pause(&queue, true).await?;
    Ok(ApiAnswer::nothing())
}

async fn resume(State(api): State<ApiState>, QueueInPath(queue): QueueInPath) -> Result<ApiAnswer, Refused> {
    api.queues().pause(&queue, false).await?;
    Ok(ApiAnswer::nothing())
}

async fn delete(State(api): State<ApiState>, QueueInPath(queue): QueueInPath) -> Result<ApiAnswer, Refused> {
    api.queues().delete(&queue).await?;
    Ok(ApiAnswer::nothing())
}
