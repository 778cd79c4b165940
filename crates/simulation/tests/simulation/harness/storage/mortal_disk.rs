//! A disk in the middle of whose writes and syncs the process dies, or the power fails.
//!
//! The scheduler picks between steps. A step of the store makes many calls of its disk, a
//! checkpoint hundreds, and an end may come before any of them. From then on every call of that
//! process fails.
//!
//! Some of its syncs may do nothing and say that they did: what a bug that forgets a sync looks
//! like from outside.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use base::locks::locked;
use blocklog::{Disk, DiskFile, SimulatedDisk};

use super::End;

/// When the process that has the disk open comes to its end.
#[derive(Clone, Default)]
pub(crate) struct Doom(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Writes, syncs and changes of names before it, and how it comes.
    planned: Option<(u64, End)>,
    died: Option<End>,
}

impl Doom {
    /// It comes after so many more writes, syncs and changes of names.
    pub(crate) fn plan(&self, calls: u64, end: End) {
        self.state().planned = Some((calls, end));
    }

    /// It does not come, if it has not come yet.
    pub(crate) fn avert(&self) {
        self.state().planned = None;
    }

    /// How it came, if it did since this was last asked.
    pub(crate) fn take(&self) -> Option<End> {
        self.state().died.take()
    }

    /// Before each call; nothing is done any more after the end.
    fn strike(&self, disk: &SimulatedDisk, changes: bool) -> io::Result<()> {
        let mut state = self.state();
        match &mut state.planned {
            Some((0, end)) if changes => {
                let end = *end;
                match end {
                    End::Kill => disk.kill(),
                    End::Crash => disk.crash(),
                }
                *state = State { planned: None, died: Some(end) };
            }
            Some((calls, _)) if changes => *calls -= 1,
            _ => {}
        }
        match state.died {
            Some(_) => Err(io::Error::other("the process is gone")),
            None => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }
}

/// The disk.
pub(crate) struct MortalDisk {
    pub(crate) disk: SimulatedDisk,
    pub(crate) doom: Doom,
    /// Files whose names begin so are never synced.
    pub(crate) never_synced: Option<&'static str>,
}

impl MortalDisk {
    fn at(&self, changes: bool) -> io::Result<&SimulatedDisk> {
        self.doom.strike(&self.disk, changes)?;
        Ok(&self.disk)
    }
}

impl Disk for MortalDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.at(create)?.open(name, create)?;
        let is_synced = self.never_synced.is_none_or(|files| !name.starts_with(files));
        Ok(Arc::new(MortalFile { file, disk: self.disk.clone(), doom: self.doom.clone(), is_synced }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.at(false)?.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.at(true)?.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.at(true)?.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.at(true)?.sync_directory()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.at(false)?.lock(name)
    }

    fn path(&self) -> PathBuf {
        self.disk.path()
    }
}

struct MortalFile {
    file: Arc<dyn DiskFile>,
    disk: SimulatedDisk,
    doom: Doom,
    is_synced: bool,
}

impl DiskFile for MortalFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.doom.strike(&self.disk, true)?;
        self.file.write_at(offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.doom.strike(&self.disk, true)?;
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.doom.strike(&self.disk, true)?;
        if self.is_synced { self.file.sync() } else { Ok(()) }
    }
}
