//! A directory of files in memory, deterministic from a seed, that does to them what real disks do.
//!
//! # Faults
//! - **Loss of power** ([`SimulatedDisk::crash`]). What was synced stays. Of what was not, each
//!   file takes one of these fates at random. All is lost, or all is kept. Or the writes up to some
//!   moment are kept, the last of them torn. Or each write is kept or lost on its own, so that
//!   later ones survive earlier ones. Or each sector of 512 bytes is kept as some write left it, so
//!   that every write may be torn anywhere. The length of the file is that after any of its
//!   changes; a sector inside it that was never written reads as zeros. Created, renamed and
//!   removed names that were not synced survive up to some moment: file systems with a journal keep
//!   their order. All locks are free, and open handles fail from then on.
//! - **Death of the process** ([`SimulatedDisk::kill`]). Locks and handles go; everything written
//!   is still there to read, and as little durable as before.
//! - **Failing reads, writes and syncs** ([`SimulatedDisk::fail_read`],
//!   [`fail_write`](SimulatedDisk::fail_write), [`fail_sync`](SimulatedDisk::fail_sync)): once,
//!   with EIO. A failing write has written some of its bytes. After a failing sync the system takes
//!   what it did not write for clean, as Linux does. It can be read, but a later sync that succeeds
//!   does not make it durable; only writing it again does.
//! - **Full disk** ([`SimulatedDisk::set_capacity`]): the write that exceeds it has written what
//!   had room, and fails with ENOSPC.
//! - **Rot** ([`SimulatedDisk::corrupt`]): a byte changes by itself.
//!
//! A sync that returns `Ok` does not lie. The simulation knows nothing of time.

mod file;
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile, check_flat_name};
use file::{Content, CrashOutcome};
use random::DiskRandom;

/// The error number of a device that failed.
const EIO: i32 = 5;
/// The error number of a full device.
const ENOSPC: i32 = 28;

/// What was asked of a disk since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Reads from files.
    pub reads: u64,
    /// Those of them that failed, as they were to.
    pub failed_reads: u64,
    /// Writes to files and changes of their length.
    pub writes: u64,
    /// The bytes that were written.
    pub bytes_written: u64,
    /// Syncs of files and of the directory.
    pub syncs: u64,
}

/// A simulated disk; clones are handles of the same one. See the module for what can happen to it.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<DiskState>>,
}

type FileCell = Arc<Mutex<Content>>;

struct DiskState {
    random: DiskRandom,
    names: BTreeMap<String, FileCell>,
    durable_names: BTreeMap<String, FileCell>,
    /// What was done to the names since the directory was synced.
    changes: Vec<NameChange>,
    locks: BTreeSet<String>,
    /// Counts crashes and kills; a handle of an earlier one fails.
    boot: u64,
    counters: DiskCounters,
    faults: Faults,
}

enum NameChange {
    Create(String, FileCell),
    Rename(String, String),
    Remove(String),
}

/// Calls left until one fails.
#[derive(Default)]
struct Faults {
    read: Option<u64>,
    write: Option<u64>,
    sync: Option<u64>,
    capacity_bytes: Option<u64>,
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> SimulatedDisk {
        let state = DiskState {
            random: DiskRandom::new(seed),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            locks: BTreeSet::new(),
            boot: 0,
            counters: DiskCounters::default(),
            faults: Faults::default(),
        };
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Another disk with the files that this one would have after a crash that loses all that was
    /// not synced.
    pub fn copy_of_durable(&self, seed: u64) -> SimulatedDisk {
        let files = self.state().durable_names.clone();
        Self::with_files(
            seed,
            files.into_iter().map(|(name, file)| (name, content(&file).durable().to_vec())),
        )
    }

    /// Another disk with the files that this one has, synced or not.
    pub fn copy_of_current(&self, seed: u64) -> SimulatedDisk {
        let files = self.state().names.clone();
        Self::with_files(
            seed,
            files.into_iter().map(|(name, file)| (name, content(&file).current().to_vec())),
        )
    }

    /// A disk with these files, all of them durable.
    fn with_files(seed: u64, files: impl Iterator<Item = (String, Vec<u8>)>) -> SimulatedDisk {
        let disk = SimulatedDisk::new(seed);
        let mut state = disk.state();
        for (name, bytes) in files {
            state.names.insert(name, Arc::new(Mutex::new(Content::of(bytes))));
        }
        state.durable_names = state.names.clone();
        drop(state);
        disk
    }

    /// The power fails. Faults that were set and did not come to pass are cleared.
    pub fn crash(&self) {
        let mut state = self.state();
        let DiskState { random, names, durable_names, changes, .. } = &mut *state;
        let kept = random.below(changes.len() as u64 + 1) as usize;
        let survivors = match CrashOutcome::random(random) {
            CrashOutcome::LoseAll => 0,
            CrashOutcome::KeepAll => changes.len(),
            _ => kept,
        };
        for change in changes.drain(..).take(survivors) {
            change.apply(durable_names);
        }
        names.clone_from(durable_names);
        for file in names.values() {
            content(file).crash(random);
        }
        state.faults = Faults { capacity_bytes: state.faults.capacity_bytes, ..Faults::default() };
        state.restart();
    }

    /// The process dies; the disk goes on.
    pub fn kill(&self) {
        self.state().restart();
    }

    /// The `nth` read from now on fails; 1 is the next.
    pub fn fail_read(&self, nth: u64) {
        self.state().faults.read = Some(nth);
    }

    /// The `nth` write or change of a length from now on fails; 1 is the next.
    pub fn fail_write(&self, nth: u64) {
        self.state().faults.write = Some(nth);
    }

    /// The `nth` sync, of a file or of the directory, from now on fails; 1 is the next.
    pub fn fail_sync(&self, nth: u64) {
        self.state().faults.sync = Some(nth);
    }

    /// All files together have room for this many bytes; `None`, as at first, for any number.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().faults.capacity_bytes = bytes;
    }

