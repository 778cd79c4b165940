//! The devices of a partition, by slot.

use records::{BySlot, DeviceSlot};

use crate::device::WatchedDevice;

/// The devices.
#[derive(Debug, Default)]
pub(crate) struct DeviceTable {
    devices: BySlot<WatchedDevice>,
}

impl DeviceTable {
    pub(crate) fn get(&self, slot: DeviceSlot) -> Option<&WatchedDevice> {
        self.devices.get(slot)
    }

    /// A device that the caller knows to be there.
    pub(crate) fn known(&self, slot: DeviceSlot) -> &WatchedDevice {
        self.get(slot).expect("only slots of registered devices are named")
    }

    /// A device that the caller knows to be there.
    pub(crate) fn known_mut(&mut self, slot: DeviceSlot) -> &mut WatchedDevice {
        self.devices.get_mut(slot).expect("only slots of registered devices are named")
    }

    /// Adds a device; its slot must be free.
    pub(crate) fn put(&mut self, slot: DeviceSlot, device: WatchedDevice) {
        assert!(slot.0 != u32::MAX, "the last number stands for nobody");
        let before = self.devices.put(slot, device);
        assert!(before.is_none(), "a slot is given to one device, ever");
    }

    /// Takes a device away, if it is there.
    pub(crate) fn remove(&mut self, slot: DeviceSlot) -> Option<WatchedDevice> {
        self.devices.remove(slot)
    }
}

#[cfg(test)]
mod tests {
    use base::{Attended, DeviceId, Incarnation, Kind, Timestamp};
    use records::{DeviceProfile, DeviceState, PaceOverride};

    use super::*;

    impl DeviceTable {
        /// Devices of no particular kind in the given slots.
        pub(crate) fn of(slots: impl IntoIterator<Item = u32>) -> Self {
            let mut devices = Self::default();
            for slot in slots.into_iter().map(DeviceSlot) {
                let profile = DeviceProfile {
                    id: DeviceId::new("0xA").expect("an id"),
                    incarnation: Incarnation(1),
                    slot,
                    kind: Kind::lock(),
                    address: None,
                    labels: Vec::new(),
                    report_interval_ms: None,
                    pace: PaceOverride::default(),
                    registered_at: Timestamp(0),
                    expected_from: Attended(0),
                    clients: Vec::new(),
                };
                devices.put(slot, WatchedDevice::load(&profile, DeviceState::default(), None));
            }
            devices
        }
    }
}
