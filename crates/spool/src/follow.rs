//! Follows a file: each complete line that is appended becomes a message, a JSON string.
//!
//! The first time it begins at the file's end; afterwards where it stopped, which is stored with
//! the last line itself. Another path than before has its first time too. A file system that is
//! mounted late is waited for: until the file is there, nothing says that it is another one.
//!
//! A file that was renamed, or copied and cut, is read to its end, then what was rotated away after
//! it, then the present one. A line that is too long for a message is written down among what was
//! refused.

mod lines;
mod rotation;

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::Timestamp;
use rustix::fs::OFlags;

use crate::destination::Destination;
use crate::disk_threads::{SpoolIntake, now};
use crate::log::{AppendError, SpoolLog};
use crate::record::{FollowPosition, SpoolEntry, SpoolRecord};
use crate::refused::RefusedFile;
use crate::verdict::RefusalReason;
use lines::{LineLimits, LinesFound, complete_lines};
use rotation::{RotatedAfter, find, head, identity, path_hash};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long to wait when a line cannot be stored.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 256 * 1_024;
/// So many first bytes tell a file from another one with the same inode.
const HEAD_BYTES_MAX: u32 = 1_024;
/// A file that was renamed is left once nothing was written to it for this time: its writer may not
/// have heard of it yet.
const QUIET_FOR: Duration = Duration::from_secs(1);
/// A file is left in any case so long after another one took its place.
const LEFT_AFTER: Duration = Duration::from_secs(10);
/// What is kept of a line that is too long, in bytes.
const BEGINNING_BYTES: usize = 64 * 1_024;

/// What is followed, and where it goes.
pub(crate) struct FileFollower {
    path: PathBuf,
    path_hash: u64,
    taker: LineTaker,
    open: Option<FollowedFile>,
    /// Where it begins while no file is open.
    start: FollowStart,
    /// When the spool took something last, before this start.
    stopped: Timestamp,
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowStart {
    /// Nothing of this path was read yet: at the end of the file. The position is in the file of
    /// another path.
    FirstTime(Option<FollowPosition>),
    /// The file was missing in this file system: at its start, if it was made there. In another
    /// file system it is new only if it was made since then. It may have come with a mount, and
    /// file systems have other numbers after another boot.
    Missing { device: u64, since: Timestamp },
    /// Where it stopped. Rotated files are sought at the start, and again once the path is there.
    Stopped { position: FollowPosition, is_sought: bool },
    /// The file before is read: at the start of the present one.
    NextFile,
}

/// A file that is being read.
struct FollowedFile {
    file: File,
    position: FollowPosition,
    /// No line ends between the position and here.
    searched: u64,
    /// Since when another file has its name.
    replaced_at: Option<Instant>,
}

/// Where lines go.
struct LineTaker {
    to: Destination,
    intake: SpoolIntake,
    log: Arc<SpoolLog>,
    refused: Arc<RefusedFile>,
    limits: LineLimits,
}

impl FileFollower {
    pub(crate) fn new(
        path: &Path,
        to: Destination,
        intake: SpoolIntake,
        log: Arc<SpoolLog>,
        refused: Arc<RefusedFile>,
    ) -> Self {
        let path_hash = path_hash(path);
        // Earlier versions did not note the path.
        let is_ours = [0, path_hash].contains(&log.followed_path());
        let start = match log.followed() {
            Some(position) if is_ours => match position.missing_in() {
                Some((device, since)) => FollowStart::Missing { device, since },
                None => FollowStart::Stopped { position, is_sought: false },
            },
            elsewhere => FollowStart::FirstTime(elsewhere),
        };
        let (limits, stopped) = (LineLimits::of(log.bytes_max()), log.newest_received());
        let taker = LineTaker { to, intake, log, refused, limits };
        Self { path: path.to_owned(), path_hash, taker, open: None, start, stopped }
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
                // What was written between the last look and the cut is in the copy.
                let is_path_known = self.taker.log.followed_path() == self.path_hash;
                *open = match find(&self.path, open.position, is_path_known) {
                    Some(copy) => FollowedFile::resumed(copy, open.position)?,
                    None => {
                        tracing::warn!(file = %self.path.display(), "the file was cut; lines may be lost");
                        FollowedFile::from_start(open.file.try_clone()?)?
                    }
                };
                continue;
            }
            let here = fs::metadata(&self.path).map(|metadata| identity(&metadata));
            // Looked up first: what comes before the new file is there is read.
            self.taker.drain(open)?;
            match here {
                Ok(here) if here != identity(&open.file.metadata()?) => {
                    if !open.is_left()? {
                        return Ok(());
                    }
                    let next = rotation::next(&self.path, RotatedAfter::File(&open.file))?;
                    self.open = next.map(FollowedFile::from_start).transpose()?;
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => return Ok(()),
            }
        }
    }

