//! Follows a file: each complete line that is appended becomes a message, a JSON string.
//!
//! The first time it begins at the file's end; afterwards where it stopped, which is stored with
//! the last line itself. A file that was renamed is read to its end before the new one is begun.
//! One that was cut short is begun anew, after the rest was looked for in a copy beside it.

mod lines;

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use base::hash;

use crate::destination::Destination;
use crate::keeper::SpoolIntake;
use crate::log::{AppendError, SpoolLog};
use crate::record::{FollowPosition, SpoolEntry};
use lines::{LINE_BYTES_MAX, complete_lines};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long to wait when a line cannot be stored.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 256 * 1_024;
/// So many first bytes tell a file from another one with the same inode.
const HEAD_BYTES_MAX: u32 = 1_024;
/// Files of the folder that are looked at for what was rotated away.
const SIBLINGS_MAX: usize = 10_000;

/// What is followed, and where it goes.
pub(crate) struct FileFollower {
    path: PathBuf,
    to: Destination,
    intake: SpoolIntake,
    log: Arc<SpoolLog>,
    open: Option<FollowedFile>,
    /// Nothing was ever read: it begins at the end.
    is_first: bool,
}

/// A file that is being read.
struct FollowedFile {
    file: File,
    position: FollowPosition,
}

impl FileFollower {
    pub(crate) fn new(path: &Path, to: Destination, intake: SpoolIntake, log: Arc<SpoolLog>) -> Self {
        let position = log.followed();
        let open = position.and_then(|position| {
            let found = find(path, position).map(|file| FollowedFile { file, position });
            if found.is_none() && position.offset > 0 {
                tracing::warn!(file = %path.display(), "the file that was followed is gone; the present one is begun");
            }
            found
        });
        Self { path: path.to_owned(), to, intake, log, open, is_first: position.is_none() }
    }

    /// Follows until `stop` is gone or says so.
    pub(crate) fn run(mut self, stop: &Receiver<()>) {
        loop {
            let wait = match self.look() {
                Ok(()) => LOOK_EVERY,
                Err(error) => {
                    tracing::warn!(%error, file = %self.path.display(), "following fails; it is tried again");
                    AGAIN_AFTER
                }
            };
            match stop.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes what is there now.
    fn look(&mut self) -> io::Result<()> {
        loop {
            let Some(open) = &mut self.open else {
                if !self.begin()? {
                    return Ok(());
                }
                continue;
            };
            if is_cut(open)? {
                let rest = find(&self.path, open.position);
                match rest {
                    // What was written between the last look and the cut.
                    Some(file) => {
                        let mut copy = FollowedFile { file, position: open.position };
                        drain(&mut copy, &self.to, &self.intake)?;
                    }
                    None => {
                        tracing::warn!(file = %self.path.display(), "the file was cut; lines may be lost");
                    }
                }
                let file = open.file.try_clone()?;
                let position =
                    FollowPosition { file: identity(&file.metadata()?), ..FollowPosition::default() };
                *open = FollowedFile { file, position };
            }
            let here = fs::metadata(&self.path).map(|metadata| identity(&metadata));
            // Looked up first: what comes before the new file is there is read.
            drain(open, &self.to, &self.intake)?;
            match here {
                Ok(here) if here != identity(&open.file.metadata()?) => self.open = None,
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => return Ok(()),
            }
        }
    }

    /// Opens the file; whether it is there.
    fn begin(&mut self) -> io::Result<bool> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // One that comes later is read from its start.
                return self.remember_first(FollowPosition::default()).map(|()| false);
            }
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let position = FollowPosition { file: identity(&metadata), ..FollowPosition::default() };
        let mut open = FollowedFile { file, position };
        if self.is_first {
            open.position = moved(&open, metadata.len())?;
            self.remember_first(open.position)?;
        }
        self.open = Some(open);
        Ok(true)
    }

