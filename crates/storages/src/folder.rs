//! A folder, mostly on another disk. A file in it says that it is a storage, and which. A folder
//! without it is not written to, since the disk that belongs there may not be mounted.
//!
//! ```text
//!   PATH/fieldpost-storage             the storage's name
//!   PATH/{data directory}/{block}      one folder for each server that uses it
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use store::BlockStorage;
use tracing::{info, warn};

use crate::made::MadeStorages;

/// The file that says whose folder it is.
const MARKER: &str = "fieldpost-storage";
/// What it is called while it is written.
const MARKER_WRITING: &str = "fieldpost-storage-new";
/// What the name of a block ends with that is being written.
const WRITING_SUFFIX: &str = "-new";

/// Blocks in a folder.
#[derive(Debug)]
pub struct FolderStorage {
    name: Box<str>,
    path: PathBuf,
    made: MadeStorages,
    /// The data directory knows that the folder was made.
    is_noted: AtomicBool,
}

impl FolderStorage {
    /// The storage in a folder. A folder that was never used by this data directory is made; where
    /// that fails it is tried again when it is used.
    #[must_use]
    pub fn open(name: &str, path: &Path, made: &MadeStorages) -> Self {
        let (path, made, is_noted) = (path.to_owned(), made.clone(), AtomicBool::new(false));
        let storage = Self { name: name.into(), path, made, is_noted };
        if let Err(error) = storage.look() {
            warn!(storage = name, %error, "a storage of blocks cannot be used now");
        }
        storage
    }

