//! One row of an operation, as it is right before its turn.
//!
//! A row may have changed since its list was read, or since the server was killed. So it is looked
//! up again, and passes once more the tests by which it was found. These are the filter's own,
//! whose it is, and whether it came before the operation did.

use std::sync::Arc;

use base::id::{DELIVERY_ID_PREFIX, QUARANTINE_ID_PREFIX};
use base::{DeviceId, EntityId, Problem, Timestamp};
use engine::commands::COMMAND_ID_PREFIX;
use engine::queries::DeviceDetails;
use engine::queues::{DeadView, JobRef, JobView, id_from_text};
use engine::records::{Delivery, JobId, OperationAction, Quarantined};
use engine::{Queries, TrackedCommand};

use super::OperationPlan;
use crate::ApiState;

use OperationAction::{
    CancelCommand, DeleteDead, DeleteDevice, DeleteJob, DeleteQuarantined, LabelDevice, LinkDevice,
    ReplayQuarantined, ResendDelivery, RespawnDead, RetryCommand, RetryDelivery, UnlinkDevice,
};

/// A row as it was just found.
#[derive(Debug)]
pub(super) enum OperationRow {
    Device(Box<DeviceDetails>),
    Delivery(Box<Delivery>),
    Command(Box<TrackedCommand>),
    Quarantined(Box<Quarantined>),
    Dead(Box<DeadView>),
    Job(Box<JobView>),
}

/// The row with that id; `None` where it is gone, somebody else's, came later, or is no longer one
/// that the filter means.
///
/// # Errors
/// When it cannot be looked up now.
pub(super) async fn find(
    api: &ApiState,
    plan: &Arc<OperationPlan>,
    id: &str,
) -> Result<Option<OperationRow>, Problem> {
    let of_queue = match plan.action {
        RespawnDead | DeleteDead | DeleteJob => of_queue(api, plan, id).await?,
        _ => None,
    };
    let (queries, plan, id) = (api.queries(), Arc::clone(plan), id.to_owned());
    let find = move || {
        let found = of_queue.map_or_else(|| stored(&queries, &plan, &id), |row| Ok(Some(row)))?;
        let Some(row) = found.filter(|row| row.came_at() < plan.until) else { return Ok(None) };
        Ok(plan.rows.has(&queries, &row)?.then_some(row))
    };
    api.shared.lookups.run(find).await
}

async fn of_queue(api: &ApiState, plan: &OperationPlan, id: &str) -> Result<Option<OperationRow>, Problem> {
    let (Some(queue), Some(id)) = (&plan.queue, id_from_text(id)) else { return Ok(None) };
    if plan.action != DeleteJob {
        let letter = api.queues().dead_job(queue, id).await?;
        return Ok(letter.map(|letter| OperationRow::Dead(Box::new(letter))));
    }
    match api.queues().job(queue, JobRef::Id(id)).await {
        Ok(job) => Ok(Some(OperationRow::Job(Box::new(job)))),
        Err(problem) if problem.status == 404 => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// A row that is read from the store.
fn stored(queries: &Queries, plan: &OperationPlan, id: &str) -> Result<Option<OperationRow>, Problem> {
    Ok(match plan.action {
        RespawnDead | DeleteDead | DeleteJob => None,
        RetryDelivery | ResendDelivery => {
            let Some(id) = EntityId::from_text(DELIVERY_ID_PREFIX, id) else { return Ok(None) };
            let found = queries.delivery(id)?.map(|(delivery, _)| delivery);
            found
                .filter(|delivery| plan.is_own(queries, delivery))
                .map(|found| OperationRow::Delivery(Box::new(found)))
        }
        ReplayQuarantined | DeleteQuarantined => {
            let Some(id) = EntityId::from_text(QUARANTINE_ID_PREFIX, id) else { return Ok(None) };
            queries.quarantined(id)?.map(|report| OperationRow::Quarantined(Box::new(report)))
        }
        CancelCommand | RetryCommand => {
            let Some(id) = EntityId::from_text(COMMAND_ID_PREFIX, id) else { return Ok(None) };
            queries.command(id)?.map(|command| OperationRow::Command(Box::new(command)))
        }
        LabelDevice | LinkDevice | UnlinkDevice | DeleteDevice => {
            let Some(id) = DeviceId::new(id) else { return Ok(None) };
            queries.device(&id)?.map(|device| OperationRow::Device(Box::new(device)))
        }
    })
}

impl OperationRow {
    /// When it came to be one of its list.
    fn came_at(&self) -> Timestamp {
        match self {
            Self::Device(device) => device.profile.registered_at,
            Self::Delivery(delivery) => delivery.id.at,
            Self::Command(tracked) => tracked.command.id.at,
            Self::Quarantined(report) => report.id.at,
            Self::Dead(letter) => letter.dead.died_at,
            Self::Job(job) => job.published_at,
        }
    }

    /// Its job, of a row that is one.
    pub(super) fn job(&self) -> Option<JobId> {
        match self {
            Self::Dead(letter) => Some(letter.dead.id),
            Self::Job(job) => Some(job.id),
            _ => None,
        }
    }
}
