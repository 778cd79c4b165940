//! The ids of devices by slot, close together: an id takes its length and three bytes.

/// Slots of a page.
const PAGE_SLOTS: usize = 256;

const _: () = assert!(
    PAGE_SLOTS * base::limits::DEVICE_ID_CHARS_MAX <= u16::MAX as usize,
    "where an id begins in a page is a u16"
);

/// The ids of devices by slot. A slot has one id and then none: slots are never used again.
#[derive(Debug, Default)]
pub(super) struct SlotIds {
    pages: Vec<Option<Box<IdPage>>>,
}

/// The ids of neighbouring slots. What an id took that is gone is free when the page is empty.
#[derive(Debug)]
struct IdPage {
    begins: [u16; PAGE_SLOTS],
    /// None has no length.
    lengths: [u8; PAGE_SLOTS],
    taken: u16,
    text: String,
}

impl SlotIds {
    pub(super) fn get(&self, slot: u32) -> Option<&str> {
        let (page, within) = place(slot);
        let page = self.pages.get(page)?.as_deref()?;
        let begin = usize::from(page.begins[within]);
        let length = usize::from(page.lengths[within]);
        page.text.get(begin..begin + length).filter(|id| !id.is_empty())
    }

    /// The id of a slot that never had one.
    pub(super) fn put(&mut self, slot: u32, id: &str) {
        let (at, within) = place(slot);
        if at >= self.pages.len() {
            self.pages.resize_with(at + 1, || None);
        }
        let page = self.pages[at].get_or_insert_with(Box::default);
        let begin = u16::try_from(page.text.len()).expect("a page has room for the longest ids");
        page.begins[within] = begin;
        page.lengths[within] = u8::try_from(id.len()).expect("an id has at most DEVICE_ID_CHARS_MAX");
        page.text.push_str(id);
        page.taken += 1;
        if usize::from(page.taken) == PAGE_SLOTS {
            page.text.shrink_to_fit();
        }
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let (at, within) = place(slot);
        let Some(Some(page)) = self.pages.get_mut(at) else { return };
        if std::mem::take(&mut page.lengths[within]) > 0 {
            page.taken -= 1;
            if page.taken == 0 {
                self.pages[at] = None;
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten();
        let held: usize = pages.map(|page| size_of::<IdPage>() + page.text.capacity()).sum();
        held + self.pages.capacity() * size_of::<Option<Box<IdPage>>>()
    }
}

impl Default for IdPage {
    fn default() -> Self {
        Self { begins: [0; PAGE_SLOTS], lengths: [0; PAGE_SLOTS], taken: 0, text: String::new() }
    }
}

fn place(slot: u32) -> (usize, usize) {
    (slot as usize / PAGE_SLOTS, slot as usize % PAGE_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_by_its_slot_until_it_is_removed() {
        let mut ids = SlotIds::default();
        let id = |slot: u32| format!("{slot:0>width$}", width = 1 + slot as usize % 64);
        let slots = (0..700).rev().filter(|slot| slot % 5 != 0);
        slots.clone().for_each(|slot| ids.put(slot, &id(slot)));
        ids.remove(0);
        for slot in slots.clone() {
            assert_eq!(ids.get(slot), Some(&*id(slot)));
        }
        for slot in slots.filter(|slot| *slot != 301) {
            ids.remove(slot);
            assert_eq!(ids.get(slot), None);
        }
        assert_eq!((ids.get(301), ids.get(300), ids.get(1_000)), (Some(&*id(301)), None, None));
        assert_eq!(ids.pages.iter().flatten().count(), 1, "an empty page is freed");
    }
}
