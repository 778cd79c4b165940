//! What an action does to one row: the call that the route for one such row makes.
//!
//! An action that would show when it is done twice is done under a key of its own, so that a repeat
//! after a crash is answered like the first. All others find nothing to do the second time.

use std::sync::Arc;

use base::id::{DELIVERY_ID_PREFIX, QUARANTINE_ID_PREFIX};
use base::{ClientId, DeviceId, EntityId, Problem, hash};
use engine::commands::COMMAND_ID_PREFIX;
use engine::queries::Device;
use engine::queues::{Dead, IdempotencyKey, JobRef, QueueName, id_from_text};
use engine::records::{AnswerKey, DeliveryStatus, JobId, OperationAction, OperationError};
use engine::{DevicePatch, Form, OnlyIf, Patch};
use net::problem::quoted;
use serde::Deserialize;

use super::Work;
use super::asked::client;
use crate::ApiState;
use crate::answer::Answer;
use crate::fields::{Fields, label_changes};

use OperationAction::{
    CancelCommand, DeleteDead, DeleteDevice, DeleteJob, DeleteQuarantined, LabelDevice, LinkDevice,
    ReplayQuarantined, ResendDelivery, RespawnDead, RetryCommand, RetryDelivery, UnlinkDevice,
};

/// The status of what cannot be done now, and may be later.
const NOT_NOW: u16 = 503;

/// What an action needs besides its row.
pub(super) enum Given {
    Nothing,
    Labels(Vec<(String, Option<String>)>),
    Client(ClientId),
}

impl Given {
    /// Reads a JSON object.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(action: OperationAction, json: &str) -> Result<Self, Problem> {
        let fields = Fields::read(json, &["labels", "client"])?;
        Ok(match action {
            LabelDevice => Self::Labels(fields.required("labels", label_changes)?),
            LinkDevice | UnlinkDevice => Self::Client(fields.required("client", client)?),
            _ => Self::Nothing,
        })
    }
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RowEnd {
    /// It was done.
    Done,
    /// There was nothing to do: the row is gone, or so already.
    Skipped,
    /// It was refused.
    Refused(OperationError),
}

impl RowEnd {
    fn of_flag(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Skipped }
    }
}

/// Does it to a row.
///
/// # Errors
/// What cannot be done now, and may be later: status 503.
pub(super) async fn act(api: &ApiState, work: &Work, of: EntityId, row: &str) -> Result<RowEnd, Problem> {
    let nothing_to_do = match work.action {
        CancelCommand => "finished",
        RetryCommand => "not_finished",
        _ => "",
    };
    match attempt(api, work, of, row).await {
        Ok(end) => Ok(end),
        Err(problem) if problem.status == NOT_NOW => Err(problem),
        Err(problem) if problem.status == 404 && problem.code != "unknown_client" => Ok(RowEnd::Skipped),
        Err(problem) if problem.code == nothing_to_do => Ok(RowEnd::Skipped),
        Err(problem) => Ok(RowEnd::Refused(refusal(&problem, row))),
    }
}

/// A refusal of a row, or of the operation where `subject` is empty.
pub(super) fn refusal(problem: &Problem, subject: &str) -> OperationError {
    let Problem { code, detail, .. } = problem;
    OperationError { code: (*code).into(), detail: detail.as_str().into(), subject: subject.into() }
}

async fn attempt(api: &ApiState, work: &Work, of: EntityId, row: &str) -> Result<RowEnd, Problem> {
    match work.action {
        RespawnDead | DeleteDead | DeleteJob => of_queue(api, work, row).await,
        RetryDelivery | ResendDelivery => delivery(api, work, of, row).await,
        ReplayQuarantined => {
            let Some(id) = EntityId::from_text(QUARANTINE_ID_PREFIX, row) else { return Ok(RowEnd::Skipped) };
            let replayer = api.shared.replayer.get();
            let replayer =
                replayer.ok_or_else(|| Problem::unavailable("reports cannot be handed in here"))?;
            replayer(id).await.map(|()| RowEnd::Done)
        }
        DeleteQuarantined => {
            let Some(id) = EntityId::from_text(QUARANTINE_ID_PREFIX, row) else { return Ok(RowEnd::Skipped) };
            api.engine().discard_quarantined(id).await.map(|()| RowEnd::Done)
        }
        CancelCommand => {
            let Some(id) = EntityId::from_text(COMMAND_ID_PREFIX, row) else { return Ok(RowEnd::Skipped) };
            api.engine().commands().cancel(id).await.map(|()| RowEnd::Done)
        }
        RetryCommand => {
            let Some(id) = EntityId::from_text(COMMAND_ID_PREFIX, row) else { return Ok(RowEnd::Skipped) };
            let kept = api.engine().commands().retry_as(id, form(of, row)).await?;
            answered(&kept, row)
        }
        LabelDevice | LinkDevice | UnlinkDevice | DeleteDevice => device(api, work, row).await,
    }
}