    /// Opens the file to be read; whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        let present = self.present()?;
        self.open = match (self.start, present) {
            (FollowStart::FirstTime(elsewhere), Some(present)) => Some(self.begin_first(present, elsewhere)?),
            (FollowStart::FirstTime(_), None) => {
                let (device, since) = (rotation::device_above(&self.path)?, now());
                self.remember(FollowPosition::of_no_file(device, since))?;
                self.start = FollowStart::Missing { device, since };
                None
            }
            (FollowStart::Missing { device, since }, Some(present)) => {
                let is_new = rotation::device_above(&self.path)? == device || present.is_made_since(since)?;
                Some(if is_new { present } else { self.begin_first(present, None)? })
            }
            (FollowStart::Stopped { is_sought: true, .. }, None) => None,
            (FollowStart::Stopped { position, .. }, present) => {
                let open = self.resume(position, present)?;
                self.start = FollowStart::Stopped { position, is_sought: true };
                open
            }
            (FollowStart::Missing { .. }, None) => None,
            (FollowStart::NextFile, present) => present,
        };
        if self.open.is_some() {
            self.start = FollowStart::NextFile;
        }
        Ok(self.open.is_some())
    }

    /// At the end of a file that was never read. If it is the file of another path under a new one,
    /// it goes on in that file instead.
    fn begin_first(
        &self,
        present: FollowedFile,
        elsewhere: Option<FollowPosition>,
    ) -> io::Result<FollowedFile> {
        let mut open = present;
        match elsewhere {
            Some(position) if rotation::is_in(&open.file, position)? => open.move_to(position),
            _ => {
                let length = open.file.metadata()?.len();
                open.move_to(open.moved(length)?);
            }
        }
        self.remember(open.position)?;
        Ok(open)
    }

    /// Goes on in the file that was being read, or behind it. A path that was not known is from
    /// now on.
    fn resume(
        &self,
        position: FollowPosition,
        present: Option<FollowedFile>,
    ) -> io::Result<Option<FollowedFile>> {
        let is_path_known = self.taker.log.followed_path() == self.path_hash;
        let open = match find(&self.path, position, is_path_known) {
            Some(file) => Some(FollowedFile::resumed(file, position)?),
            None => self.resume_behind(position, present)?,
        };
        if let Some(open) = &open
            && !is_path_known
        {
            self.remember(open.position)?;
        }
        Ok(open)
    }

    /// The file that was being read is gone: goes on in the first one that was made after the spool
    /// stopped.
    fn resume_behind(
        &self,
        position: FollowPosition,
        present: Option<FollowedFile>,
    ) -> io::Result<Option<FollowedFile>> {
        let open = match self.first_since_stop()? {
            Some(file) => Some(FollowedFile::from_start(file)?),
            None => present,
        };
        if position.offset > 0 && open.is_some() {
            tracing::warn!(
                file = %self.path.display(),
                "the file that was followed is gone; what came after it is read"
            );
        }
        Ok(open)
    }

    /// The oldest file that was rotated away since the spool stopped.
    fn first_since_stop(&self) -> io::Result<Option<File>> {
        // Before it took anything, nothing tells what is new.
        let Some(stopped) = moment(self.stopped) else { return Ok(None) };
        let after = stopped.checked_sub(LEFT_AFTER + QUIET_FOR).unwrap_or(UNIX_EPOCH);
        rotation::next(&self.path, RotatedAfter::Moment(after))
    }

    /// The file that has the name now, from its start.
    fn present(&self) -> io::Result<Option<FollowedFile>> {
        match rotation::open_at_once(&self.path, OFlags::empty()) {
            Ok(file) if !file.metadata()?.is_file() => Err(io::Error::other("it is no file")),
            Ok(file) => FollowedFile::from_start(file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// It is stored where it begins: a restart goes on from there.
    fn remember(&self, position: FollowPosition) -> io::Result<()> {
        self.taker.log.follow_from(self.path_hash, position)?;
        tracing::info!(file = %self.path.display(), from = position.offset, "following");
        Ok(())
    }
}

impl FollowedFile {
    fn from_start(file: File) -> io::Result<Self> {
        Self::resumed(file, FollowPosition::default())
    }

    fn resumed(file: File, position: FollowPosition) -> io::Result<Self> {
        let position = FollowPosition { file: identity(&file.metadata()?), ..position };
        Ok(Self { file, position, searched: 0, replaced_at: None })
    }

    /// Whether it was made at that time or later; not where that time is not known.
    fn is_made_since(&self, since: Timestamp) -> io::Result<bool> {
        let made = rotation::made(&self.file.metadata()?);
        Ok(moment(since).is_some_and(|since| made >= since))
    }

    /// The position behind so many bytes.
    fn moved(&self, offset: u64) -> io::Result<FollowPosition> {
        let head_bytes = offset.min(HEAD_BYTES_MAX.into()) as u32;
        let head_checksum = head(&self.file, head_bytes)?;
        Ok(FollowPosition { file: self.position.file, offset, head_bytes, head_checksum })
    }

    fn move_to(&mut self, position: FollowPosition) {
        self.position = position;
        self.searched = 0;
    }

    /// Whether nobody writes to it any more, now that another file has its name.
    fn is_left(&mut self) -> io::Result<bool> {
        let replaced_at = *self.replaced_at.get_or_insert_with(Instant::now);
        let is_quiet = |metadata: Metadata| {
            let written = metadata.modified()?;
            Ok::<_, io::Error>(SystemTime::now().duration_since(written).is_ok_and(|age| age >= QUIET_FOR))
        };
        Ok(replaced_at.elapsed() >= LEFT_AFTER || is_quiet(self.file.metadata()?)?)
    }

    /// How many bytes the line at the position has, without its end; `None` where it has no end
    /// yet. What was searched is not searched again.
    fn line_bytes(&mut self, chunk: &mut [u8]) -> io::Result<Option<u64>> {
        let mut at = self.searched.max(self.position.offset);
        loop {
            let read = self.file.read_at(chunk, at)?;
            if let Some(end) = memchr::memchr(b'\n', &chunk[..read]) {
                return Ok(Some(at + end as u64 - self.position.offset));
            }
            at += read as u64;
            self.searched = at;
            if read == 0 {
                return Ok(None);
            }
        }
    }
}

impl LineTaker {
    /// Takes all complete lines behind the position.
    fn drain(&self, open: &mut FollowedFile) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = open.file.read_at(&mut chunk, open.position.offset)?;
            let is_full = read == chunk.len();
            match complete_lines(&chunk[..read], self.limits) {
                LinesFound::Messages(messages, used) => {
                    let position = open.moved(open.position.offset + used as u64)?;
                    self.store(messages, position)?;
                    open.move_to(position);
                }
                LinesFound::Nothing if !is_full => return Ok(()),
                LinesFound::Nothing if chunk.len() <= self.limits.line_bytes => {
                    chunk.resize(2 * chunk.len(), 0);
                }
                LinesFound::TooLong | LinesFound::Nothing => {
                    let Some(bytes) = open.line_bytes(&mut chunk)? else { return Ok(()) };
                    self.refuse(open, bytes)?;
                }
            }
        }
    }

    /// All of them are stored together; the last one says how far.
    fn store(&self, messages: Vec<Vec<u8>>, position: FollowPosition) -> io::Result<()> {
        let mut entries: Vec<SpoolEntry> = messages.into_iter().map(|body| self.entry(body)).collect();
        if let Some(last) = entries.last_mut() {
            last.follow = Some(position);
        }
        self.intake.append_blocking(entries).map_err(not_stored)?;
        Ok(())
    }

    /// A line of so many bytes, which is too long, is written down with its beginning, and passed.
    /// If the agent is killed in between, it is written down twice.
    fn refuse(&self, open: &mut FollowedFile, bytes: u64) -> io::Result<()> {
        let kept = bytes.min(BEGINNING_BYTES as u64) as usize;
        let mut beginning = vec![0; kept];
        open.file.read_exact_at(&mut beginning, open.position.offset)?;
        let detail = format!(
            "the line at byte {} has {bytes} bytes; a message has at most {} as a JSON string; here are its \
             first {kept} bytes",
            open.position.offset, self.limits.line_bytes
        );
        let reason = RefusalReason { status: 413, code: "line_too_long".to_owned(), detail };
        let body = lines::message(&beginning, usize::MAX).unwrap_or_default();
        let record = SpoolRecord { identity: 0, number: 0, received: now(), entry: self.entry(body) };
        self.refused.add(&[(&record, &reason)], now())?;
        tracing::warn!(bytes, "a line is too long for a message; its beginning is in refused.ndjson");
        let position = open.moved(open.position.offset + bytes + 1)?;
        self.log.follow_past_refused(position)?;
        open.move_to(position);
        Ok(())
    }

    fn entry(&self, body: Vec<u8>) -> SpoolEntry {
        SpoolEntry { destination: self.to.clone(), items: 1, key: None, follow: None, body: body.into() }
    }
}

/// A time of the spool's clock; `None` where it is not known.
fn moment(time: Timestamp) -> Option<SystemTime> {
    let since_epoch = u64::try_from(time.0).ok().filter(|time| *time > 0)?;
    Some(UNIX_EPOCH + Duration::from_millis(since_epoch))
}

fn not_stored(error: AppendError) -> io::Error {
    io::Error::other(error)
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

#[cfg(test)]
mod tests;
