//! Rollouts as they are shown, and words about them as they are asked for.

use base::Problem;
use engine::commands::COMMAND_ID_PREFIX;
use engine::records::{MemberStatus, RolloutMember, RolloutWait};
use engine::rollouts::RolloutStatus;
use engine::{RolloutCall, TrackedRollout};

use crate::proto;
use crate::time::moment;

/// A rollout, and how many of its devices stand where.
pub(super) fn rollout(tracked: &TrackedRollout) -> proto::Rollout {
    let TrackedRollout { rollout, state } = tracked;
    let counts = tracked.counts();
    proto::Rollout {
        id: rollout.id.to_string(),
        status: status(tracked.status()).into(),
        created_at: Some(moment(rollout.created_at)),
        ended_at: state.ended_at.map(moment),
        origin: tracked.origin().map(str::to_owned),
        selector: rollout.selector.as_deref().map(str::to_owned),
        stage: tracked.stage(),
        devices: counts.total(),
        waiting: counts.of(MemberStatus::Waiting),
        scheduled: counts.of(MemberStatus::Scheduled),
        published: counts.of(MemberStatus::Published),
        acknowledged: counts.of(MemberStatus::Acknowledged),
        failed: counts.of(MemberStatus::Failed),
        expired: counts.of(MemberStatus::Expired),
        superseded: counts.of(MemberStatus::Superseded),
        cancelled: counts.of(MemberStatus::Cancelled),
        waits_for: wait(tracked.waits_for()).into(),
    }
}

fn wait(wait: RolloutWait) -> proto::RolloutWait {
    match wait {
        RolloutWait::Nothing => proto::RolloutWait::Unspecified,
        RolloutWait::Soak => proto::RolloutWait::Soak,
        RolloutWait::Approval => proto::RolloutWait::Approval,
        RolloutWait::Window => proto::RolloutWait::Window,
    }
}

fn status(status: RolloutStatus) -> proto::RolloutStatus {
    match status {
        RolloutStatus::Running => proto::RolloutStatus::Running,
        RolloutStatus::Waiting => proto::RolloutStatus::Waiting,
        RolloutStatus::Paused => proto::RolloutStatus::Paused,
        RolloutStatus::Stopped => proto::RolloutStatus::Stopped,
        RolloutStatus::Cancelled => proto::RolloutStatus::Cancelled,
        RolloutStatus::Done => proto::RolloutStatus::Done,
    }
}

/// A device of a rollout.
pub(super) fn device(member: &RolloutMember) -> proto::RolloutDevice {
    proto::RolloutDevice {
        device_id: member.place.device.to_string(),
        command_id: member.command.map(|command| command.to_text(COMMAND_ID_PREFIX)),
        status: device_status(member.status).into(),
    }
}

fn device_status(status: MemberStatus) -> proto::RolloutDeviceStatus {
    match status {
        MemberStatus::Waiting => proto::RolloutDeviceStatus::Waiting,
        MemberStatus::Scheduled => proto::RolloutDeviceStatus::Scheduled,
        MemberStatus::Published => proto::RolloutDeviceStatus::Published,
        MemberStatus::Acknowledged => proto::RolloutDeviceStatus::Acknowledged,
        MemberStatus::Failed => proto::RolloutDeviceStatus::Failed,
        MemberStatus::Expired => proto::RolloutDeviceStatus::Expired,
        MemberStatus::Superseded => proto::RolloutDeviceStatus::Superseded,
        MemberStatus::Cancelled => proto::RolloutDeviceStatus::Cancelled,
    }
}

/// The status that is asked for; `None` for any.
pub(super) fn read_device_status(given: i32) -> Result<Option<MemberStatus>, Problem> {
    let asked =
        proto::RolloutDeviceStatus::try_from(given).map_err(|_| unknown_word("status", 0, 8, given))?;
    Ok(MemberStatus::ALL.into_iter().find(|of| device_status(*of) == asked))
}

/// What is asked of a rollout.
pub(super) fn read_call(given: i32) -> Result<RolloutCall, Problem> {
    match proto::RolloutCall::try_from(given) {
        Ok(proto::RolloutCall::Pause) => Ok(RolloutCall::Pause),
        Ok(proto::RolloutCall::Resume) => Ok(RolloutCall::Resume),
        Ok(proto::RolloutCall::Approve) => Ok(RolloutCall::Approve),
        Ok(proto::RolloutCall::Cancel) => Ok(RolloutCall::Cancel),
        Ok(proto::RolloutCall::Unspecified) | Err(_) => Err(unknown_word("call", 1, 4, given)),
    }
}

/// The word for it in the log.
pub(super) fn call_in_log(call: proto::RolloutCall) -> &'static str {
    match call {
        proto::RolloutCall::Unspecified => "unspecified",
        proto::RolloutCall::Pause => "pause",
        proto::RolloutCall::Resume => "resume",
        proto::RolloutCall::Approve => "approve",
        proto::RolloutCall::Cancel => "cancel",
    }
}

fn unknown_word(field: &str, least: i32, most: i32, given: i32) -> Problem {
    Problem::not_allowed("unknown_word", format!("{field} must be {least} to {most}, not {given}"))
}
