//! Where a followed file went: what it was renamed to or copied to, and what was rotated away after
//! it.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base::hash;
use rustix::fs::{Mode, OFlags};

use crate::record::FollowPosition;

/// Files of the folder that are looked at for what was rotated away.
const SIBLINGS_MAX: usize = 10_000;

/// What the next file was rotated away after.
#[derive(Clone, Copy, Debug)]
pub(super) enum RotatedAfter<'a> {
    /// Another file.
    File(&'a File),
    /// A moment, where that file is gone.
    Moment(SystemTime),
}

/// The file that this is a position in: the very file, under whatever name beside it, or else a
/// copy with the same beginning. A copy has the name itself, or that of a rotated file: another
/// file of the folder may begin in the same way. Where the path that the position is of is not
/// known, the very file has such a name too. One with another name may have been followed before.
pub(super) fn find(path: &Path, position: FollowPosition, is_path_known: bool) -> Option<File> {
    // A folder that may not be listed has no others.
    let siblings = fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    let siblings = siblings.take(SIBLINGS_MAX).map(|entry| entry.path());
    let mut copy = None;
    for candidate in std::iter::once(path.to_owned()).chain(siblings) {
        let is_ours = candidate == path
            || candidate.file_name().is_some_and(|name| rotation_suffix(path, name).is_some());
        // An inode may be used anew, and of an empty file nothing else is known.
        if !is_ours && (position.head_bytes == 0 || !is_path_known) {
            continue;
        }
        // The name itself may be a link: it is what the agent was told to follow.
        let flags = if candidate == path { OFlags::empty() } else { OFlags::NOFOLLOW };
        let Some((file, metadata)) = opened(&candidate, flags) else { continue };
        if !begins_as(&file, &metadata, position) {
            continue;
        }
        if identity(&metadata) == position.file {
            return Some(file);
        }
        if is_ours && position.head_bytes > 0 {
            copy = copy.or(Some(file));
        }
    }
    copy
}

/// Whether this is a position in this very file.
pub(super) fn is_in(file: &File, position: FollowPosition) -> io::Result<bool> {
    let metadata = file.metadata()?;
    Ok(identity(&metadata) == position.file && begins_as(file, &metadata, position))
}

/// Whether what was read up to a position may have been read of this file.
fn begins_as(file: &File, metadata: &Metadata, position: FollowPosition) -> bool {
    metadata.len() >= position.offset
        && head(file, position.head_bytes).is_ok_and(|checksum| checksum == position.head_checksum)
}

/// The oldest file beside `path` that was rotated away later: made later, and written to no
/// earlier. The first alone would not do: a file that is copied and cut is older than all of its
/// copies. Nor would the second: somebody may still write to an old file.
///
/// # Errors
/// When the folder cannot be read; one that is not there or may not be listed has no others.
pub(super) fn next(path: &Path, after: RotatedAfter<'_>) -> io::Result<Option<File>> {
    let present = fs::metadata(path).map(|metadata| identity(&metadata)).ok();
    let (begun, age) = match after {
        RotatedAfter::File(file) => {
            let metadata = file.metadata()?;
            (Some(identity(&metadata)), FileAge::of(&metadata))
        }
        RotatedAfter::Moment(moment) => (None, FileAge { made: moment, written: moment }),
    };
    let entries = match fs::read_dir(folder_of(path)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(None);
        }
        entries => entries?,
    };
    let mut rotated = Vec::new();
    let mut name_before = None;
    for entry in entries.flatten().take(SIBLINGS_MAX) {
        let Some(suffix) = rotation_suffix(path, &entry.file_name()) else { continue };
        let Some((file, metadata)) = opened(&entry.path(), OFlags::NOFOLLOW) else { continue };
        let this = identity(&metadata);
        if Some(this) == begun {
            name_before = Some(suffix);
        } else if Some(this) != present {
            rotated.push((FileAge::of(&metadata), suffix, file));
        }
    }
    rotated.retain(|(its, suffix, _)| {
        let is_later = its.made >= age.made && its.written >= age.written;
        // Clocks of file systems are coarse: where they tell nothing, names do.
        let by_name = || name_before.as_ref().is_none_or(|before| by_suffix(suffix, before).is_gt());
        is_later && (*its != age || by_name())
    });
    let oldest = rotated
        .into_iter()
        .min_by(|(a, a_name, _), (b, b_name, _)| a.cmp(b).then_with(|| by_suffix(a_name, b_name)));
    Ok(oldest.map(|(_, _, file)| file))
}

