//! Some devices of a fleet: the slots of each partition.

use base::PartitionId;
use records::{DevicePlace, DeviceSlot};
use roaring::RoaringBitmap;

/// Some devices, by partition. Two sets of the same devices are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceSet {
    /// In order; none is empty.
    partitions: Vec<(PartitionId, RoaringBitmap)>,
}

impl DeviceSet {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.partitions.iter().map(|(_, slots)| slots.len()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Whether a device is among them.
    #[must_use]
    pub fn contains(&self, place: DevicePlace) -> bool {
        self.of(place.partition).is_some_and(|slots| slots.contains(place.slot.0))
    }

    /// Those of a partition; `None` if it has none of them.
    #[must_use]
    pub fn of(&self, partition: PartitionId) -> Option<&RoaringBitmap> {
        let at = self.partitions.binary_search_by_key(&partition, |(id, _)| *id).ok()?;
        Some(&self.partitions[at].1)
    }

    /// Partitions in order, each with at least one device.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionId, &RoaringBitmap)> {
        self.partitions.iter().map(|(partition, slots)| (*partition, slots))
    }

    /// All, by partition and slot.
    pub fn places(&self) -> impl Iterator<Item = DevicePlace> {
        let places = |(partition, slots): (PartitionId, _)| {
            RoaringBitmap::iter(slots).map(move |slot| DevicePlace { partition, slot: DeviceSlot(slot) })
        };
        self.partitions().flat_map(places)
    }

    /// Adds a device.
    pub fn insert(&mut self, place: DevicePlace) {
        let at = match self.partitions.binary_search_by_key(&place.partition, |(id, _)| *id) {
            Ok(at) => at,
            Err(at) => {
                self.partitions.insert(at, (place.partition, RoaringBitmap::new()));
                at
            }
        };
        self.partitions[at].1.insert(place.slot.0);
    }

    /// Takes a device out.
    pub fn remove(&mut self, place: DevicePlace) {
        if let Ok(at) = self.partitions.binary_search_by_key(&place.partition, |(id, _)| *id) {
            self.partitions[at].1.remove(place.slot.0);
            self.drop_empty();
        }
    }

    /// Keeps only those that are among others, too.
    pub fn keep(&mut self, others: &Self) {
        for (partition, slots) in &mut self.partitions {
            match others.of(*partition) {
                Some(others) => *slots &= others,
                None => slots.clear(),
            }
        }
        self.drop_empty();
    }

    /// Takes others out.
    pub fn take_out(&mut self, others: &Self) {
        for (partition, slots) in &mut self.partitions {
            others.of(*partition).into_iter().for_each(|others| *slots -= others);
        }
        self.drop_empty();
    }

    fn drop_empty(&mut self) {
        self.partitions.retain(|(_, slots)| !slots.is_empty());
    }
}

impl FromIterator<(PartitionId, RoaringBitmap)> for DeviceSet {
    /// Each partition comes once.
    fn from_iter<I: IntoIterator<Item = (PartitionId, RoaringBitmap)>>(partitions: I) -> Self {
        let mut set = Self { partitions: partitions.into_iter().collect() };
        set.partitions.sort_unstable_by_key(|(partition, _)| *partition);
        set.drop_empty();
        set
    }
}

impl FromIterator<DevicePlace> for DeviceSet {
    fn from_iter<I: IntoIterator<Item = DevicePlace>>(places: I) -> Self {
        let mut set = Self::default();
        places.into_iter().for_each(|place| set.insert(place));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(partition: u16, slot: u32) -> DevicePlace {
        DevicePlace { partition: PartitionId(partition), slot: DeviceSlot(slot) }
    }

    #[test]
    fn sets_of_several_partitions_are_kept_and_taken_out() {
        let places = [(2, 7), (0, 3), (0, 1), (5, 9)].map(|(partition, slot)| place(partition, slot));
        let all: DeviceSet = places.into_iter().collect();
        let some: DeviceSet = [place(0, 3), place(1, 1), place(2, 8)].into_iter().collect();
        assert_eq!(all.places().collect::<Vec<_>>(), [place(0, 1), place(0, 3), place(2, 7), place(5, 9)]);
        let (mut kept, mut rest) = (all.clone(), all);
        kept.keep(&some);
        rest.take_out(&some);
        assert_eq!(kept, [place(0, 3)].into_iter().collect());
        assert_eq!(rest, [place(0, 1), place(2, 7), place(5, 9)].into_iter().collect());
        rest.remove(place(5, 9));
        assert!(rest.of(PartitionId(5)).is_none() && rest.len() == 2 && !rest.contains(place(5, 9)));
    }
}
