//! Commands in answers.

use base::EntityId;
use engine::commands::COMMAND_ID_PREFIX;
use engine::records::LateAnswer;
use engine::{PublishedCommand, TrackedCommand};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::receiver::ReceiverShape;
use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// A command, and how far it has come.
#[derive(Serialize, ToSchema)]
#[schema(as = Command)]
pub(crate) struct CommandShape<'a> {
    #[schema(schema_with = words::command_id)]
    id: String,
    #[schema(schema_with = words::device_id)]
    device_id: &'a str,
    #[schema(schema_with = words::command_status)]
    status: &'static str,
    #[schema(schema_with = words::any, required)]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::command_name, required = false)]
    origin: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::shown_command_key, required = false)]
    key: Option<&'a str>,
    #[schema(schema_with = words::priority)]
    priority: i8,
    /// How often it went out since it was sent, or retried.
    tries: u32,
    max_attempts: u32,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    /// When it went out last.
    #[serde(skip_serializing_if = "Option::is_none")]
    published_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Time>,
    /// What the device told last while it was at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::any, required = false)]
    progress: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_at: Option<Time>,
    /// What the device answered; null for an answer without a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::any, required = false)]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<LateShape<'a>>,
}

/// The device's answer after the end.
#[derive(Serialize, ToSchema)]
#[schema(as = LateAnswer)]
pub(super) struct LateShape<'a> {
    ok: bool,
    at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::any, required = false)]
    result: Option<&'a RawValue>,
}

/// A command that was just sent.
#[derive(Serialize, ToSchema)]
#[schema(as = NewCommand)]
pub(crate) struct NewCommandShape<'a> {
    #[serde(flatten)]
    command: CommandShape<'a>,
    /// Who is told how it ends. The secret is shown here only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::receiver, required = false)]
    notify: Option<ReceiverShape<'a>>,
}

/// A command for a device that polls.
#[derive(Serialize, ToSchema)]
#[schema(as = PolledCommand)]
pub(crate) struct PolledShape<'a> {
    #[schema(schema_with = words::command_id)]
    message_id: String,
    #[schema(schema_with = words::any, required)]
    payload: Option<&'a RawValue>,
}

fn id_text(id: EntityId) -> String {
    id.to_text(COMMAND_ID_PREFIX)
}

/// What is kept as JSON text; `None` for what is none after all.
pub(super) fn json(text: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(text).ok()
}

pub(super) fn json_text(text: Option<&str>) -> Option<&RawValue> {
    text.and_then(|text| json(text.as_bytes()))
}

impl<'a> From<&'a TrackedCommand> for CommandShape<'a> {
    fn from(TrackedCommand { command, state }: &'a TrackedCommand) -> Self {
        Self {
            id: id_text(command.id),
            device_id: command.device.as_str(),
            status: state.status.as_str(),
            payload: json(&command.payload),
            origin: command.origin.as_deref(),
            key: command.key.as_deref(),
            priority: command.terms.priority,
            tries: state.tries,
            max_attempts: command.terms.attempts_max,
            created_at: Time(command.id.at),
            not_before: command.terms.not_before.map(Time),
            expires_at: state.expires_at.map(Time),
            published_at: state.published_at.map(Time),
            finished_at: state.finished_at.map(Time),
            progress: json_text(state.progress.as_deref()),
            progress_at: state.progress_at.map(Time),
            result: json_text(state.shown_result()),
            late: state.late.as_deref().map(LateShape::from),
        }
    }
}

impl<'a> From<&'a LateAnswer> for LateShape<'a> {
    fn from(late: &'a LateAnswer) -> Self {
        Self { ok: late.ok, at: Time(late.at), result: json_text(late.result.as_deref()) }
    }
}

impl<'a> From<&'a TrackedCommand> for NewCommandShape<'a> {
    fn from(tracked: &'a TrackedCommand) -> Self {
        let notify = tracked.command.notify.as_deref().map(ReceiverShape::from);
        Self { command: tracked.into(), notify }
    }
}

impl<'a> From<&'a PublishedCommand> for PolledShape<'a> {
    fn from(command: &'a PublishedCommand) -> Self {
        Self { message_id: id_text(command.id), payload: json(&command.payload) }
    }
}

impl CsvRow for CommandShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "device_id",
        "status",
        "payload",
        "origin",
        "key",
        "priority",
        "tries",
        "max_attempts",
        "created_at",
        "not_before",
        "expires_at",
        "published_at",
        "finished_at",
        "progress",
        "progress_at",
        "result",
        "late_ok",
        "late_at",
        "late_result",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(&self.id).text(self.device_id).text(self.status).json(self.payload);
        cells.text(self.origin.unwrap_or_default()).text(self.key.unwrap_or_default());
        cells.shown(self.priority).shown(self.tries).shown(self.max_attempts).shown(self.created_at);
        for time in [self.not_before, self.expires_at, self.published_at, self.finished_at] {
            cells.shown_or_empty(time);
        }
        cells.json(self.progress).shown_or_empty(self.progress_at).json(self.result);
        LateShape::write(self.late.as_ref(), cells);
    }
}

impl LateShape<'_> {
    /// Three cells, all of them empty where there is none.
    pub(super) fn write(late: Option<&Self>, cells: &mut Cells<'_>) {
        cells.shown_or_empty(late.map(|late| late.ok)).shown_or_empty(late.map(|late| late.at));
        cells.json(late.and_then(|late| late.result));
    }
}
