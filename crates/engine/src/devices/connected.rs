//! Which devices have live sessions of their own, as far as that is durable: what readers are
//! shown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use base::PartitionId;
use records::DeviceSlot;

/// A bit for each device, by partition.
#[derive(Debug)]
pub(crate) struct Connected {
    partitions: Box<[RwLock<Vec<u64>>]>,
    /// How many bits are set: nobody who asks has to look at them all.
    count: AtomicUsize,
}

impl Connected {
    pub(crate) fn new(partitions: u16) -> Self {
        let partitions = (0..partitions).map(|_| RwLock::default()).collect();
        Self { partitions, count: AtomicUsize::new(0) }
    }

    pub(crate) fn set(&self, partition: PartitionId, slot: DeviceSlot, is: bool) {
        let (word, bit) = place(slot);
        let Some(words) = self.partitions.get(usize::from(partition.0)) else { return };
        let mut words = words.write().unwrap_or_else(PoisonError::into_inner);
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        let was = words[word] & bit != 0;
        if is && !was {
            words[word] |= bit;
            self.count.fetch_add(1, Ordering::Relaxed);
        } else if was && !is {
            words[word] &= !bit;
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn contains(&self, partition: PartitionId, slot: DeviceSlot) -> bool {
        let (word, bit) = place(slot);
        let Some(words) = self.partitions.get(usize::from(partition.0)) else { return false };
        let words = words.read().unwrap_or_else(PoisonError::into_inner);
        words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The connected devices of a partition, in order.
    pub(crate) fn slots(&self, partition: PartitionId) -> Vec<DeviceSlot> {
        let Some(words) = self.partitions.get(usize::from(partition.0)) else { return Vec::new() };
        let words = words.read().unwrap_or_else(PoisonError::into_inner);
        let slots = words.iter().zip(0_u32..).flat_map(|(word, at)| {
            (0..u64::BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| DeviceSlot(at * 64 + bit))
        });
        slots.collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

fn place(slot: DeviceSlot) -> (usize, u64) {
    (slot.0 as usize / 64, 1 << (slot.0 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connected_devices_are_listed_in_order() {
        let (connected, here) = (Connected::new(2), PartitionId(1));
        for slot in [200, 3, 64, 63] {
            connected.set(here, DeviceSlot(slot), true);
        }
        connected.set(here, DeviceSlot(3), false);
        assert_eq!(connected.slots(here), [63, 64, 200].map(DeviceSlot));
        assert_eq!(connected.slots(PartitionId(0)), []);
        assert!(connected.contains(here, DeviceSlot(64)) && connected.count() == 3);
    }

    #[test]
    fn a_device_that_is_told_of_twice_counts_once() {
        let connected = Connected::new(2);
        for (partition, slot, is, expect) in [
            (0, 1, true, 1),
            (0, 1, true, 1),
            (1, 1, true, 2),
            (1, 700, false, 2),
            (0, 1, false, 1),
            (0, 1, false, 1),
        ] {
            connected.set(PartitionId(partition), DeviceSlot(slot), is);
            assert_eq!(connected.count(), expect, "{partition} {slot} {is}");
        }
    }
}
