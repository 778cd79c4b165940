//! Rollouts and their devices, as far as they are durable.

use std::sync::Arc;

use base::{DeviceId, PartitionId, Problem};
use records::{MemberPlace, MemberStatus, Rollout, RolloutMember, RolloutWork};

use super::{Queries, unreadable};
use crate::rollouts::{TrackedRollout, unknown_rollout};

impl Queries {
    /// A rollout.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn rollout(&self, id: &str) -> Result<Option<TrackedRollout>, Problem> {
        let view = self.view(PartitionId::REGISTRY)?;
        let rollout = view.rollout(id).map_err(unreadable)?;
        let state = view.rollout_state(id).map_err(unreadable)?;
        let tracked = |(rollout, state)| TrackedRollout { rollout: Arc::new(rollout), state };
        Ok(rollout.zip(state).map(tracked))
    }

    /// Rollouts of commands in order of id.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn rollouts(&self, after: Option<&str>, limit: usize) -> Result<Vec<TrackedRollout>, Problem> {
        let view = self.view(PartitionId::REGISTRY)?;
        let (mut found, mut after) = (Vec::new(), after.map(Box::<str>::from));
        while found.len() < limit {
            let states = view.rollout_states(after.as_deref(), limit).map_err(unreadable)?;
            let is_whole = states.len() < limit;
            after = states.last().map(|state| state.id.clone());
            for state in states {
                let rollout = view.rollout(&state.id).map_err(unreadable)?;
                let of_commands = |rollout: &Rollout| matches!(rollout.work, RolloutWork::Command(_));
                if let Some(rollout) = rollout.filter(of_commands) {
                    found.push(TrackedRollout { rollout: Arc::new(rollout), state });
                }
            }
            if is_whole {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The devices of a rollout, in the order of their turns.
    ///
    /// # Errors
    /// 404 `unknown_rollout`; see [`Queries::device`].
    pub fn rollout_devices(
        &self,
        id: &str,
        status: Option<MemberStatus>,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<RolloutMember>, Problem> {
        let view = self.view(PartitionId::REGISTRY)?;
        let rollout = view.rollout(id).map_err(unreadable)?.ok_or_else(|| unknown_rollout(id))?;
        let after = after.map(|device| MemberPlace::of(rollout.incarnation, device, u32::MAX));
        view.rollout_members(rollout.incarnation, status, after.as_ref(), limit).map_err(unreadable)
    }
}
