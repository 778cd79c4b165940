//! The devices of a partition, by slot.
//!
//! Slots are dense but never used again, so devices lie in pages of neighbouring slots, and a page whose devices are
//! all gone is given back: a fleet that is replaced over and over does not grow.

use records::DeviceSlot;

use crate::device::Device;

/// Slots of a page.
const PAGE_SLOTS: usize = 256;

/// The devices.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pages: Vec<Option<Box<Page>>>,
}

#[derive(Debug)]
struct Page {
    /// How many of the slots are taken.
    taken: usize,
    slots: [Option<Device>; PAGE_SLOTS],
}

impl Roster {
    pub(crate) fn get(&self, slot: DeviceSlot) -> Option<&Device> {
        let (page, within) = place(slot);
        self.pages.get(page)?.as_ref()?.slots[within].as_ref()
    }

    fn get_mut(&mut self, slot: DeviceSlot) -> Option<&mut Device> {
        let (page, within) = place(slot);
        self.pages.get_mut(page)?.as_mut()?.slots[within].as_mut()
    }

    /// A device that the caller knows to be there.
    pub(crate) fn known(&self, slot: DeviceSlot) -> &Device {
        self.get(slot).expect("only slots of registered devices are named")
    }

    /// A device that the caller knows to be there.
    pub(crate) fn known_mut(&mut self, slot: DeviceSlot) -> &mut Device {
        self.get_mut(slot).expect("only slots of registered devices are named")
    }

    /// Adds a device; its slot must be free.
    pub(crate) fn put(&mut self, slot: DeviceSlot, device: Device) {
        assert!(slot.0 != u32::MAX, "the last number stands for nobody");
        let (page, within) = place(slot);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page]
            .get_or_insert_with(|| Box::new(Page { taken: 0, slots: [const { None }; PAGE_SLOTS] }));
        let before = page.slots[within].replace(device);
        assert!(before.is_none(), "a slot is given to one device, ever");
        page.taken += 1;
    }

    /// Takes a device away, if it is there.
    pub(crate) fn remove(&mut self, slot: DeviceSlot) {
        let (index, within) = place(slot);
        let Some(page) = self.pages.get_mut(index).and_then(Option::as_mut) else { return };
        if page.slots[within].take().is_some() {
            page.taken -= 1;
        }
        if page.taken == 0 {
            self.pages[index] = None;
        }
    }
}

fn place(slot: DeviceSlot) -> (usize, usize) {
    let slot = slot.0 as usize;
    (slot / PAGE_SLOTS, slot % PAGE_SLOTS)
}

#[cfg(test)]
mod tests {
    use base::{Attended, DeviceId, Incarnation, Kind, Timestamp};
    use records::{DeviceProfile, DeviceState};

    use super::*;

    impl Roster {
        /// Devices of no particular kind in the given slots.
        pub(crate) fn of(slots: impl IntoIterator<Item = u32>) -> Self {
            let mut roster = Self::default();
            for slot in slots.into_iter().map(DeviceSlot) {
                let profile = DeviceProfile {
                    id: DeviceId::new("0xA").expect("an id"),
                    incarnation: Incarnation(1),
                    slot,
                    kind: Kind::lock(),
                    address: None,
                    labels: Vec::new(),
                    report_interval_ms: None,
                    registered_at: Timestamp(0),
                    expected_from: Attended(0),
                    clients: Vec::new(),
                };
                roster.put(slot, Device::load(&profile, DeviceState::default(), None));
            }
            roster
        }
    }

    #[test]
    fn devices_are_found_in_their_slots() {
        let roster = Roster::of([0, 255, 256, 70_000]);
        let found: Vec<_> = (0..80_000).filter(|slot| roster.get(DeviceSlot(*slot)).is_some()).collect();
        assert_eq!(found, [0, 255, 256, 70_000]);
    }

    #[test]
    fn a_page_without_devices_is_given_back() {
        let mut roster = Roster::of(0..600);
        for slot in (0..256).chain(300..310) {
            roster.remove(DeviceSlot(slot));
            roster.remove(DeviceSlot(slot));
        }
        let in_use: Vec<_> = roster.pages.iter().map(Option::is_some).collect();
        assert_eq!(in_use, [false, true, true]);
    }
}
