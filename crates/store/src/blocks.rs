//! The port to a storage of blocks of streams: whole files that are written once, read in ranges,
//! and deleted. Its implementations here are a data directory, and memory for tests; storages
//! beside the data directory are known elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::locks::locked;
use blocklog::Disk;

/// What the names of blocks end with.
pub const BLOCK_SUFFIX: &str = ".block";
/// What the name of one ends with that is being written.
const WRITING_SUFFIX: &str = ".block-new";

/// A storage of blocks. A name ends with [`BLOCK_SUFFIX`]. In the local storage it is a flat file
/// name; in others it has a folder before it and a slash.
///
/// Calls block, for a bounded time. Any other error than those that are named says that the storage
/// cannot be used now.
pub trait BlockStorage: fmt::Debug + Send + Sync + 'static {
    /// Keeps a block under a name: on return it survives power loss. One of that name is replaced,
    /// in one step.
    ///
    /// # Errors
    /// When it cannot be written; then there may be no block of that name, but none in part.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Bytes of a block from `offset` on.
    ///
    /// # Errors
    /// `NotFound` without such a block, `UnexpectedEof` where it is shorter.
    fn get_range(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>>;
    /// Deletes a block. It is no error if there is none.
    ///
    /// # Errors
    /// When it cannot be deleted.
    fn delete(&self, name: &str) -> io::Result<()>;
    /// Gives the name of each block of a folder, in no order; of those that are in none, where it
    /// is empty.
    ///
    /// # Errors
    /// When they cannot be listed; some may have been given.
    fn list(&self, folder: &str, each: &mut dyn FnMut(String)) -> io::Result<()>;
    /// Looks whether the storage can be used.
    ///
    /// # Errors
    /// Why it cannot.
    fn probe(&self) -> io::Result<()> {
        Ok(())
    }
}

impl dyn BlockStorage + '_ {
    /// The names of all blocks of a folder, for whoever knows that there are few.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        self.list(folder, &mut |name| names.push(name))?;
        Ok(names)
    }
}

/// Storages beside the local one, by name. Cheap to clone.
#[derive(Clone, Default)]
pub struct BlockStorages {
    by_name: Arc<BTreeMap<Box<str>, Arc<dyn BlockStorage>>>,
}

impl BlockStorages {
    /// These.
    #[must_use]
    pub fn new(by_name: BTreeMap<Box<str>, Arc<dyn BlockStorage>>) -> Self {
        Self { by_name: Arc::new(by_name) }
    }

    /// The storage of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn BlockStorage>> {
        self.by_name.get(name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<dyn BlockStorage>)> {
        self.by_name.iter().map(|(name, storage)| (&**name, storage))
    }
}

impl fmt::Debug for BlockStorages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

/// Blocks beside the log and the tables of a data directory.
#[derive(Clone)]
pub struct DiskBlocks {
    disk: Arc<dyn Disk>,
    held: Arc<Mutex<HeldBlocks>>,
}

/// Blocks that are to go once nobody holds them.
#[derive(Default)]
struct HeldBlocks {
    holders: usize,
    deleted: Vec<String>,
}

/// Keeps every block where it is until it is dropped.
pub(crate) struct BlockHold {
    blocks: DiskBlocks,
}

impl Drop for BlockHold {
    fn drop(&mut self) {
        let mut held = self.blocks.held();
        held.holders -= 1;
        if held.holders > 0 {
            return;
        }
        // What is put meanwhile waits: it may have the name of what goes.
        for name in std::mem::take(&mut held.deleted) {
            if let Err(error) = self.blocks.remove(&name) {
                tracing::warn!(name, %error, "the file of a block stays until the next start");
            }
        }
    }
}

impl DiskBlocks {
    /// Those of a directory.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, held: Arc::default() }
    }

    /// Has no block go as long as the answer is kept: a backup reads them.
    pub(crate) fn hold(&self) -> BlockHold {
        self.held().holders += 1;
        BlockHold { blocks: self.clone() }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.disk.open(name, true)?;
        file.set_len(0)?;
        file.write_at(0, bytes)?;
        file.sync()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.disk.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn held(&self) -> MutexGuard<'_, HeldBlocks> {
        locked(&self.held)
    }
}

impl fmt::Debug for DiskBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blocks in {}", self.disk.path().display())
    }
}

