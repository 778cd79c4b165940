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