/// The file system in which a file is missing: that of the nearest folder above it that is there.
///
/// # Errors
/// When a folder cannot be looked at.
pub(super) fn device_above(path: &Path) -> io::Result<u64> {
    // What a link leads to may be missing elsewhere.
    let target = fs::read_link(path).map(|target| folder_of(path).join(target));
    let path = target.unwrap_or_else(|_| path.to_owned());
    for folder in path.ancestors().skip(1) {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        match fs::metadata(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            metadata => return Ok(metadata?.dev()),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// A hash of a path, the same whether it is written as a relative one or not; never 0.
pub(super) fn path_hash(path: &Path) -> u64 {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    hash::derived(2, path.as_os_str().as_encoded_bytes()).max(1)
}

/// Whether two files are one: device and inode.
pub(super) fn identity(metadata: &Metadata) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&metadata.dev().to_le_bytes());
    bytes[8..].copy_from_slice(&metadata.ino().to_le_bytes());
    hash::derived(0, &bytes)
}

/// When a file was made. Where its file system does not say it, it is as old as its last write.
pub(super) fn made(metadata: &Metadata) -> SystemTime {
    FileAge::of(metadata).made
}

/// The checksum of so many first bytes.
pub(super) fn head(file: &File, bytes: u32) -> io::Result<u32> {
    let mut head = vec![0; bytes as usize];
    file.read_exact_at(&mut head, 0)?;
    Ok(crc32c::crc32c(&head))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileAge {
    made: SystemTime,
    written: SystemTime,
}

impl FileAge {
    /// Where the file system does not say when a file was made, it is as old as its last write.
    fn of(metadata: &Metadata) -> Self {
        let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Self { made: metadata.created().unwrap_or(written), written }
    }
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

/// A file. Of siblings never what a link leads to: whoever may write to the folder could have the
/// agent read what only the agent may.
fn opened(path: &Path, flags: OFlags) -> Option<(File, Metadata)> {
    let file = open_at_once(path, flags).ok()?;
    let metadata = file.metadata().ok()?;
    metadata.is_file().then_some((file, metadata))
}

/// Opens a file to be read. A pipe, which would wait for its writer, is opened at once.
pub(super) fn open_at_once(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | flags;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// What stands behind the name of the followed file, if it is a number or a date: `.1`,
/// `-20261124`, `.2026-11-24T01:00`. Anything else, such as `.gz` or `.bak`, no rotation left there
/// to be read.
fn rotation_suffix(path: &Path, name: &OsStr) -> Option<String> {
    let suffix = name.to_str()?.strip_prefix(path.file_name()?.to_str()?)?;
    let of_a_date = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '_' | ':' | 'T' | 'Z');
    let is_one = suffix.starts_with(['.', '-', '_'])
        && suffix.contains(|c: char| c.is_ascii_digit())
        && suffix.chars().all(of_a_date);
    is_one.then(|| suffix.to_owned())
}

/// Which was rotated away earlier, by its name alone: numbers count up with age, dates down.
fn by_suffix(a: &str, b: &str) -> Ordering {
    let number = |suffix: &str| suffix.strip_prefix('.')?.parse::<u32>().ok();
    match (number(a), number(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        _ => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_number_or_a_date_are_those_of_rotated_files() {
        for (name, expect) in [
            ("app.log.1", Some(".1")),
            ("app.log-20261124", Some("-20261124")),
            ("app.log.2026-11-24T01:00:00Z", Some(".2026-11-24T01:00:00Z")),
            ("app.log", None),
            ("app.log.1.gz", None),
            ("app.log.bak", None),
            ("app.log2", None),
            ("app.log.", None),
            ("other.log.1", None),
        ] {
            let found = rotation_suffix(Path::new("/var/log/app.log"), OsStr::new(name));
            assert_eq!(found.as_deref(), expect, "{name}");
        }
    }

    #[test]
    fn a_file_is_missing_in_the_file_system_of_the_nearest_folder() {
        let folder = tempfile::tempdir().expect("a directory");
        let device = fs::metadata(folder.path()).expect("it is there").dev();
        let (one, two) = (folder.path().join("app.log"), folder.path().join("a/b/app.log"));
        let link = folder.path().join("link.log");
        std::os::unix::fs::symlink("a/b/app.log", &link).expect("linked");
        for path in [&one, &two, &link] {
            assert_eq!(device_above(path).ok(), Some(device), "{}", path.display());
        }
        assert!(device_above(Path::new("app.log")).is_ok(), "the folder is this one");
    }

    #[test]
    fn names_are_in_the_order_of_rotation() {
        for (earlier, later) in
            [(".2", ".1"), (".10", ".9"), ("-20261123", "-20261124"), (".2026-11-24", ".2026-11-24-01")]
        {
            assert!(by_suffix(earlier, later).is_lt() && by_suffix(later, earlier).is_gt(), "{earlier}");
        }
    }
}
