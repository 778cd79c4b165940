//! Where a backup is in its directory, and what counts as an empty one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The backup, once it is whole.
pub(super) const BACKUP: &str = "fieldpost.backup";
/// While it is made.
pub(super) const PARTIAL: &str = "fieldpost.backup.partial";
/// What a file system of its own has from the beginning.
const OF_THE_FILE_SYSTEM: &str = "lost+found";

/// Something in a directory that should be empty; `None` too if there is no directory.
pub(super) fn anything_in(directory: &Path) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() != OF_THE_FILE_SYSTEM {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// The file of the backup that is at `path`: the file itself, or the one in that directory.
pub(super) fn backup_at(path: &Path) -> Result<PathBuf, String> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let file = path.join(BACKUP);
    if file.is_file() {
        return Ok(file);
    }
    if path.join(PARTIAL).is_file() {
        return Err(format!("{} holds a backup that was never finished: make another", path.display()));
    }
    Err(format!("there is no backup at {}", path.display()))
}
