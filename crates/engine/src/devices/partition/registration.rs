//! Devices come, change and go; so do their links.

use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation, Problem};
use fleet::index::IndexChange;
use fleet::{CheckedDevice, DevicePatch, Linked};
use records::{
    DeliveryStatus, DeviceProfile, DeviceSlot, Flight, Happening, JobPurpose, NotificationState, Op,
    PendingDelivery,
};
use store::StoreError;

use super::{DevicePartition, DeviceStep, notification_state};
use crate::devices::effect::DeviceEffect;
use crate::devices::input::LinkedClient;
use crate::kernel::reply::InputFailure;
use crate::queries::DeviceDetails;
use crate::refusals::unknown_device;
use crate::version::{ObjectVersion, OnlyIf};

/// Devices that one sweep unlinks: each touches a profile, a state, a job and a delivery.
const SWEPT_PER_INPUT: usize = 200;

impl DevicePartition {
    pub(super) fn create_device(
        &mut self,
        device: CheckedDevice,
        step: &mut DeviceStep<'_>,
    ) -> Result<DeviceDetails, Problem> {
        if self.devices.slot_of(device.id()).is_some() {
            let detail = format!("device {} is registered already; PATCH changes it", device.id());
            return Err(Problem::conflict("exists", detail));
        }
        self.devices.check_room(device.kind())?;
        let profile = device.register(self.registration(step));
        self.add_device(&profile, step);
        Ok(self.shown(profile))
    }

    pub(super) fn patch_device(
        &mut self,
        id: &DeviceId,
        patch: DevicePatch,
        only_if: &OnlyIf,
        step: &mut DeviceStep<'_>,
    ) -> Result<DeviceDetails, InputFailure> {
        let present = self.profile(id, step)?;
        only_if.check(ObjectVersion::of_device(&present))?;
        let profile = patch.merged(&present)?;
        if profile != *present {
            self.put_changed(present, &profile, step)?;
        }
        Ok(self.shown(profile))
    }

    pub(super) fn delete_device(
        &mut self,
        id: &DeviceId,
        only_if: &OnlyIf,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), InputFailure> {
        let present = self.profile(id, step)?;
        only_if.check(ObjectVersion::of_device(&present))?;
        let slot = present.slot;
        let device = self.devices.remove(slot);
        step.own.left_groups.extend(device.map(|device| device.group));
        for client in &present.clients {
            self.cancel_notifications(slot, *client, step);
        }
        self.forget_attempts(slot, step);
        self.watch.forget(slot);
        self.forget_commands(slot, id, step);
        step.emit(DeviceEffect::DeviceChanged(id.clone()));
        self.addresses.remove(&slot);
        step.push(Op::DeleteDevice(id.clone(), slot));
        self.pending.profiles.put(step.seq, id.clone(), None);
        step.own.indexed.push(IndexChange::Profile { was: Some(present), is: None });
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        id: &DeviceId,
        client: LinkedClient,
        linked: bool,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), InputFailure> {
        let present = self.profile(id, step)?;
        let mut profile = (*present).clone();
        let changed = if linked {
            fleet::link(&mut profile, client.incarnation)? == Linked::Added
        } else {
            fleet::unlink(&mut profile, client.incarnation)
        };
        if !changed {
            return Ok(());
        }
        if !linked {
            self.cancel_notifications(profile.slot, client.incarnation, step);
        }
        let happening = Happening::Link { client: client.id.clone(), linked };
        self.put_timeline(profile.slot, happening, step);
        if linked {
            self.clients.insert(client.incarnation, client.id);
        }
        self.put_links(present, &profile, step);
        Ok(())
    }

    /// Unlinks a client that is gone from some devices. Whether there are more.
    pub(super) fn sweep(
        &mut self,
        client: Incarnation,
        step: &mut DeviceStep<'_>,
    ) -> Result<bool, StoreError> {
        let linked = self.devices.iter().filter(|device| self.groups.are_linked(device.group, client));
        let mut ids: Vec<DeviceId> =
            linked.take(SWEPT_PER_INPUT + 1).map(|device| device.id.clone()).collect();
        let more = ids.len() > SWEPT_PER_INPUT;
        ids.truncate(SWEPT_PER_INPUT);
        for id in ids {
            let Some(present) = self.stored_profile(&id, step)? else { continue };
            let mut profile = (*present).clone();
            if fleet::unlink(&mut profile, client) {
                self.cancel_notifications(profile.slot, client, step);
                self.put_links(present, &profile, step);
            }
        }
        if !more {
            self.clients.remove(&client);
        }
        Ok(more)
    }

