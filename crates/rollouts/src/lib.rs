//! Rollouts: how many commands may be handed out now, and when a rollout waits, stops and ends.
//!
//! The rules decide over a [`Rollout`] and its [`RolloutState`] alone. Which devices there are,
//! which of them can be reached and whose window is open is known elsewhere; so is what a device is
//! told.
//!
//! ```text
//!                 pause              stop rule
//!        paused <------- running ------------> stopped
//!           |  resume -->  |  <-- resume          |
//!           |              | every device ended   |
//!           '--- cancel    v         cancel ------'
//!                   |     done          |
//!                   '---> cancelled <---'
//! ```
//!
//! While it runs, its devices have their turns stage by stage. A stage ends when all of its devices
//! that could be reached have ended, and it has soaked; somebody may have to approve as well. An
//! approval may come at any time of the stage, and makes it no shorter.

mod rate;
mod stage;

use base::Timestamp;
use records::{
    MemberStatus, Rollout, RolloutCounts, RolloutCursor, RolloutStanding, RolloutState, RolloutWait,
};

pub use stage::{StageBacklog, StageEnd, stage_devices};

/// Members of a rollout: each is a row, and of a bulk assignment there is one for each device and
/// entry.
pub const MEMBERS_MAX: u64 = 10_000_000;

/// How many commands may be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOutAllowance {
    /// So many now, at least one.
    Now(u64),
    /// None before that time.
    At(Timestamp),
    /// None until something else happens.
    None,
}

/// Why a rollout cannot be paused, resumed, approved or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRefused {
    /// It has ended so.
    HasEnded(RolloutStanding),
    /// Its stage needs no approval, or there is no stage.
    NothingToApprove,
}

/// The state of a rollout that begins: its devices are to be looked for.
#[must_use]
pub fn begin(rollout: &Rollout) -> RolloutState {
    let first = if rollout.is_named { RolloutCursor::Named(0) } else { RolloutCursor::Partition(0, None) };
    RolloutState {
        id: rollout.id.clone(),
        standing: RolloutStanding::Running,
        collecting: Some(first),
        counts: RolloutCounts::default(),
        stage: 0,
        boundary: None,
        stage_ended: 0,
        last_ended_at: None,
        approved: false,
        next_us: 0,
        ended: 0,
        failed: 0,
        waits_for: RolloutWait::Nothing,
        passed_at: None,
        ended_at: None,
    }
}

/// Whether another member may be added.
#[must_use]
pub fn has_room(state: &RolloutState) -> bool {
    state.counts.total() < MEMBERS_MAX
}

/// A device belongs to the rollout from now on.
pub fn added(state: &mut RolloutState) {
    state.counts.0[MemberStatus::Waiting as usize] += 1;
}

/// How many commands may be handed out now, windows left aside.
#[must_use]
pub fn allowance(rollout: &Rollout, state: &RolloutState, now: Timestamp) -> HandOutAllowance {
    let is_staged = stage::is_staged(rollout, state);
    let knows_whose_turn = state.collecting.is_none() && (!is_staged || state.boundary.is_some());
    if state.standing != RolloutStanding::Running || !knows_whose_turn {
        return HandOutAllowance::None;
    }
    let room = rollout.in_flight.map_or(u64::MAX, |max| u64::from(max).saturating_sub(in_flight(state)));
    if room == 0 || state.counts.of(MemberStatus::Waiting) == 0 {
        return HandOutAllowance::None;
    }
    match rate::allowance(rollout, state, now) {
        HandOutAllowance::Now(by_rate) => HandOutAllowance::Now(by_rate.min(room)),
        later => later,
    }
}

/// A command is handed out now. The device was waiting.
pub fn handed_out(rollout: &Rollout, state: &mut RolloutState, now: Timestamp) {
    rate::spend(rollout, state, now);
    count(state, MemberStatus::Waiting, MemberStatus::Scheduled);
}

/// A device moved on by itself. `was_published` says whether its command ever went out.
pub fn moved(
    rollout: &Rollout,
    state: &mut RolloutState,
    now: Timestamp,
    (from, to): (MemberStatus, MemberStatus),
    was_published: bool,
) {
    count(state, from, to);
    let has_ended = to.has_ended() && !from.has_ended();
    if has_ended && was_published {
        let has_failed = matches!(to, MemberStatus::Failed | MemberStatus::Expired);
        state.ended += 1;
        state.failed += u64::from(has_failed);
        state.stage_ended += 1;
        state.last_ended_at = Some(now);
        stop_if_too_many_failed(rollout, state);
    } else if from.has_ended() && !to.has_ended() {
        // It is tried anew by hand: its rollout is not over before it has ended again.
        if state.standing == RolloutStanding::Done {
            state.standing = RolloutStanding::Running;
            state.ended_at = None;
        }
    }
    end_if_over(rollout, state, now);
}

/// A command was taken back before it went out: the device waits again, or is called off with the
/// rollout.
pub fn taken_back(rollout: &Rollout, state: &mut RolloutState, now: Timestamp) -> MemberStatus {
    let to = match state.standing {
        RolloutStanding::Cancelled => MemberStatus::Cancelled,
        _ => MemberStatus::Waiting,
    };
    count(state, MemberStatus::Scheduled, to);
    end_if_over(rollout, state, now);
    to
}

