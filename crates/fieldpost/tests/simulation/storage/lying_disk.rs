//! A disk whose syncs do nothing and say that they did: what a bug that forgets a sync looks like from outside.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use blocklog::{Disk, DiskFile};

/// The disk.
pub(crate) struct LyingDisk(pub(crate) Arc<dyn Disk>);

impl Disk for LyingDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LyingFile(self.0.open(name, create)?)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.0.lock(name)
    }

    fn path(&self) -> PathBuf {
        self.0.path()
    }
}

struct LyingFile(Arc<dyn DiskFile>);

impl DiskFile for LyingFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
