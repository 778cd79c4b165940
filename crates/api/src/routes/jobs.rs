//! `/v1/queues/{ns}/{queue}/jobs`: publishing, looking without taking, changing and cancelling, by
//! id or by alias.

use axum::extract::State;
use axum::response::Response;
use base::Problem;
use base::limits::JOB_PAYLOAD_BYTES_MAX;
use engine::QueueCalls;
use engine::queries::BoundedPage;
use engine::queues::{JobPayload, JobRef, JobState, JobView, QueueName};
use engine::records::JobId;
use net::problem::Refused;
use tokio::runtime::Handle;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::idempotency::{Creation, KeptWithJobs};
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::{OF_A_JOB, OF_A_QUEUE, OF_PUBLISHING, UNKNOWN_JOB};
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::{AliasInPath, JobInPath, QueueInPath};
use crate::shape::{self, JobShape, PublishedShape};

const JOBS: &str = "/v1/queues/{ns}/{queue}/jobs";
const BY_ID: &str = "/v1/queues/{ns}/{queue}/jobs/{id}";
const BY_ALIAS: &str = "/v1/queues/{ns}/{queue}/aliases/{alias}";

pub(super) fn routes() -> Routes {
    let published = Call::new("Publishes a job, or up to 1,000, all or none; answered once they are durable")
        .once()
        .with_source()
        .takes(shape::new_jobs_schema())
        .gives::<PublishedShape>(201, "their ids, in the order of the request")
        .refuses(OF_PUBLISHING)
        .refuses(OF_A_JOB)
        .refuses(OF_A_QUEUE);
    let listed = Call::new("Jobs in the order of publishing, dead ones not among them")
        .query("state", words::job_state())
        .lists::<JobShape<'_>>()
        .refuses(OF_A_QUEUE);
    Routes::default()
        .post(JOBS, publish, published)
        .get(JOBS, list, listed)
        .get(BY_ID, show::<JobInPath>, shown())
        .patch(BY_ID, change::<JobInPath>, changed())
        .delete(BY_ID, cancel::<JobInPath>, cancelled())
        .get(BY_ALIAS, show::<AliasInPath>, shown())
        .patch(BY_ALIAS, change::<AliasInPath>, changed())
        .delete(BY_ALIAS, cancel::<AliasInPath>, cancelled())
}

fn shown() -> Call {
    Call::new("A job, without taking it").gives::<JobShape<'_>>(200, "the job").refuses(OF_ONE)
}

fn changed() -> Call {
    Call::new("Gives a waiting job another payload or time")
        .takes(shape::job_changes_schema())
        .gives::<JobShape<'_>>(200, "the job as it is now")
        .refuses(OF_A_JOB)
        .refuses(OF_ONE)
        .refuses(&[(409, "job_reserved"), (422, "cannot_clear")])
}

fn cancelled() -> Call {
    Call::new("Cancels a job, also while a consumer has it, which it then has in vain")
        .gives_nothing(204, "it is gone")
        .refuses(OF_ONE)
}

const OF_ONE: &[crate::openapi::refusals::Coded] =
    &[UNKNOWN_JOB, (422, "invalid_name"), (422, "reserved_name")];

async fn publish(
    State(api): State<ApiState>,
    QueueInPath(queue): QueueInPath,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    let KeptWithJobs { body, idempotency, source } = creation.kept_with_jobs()?;
    let jobs = shape::new_jobs(&body, api.engine().clock().wall())?;
    let _held = body.into_memory();
    let published = api.queues().publish_from(&queue, jobs, idempotency, source).await?;
    Ok(ApiAnswer::created(&PublishedShape::from(&*published)))
}

/// Jobs of a queue, read from the store by a thread that may wait for it.
pub(crate) struct JobListing {
    pub queues: QueueCalls,
    pub queue: QueueName,
    pub state: Option<JobState>,
    pub executor: Handle,
}

/// The state that the parameters ask for.
///
/// # Errors
/// `invalid_parameter`.
pub(crate) fn asked(params: &mut Params) -> Result<Option<JobState>, Problem> {
    params.word("state", &JobState::ALL, JobState::as_str)
}

impl List for JobListing {
    type Key = JobId;
    type Found = (String, JobView);
    type Shown<'a> = JobShape<'a>;

    const READ_MAX: usize = 32;
    const ITEM_BYTES_MAX: usize = JOB_PAYLOAD_BYTES_MAX;

    fn look(&self, after: Option<&JobId>, limit: usize, cost_max: usize) -> PageOfList<Self> {
        let page = self.queues.jobs(&self.queue, self.state, after.copied(), (limit, cost_max));
        let BoundedPage { found, next, looked_at, cost } = self.executor.block_on(page)?;
        let found: Vec<_> = found.into_iter().map(|job| (self.queue.queue().to_owned(), job)).collect();
        Ok(BoundedPage { found, next, looked_at, cost })
    }

    fn bytes((_, job): &Self::Found) -> usize {
        match &job.payload {
            JobPayload::Json(text) => text.len(),
            JobPayload::Bytes(bytes) => bytes.len(),
        }
    }

    fn key((_, job): &Self::Found) -> JobId {
        job.id
    }

    fn show((queue, job): &Self::Found) -> JobShape<'_> {
        JobShape::of(queue, job)
    }
}

async fn list(
    State(api): State<ApiState>,
    QueueInPath(queue): QueueInPath,
    mut params: Params,
) -> Result<Response, Refused> {
    let state = asked(&mut params)?;
    let page = params.page()?;
    list::answer(&api, page, JobListing { queues: api.queues(), queue, state, executor: Handle::current() })
        .await
}

async fn show<P: Into<(QueueName, JobRef)>>(
    State(api): State<ApiState>,
    path: P,
) -> Result<ApiAnswer, Refused> {
    let (queue, job) = path.into();
    let job = api.queues().job(&queue, job).await?;
    Ok(ApiAnswer::ok(&JobShape::of(queue.queue(), &job)))
}

async fn change<P: Into<(QueueName, JobRef)>>(
    State(api): State<ApiState>,
    path: P,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let (queue, job) = path.into();
    let change = shape::change_of_job(&body, api.engine().clock().wall())?;
    let job = api.queues().change(&queue, job, change).await?;
    Ok(ApiAnswer::ok(&JobShape::of(queue.queue(), &job)))
}

async fn cancel<P: Into<(QueueName, JobRef)>>(
    State(api): State<ApiState>,
    path: P,
) -> Result<ApiAnswer, Refused> {
    let (queue, job) = path.into();
    api.queues().cancel(&queue, job).await?;
    Ok(ApiAnswer::nothing())
}
