//! Which devices have live sessions of their own, as far as that is durable: what readers are
//! shown.

use std::sync::{PoisonError, RwLock};

use base::PartitionId;
use records::DeviceSlot;

/// A bit for each device, by partition.
#[derive(Debug)]
pub(crate) struct Connected {
    partitions: Box<[RwLock<Vec<u64>>]>,
}

impl Connected {
    pub(crate) fn new(partitions: u16) -> Self {
        Self { partitions: (0..partitions).map(|_| RwLock::default()).collect() }
    }

    pub(crate) fn set(&self, partition: PartitionId, slot: DeviceSlot, is: bool) {
        let (word, bit) = place(slot);
        let Some(words) = self.partitions.get(usize::from(partition.0)) else { return };
        let mut words = words.write().unwrap_or_else(PoisonError::into_inner);
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        if is {
            words[word] |= bit;
        } else {
            words[word] &= !bit;
        }
    }

    pub(crate) fn contains(&self, partition: PartitionId, slot: DeviceSlot) -> bool {
        let (word, bit) = place(slot);
        let Some(words) = self.partitions.get(usize::from(partition.0)) else { return false };
        let words = words.read().unwrap_or_else(PoisonError::into_inner);
        words.get(word).is_some_and(|word| word & bit != 0)
    }

    pub(crate) fn count(&self) -> usize {
        let ones = |words: &RwLock<Vec<u64>>| {
            let words = words.read().unwrap_or_else(PoisonError::into_inner);
            words.iter().map(|word| word.count_ones() as usize).sum::<usize>()
        };
        self.partitions.iter().map(ones).sum()
    }
}

fn place(slot: DeviceSlot) -> (usize, u64) {
    (slot.0 as usize / 64, 1 << (slot.0 % 64))
}