async fn of_queue(api: &ApiState, work: &Work, row: &str) -> Result<RowEnd, Problem> {
    let (Some(queue), Some(id)) = (&work.queue, id_from_text(row)) else { return Ok(RowEnd::Skipped) };
    match work.action {
        RespawnDead => respawn(api, work, queue, id).await,
        DeleteDead => api.queues().delete_dead_job(queue, id).await.map(RowEnd::of_flag),
        _ => api.queues().cancel(queue, JobRef::Id(id)).await.map(|()| RowEnd::Done),
    }
}

/// One that has died again meanwhile is another dead letter.
async fn respawn(api: &ApiState, work: &Work, queue: &QueueName, id: JobId) -> Result<RowEnd, Problem> {
    let letter = api.queues().dead_job(queue, id).await?;
    if letter.is_none_or(|letter| letter.dead.died_at >= work.until) {
        return Ok(RowEnd::Skipped);
    }
    let respawned = api.queues().respawn(queue, Dead::Ids(vec![id]), None).await?;
    Ok(RowEnd::of_flag(respawned > 0))
}

async fn delivery(api: &ApiState, work: &Work, of: EntityId, row: &str) -> Result<RowEnd, Problem> {
    let Some(id) = EntityId::from_text(DELIVERY_ID_PREFIX, row) else { return Ok(RowEnd::Skipped) };
    let queries = api.queries();
    let found = api.shared.lookups.run(move || queries.delivery(id)).await?;
    // Somebody else's is as unknown as none.
    let Some((delivery, _)) = found.filter(|(delivery, _)| work.is_own(&delivery.client_id)) else {
        return Ok(RowEnd::Skipped);
    };
    let client = api.queries().client(&delivery.client_id);
    let is_of_namesake = client.is_none_or(|client| client.incarnation != delivery.client);
    if work.own.is_some() && is_of_namesake {
        return Ok(RowEnd::Skipped);
    }
    let form = form(of, row);
    if work.action == RetryDelivery && delivery.progress.status == DeliveryStatus::Delivered {
        return Ok(RowEnd::Skipped);
    }
    let kept = api.engine().retry_delivery_as(id, form).await?;
    answered(&kept, row)
}

async fn device(api: &ApiState, work: &Work, row: &str) -> Result<RowEnd, Problem> {
    let Some(id) = DeviceId::new(row) else { return Ok(RowEnd::Skipped) };
    let (queries, asked) = (api.queries(), id.clone());
    let found = api.shared.lookups.run(move || queries.device(&asked)).await?;
    // One that was registered anew is another device.
    let Some(Device { profile, .. }) = found.filter(|found| found.profile.registered_at < work.until) else {
        return Ok(RowEnd::Skipped);
    };
    let engine = api.engine();
    match (work.action, &work.given) {
        (LabelDevice, Given::Labels(labels)) => {
            let patch = DevicePatch { labels: Patch::Set(labels.clone()), ..DevicePatch::default() };
            let after = engine.patch_device(id, patch, OnlyIf::default()).await?;
            Ok(RowEnd::of_flag(after.profile.labels != profile.labels))
        }
        (LinkDevice | UnlinkDevice, Given::Client(client)) => {
            let known = engine.directory().by_id(client).map(|known| known.incarnation);
            let is_linked = known.is_some_and(|known| profile.clients.contains(&known));
            let wanted = work.action == LinkDevice;
            if known.is_some() && is_linked == wanted {
                return Ok(RowEnd::Skipped);
            }
            let done = match wanted {
                true => engine.link(id, client.clone()).await,
                false => engine.unlink(id, client.clone()).await,
            };
            done.map(|()| RowEnd::Done)
        }
        _ => engine.delete_device(id, OnlyIf::default()).await.map(|()| RowEnd::Done),
    }
}

/// The form of a call that is answered once for each row of an operation.
fn form(of: EntityId, row: &str) -> Form<()> {
    let what = [&of.to_bytes()[..], row.as_bytes()].concat();
    let once = IdempotencyKey { key: AnswerKey(hash::wide(&what)), body: 0 };
    Form { once: Some(once), write: |made| Answer::of(made, |()| Answer::accepted()).stored() }
}

/// What a kept answer says of the row.
fn answered(kept: &Arc<[u8]>, row: &str) -> Result<RowEnd, Problem> {
    #[derive(Deserialize)]
    struct Told {
        code: String,
        detail: String,
    }
    let answer = Answer::kept(kept)?;
    if answer.status.is_success() {
        return Ok(RowEnd::Done);
    }
    let told: Told = serde_json::from_slice(&answer.body).map_err(|_| {
        Problem::new(500, "internal_error", format!("the refusal of {} is unreadable", quoted(row)))
    })?;
    let nothing_to_do = answer.status.as_u16() == 404 || told.code == "not_finished";
    if nothing_to_do {
        return Ok(RowEnd::Skipped);
    }
    let Told { code, detail } = told;
    Ok(RowEnd::Refused(OperationError { code: code.into(), detail: detail.into(), subject: row.into() }))
}
