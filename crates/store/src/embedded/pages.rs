//! Pages under checksums: the file of the tables, so that no damaged byte is ever taken for data.
//!
//! The tables' library keeps checksums of its own, but looks at them only when it repairs. So what
//! it sees as one flat file of pages lies here in a file with a checksum for every page, verified
//! at every read. What the library needs of its file stays true: pages are written as they are, and
//! a checksum is durable when its page is. A torn write of a page of checksums is harmless, because
//! the library never overwrites a page that it still needs.
//!
//! ```text
//! file    head, head copy, then groups: one page of checksums, 1,024 pages of data
//! head    two slots of 512 bytes, each also in the head copy: magic, format, number of the write
//!         (8 bytes), the first 488 bytes of the library's file, CRC-32C
//! checksum  CRC-32C of the page's number and bytes; 0 for a page that was never written, which
//!           reads as zeros
//! ```
//!
//! The library overwrites its own head in place. So that head goes to the slot that is not durable
//! yet, twice. A torn write falls back to the other slot, and one damaged byte leaves the other
//! copy.

mod head;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use blocklog::DiskFile;

use super::locks::locked;
use head::PageHead;

/// Bytes of a page, the library's and ours.
pub(super) const PAGE: usize = 4_096;
/// Pages of data in a group: as many as one page holds checksums.
const GROUP: u64 = (PAGE / CHECKSUM) as u64;
const CHECKSUM: usize = 4;
/// Pages of the head, before the first group.
const HEAD_PAGES: u64 = 2;
/// Most pages of checksums kept in memory: enough for a file of a gigabyte; more are read again.
const GROUPS_KEPT_MAX: usize = 256;

/// A flat file of pages; offsets and lengths are those that the library knows.
pub(super) struct CheckedPages {
    file: Arc<dyn DiskFile>,
    name: String,
    state: Mutex<PagesState>,
}

struct PagesState {
    head: PageHead,
    checksums: HashMap<u64, Checksums>,
}

/// The checksums of a group.
struct Checksums {
    page: Box<[u8; PAGE]>,
    is_dirty: bool,
}

impl Checksums {
    fn of(&self, index: usize) -> u32 {
        let at = index * CHECKSUM;
        u32::from_le_bytes([self.page[at], self.page[at + 1], self.page[at + 2], self.page[at + 3]])
    }

    fn set(&mut self, index: usize, checksum: u32) {
        self.page[index * CHECKSUM..][..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        self.is_dirty = true;
    }
}

/// A page that is not what was written.
#[derive(Debug, thiserror::Error)]
#[error("{file} is damaged at offset {offset}: {what}")]
pub(super) struct DamagedPage {
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) what: &'static str,
}

/// Where a page of data is: its own page of the file, and its checksum.
#[derive(Clone, Copy)]
struct PagePlace {
    group: u64,
    index: usize,
}

impl PagePlace {
    /// `page` is not the head.
    fn of(page: u64) -> Self {
        Self { group: (page - 1) / GROUP, index: ((page - 1) % GROUP) as usize }
    }

    fn checksums_offset(group: u64) -> u64 {
        (HEAD_PAGES + group * (GROUP + 1)) * PAGE as u64
    }

    fn offset(self) -> u64 {
        Self::checksums_offset(self.group) + (1 + self.index as u64) * PAGE as u64
    }
}

/// Pages of the file for so many pages of the library.
fn pages_of_file(pages: u64) -> u64 {
    match pages.checked_sub(1) {
        None => 0,
        Some(data) => HEAD_PAGES + data + data.div_ceil(GROUP),
    }
}

/// Pages of the library in so many pages of the file.
fn pages_in_file(pages: u64) -> u64 {
    match pages.checked_sub(HEAD_PAGES) {
        None => 0,
        Some(rest) => 1 + rest / (GROUP + 1) * GROUP + (rest % (GROUP + 1)).saturating_sub(1),
    }
}

/// Never 0, which stands for a page that was never written.
fn checksum_of(page: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&page.to_le_bytes()), bytes).max(1)
}

impl CheckedPages {
    /// Takes `file`, empty or written by an earlier one of these.
    pub(super) fn open(file: Arc<dyn DiskFile>, name: String) -> io::Result<Self> {
        let head = PageHead::read(&*file, &name)?;
        let state = PagesState { head, checksums: HashMap::new() };
        Ok(Self { file, name, state: Mutex::new(state) })
    }

