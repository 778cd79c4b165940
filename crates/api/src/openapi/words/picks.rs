//! The words of tasks and campaigns.

use std::collections::BTreeSet;

use engine::campaigns::TASK_ID_PREFIX;
use engine::records::{MissedSlots, PickClass, PickOutcome, TaskStanding};
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, Schema};

use super::{array_of, device_id, entity_id, names_of, one_of, rollout_id, secret, text, url};
use crate::shape::CAMPAIGN_STATUSES;

names_of! {
    task_status: TaskStanding,
    pick_class: PickClass,
    missed_slots: MissedSlots,
}

pub(crate) fn task_id() -> Schema {
    entity_id(TASK_ID_PREFIX)
}

/// What came of a pick.
pub(crate) fn pick_outcome() -> Schema {
    one_of(["answered", "failed", "expired"])
}

/// Why a pick did not succeed.
pub(crate) fn pick_reason() -> Schema {
    one_of(BTreeSet::from_iter(PickOutcome::ALL.into_iter().filter_map(PickOutcome::reason)))
}

/// A campaign's id, which its maker may choose as that of a rollout.
pub(crate) fn campaign_id() -> Schema {
    rollout_id()
}

pub(crate) fn campaign_status() -> Schema {
    one_of(CAMPAIGN_STATUSES)
}

pub(crate) fn device_ids() -> Schema {
    array_of(device_id())
}

/// Who is told each result of a campaign.
pub(crate) fn result_receiver() -> Schema {
    let about =
        "a url, which gets a signed POST, a queue, which gets a job, or a stream, which gets a message";
    ObjectBuilder::new()
        .property("url", url())
        .property("secret", secret())
        .property("queue", text().description(Some("NAMESPACE/QUEUE")))
        .property("stream", text().description(Some("NAMESPACE/STREAM")))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .description(Some(about))
        .into()
}
