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

use super::OperationPlan;
use super::request::client;
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
pub(super) enum ActionArguments {
    Nothing,
    Labels(Vec<(String, Option<String>)>),
    Client(ClientId),
}

impl ActionArguments {
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
pub(super) enum RowOutcome {
    /// It was done.
    Done,
    /// There was nothing to do: the row is gone, or so already.
    Skipped,
    /// It was refused.
    Refused(OperationError),
}

impl RowOutcome {
    fn of_flag(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Skipped }
    }
}

/// Does it to a row.
///
/// # Errors
/// What cannot be done now, and may be later: status 503.
pub(super) async fn act(
    api: &ApiState,
    plan: &OperationPlan,
    of: EntityId,
    row: &str,
) -> Result<RowOutcome, Problem> {
    let nothing_to_do = match plan.action {
        CancelCommand => "finished",
        RetryCommand => "not_finished",
        _ => "",
    };
    match attempt(api, plan, of, row).await {
        Ok(end) => Ok(end),
        Err(problem) if problem.status == NOT_NOW => Err(problem),
        Err(problem) if problem.status == 404 && problem.code != "unknown_client" => Ok(RowOutcome::Skipped),
        Err(problem) if problem.code == nothing_to_do => Ok(RowOutcome::Skipped),
        Err(problem) => Ok(RowOutcome::Refused(refusal(&problem, row))),
    }
}

/// A refusal of a row, or of the operation where `subject` is empty.
pub(super) fn refusal(problem: &Problem, subject: &str) -> OperationError {
    let Problem { code, detail, .. } = problem;
    OperationError { code: (*code).into(), detail: detail.as_str().into(), subject: subject.into() }
}

async fn attempt(
    api: &ApiState,
    plan: &OperationPlan,
    of: EntityId,
    row: &str,
) -> Result<RowOutcome, Problem> {
    match plan.action {
        RespawnDead | DeleteDead | DeleteJob => of_queue(api, plan, row).await,
        RetryDelivery | ResendDelivery => delivery(api, plan, of, row).await,
        ReplayQuarantined => {
            let Some(id) = EntityId::from_text(QUARANTINE_ID_PREFIX, row) else {
                return Ok(RowOutcome::Skipped);
            };
            let replayer = api.shared.replayer.get();
            let replayer =
                replayer.ok_or_else(|| Problem::unavailable("reports cannot be handed in here"))?;
            replayer(id).await.map(|()| RowOutcome::Done)
        }
        DeleteQuarantined => {
            let Some(id) = EntityId::from_text(QUARANTINE_ID_PREFIX, row) else {
                return Ok(RowOutcome::Skipped);
            };
            api.engine().discard_quarantined(id).await.map(|()| RowOutcome::Done)
        }
        CancelCommand => {
            let Some(id) = EntityId::from_text(COMMAND_ID_PREFIX, row) else {
                return Ok(RowOutcome::Skipped);
            };
            api.engine().commands().cancel(id).await.map(|()| RowOutcome::Done)
        }
        RetryCommand => {
            let Some(id) = EntityId::from_text(COMMAND_ID_PREFIX, row) else {
                return Ok(RowOutcome::Skipped);
            };
            let kept = api.engine().commands().retry_as(id, form(of, row)).await?;
            answered(&kept, row)
        }
        LabelDevice | LinkDevice | UnlinkDevice | DeleteDevice => device(api, plan, row).await,
    }
}

async fn of_queue(api: &ApiState, plan: &OperationPlan, row: &str) -> Result<RowOutcome, Problem> {
    let (Some(queue), Some(id)) = (&plan.queue, id_from_text(row)) else { return Ok(RowOutcome::Skipped) };
    match plan.action {
        RespawnDead => respawn(api, plan, queue, id).await,
        DeleteDead => api.queues().delete_dead_job(queue, id).await.map(RowOutcome::of_flag),
        _ => api.queues().cancel(queue, JobRef::Id(id)).await.map(|()| RowOutcome::Done),
    }
}

/// One that has died again meanwhile is another dead letter.
async fn respawn(
    api: &ApiState,
    plan: &OperationPlan,
    queue: &QueueName,
    id: JobId,
) -> Result<RowOutcome, Problem> {
    let letter = api.queues().dead_job(queue, id).await?;
    if letter.is_none_or(|letter| letter.dead.died_at >= plan.until) {
        return Ok(RowOutcome::Skipped);
    }
    let respawned = api.queues().respawn(queue, Dead::Ids(vec![id]), None).await?;
    Ok(RowOutcome::of_flag(respawned > 0))
}

