//! Drops the pages of the program's file from memory, so that only those in use come back.
//!
//! The program is large, and starting it touches code and tables all over its file. An agent, or a
//! server with little switched on, uses a small part of it from then on. On a weak machine that
//! counts. A dropped page that is needed comes back from the page cache when it is touched. Reading
//! the command line also takes a deep stack: its unused part is dropped too.

use std::fs;
use std::io;

/// What this process has mapped.
const MAPS: &str = "/proc/self/maps";
/// Left of the stack below where it is now: calls go on meanwhile, and signals may come.
const STACK_MARGIN_BYTES: usize = 64 * 1_024;
/// Pages are whole multiples of the smaller ones.
const PAGE_BYTES: usize = 64 * 1_024;

/// What the program and the libraries that it was linked with have mapped from their files.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramPages {
    ranges: Vec<(usize, usize)>,
}

impl ProgramPages {
    /// To be called at the start: nothing that is mapped by then is ever unmapped. What is mapped
    /// later may be, and then something else may use its place.
    pub(crate) fn at_start() -> Self {
        let maps = fs::read_to_string(MAPS).unwrap_or_else(|error| {
            tracing::debug!(%error, "the program's pages stay in memory");
            String::new()
        });
        Self { ranges: maps.lines().filter_map(unchanging).collect() }
    }

    /// Drops them, and on the main thread the unused part of the stack. Pages that cannot be
    /// dropped stay: nothing depends on it.
    pub(crate) fn release(&self) {
        if let Err(error) = self.try_release() {
            tracing::debug!(%error, "the program's pages stay in memory");
        }
    }

    fn try_release(&self) -> io::Result<()> {
        for (start, end) in &self.ranges {
            advise(*start, *end)?;
        }
        let maps = fs::read_to_string(MAPS)?;
        let here = std::ptr::from_ref(&maps).expose_provenance();
        for (start, end) in maps.lines().filter_map(|line| unused_stack(line, here)) {
            advise(start, end)?;
        }
        Ok(())
    }
}

/// The range of the stack that lies below `here`, an address on it, with a margin. None where
/// `here` is on the stack of another thread.
fn unused_stack(line: &str, here: usize) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = range_of(fields.next()?)?;
    let is_ours = fields.last() == Some("[stack]") && (start..end).contains(&here);
    let unused_end = here.saturating_sub(STACK_MARGIN_BYTES) / PAGE_BYTES * PAGE_BYTES;
    (is_ours && start < unused_end).then_some((start, unused_end))
}

fn range_of(range: &str) -> Option<(usize, usize)> {
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    address(start).zip(address(end))
}

/// The range of a mapping that is a file as it is. Such are the code of the program and its
/// libraries, and the constants at the beginning of each. Other read-only mappings hold addresses
/// that were filled in at the start.
fn unchanging(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let is_of_file = fields.nth(2).is_some_and(|path| path.starts_with('/'));
    let is_unchanging = rights == "r-xp" || (rights == "r--p" && usize::from_str_radix(offset, 16) == Ok(0));
    (is_of_file && is_unchanging).then(|| range_of(range)).flatten()
}

#[allow(unsafe_code, reason = "madvise has no safe wrapper")]
fn advise(start: usize, end: usize) -> io::Result<()> {
    let address = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the range is one of two. One is a private mapping of a file that is there from the
    // start to the end of the process. Neither the loader nor we ever write to it, so what is
    // dropped is read from the file again, the same as it was. The other is the stack of this very
    // thread, well below everything that is on it: nothing there is read before it is written.
    let failed = unsafe { libc::madvise(address, end - start, libc::MADV_DONTNEED) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_as_in_the_file_is_dropped() {
        for (line, expect) in [
            ("1000-3000 r-xp 00002000 08:01 7 /bin/p", Some((0x1000, 0x3000))),
            ("1000-2000 r--p 00000000 08:01 7     /bin/p", Some((0x1000, 0x2000))),
            ("1000-2000 r--p 00009000 08:01 7 /bin/p", None),
            ("1000-2000 rw-p 00000000 08:01 7 /bin/p", None),
            ("1000-2000 r-xp 00000000 08:01 7 /lib/libc.so.6", Some((0x1000, 0x2000))),
            ("1000-2000 r-xp 00000000 00:00 0 [vdso]", None),
            ("1000-2000 rw-p 00000000 00:00 0", None),
            ("", None),
        ] {
            assert_eq!(unchanging(line), expect, "{line}");
        }
    }

    #[test]
    fn of_the_stack_only_what_lies_well_below_is_dropped() {
        let line = "7ffc00000000-7ffc00100000 rw-p 00000000 00:00 0                          [stack]";
        let start = 0x7ffc_0000_0000;
        assert_eq!(unused_stack(line, start + 0xf_8000), Some((start, start + 0xe_0000)));
        assert_eq!(unused_stack(line, start + 0x1_8000), None, "hardly anything lies below");
        assert_eq!(unused_stack(line, start - 1), None, "the stack of another thread");
        let heap = line.replace("[stack]", "[heap]");
        assert_eq!(unused_stack(&heap, start + 0xf_8000), None);
    }

    #[test]
    fn the_program_goes_on_afterwards() {
        let pages = ProgramPages::at_start();
        assert!(!pages.ranges.is_empty(), "the program is mapped from its file");
        assert!(pages.try_release().is_ok(), "this system allows it");
    }
}
