//! Rollouts, and what devices that come mean to them.

use base::DeviceId;

use super::Engine;
use crate::Rollouts;
use crate::devices::sessions::PresenceChange;
use crate::kernel::partition_handle::PartitionHandle;
use crate::registry::RegistryInput;
use crate::rollouts::DeviceLook;

impl Engine {
    /// The calls about rollouts.
    #[must_use]
    pub fn rollouts(&self) -> Rollouts {
        Rollouts::new(self.clone())
    }

    pub(crate) fn registry(&self) -> &PartitionHandle<RegistryInput> {
        &self.shared.registry
    }

    /// Has places named by these labels, in this order. There is one such order: a second is not
    /// taken.
    pub fn name_places_by(&self, labels: Vec<String>) {
        let _there_is_one = self.shared.place_labels.set(labels);
    }

    /// The labels that the segments of a place are.
    #[must_use]
    pub fn place_labels(&self) -> &[String] {
        self.shared.place_labels.get().map_or(&[], Vec::as_slice)
    }

    /// A device polls: it takes what it is given now.
    pub(crate) fn device_polls(&self, device: &DeviceId) {
        self.shared.context.rollouts.look_at(device, DeviceLook::Came);
    }

    /// Tells rollouts which devices can be reached from now on.
    pub(super) fn tell_rollouts_who_came(&self, change: &PresenceChange) {
        let rollouts = &self.shared.context.rollouts;
        match change {
            PresenceChange::Reaches(device, _, Some(_)) => rollouts.look_at(device, DeviceLook::Came),
            PresenceChange::ReachesWidely(_, reach) if !reach.is_empty() => rollouts.look_again(),
            PresenceChange::Connected(..)
            | PresenceChange::Disconnected(..)
            | PresenceChange::Reaches(..)
            | PresenceChange::ReachesWidely(..) => {}
        }
    }
}
