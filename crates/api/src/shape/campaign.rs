//! Campaigns and their slots, in answers.

use base::Timestamp;
use engine::campaigns::{TASK_ID_PREFIX, TrackedCampaign, TrackedTask};
use engine::records::{CampaignPace, TaskRelation};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::command::json;
use super::receiver::{ReceiverShape, UnsignedReceiverShape};
use super::task::PickCountsShape;
use super::text::{Time, of_millis};
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// A campaign, as its next slot will be.
#[derive(Serialize, ToSchema)]
#[schema(as = Campaign)]
pub(crate) struct CampaignShape<'a> {
    #[schema(schema_with = words::campaign_id)]
    id: &'a str,
    #[schema(schema_with = words::campaign_status)]
    status: &'static str,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::any, required)]
    payload: Option<&'a RawValue>,
    /// The selection in its canonical form: what `selector` and `place` mean together.
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::device_ids, required = false)]
    devices: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exclude: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::task_id, required = false)]
    same_as: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::task_id, required = false)]
    not_as: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread_by: Option<&'a str>,
    count: u32,
    #[schema(schema_with = words::duration)]
    answer_timeout: String,
    #[schema(schema_with = words::pick_class)]
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::duration, required = false)]
    every: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::duration, required = false)]
    over: Option<String>,
    #[schema(schema_with = words::duration)]
    phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
    #[schema(schema_with = words::missed_slots)]
    missed: &'static str,
    panel: bool,
    /// Who is told each result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::result_receiver, required = false)]
    results: Option<ShownReceiver<'a>>,
}

/// A campaign as a live stream sends it, without its payload and the ids of its devices: these may
/// have a megabyte.
#[derive(Serialize)]
pub(crate) struct LiveCampaignShape<'a> {
    #[serde(flatten)]
    campaign: CampaignShape<'a>,
    /// How many devices it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_count: Option<usize>,
    /// Another one when anything of what it asks for has changed.
    revision: u64,
}

impl<'a> LiveCampaignShape<'a> {
    /// The campaign at that time of the wall clock.
    pub(crate) fn at(tracked: &'a TrackedCampaign, wall: Timestamp) -> Self {
        let campaign = CampaignShape { payload: None, devices: None, ..CampaignShape::at(tracked, wall) };
        let device_count = tracked.terms.devices.as_ref().map(Vec::len);
        Self { campaign, device_count, revision: tracked.terms.incarnation.0 }
    }
}

