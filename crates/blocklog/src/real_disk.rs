//! The port over a directory of the operating system.
//!
//! Knows nothing of logs: it maps each call to one call of `std::fs`. Files are private to the user
//! that runs the server, as they hold what its clients own.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, check_flat_name};

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A directory of the operating system's file system.
#[derive(Debug)]
pub struct RealDisk {
    directory: PathBuf,
}

impl RealDisk {
    /// Opens the directory `path`; with `create` it is made, with its parents, when it does not
    /// exist, and its name is made durable.
    pub fn open_dir(path: impl AsRef<Path>, create: bool) -> io::Result<RealDisk> {
        let path = path.as_ref();
        if create && !path.is_dir() {
            create_durably(path)?;
        }
        let directory = path.canonicalize()?;
        if !directory.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "is not a directory"));
        }
        Ok(RealDisk { directory })
    }

    fn file_path(&self, name: &str) -> io::Result<PathBuf> {
        check_flat_name(name)?;
        Ok(self.directory.join(name))
    }

    fn options(create: bool) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).truncate(false).mode(FILE_MODE);
        options
    }
}

/// Makes `path` and the parents that are missing, and syncs each directory that got a new name.
fn create_durably(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|ancestor| !is_present(ancestor)).collect();
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)?;
    for made in missing {
        sync_parent(made)?;
    }
    Ok(())
}

/// The empty path stands for the current directory, which is there.
fn is_present(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.exists()
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

impl Disk for RealDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let file = Self::options(create).open(self.file_path(name)?)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in self.directory.read_dir()? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                // A name that is not UTF-8 is none of ours.
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.file_path(from)?, self.file_path(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.file_path(name)?)
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        let file = Self::options(true).open(self.file_path(name)?)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.clone()
    }
}

struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_is_made_only_when_asked_and_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        assert_eq!(RealDisk::open_dir(&path, false).unwrap_err().kind(), io::ErrorKind::NotFound);
        let disk = RealDisk::open_dir(&path, true).unwrap();
        disk.open("file", true).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("file"))), (DIRECTORY_MODE, FILE_MODE));
        assert_eq!(disk.list().unwrap(), ["file"]);
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("file");
        std::fs::write(&path, b"").unwrap();
        for create in [false, true] {
            assert!(RealDisk::open_dir(&path, create).is_err());
        }
    }
}
