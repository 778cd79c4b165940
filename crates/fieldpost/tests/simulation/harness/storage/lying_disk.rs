//! A disk whose syncs do nothing and say that they did: what a bug that forgets a sync looks like
//! from outside.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use blocklog::{Disk, DiskFile};

/// The disk.
pub(crate) struct LyingDisk {
    pub(crate) disk: Arc<dyn Disk>,
    /// It lies about files whose names begin so.
    pub(crate) about: &'static str,
}

impl Disk for LyingDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let lies = name.starts_with(self.about);
        Ok(Arc::new(LyingFile { file: self.disk.open(name, create)?, lies }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(name)
    }

    fn path(&self) -> PathBuf {
        self.disk.path()
    }
}

struct LyingFile {
    file: Arc<dyn DiskFile>,
    lies: bool,
}

impl DiskFile for LyingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        if self.lies { Ok(()) } else { self.file.sync() }
    }
}