/// All devices of the rollout are known.
pub fn collected(rollout: &Rollout, state: &mut RolloutState, now: Timestamp) {
    state.collecting = None;
    end_if_over(rollout, state, now);
}

/// Hands nothing out until it is resumed. Without effect if it is paused or has stopped.
///
/// # Errors
/// When it has ended.
pub fn pause(state: &mut RolloutState) -> Result<(), CallRefused> {
    check_goes_on(state)?;
    if state.standing == RolloutStanding::Running {
        state.standing = RolloutStanding::Paused;
    }
    Ok(())
}

/// Stops by itself what runs or is paused: its devices cannot be told, or are too many. Whether it
/// did.
pub fn stop(state: &mut RolloutState) -> bool {
    let stops = matches!(state.standing, RolloutStanding::Running | RolloutStanding::Paused);
    if stops {
        state.standing = RolloutStanding::Stopped;
    }
    stops
}

/// Goes on, also after it has stopped: then only what ends from now on counts.
///
/// # Errors
/// When it has ended.
pub fn resume(rollout: &Rollout, state: &mut RolloutState, now: Timestamp) -> Result<(), CallRefused> {
    check_goes_on(state)?;
    if state.standing == RolloutStanding::Stopped {
        (state.ended, state.failed) = (0, 0);
    }
    state.standing = RolloutStanding::Running;
    end_if_over(rollout, state, now);
    Ok(())
}

/// Calls off what was not handed out. The devices that wait count as cancelled at once; where each
/// of them stands is to be written by the caller.
///
/// # Errors
/// When it has ended.
pub fn cancel(state: &mut RolloutState, now: Timestamp) -> Result<(), CallRefused> {
    check_goes_on(state)?;
    state.standing = RolloutStanding::Cancelled;
    state.collecting = None;
    state.waits_for = RolloutWait::Nothing;
    state.ended_at = Some(now);
    Ok(())
}

/// Approves of what comes behind the present stage. Before the end of the stage this is noted, and
/// the stage ends by itself once it has soaked.
///
/// # Errors
/// When there is nothing to approve of, or the rollout has ended.
pub fn approve(rollout: &Rollout, state: &mut RolloutState) -> Result<(), CallRefused> {
    check_goes_on(state)?;
    let stage = rollout.stages.get(state.stage as usize);
    if stage.is_none_or(|stage| !stage.approve) {
        return Err(CallRefused::NothingToApprove);
    }
    state.approved = true;
    Ok(())
}

/// Whether, and when, the present stage ends.
#[must_use]
pub fn stage_end(rollout: &Rollout, state: &RolloutState, backlog: StageBacklog, now: Timestamp) -> StageEnd {
    stage::end(rollout, state, backlog, now)
}

/// The next stage begins. It soaks from now on if none of its commands goes out.
pub fn next_stage(state: &mut RolloutState, now: Timestamp) {
    state.stage += 1;
    state.boundary = None;
    state.stage_ended = 0;
    state.last_ended_at = Some(now);
    state.approved = false;
    state.passed_at = None;
}

/// Whether a device of this rank may have its turn in the present stage.
#[must_use]
pub fn may_have_turn(rollout: &Rollout, state: &RolloutState, rank: u64) -> bool {
    !stage::is_staged(rollout, state) || state.boundary.is_some_and(|boundary| rank <= boundary)
}

/// Commands that are handed out and have not ended.
#[must_use]
pub fn in_flight(state: &RolloutState) -> u64 {
    state.counts.of(MemberStatus::Scheduled) + state.counts.of(MemberStatus::Published)
}

/// Whether commands that were handed out and did not go out are to be taken back.
#[must_use]
pub fn takes_back(state: &RolloutState) -> bool {
    match state.standing {
        RolloutStanding::Paused | RolloutStanding::Stopped | RolloutStanding::Cancelled => true,
        RolloutStanding::Running | RolloutStanding::Done => false,
    }
}

/// Moves a device in the counts.
pub fn count(state: &mut RolloutState, from: MemberStatus, to: MemberStatus) {
    let counts = &mut state.counts.0;
    counts[from as usize] = counts[from as usize].saturating_sub(1);
    counts[to as usize] += 1;
}

/// Done once every device has ended.
pub fn end_if_over(rollout: &Rollout, state: &mut RolloutState, now: Timestamp) {
    let open = in_flight(state) + state.counts.of(MemberStatus::Waiting);
    let may_be_done = state.standing == RolloutStanding::Running && !rollout.include_later;
    if may_be_done && state.collecting.is_none() && open == 0 {
        state.standing = RolloutStanding::Done;
        state.waits_for = RolloutWait::Nothing;
        state.ended_at = Some(now);
    }
}

fn stop_if_too_many_failed(rollout: &Rollout, state: &mut RolloutState) {
    let Some(stop) = rollout.stop else { return };
    let is_sample = state.ended >= u64::from(stop.after.max(1));
    let too_many = state.failed * 1_000_000 > u64::from(stop.failed_ppm) * state.ended;
    if state.standing == RolloutStanding::Running && is_sample && too_many {
        state.standing = RolloutStanding::Stopped;
    }
}

fn check_goes_on(state: &RolloutState) -> Result<(), CallRefused> {
    if state.standing.has_ended() { Err(CallRefused::HasEnded(state.standing)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