/// Who is told, with a secret where one was just made or given.
#[derive(Serialize)]
#[serde(untagged)]
enum ShownReceiver<'a> {
    Signed(ReceiverShape<'a>),
    Unsigned(UnsignedReceiverShape<'a>),
}

/// A slot of a campaign.
#[derive(Serialize, ToSchema)]
#[schema(as = CampaignSlot)]
pub(crate) struct SlotShape {
    /// Counts the campaign's interval since the epoch.
    slot: u64,
    due_at: Time,
    /// When it began; null of one that was skipped.
    #[schema(required)]
    started_at: Option<Time>,
    wanted: u32,
    #[serde(flatten)]
    counts: PickCountsShape,
    /// It was missed, and nothing was picked for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    skipped: bool,
}

impl<'a> CampaignShape<'a> {
    /// The campaign at that time of the wall clock.
    pub(crate) fn at(tracked: &'a TrackedCampaign, wall: Timestamp) -> Self {
        let TrackedCampaign { campaign, terms, state } = tracked;
        let (every, over) = match campaign.pace {
            CampaignPace::Every(ms) => (Some(of_millis(ms)), None),
            CampaignPace::Over(ms) => (None, Some(of_millis(ms))),
        };
        let (same_as, not_as) = match terms.relation {
            Some(TaskRelation::SameAs(task)) => (Some(task.to_text(TASK_ID_PREFIX)), None),
            Some(TaskRelation::NotAs(task)) => (None, Some(task.to_text(TASK_ID_PREFIX))),
            None => (None, None),
        };
        let receiver = terms.receiver.as_ref();
        Self {
            id: &campaign.id,
            status: status(campaign.until, state.is_paused, wall),
            created_at: Time(campaign.created_at),
            name: campaign.name.as_deref(),
            payload: json(&terms.payload),
            selector: terms.selector.as_deref(),
            devices: terms.devices.as_ref().map(|ids| ids.iter().map(|id| id.as_str()).collect()),
            exclude: terms.exclude.as_deref(),
            same_as,
            not_as,
            spread_by: terms.spread_by.as_deref(),
            count: terms.count,
            answer_timeout: of_millis(terms.answer_timeout_ms),
            class: terms.class.as_str(),
            every,
            over,
            phase: of_millis(campaign.phase_ms),
            from: campaign.from.map(Time),
            until: campaign.until.map(Time),
            missed: campaign.missed.as_str(),
            panel: campaign.is_panel,
            results: receiver.map(|receiver| ShownReceiver::Unsigned(receiver.into())),
        }
    }

    /// The same with the secret of who is told, for whoever has just said who that is.
    #[must_use]
    pub(crate) fn with_secret(mut self, tracked: &'a TrackedCampaign) -> Self {
        let receiver = tracked.terms.receiver.as_ref();
        self.results = receiver.map(|receiver| ShownReceiver::Signed(receiver.into()));
        self
    }
}

/// Every status that a campaign may have.
pub(crate) const CAMPAIGN_STATUSES: [&str; 3] = ["running", "paused", "ended"];

/// One that has no more slots has ended, whether it is paused or not.
fn status(until: Option<Timestamp>, is_paused: bool, wall: Timestamp) -> &'static str {
    let [running, paused, ended] = CAMPAIGN_STATUSES;
    match (until, is_paused) {
        (Some(until), _) if until <= wall => ended,
        (_, true) => paused,
        (_, false) => running,
    }
}

impl From<&TrackedTask> for SlotShape {
    /// # Panics
    /// For a task that is no slot.
    fn from(TrackedTask { task, state, .. }: &TrackedTask) -> Self {
        let slot = task.slot.expect("the slots of a campaign are its tasks");
        Self {
            slot: slot.number,
            due_at: Time(slot.due_at),
            started_at: (!state.was_skipped).then_some(Time(task.created_at)),
            wanted: task.wanted,
            counts: state.counts.into(),
            skipped: state.was_skipped,
        }
    }
}

impl CsvRow for CampaignShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "status",
        "created_at",
        "name",
        "payload",
        "selector",
        "exclude",
        "spread_by",
        "count",
        "answer_timeout",
        "class",
        "every",
        "over",
        "phase",
        "from",
        "until",
        "missed",
        "panel",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.id).text(self.status).shown(self.created_at);
        cells.text(self.name.unwrap_or_default()).json(self.payload);
        for text in [self.selector, self.exclude, self.spread_by] {
            cells.text(text.unwrap_or_default());
        }
        cells.shown(self.count).text(&self.answer_timeout).text(self.class);
        for span in [&self.every, &self.over] {
            cells.text(span.as_deref().unwrap_or_default());
        }
        cells.text(&self.phase).shown_or_empty(self.from).shown_or_empty(self.until);
        cells.text(self.missed).shown(self.panel);
    }
}

impl CsvRow for SlotShape {
    const COLUMNS: &'static [&'static str] = &[
        "slot",
        "due_at",
        "started_at",
        "wanted",
        "picked",
        "answered",
        "failed",
        "expired",
        "replaced",
        "skipped",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.shown(self.slot).shown(self.due_at).shown_or_empty(self.started_at).shown(self.wanted);
        self.counts.write(cells);
        cells.shown(self.skipped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_without_further_slots_has_ended() {
        for (until, is_paused, expect) in [
            (None, false, "running"),
            (None, true, "paused"),
            (Some(11), false, "running"),
            (Some(11), true, "paused"),
            (Some(10), false, "ended"),
            (Some(10), true, "ended"),
        ] {
            assert_eq!(status(until.map(Timestamp), is_paused, Timestamp(10)), expect, "{until:?}");
        }
    }
}