    /// The first time it is stored where it begins: a restart goes on from there.
    fn remember_first(&mut self, position: FollowPosition) -> io::Result<()> {
        if self.is_first {
            self.log.follow_from(position)?;
            tracing::info!(file = %self.path.display(), from = position.offset, "following");
            self.is_first = false;
        }
        Ok(())
    }
}

/// Takes all complete lines behind the position.
fn drain(open: &mut FollowedFile, to: &Destination, intake: &SpoolIntake) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = open.file.read_at(&mut chunk, open.position.offset)?;
        let (lines, used) = complete_lines(&chunk[..read], read == chunk.len());
        if used == 0 {
            if read == chunk.len() && chunk.len() <= LINE_BYTES_MAX {
                chunk.resize(2 * chunk.len(), 0);
                continue;
            }
            return Ok(());
        }
        let end = open.position.offset + used as u64;
        let position = moved(open, end)?;
        let mut entries: Vec<SpoolEntry> = lines.into_iter().map(|body| line(to, body)).collect();
        match entries.last_mut() {
            Some(last) => {
                // All of them are stored together: the last one says how far.
                last.follow = Some(position);
                intake.append_blocking(entries).map_err(not_stored)?;
            }
            None => tracing::debug!("only blank lines"),
        }
        open.position = position;
    }
}

fn line(to: &Destination, body: Vec<u8>) -> SpoolEntry {
    SpoolEntry { destination: to.clone(), items: 1, key: None, follow: None, body: body.into() }
}

fn not_stored(error: AppendError) -> io::Error {
    io::Error::other(error)
}

/// The position in a file of which so much is read.
fn moved(open: &FollowedFile, offset: u64) -> io::Result<FollowPosition> {
    let head_bytes = offset.min(HEAD_BYTES_MAX.into()) as u32;
    let head_checksum = head(&open.file, head_bytes)?;
    Ok(FollowPosition { file: open.position.file, offset, head_bytes, head_checksum })
}

fn head(file: &File, bytes: u32) -> io::Result<u32> {
    let mut head = vec![0; bytes as usize];
    file.read_exact_at(&mut head, 0)?;
    Ok(crc32c::crc32c(&head))
}

/// Whether the file no longer begins with what was read of it.
fn is_cut(open: &FollowedFile) -> io::Result<bool> {
    let position = open.position;
    if open.file.metadata()?.len() < position.offset {
        return Ok(true);
    }
    match head(&open.file, position.head_bytes) {
        Ok(checksum) => Ok(checksum != position.head_checksum && position.head_bytes > 0),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(true),
        Err(error) => Err(error),
    }
}

/// The file that this is a position in, under its name or another one beside it: the very file, or
/// else a copy with the same beginning.
fn find(path: &Path, position: FollowPosition) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let siblings = fs::read_dir(folder).ok()?.flatten().take(SIBLINGS_MAX).map(|entry| entry.path());
    let mut copy = None;
    for candidate in std::iter::once(path.to_owned()).chain(siblings) {
        let is_file = fs::metadata(&candidate).is_ok_and(|metadata| metadata.is_file());
        let Some(file) = is_file.then(|| File::open(&candidate).ok()).flatten() else { continue };
        let Ok(metadata) = file.metadata() else { continue };
        let is_long_enough = metadata.len() >= position.offset;
        let begins_so =
            head(&file, position.head_bytes).is_ok_and(|checksum| checksum == position.head_checksum);
        if !is_long_enough || !begins_so {
            continue;
        }
        if identity(&metadata) == position.file {
            return Some(file);
        }
        if position.head_bytes > 0 {
            copy = copy.or(Some(file));
        }
    }
    copy
}

/// Device and inode.
fn identity(metadata: &Metadata) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&metadata.dev().to_le_bytes());
    bytes[8..].copy_from_slice(&metadata.ino().to_le_bytes());
    hash::derived(0, &bytes)
}
