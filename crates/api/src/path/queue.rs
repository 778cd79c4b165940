//! Queues and jobs in paths. A name that cannot be one is refused as such; an id that cannot be one
//! is as unknown as a job that is gone.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base::Problem;
use base::limits::JOB_NAME_BYTES_MAX;
use compact_str::CompactString;
use engine::queues::{JobRef, QueueName, id_from_text};
use engine::records::JobId;
use net::problem::{Refused, quoted};

use super::in_path;

/// `/v1/queues/{ns}/{queue}`
#[derive(Debug)]
pub(crate) struct QueueInPath(pub QueueName);

/// `/v1/queues/{ns}/{queue[,queue2..]}/consume`
#[derive(Debug)]
pub(crate) struct QueuesInPath(pub Vec<QueueName>);

/// `/v1/queues/{ns}/{queue}/jobs/{id}`
#[derive(Debug)]
pub(crate) struct JobInPath {
    pub queue: QueueName,
    pub id: JobId,
}

/// `/v1/queues/{ns}/{queue}/jobs/{id}` or `/v1/queues/{ns}/{queue}/aliases/{alias}`
#[derive(Debug)]
pub(crate) struct AliasInPath {
    pub queue: QueueName,
    pub alias: CompactString,
}

impl<S: Send + Sync> FromRequestParts<S> for QueueInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let (namespace, queue): (String, String) = in_path(parts, state).await?;
        Ok(Self(QueueName::new(&namespace, &queue)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for QueuesInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let (namespace, queues): (String, String) = in_path(parts, state).await?;
        let names = queues.split(',').map(|queue| QueueName::new(&namespace, queue));
        Ok(Self(names.collect::<Result<_, _>>()?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for JobInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let (namespace, queue, id): (String, String, String) = in_path(parts, state).await?;
        let queue = QueueName::new(&namespace, &queue)?;
        let id = id_from_text(&id).ok_or_else(|| unknown_job(&id))?;
        Ok(Self { queue, id })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AliasInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let (namespace, queue, alias): (String, String, String) = in_path(parts, state).await?;
        let queue = QueueName::new(&namespace, &queue)?;
        if !(1..=JOB_NAME_BYTES_MAX).contains(&alias.len()) {
            return Err(Refused(unknown_job(&alias)));
        }
        Ok(Self { queue, alias: alias.into() })
    }
}

impl From<JobInPath> for (QueueName, JobRef) {
    fn from(path: JobInPath) -> Self {
        (path.queue, JobRef::Id(path.id))
    }
}

impl From<AliasInPath> for (QueueName, JobRef) {
    fn from(path: AliasInPath) -> Self {
        (path.queue, JobRef::Alias(path.alias))
    }
}

fn unknown_job(what: &str) -> Problem {
    Problem::unknown("unknown_job", format!("there is no job {}", quoted(what)))
}
