//! Tasks and what came of their picks, in answers.

use engine::campaigns::{TASK_ID_PREFIX, TrackedTask};
use engine::commands::COMMAND_ID_PREFIX;
use engine::records::{Pick, PickCounts, PickOutcome};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;

use super::command::{LateShape, json_text};
use super::receiver::ReceiverShape;
use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// A task, and its picks counted by what came of them.
#[derive(Serialize, ToSchema)]
#[schema(as = Task)]
pub(crate) struct TaskShape {
    #[schema(schema_with = words::task_id)]
    id: String,
    #[schema(schema_with = words::task_status)]
    status: &'static str,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    /// How many devices are wanted.
    wanted: u32,
    #[serde(flatten)]
    counts: PickCountsShape,
}

/// Picks by what came of them.
#[derive(Serialize, ToSchema)]
#[schema(as = PickCounts)]
pub(super) struct PickCountsShape {
    /// Devices that were picked, replacements included.
    picked: u32,
    answered: u32,
    failed: u32,
    expired: u32,
    /// Picks in whose place another device was picked.
    replaced: u32,
}

/// A task that was just begun.
#[derive(Serialize, ToSchema)]
#[schema(as = NewTask)]
pub(crate) struct NewTaskShape {
    #[serde(flatten)]
    task: TaskShape,
    /// Who is told its end. The secret is shown here only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::receiver, required = false)]
    notify: Option<Box<RawValue>>,
    /// With `wait`: the first 1,000 results, in the order in which picks ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<TaskResultShape<'static>>, required = false)]
    results: Option<Box<RawValue>>,
}

/// What came of a pick.
#[derive(Serialize, ToSchema)]
#[schema(as = TaskResult)]
pub(crate) struct TaskResultShape<'a> {
    #[schema(schema_with = words::device_id)]
    device_id: &'a str,
    picked_at: Time,
    /// When the device answered; null where it did not.
    #[schema(required)]
    answered_at: Option<Time>,
    ended_at: Time,
    #[schema(schema_with = words::pick_outcome)]
    outcome: &'static str,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::pick_reason, required = false)]
    reason: Option<&'static str>,
    /// What the device answered.
    #[schema(schema_with = words::any, required)]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::command_id, required = false)]
    command_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<LateShape<'a>>,
}

/// What came of a pick of a slot.
#[derive(Serialize, ToSchema)]
#[schema(as = CampaignResult)]
pub(crate) struct CampaignResultShape<'a> {
    #[serde(flatten)]
    result: TaskResultShape<'a>,
    /// The number of the slot.
    slot: u64,
}

impl From<&TrackedTask> for TaskShape {
    fn from(TrackedTask { task, state, .. }: &TrackedTask) -> Self {
        Self {
            id: task.id.to_text(TASK_ID_PREFIX),
            status: state.standing.as_str(),
            created_at: Time(task.created_at),
            ended_at: state.ended_at.map(Time),
            wanted: task.wanted,
            counts: state.counts.into(),
        }
    }
}

impl From<PickCounts> for PickCountsShape {
    fn from(PickCounts { picked, answered, failed, expired, replaced }: PickCounts) -> Self {
        Self { picked, answered, failed, expired, replaced }
    }
}

impl PickCountsShape {
    pub(super) fn write(&self, cells: &mut Cells<'_>) {
        for count in [self.picked, self.answered, self.failed, self.expired, self.replaced] {
            cells.shown(count);
        }
    }
}

impl NewTaskShape {
    /// A task, and who is told its end, as that is kept.
    pub(crate) fn of(task: &TrackedTask) -> Self {
        let shown = |receiver| to_raw_value(&ReceiverShape::from(receiver)).expect("a shape is JSON");
        Self { task: task.into(), notify: task.receiver.as_ref().map(shown), results: None }
    }

    /// A task that was waited for, with who is told as it was shown when it was begun, and its
    /// results.
    pub(crate) fn awaited(task: &TrackedTask, notify: Option<Box<RawValue>>, results: Box<RawValue>) -> Self {
        Self { task: task.into(), notify, results: Some(results) }
    }
}

/// A result is listed once its pick has ended.
const HAS_ENDED: &str = "results are of picks that have ended";

impl<'a> TaskResultShape<'a> {
    /// The result of a pick that has ended.
    ///
    /// # Panics
    /// For another one.
    pub(crate) fn of(pick: &'a Pick) -> Self {
        let end = pick.end.as_ref().expect(HAS_ENDED);
        let has_answered = matches!(end.outcome, PickOutcome::Answered | PickOutcome::Refused);
        Self {
            device_id: pick.device.as_str(),
            picked_at: Time(pick.picked_at),
            answered_at: has_answered.then_some(Time(end.at)),
            ended_at: Time(end.at),
            outcome: end.outcome.as_str(),
            reason: end.outcome.reason(),
            result: json_text(end.result.as_deref()),
            command_id: pick.command.map(|command| command.to_text(COMMAND_ID_PREFIX)),
            late: pick.late.as_ref().map(LateShape::from),
        }
    }
}

impl<'a> CampaignResultShape<'a> {
    /// The result of a pick of a slot that has ended.
    ///
    /// # Panics
    /// For another one.
    pub(crate) fn of(pick: &'a Pick) -> Self {
        let slot = pick.slot.expect("results of a campaign are of its slots");
        Self { result: TaskResultShape::of(pick), slot: slot.number }
    }
}

impl TaskResultShape<'_> {
    fn write_cells(&self, cells: &mut Cells<'_>) {
        cells.text(self.device_id).shown(self.picked_at).shown_or_empty(self.answered_at);
        cells.shown(self.ended_at).text(self.outcome).text(self.reason.unwrap_or_default());
        cells.json(self.result).text(self.command_id.as_deref().unwrap_or_default());
        LateShape::write(self.late.as_ref(), cells);
    }
}

/// The columns of a campaign's result: its slot, and those of a task's result.
const RESULT_COLUMNS: &[&str] = &[
    "slot",
    "device_id",
    "picked_at",
    "answered_at",
    "ended_at",
    "outcome",
    "reason",
    "result",
    "command_id",
    "late_ok",
    "late_at",
    "late_result",
];

impl CsvRow for TaskResultShape<'_> {
    const COLUMNS: &'static [&'static str] = RESULT_COLUMNS.split_at(1).1;

    fn write(&self, cells: &mut Cells<'_>) {
        self.write_cells(cells);
    }
}

impl CsvRow for CampaignResultShape<'_> {
    const COLUMNS: &'static [&'static str] = RESULT_COLUMNS;

    fn write(&self, cells: &mut Cells<'_>) {
        cells.shown(self.slot);
        self.result.write_cells(cells);
    }
}