    /// Makes sure that the folder is the storage's own.
    fn look(&self) -> io::Result<()> {
        match fs::read_to_string(self.path.join(MARKER)) {
            Ok(of) if of.trim_end() == &*self.name => self.note(),
            Ok(of) => Err(away(format!(
                "{} is the folder of a storage named {:?}",
                self.path.display(),
                of.trim_end()
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.make(),
            Err(error) => Err(away(format!("{}: {error}", self.path.join(MARKER).display()))),
        }
    }

    /// Notes that the folder was made, by this data directory or by another: it is never made
    /// anew.
    fn note(&self) -> io::Result<()> {
        if !self.is_noted.load(Ordering::Acquire) {
            if !self.made.has(&self.name)? {
                self.made.add(&self.name)?;
            }
            self.is_noted.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Makes the folder, if that was never done.
    fn make(&self) -> io::Result<()> {
        let path = self.path.display();
        if self.made.has(&self.name)? {
            return Err(away(format!(
                "{path} has no file {MARKER}: is its disk mounted? It was made once, and is never made anew"
            )));
        }
        if !self.path.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        }
        for entry in fs::read_dir(&self.path)? {
            let held = entry?.file_name();
            if held == "lost+found" || held == MARKER_WRITING {
                continue;
            }
            return Err(away(format!(
                "{path} is not empty, it holds {}, and has no file {MARKER}: name an empty folder, or a new one",
                held.display()
            )));
        }
        let writing = self.path.join(MARKER_WRITING);
        let mut marker = options().create(true).truncate(true).open(&writing)?;
        marker.write_all(format!("{}\n", self.name).as_bytes())?;
        marker.sync_all()?;
        fs::rename(&writing, self.path.join(MARKER))?;
        File::open(&self.path)?.sync_all()?;
        self.note()?;
        info!(storage = &*self.name, %path, "the folder of a storage was made");
        Ok(())
    }

    /// Where a block lies.
    fn file(&self, name: &str) -> io::Result<PathBuf> {
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['/', '\0']);
        match name.split_once('/') {
            Some((folder, file)) if is_plain(folder) && is_plain(file) => {
                Ok(self.path.join(folder).join(file))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name of a block"))),
        }
    }

    /// An error of a file: that it is not there counts only if the storage is.
    fn file_error(&self, error: io::Error) -> io::Error {
        if error.kind() == io::ErrorKind::NotFound
            && let Err(away) = self.look()
        {
            return away;
        }
        error
    }

    fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        let folder = file.parent().unwrap_or(&self.path);
        match DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => File::open(&self.path)?.sync_all()?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let mut writing = file.as_os_str().to_owned();
        writing.push(WRITING_SUFFIX);
        let writing = PathBuf::from(writing);
        let written = options().create(true).truncate(true).open(&writing).and_then(|mut out| {
            out.write_all(bytes)?;
            out.sync_all()
        });
        if let Err(error) = written {
            // A part of a block takes room that a full disk does not have.
            let _left = fs::remove_file(&writing);
            return Err(error);
        }
        fs::rename(&writing, file)?;
        File::open(folder)?.sync_all()
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn away(text: String) -> io::Error {
    io::Error::other(text)
}

impl BlockStorage for FolderStorage {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.file(name)?;
        self.look()?;
        self.write(&file, bytes).map_err(|error| self.file_error(error))
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let file = File::open(self.file(name)?).map_err(|error| self.file_error(error))?;
        let all = file.metadata()?.len();
        // A length that was damaged asks for no memory.
        if offset.checked_add(len as u64).is_none_or(|end| end > all) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{name} ends before")));
        }
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let file = self.file(name)?;
        // In another storage's folder a file of that name is that storage's block.
        self.look()?;
        match fs::remove_file(file).map_err(|error| self.file_error(error)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(String)) -> io::Result<()> {
        self.look()?;
        let entries = match fs::read_dir(self.path.join(folder)) {
            Ok(entries) => entries,
            // Nothing was ever brought here.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && entry.file_type()?.is_file()
            {
                each(format!("{folder}/{name}"));
            }
        }
        self.look()
    }

    fn probe(&self) -> io::Result<()> {
        self.look()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_once_and_never_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let (data, path) = (directory.path(), directory.path().join("disk"));
        let made = MadeStorages::of(data);
        let storage = FolderStorage::open("cold", &path, &made);
        storage.put("1/a.block", b"messages").expect("is written");
        // The disk is taken away, and its mount point is an empty folder.
        fs::rename(&path, data.join("away")).expect("is moved");
        for is_mount_point_there in [false, true] {
            if is_mount_point_there {
                fs::create_dir(&path).expect("is made");
            }
            let again = FolderStorage::open("cold", &path, &made);
            for storage in [&storage, &again] {
                assert!(storage.probe().is_err());
                let error = storage.get_range("1/a.block", 0, 1).expect_err("is away");
                assert_eq!(error.kind(), io::ErrorKind::Other, "{error}");
                assert!(storage.put("1/b.block", b"x").is_err());
                assert!(storage.list("1", &mut |_| {}).is_err());
                assert!(storage.delete("1/a.block").is_err());
            }
            assert_eq!(path.exists(), is_mount_point_there, "nothing was made");
        }
        assert_eq!(fs::read_dir(&path).expect("is listed").count(), 0);
        fs::remove_dir(&path).expect("is removed");
        fs::rename(data.join("away"), &path).expect("is back");
        assert_eq!(storage.get_range("1/a.block", 0, 8).expect("is read"), b"messages");
    }

    #[test]
    fn a_folder_of_something_else_is_not_touched() {
        let directory = tempfile::tempdir().expect("a directory");
        let (made, path) = (MadeStorages::of(directory.path()), directory.path().join("disk"));
        fs::create_dir(&path).expect("is made");
        fs::write(path.join("letter.txt"), b"dear").expect("is written");
        let storage = FolderStorage::open("cold", &path, &made);
        let error = storage.probe().expect_err("is another's").to_string();
        assert!(error.contains("letter.txt"), "{error}");
        fs::remove_file(path.join("letter.txt")).expect("is removed");
        storage.probe().expect("is made");
        storage.put("1/a.block", b"messages").expect("is written");
        let other = FolderStorage::open("warm", &path, &made);
        let error = other.probe().expect_err("is another's").to_string();
        assert!(error.contains("\"cold\""), "{error}");
        assert!(other.put("1/a.block", b"others").is_err());
        let error = other.delete("1/a.block").expect_err("is another's").to_string();
        assert!(error.contains("\"cold\""), "{error}");
        assert_eq!(storage.get_range("1/a.block", 0, 8).expect("is read"), b"messages");
    }
}
