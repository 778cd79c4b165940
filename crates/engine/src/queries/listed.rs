//! Whether a thing is among those that a list shows: the test of the list's filter for it alone.

use base::{DeviceId, Incarnation, Problem};
use records::{Delivery, DeviceSlot};

use super::{CommandFilter, DeliveryFilter, DeviceDetails, DeviceFilter, Queries, has_all, unreadable};
use crate::commands::TrackedCommand;

impl Queries {
    /// Whether [`Queries::devices`] shows this device now. Its refused reports are not looked for
    /// again: that would look at thousands of them for one device.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn lists_device(&self, filter: &DeviceFilter, device: &DeviceDetails) -> Result<bool, Problem> {
        let partition = self.partition_of(&device.profile.id);
        self.suits(filter, (partition, &*self.view(partition)?), &device.profile)
    }

    /// Whether [`Queries::deliveries`] shows this delivery now, at a time that is asked for.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn lists_delivery(&self, filter: &DeliveryFilter, delivery: &Delivery) -> Result<bool, Problem> {
        let is_to = |client| self.client(client).is_some_and(|known| known.incarnation == delivery.client);
        let linked = filter.is_label_of_linked.then_some(delivery.client);
        let of = (filter.device.as_ref(), filter.labels.as_slice(), linked);
        Ok(filter.client.as_ref().is_none_or(is_to)
            && filter.status.is_none_or(|status| delivery.progress.status == status)
            && self.is_of(of, (&delivery.device, delivery.slot))?)
    }

    /// Whether [`Queries::commands`] shows this command now, at a time that is asked for.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn lists_command(&self, filter: &CommandFilter, tracked: &TrackedCommand) -> Result<bool, Problem> {
        let TrackedCommand { command, state } = tracked;
        let of = (filter.device.as_ref(), filter.labels.as_slice(), None);
        Ok(filter.is_met_by(command, state) && self.is_of(of, (&command.device, command.slot))?)
    }

    /// Whether something of `owner` is of that device, and of one with these labels. A device
    /// counts by labels only while it is linked to that client.
    fn is_of(
        &self,
        (device, labels, linked): (Option<&DeviceId>, &[(String, String)], Option<Incarnation>),
        (owner, slot): (&DeviceId, DeviceSlot),
    ) -> Result<bool, Problem> {
        if device.is_none() && labels.is_empty() {
            return Ok(true);
        }
        let profile = self.view(self.partition_of(owner))?.device(owner).map_err(unreadable)?;
        Ok(profile.is_some_and(|profile| {
            // One that was registered anew has a place of its own.
            device.is_none_or(|device| device == owner && profile.slot == slot)
                && has_all(&profile, labels)
                && (labels.is_empty() || linked.is_none_or(|client| profile.clients.contains(&client)))
        }))
    }
}
