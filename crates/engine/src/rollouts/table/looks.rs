//! Devices that came or changed are looked at for every rollout that may concern them. A step looks
//! at a bounded number of pairs, and leaves the others to the next.

use std::collections::VecDeque;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use base::{DeviceId, Incarnation};
use records::{MemberPlace, MemberStatus, Rollout};
use store::StoreError;

use super::{RolloutEffect, RolloutTable, emit};
use crate::device_orders::OrderKind;
use crate::kernel::reply::Reply;
use crate::registry::RegistryStep;
use crate::rollouts::links::{DeviceLook, Search};
use crate::rollouts::needs_reach;

/// Pairs of a device and a rollout that a step looks at. Each may be a row to read.
const LOOKS_PER_STEP: usize = 2_000;

/// Devices that are still to be looked at. Whoever told of them waits until they were, so that they
/// are no more than those of one input.
#[derive(Debug, Default)]
pub(super) struct LookBacklog {
    devices: VecDeque<(DeviceId, DeviceLook)>,
    /// The first of them was looked at for all rollouts up to this one.
    behind: Option<Incarnation>,
    waiters: Vec<Reply<()>>,
}

impl RolloutTable {
    /// Devices can be reached, or were changed or removed. The reply is sent once all were looked
    /// at.
    pub(super) fn take_looks(&mut self, looks: Vec<(DeviceId, DeviceLook)>, reply: Reply<()>) {
        self.looks.devices.extend(looks);
        self.looks.waiters.push(reply);
    }

    /// Looks at some more devices. Whether there are more.
    pub(super) fn look_on(&mut self, step: &mut RegistryStep<'_>) -> Result<bool, StoreError> {
        let mut pairs = LOOKS_PER_STEP;
        while let Some((device, look)) = self.looks.devices.front().cloned() {
            let begin = self.looks.behind.map_or(Unbounded, Excluded);
            let wanted = self.live.range((begin, Unbounded)).filter(|(_, live)| live.wants_devices());
            let incarnations: Vec<Incarnation> =
                wanted.map(|(incarnation, _)| *incarnation).take(pairs).collect();
            for incarnation in &incarnations {
                if !step.has_room() {
                    return Ok(true);
                }
                self.look_at(*incarnation, &device, look, step)?;
                self.looks.behind = Some(*incarnation);
            }
            pairs -= incarnations.len();
            if pairs == 0 {
                return Ok(true);
            }
            self.looks.devices.pop_front();
            self.looks.behind = None;
        }
        for waiter in std::mem::take(&mut self.looks.waiters) {
            emit(RolloutEffect::Kept(waiter), step);
        }
        Ok(false)
    }

    fn look_at(
        &mut self,
        incarnation: Incarnation,
        device: &DeviceId,
        look: DeviceLook,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let place = MemberPlace::of(incarnation, device, 0);
        let member = self.member(&place, step)?;
        let Some(live) = self.live.get_mut(&incarnation) else { return Ok(()) };
        let is_looked_up = match &member {
            // It may be gone, or in another time zone.
            Some(member) => look == DeviceLook::Changed && has_its_turn_to_come(&live.rollout, member.status),
            None => live.rollout.include_later,
        };
        if is_looked_up {
            let search = Search::Among(Arc::clone(&live.rollout), vec![device.clone()]);
            emit(RolloutEffect::Search(search), step);
        }
        match member {
            Some(member) if look == DeviceLook::Came && member.status == MemberStatus::Waiting => {
                live.consider(place);
            }
            Some(member) if look == DeviceLook::Changed && is_under_way(member.status) => {
                self.order(&member, OrderKind::Ensure, step);
            }
            _ => {}
        }
        Ok(())
    }
}

fn is_under_way(status: MemberStatus) -> bool {
    matches!(status, MemberStatus::Scheduled | MemberStatus::Published)
}

/// Whether a device's command is to go out once the device is there and its window is open.
fn has_its_turn_to_come(rollout: &Rollout, status: MemberStatus) -> bool {
    let is_held_by_window = status == MemberStatus::Scheduled && rollout.window.is_some();
    needs_reach(rollout) && (status == MemberStatus::Waiting || is_held_by_window)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::{Lineage, PartitionId, Timestamp};
    use records::{PartitionHead, RolloutWork};
    use store::MemoryStore;

    use super::super::ActiveRollout;
    use super::*;
    use crate::kernel::fetch::FromStore;
    use crate::kernel::machine::StepTime;
    use crate::kernel::step_context::StepContext;
    use crate::registry::RegistryEffect;

    #[test]
    fn a_step_looks_at_so_many_pairs_and_the_next_goes_on() {
        let store = MemoryStore::new(Lineage(1), 1);
        let mut table = RolloutTable::load(&store, Duration::from_secs(60), 0).expect("readable");
        for incarnation in (0..3).map(Incarnation) {
            let rollout = Rollout::of("r", incarnation, RolloutWork::Entries(Vec::new()));
            let rollout = Arc::new(Rollout { include_later: true, ..rollout });
            let state = rollouts::begin(&rollout);
            table.live.insert(incarnation, ActiveRollout::new(rollout, state));
        }
        let device = |number| DeviceId::new(&format!("d{number}")).expect("an id");
        let (reply, mut told) = Reply::new();
        table.take_looks((0..1_000).map(|number| (device(number), DeviceLook::Came)).collect(), reply);
        let (fetch, head) = (FromStore::new(&store, PartitionId::REGISTRY), PartitionHead::default());
        let moment = StepTime { now: Timestamp(0), stamp: Timestamp(0), wall: Timestamp(0) };
        let mut counts = Vec::new();
        loop {
            let mut step = StepContext::new(PartitionId::REGISTRY, &head, moment, &fetch, ());
            let more = table.look_on(&mut step).expect("readable");
            let is_search = |effect: &&RegistryEffect| {
                matches!(effect, RegistryEffect::Rollouts(RolloutEffect::Search(_)))
            };
            counts.push(step.effects.iter().filter(is_search).count());
            let is_last = step.effects.len() > counts[counts.len() - 1];
            assert_eq!(is_last, !more, "whoever told of them is answered at the end");
            if !more {
                break;
            }
        }
        assert_eq!(counts, [LOOKS_PER_STEP, 1_000]);
        assert!(told.try_recv().is_err(), "once the step is durable");
    }
}
