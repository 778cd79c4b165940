//! The indexes of all partitions of devices: which devices a selection means, and how many, as far
//! as that is durable.
//!
//! A partition changes its index by an effect, which is let go in front of the answers of its
//! batch. So whoever is answered finds what it was answered about. A partition that is loaded
//! brings its whole index. Readers hold the lock of one partition at a time, for the length of one
//! evaluation.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use base::locks::{read_locked, write_locked};
use base::{ClientId, DeviceId, Incarnation, PartitionId};
use fleet::Selection;
use fleet::index::{
    CountsByValue, DeviceSet, FleetIndex, IndexChange, KnownClients, RoaringBitmap, SelectionCount,
    ValueCount,
};
use fleet::selection::SelectionKey;
use records::{DevicePlace, DeviceProfile, DeviceSlot};

use crate::{ClientDirectory, LabelChanges};

/// The devices of all partitions by their attributes.
#[derive(Debug)]
pub struct FleetIndexes {
    directory: Arc<ClientDirectory>,
    partitions: Box<[RwLock<FleetIndex>]>,
    label_changes: Arc<LabelChanges>,
}

/// How many devices a selection means, also for each value of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetCounts {
    /// All of them.
    pub count: SelectionCount,
    /// The values that most have, most first.
    pub items: Vec<ValueCount>,
    /// There are more values.
    pub more: bool,
}

/// A value of a key, `None` for devices without it, and the devices that have it.
pub type DevicesOfValue = (Option<Box<str>>, DeviceSet);

type PartsByValue = BTreeMap<Option<Box<str>>, Vec<(PartitionId, RoaringBitmap)>>;

fn of_values(parts: PartsByValue) -> impl Iterator<Item = DevicesOfValue> {
    parts.into_iter().map(|(value, parts)| (value, parts.into_iter().collect()))
}

impl From<SelectionCount> for FleetCounts {
    fn from(count: SelectionCount) -> Self {
        Self { count, ..Self::default() }
    }
}

impl KnownClients for ClientDirectory {
    fn incarnation(&self, id: &str) -> Option<Incarnation> {
        self.by_id(&ClientId::new(id)?).map(|client| client.incarnation)
    }

    fn id(&self, client: Incarnation) -> Option<ClientId> {
        self.get(client).map(|client| client.id.clone())
    }
}

impl FleetIndexes {
    pub(crate) fn new(directory: Arc<ClientDirectory>, partitions: u16) -> Self {
        let partitions = (0..partitions).map(|_| RwLock::default()).collect();
        Self { directory, partitions, label_changes: Arc::new(LabelChanges::new()) }
    }

    /// For whoever remembers labels of devices.
    #[must_use]
    pub fn label_changes(&self) -> &Arc<LabelChanges> {
        &self.label_changes
    }

    /// The devices that a selection means. It takes up to some milliseconds for a fleet of a
    /// million.
    #[must_use]
    pub fn evaluate(&self, selection: &Selection) -> DeviceSet {
        self.each()
            .map(|(partition, index)| (partition, index.evaluate(selection, &*self.directory)))
            .collect()
    }

    /// The slots of a partition's devices that a selection means.
    #[must_use]
    pub fn evaluate_in(&self, partition: PartitionId, selection: &Selection) -> RoaringBitmap {
        self.read(partition)
            .map_or_else(RoaringBitmap::new, |index| index.evaluate(selection, &*self.directory))
    }

    /// How many devices a selection means.
    #[must_use]
    pub fn count(&self, selection: &Selection) -> SelectionCount {
        let mut count = SelectionCount::default();
        for (_, index) in self.each() {
            count += index.count(&index.evaluate(selection, &*self.directory));
        }
        count
    }

    /// How many devices a selection means, and how many for each value of a key; of at most so many
    /// values.
    #[must_use]
    pub fn count_by(&self, selection: &Selection, key: &SelectionKey, values_max: usize) -> FleetCounts {
        let (mut count, mut by_value) = (SelectionCount::default(), CountsByValue::default());
        for (_, index) in self.each() {
            let found = index.evaluate(selection, &*self.directory);
            count += index.count(&found);
            index.count_by(&found, key, &*self.directory, &mut by_value);
        }
        let (items, more) = by_value.most(values_max);
        FleetCounts { count, items, more }
    }

