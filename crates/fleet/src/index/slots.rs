//! The slots of some devices: a short list while they are few, then a roaring bitmap.
//!
//! A bitmap costs some two hundred bytes before its first slot. A fleet has thousands of values
//! that a handful of devices of a partition share.

use std::borrow::Cow;

use roaring::RoaringBitmap;
use smallvec::SmallVec;

/// Slots that are kept as a list at most: 4 bytes each, where a bitmap takes 2 and its own.
const LISTED_MAX: usize = 128;
/// So few are a list again: far below, so that one device that comes and goes changes nothing.
const LISTED_AGAIN: u64 = 64;
/// Bytes of a bitmap's container but for its slots, as roaring 0.11 has it.
const CONTAINER_BYTES: usize = 40;
/// Bytes of the slots of a container with a bit for each.
const DENSE_BYTES: usize = 8_192;

/// The slots of some devices.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SlotSet {
    /// In order.
    Listed(SmallVec<[u32; 4]>),
    /// As a bitmap.
    Bitmap(Box<RoaringBitmap>),
}

impl Default for SlotSet {
    fn default() -> Self {
        Self::Listed(SmallVec::new())
    }
}

impl SlotSet {
    pub(super) fn insert(&mut self, slot: u32) {
        match self {
            Self::Listed(slots) => {
                if let Err(at) = slots.binary_search(&slot) {
                    slots.insert(at, slot);
                }
                if slots.len() > LISTED_MAX {
                    *self = Self::of_sorted(slots);
                }
            }
            Self::Bitmap(slots) => drop(slots.insert(slot)),
        }
    }

    pub(super) fn remove(&mut self, slot: u32) {
        match self {
            Self::Listed(slots) => {
                if let Ok(at) = slots.binary_search(&slot) {
                    slots.remove(at);
                }
            }
            Self::Bitmap(slots) => {
                if slots.remove(slot) && slots.len() <= LISTED_AGAIN {
                    *self = Self::Listed(slots.iter().collect());
                }
            }
        }
    }

    pub(super) fn set(&mut self, slot: u32, is_in: bool) {
        if is_in { self.insert(slot) } else { self.remove(slot) }
    }

    pub(super) fn contains(&self, slot: u32) -> bool {
        match self {
            Self::Listed(slots) => slots.binary_search(&slot).is_ok(),
            Self::Bitmap(slots) => slots.contains(slot),
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Listed(slots) => slots.len() as u64,
            Self::Bitmap(slots) => slots.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        // A bitmap has more than `LISTED_AGAIN`.
        matches!(self, Self::Listed(slots) if slots.is_empty())
    }

    /// The slots in order.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match self {
            Self::Listed(slots) => Box::new(slots.iter().copied()),
            Self::Bitmap(slots) => Box::new(slots.iter()),
        }
    }

    pub(super) fn to_bitmap(&self) -> Cow<'_, RoaringBitmap> {
        match self {
            Self::Listed(slots) => Cow::Owned(bitmap_of(slots)),
            Self::Bitmap(slots) => Cow::Borrowed(slots),
        }
    }

    pub(super) fn add_to(&self, others: &mut RoaringBitmap) {
        match self {
            Self::Listed(slots) => others.extend(slots.iter().copied()),
            Self::Bitmap(slots) => *others |= &**slots,
        }
    }

    /// Those of these that are among others.
    pub(super) fn among(&self, others: &RoaringBitmap) -> RoaringBitmap {
        match self {
            Self::Listed(slots) => slots.iter().copied().filter(|slot| others.contains(*slot)).collect(),
            Self::Bitmap(slots) => &**slots & others,
        }
    }

    /// Those of these that are not among others.
    pub(super) fn without(&self, others: &Self) -> Self {
        Self::Bitmap(Box::new(self.to_bitmap().into_owned() - &*others.to_bitmap()))
    }

    /// How many of these are among others.
    pub(super) fn len_among(&self, others: &RoaringBitmap) -> u64 {
        match self {
            Self::Listed(slots) => slots.iter().filter(|slot| others.contains(**slot)).count() as u64,
            Self::Bitmap(slots) => slots.intersection_len(others),
        }
    }

    /// Adds a slot that is not among these, in whatever order. Before [`SlotSet::gathered`] nothing
    /// else may be done with the set.
    pub(super) fn gather(&mut self, slot: u32) {
        if let Self::Listed(slots) = self {
            slots.push(slot);
        }
    }

    /// All slots are gathered: takes no more memory than they need.
    pub(super) fn gathered(&mut self) {
        if let Self::Listed(slots) = self {
            slots.sort_unstable();
            if slots.len() > LISTED_MAX {
                *self = Self::of_sorted(slots);
            } else {
                slots.shrink_to_fit();
            }
        }
    }

    #[expect(clippy::redundant_clone, reason = "a copy of a bitmap has no room to grow into")]
    fn of_sorted(slots: &[u32]) -> Self {
        Self::Bitmap(Box::new(bitmap_of(slots).clone()))
    }

    /// Bytes of memory that it takes elsewhere.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Listed(slots) if slots.spilled() => slots.capacity() * size_of::<u32>(),
            Self::Listed(_) => 0,
            Self::Bitmap(slots) => {
                let known = slots.statistics();
                // It counts the slots of an array at 4 bytes each, which take 2.
                let arrays = known.n_bytes_array_containers as usize / 2;
                let dense = known.n_bitset_containers as usize * DENSE_BYTES;
                let containers = known.n_containers as usize * CONTAINER_BYTES;
                size_of::<RoaringBitmap>()
                    + containers
                    + arrays
                    + dense
                    + known.n_bytes_run_containers as usize
            }
        }
    }
}

fn bitmap_of(sorted: &[u32]) -> RoaringBitmap {
    RoaringBitmap::from_sorted_iter(sorted.iter().copied()).expect("a list of slots is in order")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_slots_are_a_list_and_many_a_bitmap() {
        let mut slots = SlotSet::default();
        for slot in (0..=LISTED_MAX as u32).rev() {
            slots.insert(slot * 3);
            slots.insert(slot * 3);
        }
        assert!(matches!(slots, SlotSet::Bitmap(_)) && slots.len() == LISTED_MAX as u64 + 1);
        for slot in (LISTED_AGAIN as u32..=LISTED_MAX as u32).rev() {
            assert!(slots.contains(slot * 3) && !slots.contains(slot * 3 + 1));
            slots.remove(slot * 3);
        }
        let expect: Vec<u32> = (0..LISTED_AGAIN as u32).map(|slot| slot * 3).collect();
        assert!(matches!(&slots, SlotSet::Listed(listed) if listed[..] == expect), "{slots:?}");
    }

    #[test]
    fn slots_that_are_gathered_are_as_those_that_are_inserted() {
        for count in [0, 3, 40, 5_000] {
            let (mut gathered, mut inserted) = (SlotSet::default(), SlotSet::default());
            for slot in 0..count {
                let slot = slot * 7_919 % 100_003;
                gathered.gather(slot);
                inserted.insert(slot);
            }
            gathered.gathered();
            assert_eq!(gathered, inserted, "{count}");
        }
    }
}
