//! `/v1/queues/{ns}/{queue}/dead`: jobs that failed for good.

use axum::extract::State;
use axum::response::Response;
use base::Problem;
use base::limits::{JOB_PAYLOAD_BYTES_MAX, JOBS_PER_CALL_MAX};
use engine::Queues;
use engine::queries::Stretch;
use engine::queues::{Dead, DeadView, IdempotencyKey, Payload, QueueName, id_from_text};
use net::problem::Refused;
use tokio::runtime::Handle;

use super::Routes;
use crate::ApiState;
use crate::answer::Answer;
use crate::cursor::DeadKey;
use crate::fields::{count, or_nothing, strings};
use crate::idempotency::Creation;
use crate::list::{self, List};
use crate::openapi::refusals::OF_A_QUEUE;
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::QueueInPath;
use crate::shape::{DeadShape, RespawnedShape};

/// Dead letters that a page looks at where only some are asked for; each may have a large payload.
const LOOKED_AT_MAX: u64 = 2_000;
const DEAD: &str = "/v1/queues/{ns}/{queue}/dead";

pub(super) fn routes() -> Routes {
    let listed = Call::new("Dead letters, the oldest first")
        .query("error", words::part())
        .query("payload", words::part())
        .lists::<DeadShape<'_>>()
        .refuses(OF_A_QUEUE);
    let deleted = Call::new("Deletes all dead letters of a queue")
        .gives_nothing(204, "they are gone")
        .refuses(OF_A_QUEUE);
    let respawned = Call::new("Has dead jobs tried again: those named, or the oldest, up to 1,000")
        .once()
        .may_take(words::body(&[
            ("ids?", words::job_ids()),
            ("limit?", words::whole(1, JOBS_PER_CALL_MAX as u64)),
        ]))
        .gives::<RespawnedShape>(200, "how many")
        .refuses(OF_A_QUEUE)
        .refuses(&[
            (409, "queue_full"),
            (422, "conflicting_fields"),
            (422, "invalid_number"),
            (422, "too_many_jobs"),
        ]);
    Routes::default().get(DEAD, list, listed).delete(DEAD, delete, deleted).post(
        "/v1/queues/{ns}/{queue}/dead/respawn",
        respawn,
        respawned,
    )
}

/// Dead letters of a queue, asked for by a thread that may wait for them.
pub(crate) struct Letters {
    queues: Queues,
    queue: QueueName,
    executor: Handle,
    /// Only those whose error has this text in it.
    error: Option<String>,
    /// Only those whose payload has this text in it: JSON as it is shown, or bytes.
    payload: Option<String>,
}

impl Letters {
    /// Those of a queue that the parameters ask for.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn asked(api: &ApiState, queue: QueueName, params: &mut Params) -> Result<Self, Problem> {
        let executor = Handle::current();
        let (error, payload) = (params.part("error")?, params.part("payload")?);
        Ok(Self { queues: api.queues(), queue, executor, error, payload })
    }

    /// Whether it is one of those that are asked for.
    pub(crate) fn is_meant(&self, view: &DeadView) -> bool {
        let payload = match &view.payload {
            Payload::Json(text) => text.as_bytes(),
            Payload::Bytes(bytes) => bytes,
        };
        let has = |part: &String| memmem(payload, part.as_bytes());
        let error = view.dead.error.as_deref().unwrap_or_default();
        self.error.as_ref().is_none_or(|part| error.contains(part.as_str()))
            && self.payload.as_ref().is_none_or(has)
    }
}

/// Whether there is `part` in `whole`.
fn memmem(whole: &[u8], part: &[u8]) -> bool {
    whole.windows(part.len().max(1)).any(|window| window == part)
}

impl List for Letters {
    type Key = DeadKey;
    type Found = DeadView;
    type Shown<'a> = DeadShape<'a>;

    const READ_MAX: usize = 32;
    const ITEM_BYTES_MAX: usize = JOB_PAYLOAD_BYTES_MAX;

    fn read(&self, after: Option<&DeadKey>, limit: usize) -> Result<Vec<DeadView>, Problem> {
        self.executor.block_on(self.queues.dead(&self.queue, after.map(|after| after.0), limit))
    }

    fn look(&self, after: Option<&DeadKey>, limit: usize) -> Result<Stretch<DeadView, DeadKey>, Problem> {
        if self.error.is_none() && self.payload.is_none() {
            return self.read(after, limit).map(Stretch::indexed);
        }
        let (mut found, mut after, mut looked_at) = (Vec::new(), after.copied(), 0);
        let next = loop {
            let letters = self.read(after.as_ref(), Self::READ_MAX)?;
            let has_ended = letters.len() < Self::READ_MAX;
            for letter in letters {
                looked_at += 1;
                after = Some(Self::key(&letter));
                found.extend(Some(letter).filter(|letter| self.is_meant(letter)));
                if found.len() == limit {
                    return Ok(Stretch { found, next: None, looked_at: Some(looked_at) });
                }
            }
            if has_ended {
                break None;
            }
            if looked_at >= LOOKED_AT_MAX {
                break after;
            }
        };
        Ok(Stretch { found, next, looked_at: Some(looked_at) })
    }

    fn bytes(view: &DeadView) -> usize {
        match &view.payload {
            Payload::Json(text) => text.len(),
            Payload::Bytes(bytes) => bytes.len(),
        }
    }

    fn key(view: &DeadView) -> DeadKey {
        DeadKey(view.dead.number)
    }

    fn show(view: &DeadView) -> DeadShape<'_> {
        view.into()
    }
}

async fn list(
    State(api): State<ApiState>,
    QueueInPath(queue): QueueInPath,
    mut params: Params,
) -> Result<Response, Refused> {
    let letters = Letters::asked(&api, queue, &mut params)?;
    list::answer(&api, params.page()?, letters).await
}

async fn delete(State(api): State<ApiState>, QueueInPath(queue): QueueInPath) -> Result<Answer, Refused> {
    api.queues().delete_dead(&queue, None).await?;
    Ok(Answer::nothing())
}

async fn respawn(
    State(api): State<ApiState>,
    QueueInPath(queue): QueueInPath,
    creation: Creation,
) -> Result<Answer, Refused> {
    let respawn = async move |api: ApiState, body: String, _: Option<IdempotencyKey>| {
        let respawned = api.queues().respawn(&queue, which(&body)?, None).await?;
        Ok(Answer::ok(&RespawnedShape { respawned }))
    };
    creation.once(&api, respawn).await
}

/// Those that a body names; an id that cannot be one names none.
fn which(body: &str) -> Result<Dead, Problem> {
    let fields = or_nothing(body, &["ids", "limit"])?;
    match (fields.optional("ids", strings)?, fields.optional("limit", count)?) {
        (Some(_), Some(_)) => {
            let detail = "ids and limit are there; dead jobs are named by one of the two";
            Err(Problem::not_allowed("conflicting_fields", detail))
        }
        (Some(ids), None) if ids.len() > JOBS_PER_CALL_MAX => {
            let detail = format!("ids are {}; a call takes at most {JOBS_PER_CALL_MAX}", ids.len());
            Err(Problem::not_allowed("too_many_jobs", detail))
        }
        (Some(ids), None) => Ok(Dead::Ids(ids.iter().filter_map(|id| id_from_text(id)).collect())),
        (None, Some(limit)) => Ok(Dead::Oldest(limit as usize)),
        (None, None) => Ok(Dead::Oldest(JOBS_PER_CALL_MAX)),
    }
}