    /// Devices by the values of a key, those without it as `None`; only values that some have, in
    /// order. A device with several clients is there for each. `None` if there are more values than
    /// `values_max`.
    #[must_use]
    pub fn split_by(
        &self,
        devices: &DeviceSet,
        key: &SelectionKey,
        values_max: usize,
    ) -> Option<Vec<DevicesOfValue>> {
        let (mut parts, mut has_more) = (PartsByValue::new(), false);
        for (partition, slots) in devices.partitions() {
            let Some(index) = self.read(partition) else { continue };
            index.split_by(slots, key, &*self.directory, &mut |value, slots| {
                let value = value.map(Box::<str>::from);
                has_more |= parts.len() >= values_max && !parts.contains_key(&value);
                if !has_more {
                    parts.entry(value).or_default().push((partition, slots));
                }
            });
            if has_more {
                return None;
            }
        }
        Some(of_values(parts).collect())
    }

    /// Devices by those values of a key that most have, most first, those without it as `None`; and
    /// whether there are more values.
    #[must_use]
    pub fn split_by_most(
        &self,
        devices: &DeviceSet,
        key: &SelectionKey,
        values_max: usize,
    ) -> (Vec<DevicesOfValue>, bool) {
        let mut by_value = CountsByValue::default();
        for (partition, slots) in devices.partitions() {
            if let Some(index) = self.read(partition) {
                index.count_by(slots, key, &*self.directory, &mut by_value);
            }
        }
        let (items, more) = by_value.most(values_max);
        let mut parts: PartsByValue = items.into_iter().map(|item| (item.value, Vec::new())).collect();
        for (partition, slots) in devices.partitions() {
            let Some(index) = self.read(partition) else { continue };
            index.split_by(slots, key, &*self.directory, &mut |value, slots| {
                if let Some(part) = parts.get_mut(&value.map(Box::<str>::from)) {
                    part.push((partition, slots));
                }
            });
        }
        let mut values: Vec<_> = of_values(parts).filter(|(_, devices)| !devices.is_empty()).collect();
        values.sort_by_key(|(_, devices)| std::cmp::Reverse(devices.len()));
        (values, more)
    }

    /// Whether a selection means a device. One that is gone it does not.
    #[must_use]
    pub fn matches(&self, place: DevicePlace, selection: &Selection) -> bool {
        self.read(place.partition).is_some_and(|index| index.matches(place.slot, selection, &*self.directory))
    }

    /// The id of a device; `None` once it is gone. A place is never another device's.
    #[must_use]
    pub fn device_id(&self, place: DevicePlace) -> Option<DeviceId> {
        self.read(place.partition)?.device_id(place.slot)
    }

    /// The ids of devices that are still there.
    #[must_use]
    pub fn device_ids(&self, devices: &DeviceSet) -> Vec<(DeviceId, DevicePlace)> {
        let mut ids = Vec::new();
        for (partition, slots) in devices.partitions() {
            let Some(index) = self.read(partition) else { continue };
            let id = |slot| Some((index.device_id(slot)?, DevicePlace { partition, slot }));
            ids.extend(slots.iter().map(DeviceSlot).filter_map(id));
        }
        ids
    }

    /// Whether a device answers what it is asked; every one does until it is said otherwise.
    pub fn set_answering(&self, place: DevicePlace, is: bool) {
        self.apply(place.partition, &[IndexChange::Answering(place.slot, is)]);
    }

    /// Whether a device is known not to answer what it is asked.
    #[must_use]
    pub fn is_mute(&self, place: DevicePlace) -> bool {
        self.read(place.partition).is_some_and(|index| index.is_mute(place.slot))
    }

    /// Whether a session of a device lives.
    #[must_use]
    pub fn is_connected(&self, partition: PartitionId, slot: DeviceSlot) -> bool {
        self.read(partition).is_some_and(|index| index.is_connected(slot))
    }

    /// The devices of a partition with sessions of their own, in order.
    #[must_use]
    pub fn connected(&self, partition: PartitionId) -> Vec<DeviceSlot> {
        self.read(partition).map_or_else(Vec::new, |index| index.connected().collect())
    }