    /// Bytes of the file itself.
    pub(super) fn file_bytes(&self) -> io::Result<u64> {
        self.file.len()
    }

    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(pages_in_file(self.file.len()? / PAGE as u64) * PAGE as u64)
    }

    /// Cuts the file or extends it with zeros.
    pub(super) fn set_len(&self, len: u64) -> io::Result<()> {
        let page = PAGE as u64;
        if !len.is_multiple_of(page) {
            return Err(unaligned());
        }
        let pages = len / page;
        let mut state = locked(&self.state);
        if pages < self.len()? / page {
            self.forget_from(&mut state, pages)?;
        }
        self.file.set_len(pages_of_file(pages) * page)
    }

    /// Pages from `pages` on are gone, and read as zeros when they come back.
    fn forget_from(&self, state: &mut PagesState, pages: u64) -> io::Result<()> {
        let first = PagePlace::of(pages.max(1));
        state.checksums.retain(|group, _| *group <= first.group);
        let checksums = self.checksums(state, first.group)?;
        (first.index..GROUP as usize).for_each(|index| checksums.set(index, 0));
        if first.index == 0 {
            // nothing of its group is left in the file
            state.checksums.remove(&first.group);
        }
        Ok(())
    }

    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let (page, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let length = rest.len().min(PAGE - within);
            let (part, behind) = rest.split_at_mut(length);
            if page == 0 {
                locked(&self.state).head.copy_to(within, part);
            } else if length == PAGE {
                self.read_page(page, part)?;
            } else {
                let mut whole = [0; PAGE];
                self.read_page(page, &mut whole)?;
                part.copy_from_slice(&whole[within..within + length]);
            }
            rest = behind;
            at += length as u64;
        }
        Ok(())
    }

    /// Fills `out`, one page, and verifies it.
    fn read_page(&self, page: u64, out: &mut [u8]) -> io::Result<()> {
        let place = PagePlace::of(page);
        self.read_there(place.offset(), out)?;
        let expected = self.checksums(&mut locked(&self.state), place.group)?.of(place.index);
        let is_right = match expected {
            0 => out.iter().all(|byte| *byte == 0),
            expected => checksum_of(page, out) == expected,
        };
        let what = "the page does not agree with its checksum";
        if is_right { Ok(()) } else { Err(self.damaged(place.offset(), what)) }
    }

    /// Fills `out` from a place where the file has bytes, unless it was cut.
    fn read_there(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged(offset, "the file ends before the end of this page"),
            _ => error,
        })
    }

    fn damaged(&self, offset: u64, what: &'static str) -> io::Error {
        let damaged = DamagedPage { file: self.name.clone(), offset, what };
        io::Error::new(io::ErrorKind::InvalidData, damaged)
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset < PAGE as u64 {
            return locked(&self.state).head.write(&*self.file, offset as usize, data);
        }
        if !offset.is_multiple_of(PAGE as u64) || !data.len().is_multiple_of(PAGE) {
            return Err(unaligned());
        }
        let mut page = offset / PAGE as u64;
        let mut rest = data;
        while !rest.is_empty() {
            let place = PagePlace::of(page);
            let in_group = (GROUP as usize - place.index) * PAGE;
            let (run, behind) = rest.split_at(rest.len().min(in_group));
            self.file.write_at(place.offset(), run)?;
            let mut state = locked(&self.state);
            let checksums = self.checksums(&mut state, place.group)?;
            for (index, bytes) in run.chunks_exact(PAGE).enumerate() {
                checksums.set(place.index + index, checksum_of(page + index as u64, bytes));
            }
            page += (run.len() / PAGE) as u64;
            rest = behind;
        }
        Ok(())
    }

    /// The checksums of a group, from memory or from the file.
    fn checksums<'s>(&self, state: &'s mut PagesState, group: u64) -> io::Result<&'s mut Checksums> {
        if !state.checksums.contains_key(&group) {
            self.make_room(state)?;
            let mut page = Box::new([0; PAGE]);
            self.read_there(PagePlace::checksums_offset(group), &mut *page)?;
            state.checksums.insert(group, Checksums { page, is_dirty: false });
        }
        state.checksums.get_mut(&group).ok_or_else(|| io::Error::other("it was put there above"))
    }

    fn make_room(&self, state: &mut PagesState) -> io::Result<()> {
        if state.checksums.len() < GROUPS_KEPT_MAX {
            return Ok(());
        }
        self.write_checksums(state)?;
        let some = state.checksums.keys().copied().take(GROUPS_KEPT_MAX / 2).collect::<Vec<_>>();
        some.iter().for_each(|group| drop(state.checksums.remove(group)));
        Ok(())
    }

    fn write_checksums(&self, state: &mut PagesState) -> io::Result<()> {
        let dirty = state.checksums.iter_mut().filter(|(_, checksums)| checksums.is_dirty);
        let mut dirty: Vec<_> = dirty.collect();
        // in the order of the file, also so that a simulated disk sees the same order every time
        dirty.sort_unstable_by_key(|(group, _)| **group);
        for (group, checksums) in dirty {
            self.file.write_at(PagePlace::checksums_offset(*group), &*checksums.page)?;
            checksums.is_dirty = false;
        }
        Ok(())
    }

    /// Makes everything that was written durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut state = locked(&self.state);
        self.write_checksums(&mut state)?;
        let number = state.head.number();
        // readers need not wait for the disk
        drop(state);
        self.file.sync()?;
        locked(&self.state).head.synced(number);
        Ok(())
    }
}

fn unaligned() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the tables' library wrote something that is not whole pages")
}

impl fmt::Debug for CheckedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedPages").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
