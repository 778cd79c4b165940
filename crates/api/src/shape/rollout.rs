//! Rollouts and their devices in answers.

use engine::TrackedRollout;
use engine::commands::COMMAND_ID_PREFIX;
use engine::records::{MemberStatus, RolloutMember};
use serde::Serialize;
use utoipa::ToSchema;

use super::receiver::ReceiverShape;
use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// A rollout, and how many of its devices stand where.
#[derive(Serialize, ToSchema)]
#[schema(as = Rollout)]
pub(crate) struct RolloutShape<'a> {
    #[schema(schema_with = words::rollout_id)]
    id: &'a str,
    #[schema(schema_with = words::rollout_status)]
    status: &'static str,
    /// What it waits for while its status is `waiting`. Its stage soaks, somebody has to approve of
    /// what comes behind it, or the window is shut. Null while it waits for none of these.
    #[schema(schema_with = words::rollout_wait, required)]
    waits_for: Option<&'static str>,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::command_name, required = false)]
    origin: Option<&'a str>,
    /// The selection in its canonical form.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::any_text, required = false)]
    selector: Option<&'a str>,
    /// The stage that it is in, from 1; null without stages, or behind the last one.
    #[schema(required)]
    stage: Option<u32>,
    /// Devices that are known so far.
    devices: u64,
    /// Those whose turn has not come, or that are away.
    waiting: u64,
    scheduled: u64,
    published: u64,
    acknowledged: u64,
    failed: u64,
    expired: u64,
    superseded: u64,
    cancelled: u64,
}

/// A rollout that was just begun.
#[derive(Serialize, ToSchema)]
#[schema(as = NewRollout)]
pub(crate) struct NewRolloutShape<'a> {
    #[serde(flatten)]
    rollout: RolloutShape<'a>,
    /// Who is told how each command ends. The secret is shown here only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::receiver, required = false)]
    notify: Option<ReceiverShape<'a>>,
}

/// A device of a rollout.
#[derive(Serialize, ToSchema)]
#[schema(as = RolloutDevice)]
pub(crate) struct RolloutDeviceShape<'a> {
    #[schema(schema_with = words::device_id)]
    device_id: &'a str,
    #[schema(schema_with = words::command_id_or_null, required)]
    command_id: Option<String>,
    #[schema(schema_with = words::rollout_device_status)]
    status: &'static str,
}

/// A bulk assignment that was just begun.
#[derive(Serialize, ToSchema)]
#[schema(as = NewBulkAssignment)]
pub(crate) struct NewBulkShape<'a> {
    #[schema(schema_with = words::rollout_id)]
    id: &'a str,
    devices: u64,
    entries: u64,
}

/// How far a bulk assignment has come. All counts are of entries times devices.
#[derive(Serialize, ToSchema)]
#[schema(as = BulkAssignment)]
pub(crate) struct BulkShape<'a> {
    #[schema(schema_with = words::rollout_id)]
    id: &'a str,
    #[schema(schema_with = words::rollout_status)]
    status: &'static str,
    devices: u64,
    /// Those that have ended, well or not.
    done: u64,
    /// Those that their devices have confirmed.
    confirmed: u64,
}

impl<'a> From<&'a TrackedRollout> for RolloutShape<'a> {
    fn from(tracked: &'a TrackedRollout) -> Self {
        let TrackedRollout { rollout, state } = tracked;
        let counts = tracked.counts();
        let of = |status| counts.of(status);
        Self {
            id: &rollout.id,
            status: tracked.status().as_str(),
            waits_for: tracked.waits_for().as_str(),
            created_at: Time(rollout.created_at),
            ended_at: state.ended_at.map(Time),
            origin: tracked.origin(),
            selector: rollout.selector.as_deref(),
            stage: tracked.stage(),
            devices: counts.total(),
            waiting: of(MemberStatus::Waiting),
            scheduled: of(MemberStatus::Scheduled),
            published: of(MemberStatus::Published),
            acknowledged: of(MemberStatus::Acknowledged),
            failed: of(MemberStatus::Failed),
            expired: of(MemberStatus::Expired),
            superseded: of(MemberStatus::Superseded),
            cancelled: of(MemberStatus::Cancelled),
        }
    }
}

impl<'a> From<&'a TrackedRollout> for NewRolloutShape<'a> {
    fn from(tracked: &'a TrackedRollout) -> Self {
        Self { rollout: tracked.into(), notify: tracked.receiver().map(ReceiverShape::from) }
    }
}

impl<'a> From<&'a RolloutMember> for RolloutDeviceShape<'a> {
    fn from(member: &'a RolloutMember) -> Self {
        Self {
            device_id: member.place.device.as_str(),
            command_id: member.command.map(|command| command.to_text(COMMAND_ID_PREFIX)),
            status: member.status.as_str(),
        }
    }
}

impl<'a> NewBulkShape<'a> {
    pub(crate) fn of(tracked: &'a TrackedRollout, entries: u64) -> Self {
        let members = tracked.state.counts.total();
        Self { id: &tracked.rollout.id, devices: members / entries.max(1), entries }
    }
}

impl<'a> From<&'a TrackedRollout> for BulkShape<'a> {
    fn from(tracked: &'a TrackedRollout) -> Self {
        let counts = tracked.counts();
        let ended = MemberStatus::ALL.into_iter().filter(|status| status.has_ended());
        Self {
            id: &tracked.rollout.id,
            status: tracked.status().as_str(),
            devices: counts.total(),
            done: ended.map(|status| counts.of(status)).sum(),
            confirmed: counts.of(MemberStatus::Acknowledged),
        }
    }
}

impl CsvRow for RolloutShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "status",
        "created_at",
        "ended_at",
        "origin",
        "selector",
        "stage",
        "devices",
        "waiting",
        "scheduled",
        "published",
        "acknowledged",
        "failed",
        "expired",
        "superseded",
        "cancelled",
        "waits_for",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.id).text(self.status).shown(self.created_at).shown_or_empty(self.ended_at);
        cells.text(self.origin.unwrap_or_default()).text(self.selector.unwrap_or_default());
        cells.shown_or_empty(self.stage);
        for count in [
            self.devices,
            self.waiting,
            self.scheduled,
            self.published,
            self.acknowledged,
            self.failed,
            self.expired,
            self.superseded,
            self.cancelled,
        ] {
            cells.shown(count);
        }
        cells.text(self.waits_for.unwrap_or_default());
    }
}

impl CsvRow for RolloutDeviceShape<'_> {
    const COLUMNS: &'static [&'static str] = &["device_id", "command_id", "status"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.device_id).text(self.command_id.as_deref().unwrap_or_default()).text(self.status);
    }
}

impl CsvRow for BulkShape<'_> {
    const COLUMNS: &'static [&'static str] = &["id", "status", "devices", "done", "confirmed"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.id).text(self.status);
        for count in [self.devices, self.done, self.confirmed] {
            cells.shown(count);
        }
    }
}
