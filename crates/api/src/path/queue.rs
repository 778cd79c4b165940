//! Queues and jobs in paths. A name that cannot be one is refused as such; an id that cannot be one
//! is as unknown as a job that is gone.

use base::Problem;
use base::limits::JOB_NAME_BYTES_MAX;
use compact_str::CompactString;
use engine::queues::{JobRef, QueueName, id_from_text};
use engine::records::JobId;
use net::problem::quoted;

use super::from_path;

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

from_path! {
    QueueInPath: |(namespace, queue): (String, String)| QueueName::new(&namespace, &queue).map(Self);
    QueuesInPath: |(namespace, queues): (String, String)| {
        let names = queues.split(',').map(|queue| QueueName::new(&namespace, queue));
        Ok(Self(names.collect::<Result<_, _>>()?))
    };
    JobInPath: |(namespace, queue, id): (String, String, String)| {
        let queue = QueueName::new(&namespace, &queue)?;
        let id = id_from_text(&id).ok_or_else(|| unknown_job(&id))?;
        Ok(Self { queue, id })
    };
    AliasInPath: |(namespace, queue, alias): (String, String, String)| {
        let queue = QueueName::new(&namespace, &queue)?;
        if !(1..=JOB_NAME_BYTES_MAX).contains(&alias.len()) {
            return Err(unknown_job(&alias));
        }
        Ok(Self { queue, alias: alias.into() })
    };
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
