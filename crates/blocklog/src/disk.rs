//! The port to one flat directory of files.
//!
//! All that the log, and the tables beside it, need of a file system, and nothing more. So a
//! simulation can stand in for it. Not a general virtual file system: no subdirectories, no
//! cursors, no permissions. Nothing is durable before [`DiskFile::sync`] (contents and length of a
//! file) or [`Disk::sync_directory`] (created, renamed and removed names) has returned `Ok`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// One directory of files. A name is a flat file name; one with a path in it is refused as invalid
/// input.
pub trait Disk: Send + Sync + 'static {
    /// Opens `name` for reading and writing; with `create` it is made, empty, when it does not
    /// exist.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>>;
    /// The names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Gives `from` the name `to`, in one step; a file that had this name is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes the name `name`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes every earlier creation, renaming and removal durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Takes the exclusive lock `name` (a file of that name is made) and holds it until the answer
    /// is dropped or the process ends. `WouldBlock` while anyone holds it, this process included.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>>;
    /// Where this directory is; for messages.
    fn path(&self) -> PathBuf;
}

/// One open file. Offsets and lengths are in bytes.
pub trait DiskFile: Send + Sync {
    /// The length of the file.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills `out` with the bytes from `offset` on; `UnexpectedEof` where the file is shorter.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes all of `data` at `offset`; the file grows as needed, a gap reads as zeros.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Cuts the file, or extends it with zeros, to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the contents and the length durable. After an error nothing is known about any write
    /// since the last `Ok`, and a further `sync` that succeeds says nothing about them either.
    fn sync(&self) -> io::Result<()>;
}

/// Refuses a name that could lead out of the directory.
pub(crate) fn check_flat_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is not a flat file name")));
    }
    Ok(())
}