    /// Nothing more is told to this client of this device. An attempt under way cannot be called
    /// back. It is recorded when it ends, and what is told after a new link waits for that.
    pub(super) fn cancel_notifications(
        &mut self,
        slot: DeviceSlot,
        client: Incarnation,
        step: &mut DeviceStep<'_>,
    ) {
        let Some(state) = self.notification_states.remove(&(slot, client)) else { return };
        let left = notification_state::cancelled(&state);
        if left.is_none() || state.pending.is_some() {
            self.cancel_job(slot, client, step);
        }
        let flight = state.in_flight.filter(|flight| !flight.is_cancelled());
        let newest = state.pending.or(state.failed).map(|waiting| waiting.delivery);
        if let Some(newest) = newest.or(flight.map(|flight| flight.delivery)) {
            self.pending.newest_cancelled.put(step.seq, (slot, client), Some(newest));
        }
        if let Some(failed) = state.failed {
            step.push(Op::DeleteJob(NotificationState::body_of_failed(failed.delivery)));
            self.is_no_longer_stale(slot, client, step);
        }
        if let Some(PendingDelivery { delivery, attempts }) = state.pending {
            self.delivery_ended(slot, delivery, (DeliveryStatus::Cancelled, attempts), step);
        }
        if let Some(left) = left {
            step.push(Op::PutNotificationState(Box::new(left.clone())));
            self.notification_states.insert((slot, client), left);
        } else {
            step.push(Op::DeleteNotificationState(slot, client));
        }
    }

    /// Takes a job of a device and a client away: the one that waits behind an attempt under way,
    /// if there is one.
    pub(super) fn cancel_job(&mut self, slot: DeviceSlot, client: Incarnation, step: &mut DeviceStep<'_>) {
        let purpose = JobPurpose::Notification(slot, client);
        if let Some(job) = self.jobs.by_alias(purpose.line().key(), purpose.alias()) {
            self.jobs.cancel(job.id, &mut step.jobs());
        }
    }

    /// The device is deleted. An attempt under way at what was cancelled will not be recorded, so
    /// it is not counted.
    fn forget_attempts(&mut self, slot: DeviceSlot, step: &mut DeviceStep<'_>) {
        for client in self.notification_states.clients_with_cancelled_attempt(slot) {
            let flight = self.notification_states.remove(&(slot, client)).and_then(|state| state.in_flight);
            let Some(Flight { delivery, attempts, .. }) = flight else { continue };
            self.cancel_job(slot, client, step);
            self.delivery_ended(slot, delivery, (DeliveryStatus::Cancelled, attempts - 1), step);
            step.push(Op::DeleteNotificationState(slot, client));
        }
    }

    /// A registered device's profile, or the refusal that it is not registered.
    pub(super) fn profile(
        &self,
        id: &DeviceId,
        step: &DeviceStep<'_>,
    ) -> Result<Arc<DeviceProfile>, InputFailure> {
        if self.devices.slot_of(id).is_none() {
            return Err(unknown_device(id).into());
        }
        Ok(self.stored_profile(id, step)?.ok_or_else(|| unknown_device(id))?)
    }

    pub(super) fn stored_profile(
        &self,
        id: &DeviceId,
        step: &DeviceStep<'_>,
    ) -> Result<Option<Arc<DeviceProfile>>, StoreError> {
        self.pending.profiles.get_or_read(id, || Ok(step.fetch.view()?.device(id)?.map(Arc::new)))
    }

    /// The id of a linked client; the text of its number if it was never known, which no link
    /// allows.
    pub(super) fn client_id(&self, client: Incarnation) -> ClientId {
        self.clients
            .get(&client)
            .cloned()
            .unwrap_or_else(|| ClientId::new(&client.0.to_string()).expect("digits may be in a client id"))
    }

    pub(super) fn put_links(
        &mut self,
        was: Arc<DeviceProfile>,
        profile: &DeviceProfile,
        step: &mut DeviceStep<'_>,
    ) {
        if let Some(device) = self.devices.get_mut(profile.slot) {
            let group = self.groups.enter(profile);
            step.own.left_groups.push(std::mem::replace(&mut device.group, group));
        }
        self.put_profile(Some(was), profile, step);
    }

    pub(super) fn put_profile(
        &mut self,
        was: Option<Arc<DeviceProfile>>,
        profile: &DeviceProfile,
        step: &mut DeviceStep<'_>,
    ) {
        self.addresses.remove(&profile.slot);
        if let Some(device) = self.devices.get_mut(profile.slot) {
            device.has_address = profile.address.is_some();
        }
        let is = Arc::new(profile.clone());
        self.pending.profiles.put(step.seq, profile.id.clone(), Some(Arc::clone(&is)));
        step.own.indexed.push(IndexChange::Profile { was, is: Some(is) });
        step.push(Op::PutDevice(Box::new(profile.clone())));
        step.emit(DeviceEffect::DeviceChanged(profile.id.clone()));
    }

    /// The device as a caller sees it.
    fn shown(&self, profile: DeviceProfile) -> DeviceDetails {
        let (state, seen) = (self.state(profile.slot), self.watch.seen(profile.slot));
        let connected = self.is_connected(&profile.id);
        DeviceDetails { profile, state, seen, connected }
    }
}
