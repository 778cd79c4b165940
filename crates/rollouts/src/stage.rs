//! Stages: how many devices are in each, and when one ends.

use std::time::Duration;

use base::Timestamp;
use records::{MemberStatus, Rollout, RolloutStage, RolloutState};

use crate::in_flight;

/// Whether a stage ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageEnd {
    /// There is no stage: all devices may have their turns.
    None,
    /// Its devices still have their turns, or have not ended.
    Open,
    /// It soaks until then.
    Soaks(Timestamp),
    /// Somebody must approve of what comes behind it.
    NeedsApproval,
    /// Now.
    Now,
}

/// The devices of a stage, and of those before, that wait for their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageBacklog {
    /// Some may have their turns now, or are being looked for.
    Due,
    /// None can be handed a command now, but for want of a window. Some wait, or it makes no
    /// difference: a command of the stage is in flight or has ended.
    Absent,
    /// None waits.
    Empty,
}

/// How many devices a stage has, together with those of the stages before: at least one.
#[must_use]
pub fn stage_devices(stage: &RolloutStage, devices: u64) -> u64 {
    let share = (u128::from(devices) * u128::from(stage.share_ppm)).div_ceil(1_000_000);
    u64::try_from(share).unwrap_or(u64::MAX).clamp(1, devices.max(1))
}

/// Whether only the devices of a stage may have their turns.
pub(crate) fn is_staged(rollout: &Rollout, state: &RolloutState) -> bool {
    (state.stage as usize) < rollout.stages.len()
}

/// A stage does not wait for devices that were never reached. While some wait, it does not end
/// before one of its published commands has ended: until then it has shown nothing. With nobody
/// left to show anything, it soaks from its beginning. An approval is a condition beside these and
/// the soak, whenever it comes; it overrides none of them.
pub(crate) fn end(
    rollout: &Rollout,
    state: &RolloutState,
    backlog: StageBacklog,
    now: Timestamp,
) -> StageEnd {
    let Some(stage) = rollout.stages.get(state.stage as usize) else { return StageEnd::None };
    let is_open = match backlog {
        StageBacklog::Due => true,
        StageBacklog::Absent => in_flight(state) > 0 || state.stage_ended == 0,
        StageBacklog::Empty => in_flight(state) > 0,
    };
    let nobody_is_left = state.counts.of(MemberStatus::Waiting) == 0 && in_flight(state) == 0;
    if is_open && !nobody_is_left {
        return StageEnd::Open;
    }
    let soaks_from = state.last_ended_at.unwrap_or(rollout.created_at);
    let soaked = soaks_from.after(Duration::from_millis(stage.soak_ms));
    if soaked > now && !nobody_is_left {
        return StageEnd::Soaks(soaked);
    }
    if stage.approve && !state.approved && !nobody_is_left { StageEnd::NeedsApproval } else { StageEnd::Now }
}
