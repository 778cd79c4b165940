//! A rollout as callers see it.

use std::sync::Arc;

use records::{
    MemberStatus, OutcomeReceiver, Rollout, RolloutCounts, RolloutStanding, RolloutState, RolloutWait,
    RolloutWork,
};

/// A rollout, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedRollout {
    /// As it was asked for.
    pub rollout: Arc<Rollout>,
    /// How far it has come.
    pub state: RolloutState,
}

/// Whether a rollout goes on, as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutStatus {
    /// Commands are handed out to whoever can be reached.
    Running,
    /// A stage soaks or waits for approval, or the window is shut.
    Waiting,
    /// Not until it is resumed.
    Paused,
    /// It stopped by itself, see [`RolloutStanding::Stopped`]: not until it is resumed.
    Stopped,
    /// It was called off.
    Cancelled,
    /// Every device has ended.
    Done,
}

base::names! {
    /// Every status.
    pub RolloutStatus: Running = "running", Waiting = "waiting", Paused = "paused", Stopped = "stopped",
        Cancelled = "cancelled", Done = "done"
}

impl TrackedRollout {
    /// Whether it goes on.
    #[must_use]
    pub fn status(&self) -> RolloutStatus {
        match self.state.standing {
            RolloutStanding::Running if self.waits_for() != RolloutWait::Nothing => RolloutStatus::Waiting,
            RolloutStanding::Running => RolloutStatus::Running,
            RolloutStanding::Paused => RolloutStatus::Paused,
            RolloutStanding::Stopped => RolloutStatus::Stopped,
            RolloutStanding::Cancelled => RolloutStatus::Cancelled,
            RolloutStanding::Done => RolloutStatus::Done,
        }
    }

    /// What it waits for; nothing if it does not go on.
    #[must_use]
    pub fn waits_for(&self) -> RolloutWait {
        match self.state.standing {
            RolloutStanding::Running => self.state.waits_for,
            _ => RolloutWait::Nothing,
        }
    }

    /// How many of its devices stand where. What waits in a cancelled rollout is cancelled, even
    /// while its rows are still being changed.
    #[must_use]
    pub fn counts(&self) -> RolloutCounts {
        let mut counts = self.state.counts;
        if self.state.standing == RolloutStanding::Cancelled {
            let waiting = std::mem::take(&mut counts.0[MemberStatus::Waiting as usize]);
            counts.0[MemberStatus::Cancelled as usize] += waiting;
        }
        counts
    }

    /// The stage that it is in, from 1; `None` without stages, or behind the last one.
    #[must_use]
    pub fn stage(&self) -> Option<u32> {
        let is_staged = (self.state.stage as usize) < self.rollout.stages.len();
        is_staged.then(|| self.state.stage + 1)
    }

    /// Who asked for it, in the caller's words.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        match &self.rollout.work {
            RolloutWork::Command(command) => command.origin.as_deref(),
            RolloutWork::Entries(_) => None,
        }
    }

    /// Who is told how each of its commands ended.
    #[must_use]
    pub fn receiver(&self) -> Option<&OutcomeReceiver> {
        match &self.rollout.work {
            RolloutWork::Command(command) => command.notify.as_ref(),
            RolloutWork::Entries(_) => None,
        }
    }
}
