//! Rollouts that have ended are kept as long as commands are, then forgotten with all their
//! devices.

use base::{Incarnation, Timestamp};
use records::Op;
use store::StoreError;

use super::{RolloutBook, Scan};
use crate::registry::RegistryStep;

/// Devices that are forgotten in a step.
const FORGOTTEN_PER_STEP: usize = 500;

impl RolloutBook {
    pub(super) fn next_forgotten(&self) -> Option<Timestamp> {
        match &self.forgetting {
            // Goes on once the batch before is durable.
            Some((_, scan)) => (scan.from_seq <= self.durable).then_some(Timestamp(0)),
            None => self.ended.first().map(|(at, _)| at.after(self.keep)),
        }
    }

    /// Forgets some devices of a rollout that is kept no longer, and at last the rollout. Never
    /// before the batch before is durable: what is read is what is there.
    pub(super) fn forget(&mut self, step: &mut RegistryStep<'_>) -> Result<(), StoreError> {
        if self.forgetting.is_none() {
            let oldest = self.ended.first().copied().filter(|(at, _)| at.after(self.keep) <= step.now);
            let Some((at, rollout)) = oldest else { return Ok(()) };
            self.ended.remove(&(at, rollout));
            self.forgetting = Some((rollout, Scan::behind(self.durable)));
        }
        let Some((rollout, scan)) = self.forgetting.take() else { return Ok(()) };
        if scan.from_seq > self.durable {
            self.forgetting = Some((rollout, scan));
        } else if self.forget_devices(rollout, step)? {
            self.forgetting = Some((rollout, Scan::behind(step.seq)));
        }
        Ok(())
    }

    /// Whether there may be more.
    fn forget_devices(
        &mut self,
        rollout: Incarnation,
        step: &mut RegistryStep<'_>,
    ) -> Result<bool, StoreError> {
        let Some(id) = self.by_incarnation.get(&rollout).cloned() else { return Ok(false) };
        let view = step.fetch.view()?;
        let Some(mut state) = view.rollout_state(&id)? else { return Ok(false) };
        let devices = view.rollout_members(rollout, None, None, FORGOTTEN_PER_STEP)?;
        if devices.is_empty() {
            self.ids.remove(&id);
            self.by_incarnation.remove(&rollout);
            step.push(Op::DeleteRollout(id));
            return Ok(false);
        }
        for device in devices {
            let count = &mut state.counts.0[device.status as usize];
            *count = count.saturating_sub(1);
            self.members.put(step.seq, device.place.clone(), None);
            step.push(Op::DeleteRolloutMember(Box::new(device.place), device.status));
        }
        step.push(Op::PutRolloutState(Box::new(state)));
        Ok(true)
    }
}
