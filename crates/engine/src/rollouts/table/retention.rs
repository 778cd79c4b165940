//! Rollouts that have ended are kept as long as commands are, except the oldest of very many. Then
//! they are forgotten with all their devices.

use base::{Incarnation, Timestamp};
use records::Op;
use store::StoreError;

use super::{RolloutTable, Scan};
use crate::registry::RegistryStep;

/// Devices that are forgotten in a step.
const FORGOTTEN_PER_STEP: usize = 500;

/// Rollouts that have ended and are kept, bulk assignments among them: beyond it the oldest are
/// forgotten.
pub(super) const ENDED_MAX: usize = 10_000;

impl RolloutTable {
    pub(super) fn next_forgotten(&self) -> Option<Timestamp> {
        match &self.forgetting {
            // Goes on once the batch before is durable.
            Some((_, scan)) => (scan.from_seq <= self.durable).then_some(Timestamp(0)),
            None => self.oldest_until().map(|(until, _)| until),
        }
    }

    /// Until when the oldest one that has ended is kept.
    fn oldest_until(&self) -> Option<(Timestamp, (Timestamp, Incarnation))> {
        let oldest = *self.ended.first()?;
        let is_too_much = self.ended.len() > ENDED_MAX;
        Some((if is_too_much { Timestamp(0) } else { oldest.0.after(self.keep) }, oldest))
    }

    /// Forgets some devices of a rollout that is kept no longer, and at last the rollout. Never
    /// before the batch before is durable: what is read is what is there.
    pub(super) fn forget(&mut self, step: &mut RegistryStep<'_>) -> Result<(), StoreError> {
        if self.forgetting.is_none() {
            let oldest = self.oldest_until().filter(|(until, _)| *until <= step.now);
            let Some((_, (at, rollout))) = oldest else { return Ok(()) };
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::Lineage;
    use store::MemoryStore;

    use super::*;

    #[test]
    fn of_very_many_that_have_ended_the_oldest_goes_before_its_time() {
        let (store, keep) = (MemoryStore::new(Lineage(1), 1), Duration::from_secs(60));
        let mut table = RolloutTable::load(&store, keep, 0).expect("readable");
        assert_eq!(table.next_forgotten(), None);
        table.ended = (0..ENDED_MAX as u64).map(|n| (Timestamp(1_000 + n as i64), Incarnation(n))).collect();
        assert_eq!(table.next_forgotten(), Some(Timestamp(1_000).after(keep)));
        table.ended.insert((Timestamp(i64::MAX), Incarnation(u64::MAX)));
        assert_eq!(table.next_forgotten(), Some(Timestamp(0)));
        assert_eq!(table.oldest_until().map(|(_, oldest)| oldest), Some((Timestamp(1_000), Incarnation(0))));
    }
}