    /// How many devices have sessions of their own.
    #[must_use]
    pub fn connected_len(&self) -> u64 {
        self.each().map(|(_, index)| index.connected_len()).sum()
    }

    /// What the indexes take of memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.each().map(|(_, index)| index.bytes()).map(|(attributes, ids)| attributes + ids).sum()
    }

    /// What changed is durable.
    pub(crate) fn apply(&self, partition: PartitionId, changes: &[IndexChange]) {
        if let Some(mut index) = self.write(partition) {
            changes.iter().for_each(|change| index.apply(change));
        }
        changes.iter().filter_map(relabelled).for_each(|device| self.label_changes.note(device));
    }

    /// A partition was loaded. Sessions that live, and who is mute, it does not know.
    pub(crate) fn replace(&self, partition: PartitionId, mut loaded: FleetIndex) {
        if let Some(mut index) = self.write(partition) {
            loaded.go_on_from(&index);
            *index = loaded;
        }
    }

    fn each(&self) -> impl Iterator<Item = (PartitionId, RwLockReadGuard<'_, FleetIndex>)> {
        let partitions = (0..).map(PartitionId).zip(&self.partitions);
        partitions.map(|(id, index)| (id, read_locked(index)))
    }

    fn read(&self, partition: PartitionId) -> Option<RwLockReadGuard<'_, FleetIndex>> {
        let index = self.partitions.get(usize::from(partition.0))?;
        Some(read_locked(index))
    }

    fn write(&self, partition: PartitionId) -> Option<RwLockWriteGuard<'_, FleetIndex>> {
        let index = self.partitions.get(usize::from(partition.0))?;
        Some(write_locked(index))
    }
}

/// The device whose labels a change changes.
fn relabelled(change: &IndexChange) -> Option<&DeviceId> {
    let IndexChange::Profile { was, is } = change else { return None };
    let profile = is.as_ref().or(was.as_ref())?;
    (labels_of(was.as_deref()) != labels_of(is.as_deref())).then_some(&profile.id)
}

fn labels_of(profile: Option<&DeviceProfile>) -> &[(String, String)] {
    profile.map_or(&[], |profile| profile.labels.as_slice())
}

#[cfg(test)]
mod tests {
    use base::{Attended, Timestamp};
    use fleet::{NewDevice, Registration};

    use super::*;
    use crate::EngineSettings;

    /// One device of room 0, two of room 1, and so on.
    fn put(fleet: &FleetIndexes, slot: u32, room: u32) {
        let device = NewDevice {
            id: format!("d{slot}"),
            labels: Some(vec![("room".to_owned(), room.to_string())]),
            ..NewDevice::default()
        };
        let profile = device
            .check(&EngineSettings::for_tests().registry_rules())
            .expect("may be registered")
            .register(Registration {
                incarnation: Incarnation(u64::from(slot)),
                slot: DeviceSlot(slot),
                registered_at: Timestamp(0),
                expected_from: Attended(0),
            });
        let change = IndexChange::Profile { was: None, is: Some(Arc::new(profile)) };
        fleet.apply(PartitionId(slot as u16 % 2), &[change]);
    }

    #[test]
    fn devices_of_very_many_values_are_not_split_and_those_with_most_are_found() {
        let fleet = FleetIndexes::new(Arc::new(ClientDirectory::new()), 2);
        for (slot, room) in (0..4).flat_map(|room| (0..=room).map(move |_| room)).enumerate() {
            put(&fleet, u32::try_from(slot).expect("few"), room);
        }
        let (all, key) = (fleet.evaluate(&Selection::default()), SelectionKey::Label("room".into()));
        assert_eq!(fleet.split_by(&all, &key, 4).map(|values| values.len()), Some(4));
        assert_eq!(fleet.split_by(&all, &key, 3), None);
        let (values, more) = fleet.split_by_most(&all, &key, 2);
        let values: Vec<_> = values.iter().map(|(value, set)| (value.as_deref(), set.len())).collect();
        assert_eq!((values, more), (vec![(Some("3"), 4), (Some("2"), 3)], true));
    }
}
