//! A simulated disk that somebody watches: whoever watches is called after every sync of a file,
//! and may take its time.

use std::io;
use std::path::PathBuf;

use blocklog::DiskFile;

use super::*;

type Watcher = Arc<dyn Fn(&str) + Send + Sync>;

pub(super) struct WatchedDisk {
    pub(super) disk: SimulatedDisk,
    /// Is told the name of the file.
    pub(super) after_sync: Watcher,
}

struct WatchedFile {
    file: Arc<dyn DiskFile>,
    name: String,
    after_sync: Watcher,
}

impl Disk for WatchedDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let (name, file) = (name.to_owned(), self.disk.open(name, create)?);
        Ok(Arc::new(WatchedFile { file, name, after_sync: Arc::clone(&self.after_sync) }))
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

impl DiskFile for WatchedFile {
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
        self.file.sync()?;
        (self.after_sync)(&self.name);
        Ok(())
    }
}
