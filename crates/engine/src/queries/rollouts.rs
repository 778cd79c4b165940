//! Rollouts and their devices, as far as they are durable.

use std::sync::Arc;

use base::{DeviceId, PartitionId, Problem};
use records::{MemberPlace, MemberStatus, Rollout, RolloutMember, RolloutWork};

use super::{Queries, unreadable};
use crate::rollouts::{TrackedRollout, unknown_rollout};

/// Bytes that a page of rollouts or of bulk assignments reads and does not show, one rollout in
/// memory at a time. Each counts for `PASSED_BY_BYTES` besides its work.
const PASSED_BY_BYTES_MAX: usize = 16 * 1_024 * 1_024;
const PASSED_BY_BYTES: usize = 16 * 1_024;

/// Rollouts, and where the search for more stopped before its end.
pub type FoundRollouts = (Vec<TrackedRollout>, Option<Box<str>>);

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

    /// Rollouts of commands in order of id. Bulk assignments lie among them, are left out, and each
    /// may be large. So behind many of them the search stops early, and says where to go on.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn rollouts(&self, after: Option<&str>, limit: usize) -> Result<FoundRollouts, Problem> {
        self.rollouts_that(after, limit, |rollout| match rollout.work {
            RolloutWork::Command(_) => Some(rollout),
            RolloutWork::Entries(_) => None,
        })
    }

    /// Bulk assignments in order of id, without their entries. The search stops early as that of
    /// [`Queries::rollouts`] does.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn bulk_assignments(&self, after: Option<&str>, limit: usize) -> Result<FoundRollouts, Problem> {
        self.rollouts_that(after, limit, |rollout| match rollout.work {
            RolloutWork::Command(_) => None,
            RolloutWork::Entries(_) => Some(Rollout { work: RolloutWork::Entries(Vec::new()), ..rollout }),
        })
    }

    /// Rollouts as far as `shown` leaves anything of them.
    fn rollouts_that(
        &self,
        after: Option<&str>,
        limit: usize,
        shown: impl Fn(Rollout) -> Option<Rollout>,
    ) -> Result<FoundRollouts, Problem> {
        let view = self.view(PartitionId::REGISTRY)?;
        let (mut found, mut after, mut passed_by) = (Vec::new(), after.map(Box::<str>::from), 0);
        while found.len() < limit {
            let wanted = limit - found.len();
            let states = view.rollout_states(after.as_deref(), wanted).map_err(unreadable)?;
            let is_end = states.len() < wanted;
            for state in states {
                after = Some(state.id.clone());
                let Some(rollout) = view.rollout(&state.id).map_err(unreadable)? else { continue };
                let bytes = PASSED_BY_BYTES + rollout.work.bytes(0);
                if let Some(rollout) = shown(rollout) {
                    passed_by += bytes.saturating_sub(PASSED_BY_BYTES + rollout.work.bytes(0));
                    found.push(TrackedRollout { rollout: Arc::new(rollout), state });
                } else {
                    passed_by += bytes;
                }
                if passed_by >= PASSED_BY_BYTES_MAX {
                    return Ok((found, after));
                }
            }
            if is_end {
                break;
            }
        }
        Ok((found, None))
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
