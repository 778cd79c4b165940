//! A directory that is read and never written: what is changed, is changed in memory.
//!
//! An opening cuts torn tails, claims logs and repairs tables. For a check it does all that to
//! pages in memory, in front of files that are open for reading only. Bounded: what would take more
//! is refused, as by a disk that is full.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use blocklog::{Disk, DiskFile};

use crate::embedded::locks::locked;

/// Most bytes that are changed in memory: a log of its greatest length, applied, with room to
/// spare.
const CHANGED_BYTES_MAX: u64 = 2 << 30;
const PAGE: usize = 4_096;

/// A directory as it was when it was opened, and as it would be now.
pub(super) struct UnchangingDisk {
    directory: PathBuf,
    files: Mutex<BTreeMap<String, Arc<UnchangingFile>>>,
    changed: Arc<AtomicU64>,
    /// Held from the first time that it was asked for.
    lock: Mutex<Option<Arc<File>>>,
}

impl UnchangingDisk {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let changed = Arc::new(AtomicU64::new(0));
        let mut files = BTreeMap::new();
        for entry in directory.read_dir()? {
            let entry = entry?;
            // a name that is not UTF-8 is none of ours
            let Ok(name) = entry.file_name().into_string() else { continue };
            if entry.file_type()?.is_file() {
                let file = UnchangingFile::of(File::open(entry.path())?, Arc::clone(&changed))?;
                files.insert(name, Arc::new(file));
            }
        }
        let (directory, files) = (directory.to_owned(), Mutex::new(files));
        Ok(Self { directory, files, changed, lock: Mutex::new(None) })
    }
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no file `{name}`"))
}

impl Disk for UnchangingDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = locked(&self.files);
        let file = match files.get(name) {
            Some(file) => Arc::clone(file),
            None if create => {
                let file = Arc::new(UnchangingFile::empty(Arc::clone(&self.changed)));
                files.insert(name.to_owned(), Arc::clone(&file));
                file
            }
            None => return Err(not_found(name)),
        };
        Ok(file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(locked(&self.files).keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = locked(&self.files);
        let file = files.remove(from).ok_or_else(|| not_found(from))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        locked(&self.files).remove(name).map(drop).ok_or_else(|| not_found(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    /// Locks the file itself if there is one: without it no server ever ran here. Once it is
    /// locked, every opening on this disk shares it.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        let mut held = locked(&self.lock);
        if let Some(file) = &*held {
            return Ok(Box::new(Arc::clone(file)));
        }
        let file = match File::open(self.directory.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Box::new(())),
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => Ok(Box::new(Arc::clone(held.insert(Arc::new(file))))),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.clone()
    }
}

struct UnchangingFile {
    below: Option<File>,
    state: Mutex<UnchangingState>,
    changed: Arc<AtomicU64>,
}

struct UnchangingState {
    len: u64,
    /// So much of the file below still counts.
    below_len: u64,
    pages: HashMap<u64, Box<[u8; PAGE]>>,
}

impl UnchangingFile {
    fn of(below: File, changed: Arc<AtomicU64>) -> io::Result<Self> {
        let len = below.metadata()?.len();
        let state = UnchangingState { len, below_len: len, pages: HashMap::new() };
        Ok(Self { below: Some(below), state: Mutex::new(state), changed })
    }

    fn empty(changed: Arc<AtomicU64>) -> Self {
        let state = UnchangingState { len: 0, below_len: 0, pages: HashMap::new() };
        Self { below: None, state: Mutex::new(state), changed }
    }

    /// Fills `out` from the file below; behind its end are zeros.
    fn read_below(&self, below_len: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = below_len.saturating_sub(offset).min(out.len() as u64) as usize;
        if let Some(below) = self.below.as_ref().filter(|_| there > 0) {
            below.read_exact_at(&mut out[..there], offset)?;
        }
        out[there..].fill(0);
        Ok(())
    }

    fn page<'s>(&self, state: &'s mut UnchangingState, page: u64) -> io::Result<&'s mut [u8; PAGE]> {
        if !state.pages.contains_key(&page) {
            if self.changed.fetch_add(PAGE as u64, Ordering::Relaxed) >= CHANGED_BYTES_MAX {
                let text =
                    format!("the check would have to change more than {CHANGED_BYTES_MAX} bytes in memory");
                return Err(io::Error::new(io::ErrorKind::StorageFull, text));
            }
            let mut bytes = Box::new([0; PAGE]);
            self.read_below(state.below_len, page * PAGE as u64, &mut *bytes)?;
            state.pages.insert(page, bytes);
        }
        state
            .pages
            .get_mut(&page)
            .map(|bytes| &mut **bytes)
            .ok_or_else(|| io::Error::other("it was put there above"))
    }
}