async fn delivery(
    api: &ApiState,
    plan: &OperationPlan,
    of: EntityId,
    row: &str,
) -> Result<RowOutcome, Problem> {
    let Some(id) = EntityId::from_text(DELIVERY_ID_PREFIX, row) else { return Ok(RowOutcome::Skipped) };
    let queries = api.queries();
    let found = api.shared.lookups.run(move || queries.delivery(id)).await?;
    // Somebody else's is as unknown as none.
    let Some((delivery, _)) = found.filter(|(delivery, _)| plan.is_own(&delivery.client_id)) else {
        return Ok(RowOutcome::Skipped);
    };
    let client = api.queries().client(&delivery.client_id);
    let is_of_namesake = client.is_none_or(|client| client.incarnation != delivery.client);
    if plan.own.is_some() && is_of_namesake {
        return Ok(RowOutcome::Skipped);
    }
    let form = form(of, row);
    if plan.action == RetryDelivery && delivery.progress.status == DeliveryStatus::Delivered {
        return Ok(RowOutcome::Skipped);
    }
    let kept = api.engine().retry_delivery_as(id, form).await?;
    answered(&kept, row)
}

async fn device(api: &ApiState, plan: &OperationPlan, row: &str) -> Result<RowOutcome, Problem> {
    let Some(id) = DeviceId::new(row) else { return Ok(RowOutcome::Skipped) };
    let (queries, asked) = (api.queries(), id.clone());
    let found = api.shared.lookups.run(move || queries.device(&asked)).await?;
    // One that was registered anew is another device.
    let Some(Device { profile, .. }) = found.filter(|found| found.profile.registered_at < plan.until) else {
        return Ok(RowOutcome::Skipped);
    };
    let engine = api.engine();
    match (plan.action, &plan.arguments) {
        (LabelDevice, ActionArguments::Labels(labels)) => {
            let patch = DevicePatch { labels: Patch::Set(labels.clone()), ..DevicePatch::default() };
            let after = engine.patch_device(id, patch, OnlyIf::default()).await?;
            Ok(RowOutcome::of_flag(after.profile.labels != profile.labels))
        }
        (LinkDevice | UnlinkDevice, ActionArguments::Client(client)) => {
            let known = engine.directory().by_id(client).map(|known| known.incarnation);
            let is_linked = known.is_some_and(|known| profile.clients.contains(&known));
            let wanted = plan.action == LinkDevice;
            if known.is_some() && is_linked == wanted {
                return Ok(RowOutcome::Skipped);
            }
            let done = match wanted {
                true => engine.link(id, client.clone()).await,
                false => engine.unlink(id, client.clone()).await,
            };
            done.map(|()| RowOutcome::Done)
        }
        _ => engine.delete_device(id, OnlyIf::default()).await.map(|()| RowOutcome::Done),
    }
}

/// The form of a call that is answered once for each row of an operation.
fn form(of: EntityId, row: &str) -> Form<()> {
    let what = [&of.to_bytes()[..], row.as_bytes()].concat();
    let once = IdempotencyKey { key: AnswerKey(hash::wide(&what)), body: 0 };
    Form { once: Some(once), write: |made| Answer::of(made, |()| Answer::accepted()).stored() }
}

/// What a kept answer says of the row.
fn answered(kept: &Arc<[u8]>, row: &str) -> Result<RowOutcome, Problem> {
    #[derive(Deserialize)]
    struct RefusalBody {
        code: String,
        detail: String,
    }
    let answer = Answer::kept(kept)?;
    if answer.status.is_success() {
        return Ok(RowOutcome::Done);
    }
    let told: RefusalBody = serde_json::from_slice(&answer.body).map_err(|_| {
        Problem::new(500, "internal_error", format!("the refusal of {} is unreadable", quoted(row)))
    })?;
    let nothing_to_do = answer.status.as_u16() == 404 || told.code == "not_finished";
    if nothing_to_do {
        return Ok(RowOutcome::Skipped);
    }
    let RefusalBody { code, detail } = told;
    Ok(RowOutcome::Refused(OperationError { code: code.into(), detail: detail.into(), subject: row.into() }))
}