    /// Changes the bits `xor` of the byte at `offset`, for readers and durably. Panics where there
    /// is no such byte.
    pub fn corrupt(&self, name: &str, offset: u64, xor: u8) {
        let state = self.state();
        let file = state.names.get(name).unwrap_or_else(|| panic!("there is no file {name} to corrupt"));
        content(file).corrupt(offset as usize, xor);
    }

    /// The length of a file, in bytes, as a reader sees it.
    pub fn file_len(&self, name: &str) -> Option<u64> {
        self.state().names.get(name).map(|file| content(file).current().len() as u64)
    }

    /// What a file holds after a crash that loses all that was not synced; `None` when it is not
    /// there then.
    pub fn durable(&self, name: &str) -> Option<Vec<u8>> {
        self.state().durable_names.get(name).map(|file| content(file).durable().to_vec())
    }

    /// What was asked of this disk so far.
    pub fn counters(&self) -> DiskCounters {
        self.state().counters
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        // A panic elsewhere leaves no half-made change: each is made under one guard.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn content(file: &FileCell) -> MutexGuard<'_, Content> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NameChange {
    fn apply(self, names: &mut BTreeMap<String, FileCell>) {
        match self {
            NameChange::Create(name, file) => {
                names.insert(name, file);
            }
            NameChange::Rename(from, to) => {
                if let Some(file) = names.remove(&from) {
                    names.insert(to, file);
                }
            }
            NameChange::Remove(name) => {
                names.remove(&name);
            }
        }
    }
}

impl DiskState {
    fn restart(&mut self) {
        self.locks.clear();
        self.boot += 1;
    }

    fn is_due(fault: &mut Option<u64>) -> bool {
        *fault = fault.and_then(|left| left.checked_sub(1));
        let due = *fault == Some(0);
        if due {
            *fault = None;
        }
        due
    }

    fn sync_fails(&mut self) -> bool {
        self.counters.syncs += 1;
        DiskState::is_due(&mut self.faults.sync)
    }

    /// How many of the bytes that a file is to grow by have room.
    fn room_for(&self, growth: u64) -> u64 {
        let Some(capacity) = self.faults.capacity_bytes else { return growth };
        let used: u64 = self.names.values().map(|file| content(file).current().len() as u64).sum();
        growth.min(capacity.saturating_sub(used))
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        check_flat_name(name)?;
        let mut state = self.state();
        let file = match state.names.get(name) {
            Some(file) => file.clone(),
            None if create => {
                let file = FileCell::default();
                state.names.insert(name.to_owned(), file.clone());
                state.changes.push(NameChange::Create(name.to_owned(), file.clone()));
                file
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(SimulatedFile { disk: self.clone(), boot: state.boot, file }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_flat_name(to)?;
        let mut state = self.state();
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        state.changes.push(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.changes.push(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.sync_fails() {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let DiskState { durable_names, changes, .. } = &mut *state;
        for change in changes.drain(..) {
            change.apply(durable_names);
        }
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        let boot = self.state().boot;
        self.open(name, true)?;
        if !self.state().locks.insert(name.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimulatedLock { disk: self.clone(), boot, name: name.to_owned() }))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/simulated")
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    boot: u64,
    name: String,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.boot == self.boot {
            state.locks.remove(&self.name);
        }
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    boot: u64,
    file: FileCell,
}

impl SimulatedFile {
    fn state(&self) -> io::Result<MutexGuard<'_, DiskState>> {
        let state = self.disk.state();
        if state.boot == self.boot {
            Ok(state)
        } else {
            Err(io::Error::other("this file was open before a crash"))
        }
    }

    fn change(&self, wanted_len: u64, change: impl FnOnce(&mut Content, Allowed)) -> io::Result<()> {
        let mut state = self.state()?;
        state.counters.writes += 1;
        let fails = DiskState::is_due(&mut state.faults.write);
        let part = state.random.unit();
        let length = content(&self.file).current().len() as u64;
        let growth = wanted_len.saturating_sub(length);
        let room = state.room_for(growth);
        let mut content = content(&self.file);
        if fails {
            change(&mut content, Allowed::Part(part));
            return Err(io::Error::from_raw_os_error(EIO));
        }
        if room < growth {
            change(&mut content, Allowed::Through(length + room));
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        change(&mut content, Allowed::All);
        Ok(())
    }
}

/// How much of a change is made.
enum Allowed {
    All,
    /// This part of its bytes, 0 to 1.
    Part(f64),
    /// Up to this offset.
    Through(u64),
}

impl DiskFile for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        let _state = self.state()?;
        Ok(content(&self.file).current().len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.state()?;
        state.counters.reads += 1;
        if DiskState::is_due(&mut state.faults.read) {
            state.counters.failed_reads += 1;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let content = content(&self.file);
        let from = content.current().get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.state()?.counters.bytes_written += data.len() as u64;
        self.change(offset + data.len() as u64, |content, allowed| {
            let bytes = match allowed {
                Allowed::All => data.len(),
                Allowed::Part(part) => (part * data.len() as f64) as usize,
                Allowed::Through(end) => (end.saturating_sub(offset) as usize).min(data.len()),
            };
            content.write(offset as usize, &data[..bytes]);
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(len, |content, allowed| match allowed {
            Allowed::All => content.set_len(len as usize),
            Allowed::Part(_) | Allowed::Through(_) => {}
        })
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state()?;
        if state.sync_fails() {
            content(&self.file).sync_failed();
            return Err(io::Error::from_raw_os_error(EIO));
        }
        content(&self.file).sync();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
