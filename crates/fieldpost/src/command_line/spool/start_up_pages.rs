//! Gives back the pages of the program that only its start needed.
//!
//! The program is much larger than the agent in it, and starting it touches code and tables all
//! over the file. On a weak machine that counts: the pages are dropped from the process, and those
//! that are still needed come back from the page cache when they are touched.

use std::fs;
use std::io;

/// Gives them back. What cannot be given back stays: nothing depends on it.
pub(super) fn give_back() {
    if let Err(error) = try_give_back() {
        tracing::debug!(%error, "the pages of the start stay in memory");
    }
}

fn try_give_back() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    for (start, end) in maps.lines().filter_map(unchanging) {
        advise(start, end)?;
    }
    Ok(())
}

/// The range of a mapping that is a file as it is: the code of the program and its libraries, and
/// the constants at the beginning of each. Other read-only mappings hold addresses that were filled
/// in at the start.
fn unchanging(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let is_of_file = fields.nth(2).is_some_and(|path| path.starts_with('/'));
    let is_unchanging = rights == "r-xp" || (rights == "r--p" && usize::from_str_radix(offset, 16) == Ok(0));
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    (is_of_file && is_unchanging).then(|| address(start).zip(address(end))).flatten()
}

#[allow(unsafe_code, reason = "madvise has no safe wrapper")]
fn advise(start: usize, end: usize) -> io::Result<()> {
    let address = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the range is a private mapping of a file that is never written to, neither by the
    // loader nor by us: what is dropped is read from the file again, the same as it was.
    let failed = unsafe { libc::madvise(address, end - start, libc::MADV_DONTNEED) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_as_in_the_file_is_given_back() {
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
    fn the_program_goes_on_afterwards() {
        assert!(try_give_back().is_ok(), "this system allows it");
    }
}
