//! One record in memory for each of some devices, found by the device's place.

use std::collections::BTreeMap;

use base::PartitionId;
use records::{BySlot, DevicePlace};

/// A record for each of some devices.
#[derive(Clone, Debug)]
pub(crate) struct ByPlace<T>(BTreeMap<PartitionId, BySlot<T>>);

impl<T> Default for ByPlace<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> ByPlace<T> {
    pub(crate) fn get(&self, place: DevicePlace) -> Option<&T> {
        self.0.get(&place.partition)?.get(place.slot)
    }

    /// The records of a partition, where many of them are asked for.
    pub(crate) fn partition(&self, partition: PartitionId) -> Option<&BySlot<T>> {
        self.0.get(&partition)
    }

    pub(crate) fn put(&mut self, place: DevicePlace, record: T) -> Option<T> {
        self.0.entry(place.partition).or_default().put(place.slot, record)
    }

    pub(crate) fn remove(&mut self, place: DevicePlace) -> Option<T> {
        self.0.get_mut(&place.partition)?.remove(place.slot)
    }
}
