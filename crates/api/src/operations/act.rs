//! What an action does to one row: the call that the route for one such row makes.
//!
//! Actions whose repetition would show carry an idempotency key, so that a repeat after a crash
//! gets the first answer. All others find nothing to do the second time.

use std::sync::Arc;

use base::{ClientId, EntityId, Problem, hash};
use engine::queues::{Dead, IdempotencyKey, JobRef};
use engine::records::{AnswerKey, DeliveryStatus, DeviceProfile, OperationAction, OperationError};
use engine::{AnswerForm, DevicePatch, OnlyIf, Patch};
use net::problem::quoted;
use serde::Deserialize;

use super::request::client;
use super::row::{self, OperationRow};
use super::{OperationPlan, rights};
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::fields::{ObjectFields, label_changes};

use OperationAction::{
    CancelCommand, DeleteDead, LabelDevice, LinkDevice, ReplayQuarantined, RespawnDead, RetryCommand,
    RetryDelivery, UnlinkDevice,
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
        let fields = ObjectFields::read(json, &["labels", "client"])?;
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

/// Does it to a row, if that is still one of the operation's.
///
/// # Errors
/// What cannot be done now, and may be later: status 503.
pub(super) async fn act(
    api: &ApiState,
    plan: &Arc<OperationPlan>,
    of: EntityId,
    id: &str,
) -> Result<RowOutcome, Problem> {
    let nothing_to_do = match plan.action {
        CancelCommand => "finished",
        RetryCommand => "not_finished",
        _ => "",
    };
    match attempt(api, plan, of, id).await {
        Ok(end) => Ok(end),
        Err(problem) if problem.status == NOT_NOW => Err(problem),
        Err(problem) if problem.status == 404 && problem.code != "unknown_client" => Ok(RowOutcome::Skipped),
        Err(problem) if problem.code == nothing_to_do => Ok(RowOutcome::Skipped),
        Err(problem) => Ok(RowOutcome::Refused(refusal(&problem, id))),
    }
}

/// A refusal of a row, or of the operation where `subject` is empty.
pub(super) fn refusal(problem: &Problem, subject: &str) -> OperationError {
    let Problem { code, detail, .. } = problem;
    OperationError { code: (*code).into(), detail: detail.as_str().into(), subject: subject.into() }
}

async fn attempt(
    api: &ApiState,
    plan: &Arc<OperationPlan>,
    of: EntityId,
    id: &str,
) -> Result<RowOutcome, Problem> {
    let Some(row) = row::find(api, plan, id).await? else { return Ok(RowOutcome::Skipped) };
    let (engine, form) = (api.engine(), form(of, id));
    match row {
        OperationRow::Dead(_) | OperationRow::Job(_) => of_queue(api, plan, &row).await,
        OperationRow::Delivery(delivery) => {
            let is_delivered = delivery.progress.status == DeliveryStatus::Delivered;
            if plan.action == RetryDelivery && is_delivered {
                return Ok(RowOutcome::Skipped);
            }
            answered(&engine.retry_delivery_as(delivery.id, form).await?, id)
        }
        OperationRow::Quarantined(report) if plan.action == ReplayQuarantined => {
            let replayer = api.shared.replayer.get();
            let replayer =
                replayer.ok_or_else(|| Problem::unavailable("reports cannot be handed in here"))?;
            replayer(report.id).await.map(|()| RowOutcome::Done)
        }
        OperationRow::Quarantined(report) => {
            engine.discard_quarantined(report.id).await.map(|()| RowOutcome::Done)
        }
        OperationRow::Command(tracked) if plan.action == RetryCommand => {
            // Its outcome is told anew: that takes the right to tell it.
            rights::check_receiver(plan.scopes.as_deref(), tracked.command.notify.as_deref())?;
            answered(&engine.commands().retry_as(tracked.command.id, form).await?, id)
        }
        OperationRow::Command(tracked) => {
            engine.commands().cancel(tracked.command.id).await.map(|()| RowOutcome::Done)
        }
        OperationRow::Device(found) => device(api, plan, found.profile).await,
    }
}

async fn of_queue(api: &ApiState, plan: &OperationPlan, row: &OperationRow) -> Result<RowOutcome, Problem> {
    let (Some(queue), Some(id)) = (&plan.queue, row.job()) else { return Ok(RowOutcome::Skipped) };
    match plan.action {
        RespawnDead => {
            let respawned = api.queues().respawn(queue, Dead::Ids(vec![id]), None).await?;
            Ok(RowOutcome::of_flag(respawned > 0))
        }
        DeleteDead => api.queues().delete_dead_job(queue, id).await.map(RowOutcome::of_flag),
        _ => api.queues().cancel(queue, JobRef::Id(id)).await.map(|()| RowOutcome::Done),
    }
}

async fn device(api: &ApiState, plan: &OperationPlan, profile: DeviceProfile) -> Result<RowOutcome, Problem> {
    let (engine, id) = (api.engine(), profile.id);
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
fn form(of: EntityId, row: &str) -> AnswerForm<()> {
    let what = [&of.to_bytes()[..], row.as_bytes()].concat();
    let idempotency = IdempotencyKey { key: AnswerKey(hash::wide(&what)), body: 0 };
    AnswerForm {
        idempotency: Some(idempotency),
        write: |made| ApiAnswer::of(made, |()| ApiAnswer::accepted()).stored(),
    }
}

/// What a kept answer says of the row.
fn answered(kept: &Arc<[u8]>, row: &str) -> Result<RowOutcome, Problem> {
    #[derive(Deserialize)]
    struct RefusalBody {
        code: String,
        detail: String,
    }
    let answer = ApiAnswer::kept(kept)?;
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
