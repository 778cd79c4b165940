//! A storage beside the data directory: it outlives the process and every loss of power, and is
//! away at times.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use store::{BlockStorage, MemoryBlocks};

/// The name that it has in the settings.
pub(crate) const COLD: &str = "cold";

/// The storage.
#[derive(Debug, Default)]
pub(crate) struct ColdStorage {
    blocks: MemoryBlocks,
    is_away: AtomicBool,
}

impl ColdStorage {
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::SeqCst)
    }

    pub(crate) fn go_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// Its blocks, whether it is away or not.
    pub(crate) fn blocks(&self) -> &dyn BlockStorage {
        &self.blocks
    }

    fn reached(&self) -> io::Result<&dyn BlockStorage> {
        if self.is_away() { Err(io::Error::other("it is away")) } else { Ok(&self.blocks) }
    }
}

impl BlockStorage for ColdStorage {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.reached()?.put(name, bytes)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.reached()?.get_range(name, offset, len)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.reached()?.delete(name)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(String)) -> io::Result<()> {
        self.reached()?.list(folder, each)
    }

    fn probe(&self) -> io::Result<()> {
        self.reached().map(drop)
    }
}
