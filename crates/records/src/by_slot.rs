//! One record in memory for each device, found by the device's slot.
//!
//! Slots are dense and never used again, so records lie in pages of neighbouring slots. An empty
//! page is freed: replacing a fleet again and again does not grow memory. A freed page leaves one
//! [`SlotPage`], 16 bytes for 128 slots.

use crate::DeviceSlot;

/// Slots of a page. Its records are one allocation: 8 KiB for the largest, of 64 bytes each. To one
/// of more than 14 KiB jemalloc adds a page of 4 KiB.
const PAGE_SLOTS: usize = 128;

/// A record for each of some slots, in order of slot.
#[derive(Clone, Debug)]
pub struct BySlot<T> {
    pages: Vec<SlotPage<T>>,
}

#[derive(Clone, Debug)]
struct SlotPage<T> {
    /// How many of the slots are taken.
    taken: usize,
    slots: Option<Box<[Option<T>; PAGE_SLOTS]>>,
}

impl<T> Default for BySlot<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T> BySlot<T> {
    /// The record of a slot.
    #[must_use]
    pub fn get(&self, slot: DeviceSlot) -> Option<&T> {
        let (page, within) = place(slot);
        self.pages.get(page)?.slots.as_ref()?[within].as_ref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, slot: DeviceSlot) -> Option<&mut T> {
        let (page, within) = place(slot);
        self.pages.get_mut(page)?.slots.as_mut()?[within].as_mut()
    }

    /// Puts a record into a slot; the one that was there before.
    pub fn put(&mut self, slot: DeviceSlot, record: T) -> Option<T> {
        self.place_for(slot).replace(record)
    }

    /// The record of a slot, to be changed; a default one if there was none.
    pub fn get_or_default(&mut self, slot: DeviceSlot) -> &mut T
    where
        T: Default,
    {
        self.place_for(slot).get_or_insert_default()
    }

    /// The place of a record that is there from now on.
    fn place_for(&mut self, slot: DeviceSlot) -> &mut Option<T> {
        let (page, within) = place(slot);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || SlotPage { taken: 0, slots: None });
        }
        let SlotPage { taken, slots } = &mut self.pages[page];
        let place = &mut slots.get_or_insert_with(|| Box::new([const { None }; PAGE_SLOTS]))[within];
        *taken += usize::from(place.is_none());
        place
    }

    /// Takes the record of a slot out.
    pub fn remove(&mut self, slot: DeviceSlot) -> Option<T> {
        let (page, within) = place(slot);
        let page = self.pages.get_mut(page)?;
        let record = page.slots.as_mut()?[within].take()?;
        page.taken -= 1;
        if page.taken == 0 {
            page.slots = None;
        }
        Some(record)
    }

    /// The records behind `after` with their slots, in order of slot.
    pub fn behind(&self, after: Option<DeviceSlot>) -> impl Iterator<Item = (DeviceSlot, &T)> {
        let first = after.map_or(0, |slot| slot.0 as usize + 1);
        let pages = self.pages.iter().enumerate().skip(first / PAGE_SLOTS);
        let slots = pages
            .filter_map(|(page, SlotPage { slots, .. })| Some((page * PAGE_SLOTS..).zip(slots.as_deref()?)));
        let behind = slots.flatten().skip_while(move |(slot, _)| *slot < first);
        behind.filter_map(|(slot, record)| Some((DeviceSlot(slot as u32), record.as_ref()?)))
    }
}

fn place(slot: DeviceSlot) -> (usize, usize) {
    let slot = slot.0 as usize;
    (slot / PAGE_SLOTS, slot % PAGE_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(slots: impl IntoIterator<Item = u32>) -> BySlot<u32> {
        let mut by_slot = BySlot::default();
        for slot in slots {
            assert_eq!(by_slot.put(DeviceSlot(slot), slot), None);
        }
        by_slot
    }

    #[test]
    fn records_are_found_in_their_slots() {
        let slots = [0, 127, 128, 70_000];
        let mut by_slot = of(slots);
        let found: Vec<_> = (0..80_000).filter_map(|slot| by_slot.get(DeviceSlot(slot))).collect();
        assert_eq!(found, [&0, &127, &128, &70_000]);
        for (after, expect) in
            [(None, &slots[..]), (Some(0), &slots[1..]), (Some(127), &slots[2..]), (Some(70_000), &[])]
        {
            let behind: Vec<_> = by_slot.behind(after.map(DeviceSlot)).collect();
            let expect: Vec<_> = expect.iter().map(|slot| (DeviceSlot(*slot), slot)).collect();
            assert_eq!(behind, expect, "behind {after:?}");
        }
        *by_slot.get_mut(DeviceSlot(128)).expect("is there") = 7;
        assert_eq!(by_slot.put(DeviceSlot(128), 8), Some(7));
        assert_eq!((by_slot.remove(DeviceSlot(128)), by_slot.remove(DeviceSlot(128))), (Some(8), None));
        *by_slot.get_or_default(DeviceSlot(128)) += 5;
        *by_slot.get_or_default(DeviceSlot(128)) += 4;
        assert_eq!((by_slot.remove(DeviceSlot(128)), by_slot.remove(DeviceSlot(128))), (Some(9), None));
        let behind: Vec<_> = by_slot.behind(Some(DeviceSlot(150))).map(|(_, record)| *record).collect();
        assert_eq!(behind, [70_000], "from the middle of a page that is gone");
    }

    #[test]
    fn a_page_without_records_is_given_back() {
        let mut by_slot = of(0..300);
        for slot in (0..128).chain(150..160) {
            by_slot.remove(DeviceSlot(slot));
            by_slot.remove(DeviceSlot(slot));
        }
        let in_use: Vec<_> = by_slot.pages.iter().map(|page| page.slots.is_some()).collect();
        assert_eq!(in_use, [false, true, true]);
    }

    #[test]
    fn a_fleet_that_is_replaced_over_and_over_takes_the_pages_of_one() {
        let mut by_slot = BySlot::default();
        for slot in 0..100_000 {
            by_slot.put(DeviceSlot(slot), slot);
            if let Some(gone) = slot.checked_sub(1_000) {
                by_slot.remove(DeviceSlot(gone));
            }
        }
        let pages = by_slot.pages.iter().filter(|page| page.slots.is_some()).count();
        assert!(pages <= 1_000 / PAGE_SLOTS + 2, "{pages}");
    }
}
