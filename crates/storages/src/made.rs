//! The storages whose folder was made once: a file of the data directory names them. A folder that
//! is not there is made only for a storage that is not among them, since its disk may not be
//! mounted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use store::STORAGES_MADE;

/// The names of storages whose folders were made.
#[derive(Clone, Debug)]
pub struct MadeStorages {
    /// The file that has them; `None` where all were.
    file: Option<PathBuf>,
}

impl MadeStorages {
    /// Those that a data directory knows of.
    #[must_use]
    pub fn of(data_dir: &Path) -> Self {
        Self { file: Some(data_dir.join(STORAGES_MADE)) }
    }

    /// Every one: no folder is made.
    #[must_use]
    pub fn all() -> Self {
        Self { file: None }
    }

    /// Whether the folder of a storage was made.
    pub(crate) fn has(&self, name: &str) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(true) };
        match fs::read_to_string(file) {
            Ok(names) => Ok(names.lines().any(|line| line == name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes that the folder of a storage was made. On return that is durable.
    pub(crate) fn add(&self, name: &str) -> io::Result<()> {
        let Some(path) = &self.file else { return Ok(()) };
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        // A line that a crash cut off is ended by this one.
        file.write_all(format!("\n{name}\n").as_bytes())?;
        file.sync_all()?;
        path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    }
}
