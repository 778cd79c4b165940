//! Sets of devices, as an index gives them: a bitmap of slots for each partition.

use base::PartitionId;
use records::{DevicePlace, DeviceSlot};
use roaring::RoaringBitmap;

/// Devices, by partition. Each partition is there at most once, in ascending order.
pub type DeviceSet = Vec<(PartitionId, RoaringBitmap)>;

/// How many devices a set has.
#[must_use]
pub fn len(set: &[(PartitionId, RoaringBitmap)]) -> u64 {
    set.iter().map(|(_, slots)| slots.len()).sum()
}

/// Whether a device is in the set.
#[must_use]
pub fn contains(set: &[(PartitionId, RoaringBitmap)], place: DevicePlace) -> bool {
    slots_of(set, place.partition).is_some_and(|slots| slots.contains(place.slot.0))
}

/// The slots of a partition.
#[must_use]
pub fn slots_of(set: &[(PartitionId, RoaringBitmap)], partition: PartitionId) -> Option<&RoaringBitmap> {
    let at = set.binary_search_by_key(&partition, |(partition, _)| *partition).ok()?;
    Some(&set[at].1)
}

/// The set of these devices.
#[must_use]
pub fn of_places(places: impl IntoIterator<Item = DevicePlace>) -> DeviceSet {
    let mut set = DeviceSet::new();
    for place in places {
        insert(&mut set, place);
    }
    set
}

/// Puts a device into the set. Whether it was not there.
pub fn insert(set: &mut DeviceSet, place: DevicePlace) -> bool {
    let at = match set.binary_search_by_key(&place.partition, |(partition, _)| *partition) {
        Ok(at) => at,
        Err(at) => {
            set.insert(at, (place.partition, RoaringBitmap::new()));
            at
        }
    };
    set[at].1.insert(place.slot.0)
}

/// Takes a device out of the set. Whether it was there.
pub fn remove(set: &mut DeviceSet, place: DevicePlace) -> bool {
    let Ok(at) = set.binary_search_by_key(&place.partition, |(partition, _)| *partition) else {
        return false;
    };
    let was_there = set[at].1.remove(place.slot.0);
    if set[at].1.is_empty() {
        set.remove(at);
    }
    was_there
}

/// Takes the devices of `others` out of the set.
pub fn subtract(set: &mut DeviceSet, others: &[(PartitionId, RoaringBitmap)]) {
    for (partition, slots) in set.iter_mut() {
        if let Some(others) = slots_of(others, *partition) {
            *slots -= others;
        }
    }
    set.retain(|(_, slots)| !slots.is_empty());
}

/// Puts the devices of `others` into the set.
pub fn unite(set: &mut DeviceSet, others: DeviceSet) {
    for (partition, slots) in others {
        match set.binary_search_by_key(&partition, |(partition, _)| *partition) {
            Ok(at) => set[at].1 |= slots,
            Err(at) => set.insert(at, (partition, slots)),
        }
    }
}

/// The devices that are in both sets.
#[must_use]
pub fn intersection(
    set: &[(PartitionId, RoaringBitmap)],
    other: &[(PartitionId, RoaringBitmap)],
) -> DeviceSet {
    let both =
        set.iter().filter_map(|(partition, slots)| Some((*partition, slots & slots_of(other, *partition)?)));
    both.filter(|(_, slots)| !slots.is_empty()).collect()
}

/// The devices, by partition and slot.
pub fn places(set: &[(PartitionId, RoaringBitmap)]) -> impl Iterator<Item = DevicePlace> {
    set.iter().flat_map(|(partition, slots)| {
        slots.iter().map(|slot| DevicePlace { partition: *partition, slot: DeviceSlot(slot) })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn place() -> impl Strategy<Value = DevicePlace> {
        (0..3_u16, 0..40_u32).prop_map(|(partition, slot)| DevicePlace {
            partition: PartitionId(partition),
            slot: DeviceSlot(slot),
        })
    }

    proptest! {
        #[test]
        fn a_set_is_what_a_set_of_places_is(
            some in proptest::collection::btree_set(place(), 0..60),
            others in proptest::collection::btree_set(place(), 0..60),
        ) {
            let of = |places: &BTreeSet<DevicePlace>| of_places(places.iter().copied());
            let plain = |set: &DeviceSet| places(set).collect::<BTreeSet<_>>();
            let set = of(&some);
            prop_assert_eq!(&plain(&set), &some);
            prop_assert_eq!(len(&set), some.len() as u64);
            prop_assert!(others.iter().all(|one| contains(&set, *one) == some.contains(one)));
            let mut without = set.clone();
            let removed = others.iter().filter(|one| remove(&mut without, **one)).count();
            prop_assert_eq!(removed, (&some & &others).len());
            prop_assert_eq!(plain(&without), &some - &others);
            let mut less = set.clone();
            subtract(&mut less, &of(&others));
            prop_assert_eq!(plain(&less), &some - &others);
            let mut all = set.clone();
            unite(&mut all, of(&others));
            prop_assert_eq!(plain(&all), &some | &others);
            prop_assert_eq!(plain(&intersection(&set, &of(&others))), &some & &others);
        }
    }
}