impl BlockStorage for DiskBlocks {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let writing = format!("{}{WRITING_SUFFIX}", name.trim_end_matches(BLOCK_SUFFIX));
        if let Err(error) = self.write(&writing, bytes) {
            // A part of a block takes room that a full disk does not have; a start deletes it else.
            let _left = self.disk.remove(&writing);
            return Err(error);
        }
        let mut held = self.held();
        held.deleted.retain(|deleted| deleted != name);
        self.disk.rename(&writing, name)?;
        drop(held);
        self.disk.sync_directory()
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let file = self.disk.open(name, false)?;
        // A length that was damaged asks for no memory.
        let end = offset.checked_add(len as u64).filter(|end| file.len().is_ok_and(|all| *end <= all));
        if end.is_none() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{name} ends before")));
        }
        let mut bytes = vec![0; len];
        file.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let mut held = self.held();
        if held.holders > 0 {
            held.deleted.push(name.to_owned());
            return Ok(());
        }
        self.remove(name)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(String)) -> io::Result<()> {
        let is_block = |name: &String| name.ends_with(BLOCK_SUFFIX) || name.ends_with(WRITING_SUFFIX);
        if folder.is_empty() {
            self.disk.list()?.into_iter().filter(is_block).for_each(each);
        }
        Ok(())
    }
}

/// Blocks in memory.
#[derive(Debug, Default)]
pub struct MemoryBlocks {
    blocks: Mutex<BTreeMap<String, Arc<[u8]>>>,
}

impl MemoryBlocks {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Arc<[u8]>>> {
        locked(&self.blocks)
    }
}

impl BlockStorage for MemoryBlocks {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.locked().insert(name.to_owned(), bytes.into());
        Ok(())
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let blocks = self.locked();
        let block = blocks.get(name).ok_or(io::ErrorKind::NotFound)?;
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let range = start.checked_add(len).and_then(|end| block.get(start..end));
        Ok(range.ok_or(io::ErrorKind::UnexpectedEof)?.to_vec())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.locked().remove(name);
        Ok(())
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(String)) -> io::Result<()> {
        let is_in = |name: &&String| name.rsplit_once('/').map_or("", |(of, _)| of) == folder;
        self.locked().keys().filter(is_in).cloned().for_each(each);
        Ok(())
    }
}

/// Blocks in memory that can be out of reach, for tests.
#[derive(Debug, Default)]
pub struct SwitchedBlocks {
    blocks: MemoryBlocks,
    is_away: AtomicBool,
}

impl SwitchedBlocks {
    /// Whether they are out of reach.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.is_away.load(Ordering::SeqCst)
    }

    /// Has them out of reach, or within it.
    pub fn go_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// The blocks, out of reach or not.
    #[must_use]
    pub fn blocks(&self) -> &dyn BlockStorage {
        &self.blocks
    }

    fn reached(&self) -> io::Result<&dyn BlockStorage> {
        if self.is_away() { Err(io::Error::other("it is away")) } else { Ok(&self.blocks) }
    }
}

impl BlockStorage for SwitchedBlocks {
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

#[cfg(test)]
mod tests {
    use blocklog::SimulatedDisk;

    use super::*;
    use crate::conformance::check_a_storage;

    fn each(check: impl Fn(&dyn BlockStorage)) {
        let directory = tempfile::tempdir().expect("a directory");
        let real = blocklog::RealDisk::open_dir(directory.path(), false).expect("opens");
        check(&MemoryBlocks::default());
        check(&DiskBlocks::new(Arc::new(real)));
    }

    #[test]
    fn a_block_is_read_in_ranges_until_it_is_deleted() {
        each(|blocks| check_a_storage(blocks, ""));
        check_a_storage(&MemoryBlocks::default(), "00ab");
    }

    #[test]
    fn a_block_that_is_held_goes_later() {
        let blocks = DiskBlocks::new(Arc::new(SimulatedDisk::new(7)));
        blocks.put("a.block", b"messages").expect("is written");
        let (first, second) = (blocks.hold(), blocks.hold());
        blocks.delete("a.block").expect("is noted");
        drop(first);
        assert!(blocks.get_range("a.block", 0, 8).is_ok());
        drop(second);
        assert!(blocks.get_range("a.block", 0, 8).is_err());
    }

    #[test]
    fn a_block_that_is_there_survives_a_crash_whole() {
        let disk = SimulatedDisk::new(7);
        let blocks = DiskBlocks::new(Arc::new(disk.clone()));
        blocks.put("a.block", b"messages").expect("is written");
        disk.crash();
        assert_eq!(blocks.get_range("a.block", 0, 8).expect("is read"), b"messages");
    }
}