/// The parts of pages from `offset` on: page, offset within it, and length.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let part = (length - done).min(PAGE - within);
        done += part;
        (part > 0).then_some((at / PAGE as u64, within, part))
    })
}

impl DiskFile for UnchangingFile {
    fn len(&self) -> io::Result<u64> {
        Ok(locked(&self.state).len)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = locked(&self.state);
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > state.len) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter"));
        }
        self.read_below(state.below_len, offset, out)?;
        let mut rest = out;
        for (page, within, length) in parts(offset, rest.len()) {
            let (part, behind) = rest.split_at_mut(length);
            if let Some(bytes) = state.pages.get(&page) {
                part.copy_from_slice(&bytes[within..within + length]);
            }
            rest = behind;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = locked(&self.state);
        let mut rest = data;
        for (page, within, length) in parts(offset, data.len()) {
            let (part, behind) = rest.split_at(length);
            self.page(&mut state, page)?[within..within + length].copy_from_slice(part);
            rest = behind;
        }
        state.len = state.len.max(offset + data.len() as u64);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = locked(&self.state);
        state.below_len = state.below_len.min(len);
        let (last, kept) = (len / PAGE as u64, (len % PAGE as u64) as usize);
        state.pages.retain(|page, _| *page < last || (*page == last && kept > 0));
        if let Some(bytes) = state.pages.get_mut(&last) {
            bytes[kept..].fill(0);
        }
        state.len = len;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base::random::Random;
    use blocklog::SimulatedDisk;

    use super::*;

    #[test]
    fn it_reads_as_what_was_written_and_the_directory_stays_as_it_was() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let before: Vec<u8> = (0..20_000_u32).map(|n| n as u8).collect();
        std::fs::write(&path, &before).expect("writes");
        let disk = UnchangingDisk::open(directory.path()).expect("opens");
        let model = SimulatedDisk::new(1);
        let open = |disk: &dyn Disk| disk.open("file", true).expect("opens");
        let (file, expect) = (open(&disk), open(&model));
        expect.write_at(0, &before).expect("writes");
        let mut random = Random::new(1);
        for turn in 0..4_000 {
            let (offset, length) = (random.below(24_000), random.below(9_000));
            match random.below(8) {
                0 => {
                    file.set_len(offset).expect("cuts");
                    expect.set_len(offset).expect("cuts");
                }
                1..4 => {
                    let data = vec![turn as u8; length as usize];
                    file.write_at(offset, &data).expect("writes");
                    expect.write_at(offset, &data).expect("writes");
                }
                _ => {
                    let read = |file: &dyn DiskFile| {
                        let mut out = vec![0; length as usize];
                        file.read_at(offset, &mut out).map(|()| out).map_err(|error| error.kind())
                    };
                    assert_eq!(read(&*file), read(&*expect), "turn {turn}");
                }
            }
            assert_eq!(file.len().expect("known"), expect.len().expect("known"), "turn {turn}");
        }
        disk.rename("file", "other").expect("renames");
        disk.remove("other").expect("removes");
        assert_eq!(disk.list().expect("lists"), Vec::<String>::new());
        drop(disk.lock("lock").expect("nobody has it"));
        let names: Vec<_> = directory.path().read_dir().expect("lists").collect();
        assert_eq!((std::fs::read(&path).expect("reads"), names.len()), (before, 1));
    }

    #[test]
    fn a_directory_that_a_server_has_open_is_locked() {
        let directory = tempfile::tempdir().expect("a directory");
        let server = blocklog::RealDisk::open_dir(directory.path(), false).expect("opens");
        let lock = server.lock("lock").expect("locks");
        let disk = UnchangingDisk::open(directory.path()).expect("opens");
        let held = disk.lock("lock").map(drop).expect_err("it is held");
        assert_eq!(held.kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        assert!(disk.lock("lock").is_ok());
    }
}
