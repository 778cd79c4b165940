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

/// A stage does not wait for devices that were never reached. It does not end before one of its
/// published commands has ended: until then it has shown nothing. An approval is a condition beside
/// these and the soak, whenever it comes; it overrides none of them.
pub(crate) fn end(rollout: &Rollout, state: &RolloutState, is_idle: bool, now: Timestamp) -> StageEnd {
    let Some(stage) = rollout.stages.get(state.stage as usize) else { return StageEnd::None };
    let has_devices = state.counts.total() > 0;
    let is_open = !is_idle || in_flight(state) > 0 || (has_devices && state.stage_ended == 0);
    let nobody_is_left = state.counts.of(MemberStatus::Waiting) == 0 && in_flight(state) == 0;
    if is_open && !nobody_is_left {
        return StageEnd::Open;
    }
    let soaked = state.last_ended_at.map_or(now, |at| at.after(Duration::from_millis(stage.soak_ms)));
    if soaked > now && !nobody_is_left {
        return StageEnd::Soaks(soaked);
    }
    if stage.approve && !state.approved && !nobody_is_left { StageEnd::NeedsApproval } else { StageEnd::Now }
}
