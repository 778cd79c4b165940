//! Clients told again: of stale devices, whose newest notification has failed for good, and by hand
//! of all their devices.
//!
//! What is queued is an ordinary notification with the device's present picture; `types` and
//! `skipped` tell what was missed.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{EntityId, Incarnation};
use records::{DeviceSlot, Event, NotificationState};
use store::StoreError;

use super::{DevicePartition, DeviceStep, notification_state, pending};
use crate::devices::effect::DeviceEffect;
use crate::kernel::hashed::HashMap;

/// Devices that are told again of by one input: each touches a state, a job and a delivery.
const TOLD_PER_INPUT: usize = 200;

impl DevicePartition {
    /// The newest notification of a device to a client has failed for good.
    pub(super) fn becomes_stale(&mut self, slot: DeviceSlot, client: Incarnation, step: &mut DeviceStep<'_>) {
        let stale = self.stale.entry(client).or_default();
        stale.insert(slot);
        if stale.len() == 1 {
            step.emit(DeviceEffect::Stale(self.id, client, true));
        }
    }

    /// Something newer is on its way, or nobody wants to know any more.
    pub(super) fn is_no_longer_stale(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        step: &mut DeviceStep<'_>,
    ) {
        let Some(stale) = self.stale.get_mut(&client) else { return };
        stale.remove(&slot);
        if stale.is_empty() {
            self.stale.remove(&client);
            step.emit(DeviceEffect::Stale(self.id, client, false));
        }
    }

    /// After a load: says which clients are stale here.
    pub(super) fn announce_stale(&mut self, step: &mut DeviceStep<'_>) {
        if std::mem::take(&mut self.unannounced) {
            step.emit(DeviceEffect::AskAgain);
            step.effects.extend(self.stale.keys().map(|client| DeviceEffect::Stale(self.id, *client, true)));
        }
    }

    /// Queues a notification for stale devices of a client: for one, or for all, some at a time.
    pub(super) fn tell_stale(&mut self, client: Incarnation, probe: bool, step: &mut DeviceStep<'_>) {
        let max = if probe { 1 } else { TOLD_PER_INPUT };
        let stale = self.stale.get(&client).into_iter().flatten();
        let slots: Vec<DeviceSlot> = stale.copied().take(max).collect();
        for slot in slots {
            self.tell_again(slot, client, None, step);
        }
        if !self.stale.contains_key(&client) {
            // Also where there was none: whoever ordered this believed otherwise.
            step.emit(DeviceEffect::Stale(self.id, client, false));
        } else if !probe {
            step.emit(DeviceEffect::StaleGoOn(self.id, client));
        }
    }

    /// Queues a notification that no event caused. Its state must be there.
    pub(super) fn tell_again(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        resend_of: Option<EntityId>,
        step: &mut DeviceStep<'_>,
    ) {
        let Some(state) = self.notification_states.get(&(slot, client)) else { return };
        let device = self.state(slot);
        let told = (notification_state::newest_kind(state, &device), device.sequence);
        self.queue_notification(slot, client, told, resend_of, step);
    }

    /// Tells a client again of devices behind `after`, some at a time. Where to go on; `None` at
    /// the end.
    pub(super) fn resend(
        &mut self,
        client: Incarnation,
        after: Option<DeviceSlot>,
        step: &mut DeviceStep<'_>,
    ) -> Result<Option<DeviceSlot>, StoreError> {
        let devices = self.devices.behind(after);
        let linked = devices.filter(|(_, device)| self.groups.are_linked(device.group, client));
        let slots: Vec<DeviceSlot> = linked.map(|(slot, _)| slot).take(TOLD_PER_INPUT).collect();
        for slot in &slots {
            self.send_again(*slot, client, step)?;
        }
        Ok(slots.last().copied().filter(|_| slots.len() == TOLD_PER_INPUT))
    }

    fn send_again(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let state = self.notification_states.get(&(slot, client));
        if let Some(waiting) = state.and_then(|state| state.pending) {
            self.send_now(slot, client, waiting.delivery, step);
            return Ok(());
        }
        let flight = state.and_then(|state| state.in_flight.as_ref());
        if flight.is_some_and(|flight| !flight.is_cancelled()) {
            return Ok(());
        }
        if state.is_none_or(|state| state.untold.is_empty() && state.failed.is_none()) {
            let Some(event) = self.newest_event(slot, step)? else { return Ok(()) };
            self.notification_states.get_or_new((slot, client)).previous.clone_from(&event.previous);
        }
        self.tell_again(slot, client, None, step);
        Ok(())
    }

    /// A device's newest event, if it is kept.
    pub(super) fn newest_event(
        &self,
        slot: DeviceSlot,
        step: &DeviceStep<'_>,
    ) -> Result<Option<Arc<Event>>, StoreError> {
        self.pending.newest_events.get_or_read(&slot, || pending::newest_event(step.fetch, slot))
    }
}

/// Stale devices by client, from what was loaded.
pub(super) fn stale_devices<'a>(
    states: impl Iterator<Item = &'a NotificationState>,
) -> HashMap<Incarnation, BTreeSet<DeviceSlot>> {
    let mut stale = HashMap::<_, BTreeSet<_>>::default();
    for state in states.filter(|state| state.failed.is_some()) {
        stale.entry(state.client).or_default().insert(state.slot);
    }
    stale
}
