//! What can be wrong with a log, in words that an operator can act on.
//!
//! Every refusal names the file, and the offset and position where there is one. So a backup or a
//! tool can be pointed at it. Nothing here decides whether to refuse; that is `recovery`.

use std::error::Error;
use std::io;

use crate::disk::Disk;
use crate::position::{LogId, Position};

/// Why the caller's `visit` stopped the replay.
pub type VisitError = Box<dyn Error + Send + Sync>;

/// Why a log was refused, or takes nothing more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is no segment file at all.
    #[error("there is no log in {directory}")]
    NotFound {
        /// Where it was looked for.
        directory: String,
    },
    /// A log was to be created where one is.
    #[error("there already is a log: {file}; it is not overwritten")]
    AlreadyExists {
        /// The first segment file found.
        file: String,
    },
    /// A segment was written in another format.
    #[error(
        "{file} has log format {found}, this build reads format {supported}: start the version that wrote it, or \
         one that converts it"
    )]
    UnsupportedVersion {
        /// The segment file.
        file: String,
        /// The format version it names.
        found: u32,
        /// The format version that this build reads and writes.
        supported: u32,
    },
    /// Bytes that were durable are damaged.
    #[error(
        "{file} is damaged at offset {offset}: the frame at position {position} was durable and does not verify; \
         check the disk and restore a backup"
    )]
    Corrupt {
        /// The segment file.
        file: String,
        /// Where the damaged frame begins, in bytes.
        offset: u64,
        /// The position of the damaged frame.
        position: Position,
    },
    /// The header of a segment is damaged. It was durable before the segment had its name, so that
    /// this is never a torn tail.
    #[error("{file} is damaged at offset 0: its header does not verify; check the disk and restore a backup")]
    CorruptHeader {
        /// The segment file.
        file: String,
    },
    /// A segment file belongs to another log.
    #[error(
        "{file} belongs to log {found}, not to log {expected}: the directory mixes the files of two logs"
    )]
    ForeignSegment {
        /// The segment file.
        file: String,
        /// The log that the other segments belong to.
        expected: LogId,
        /// The log that this one belongs to.
        found: LogId,
    },
    /// Whole segments are gone.
    #[error(
        "positions {from} to {to} of the log are missing: {file} begins only after them; put back the segment files \
         that were removed, or restore a backup"
    )]
    Missing {
        /// The first missing position.
        from: Position,
        /// The last missing position.
        to: Position,
        /// The segment file that follows the gap.
        file: String,
    },
    /// The log ends before something that is known to have been durable.
    #[error(
        "the log ends at position {end}, in {file}, but position {recorded} is recorded as durable: files of different \
         age were put together, or the disk lost writes; restore a backup"
    )]
    EndsBelow {
        /// The last segment file.
        file: String,
        /// The last position in the log.
        end: Position,
        /// The position that the caller knows to be durable.
        recorded: Position,
    },
    /// The payload is over the limit; nothing was appended.
    #[error("a payload of {bytes} bytes is over the limit of {max} bytes")]
    PayloadTooLarge {
        /// Its length.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// An empty payload is the log's own claim; nothing was appended.
    #[error("a frame needs a payload; empty ones are the log's own")]
    EmptyPayload,
    /// The disk refused; the log takes nothing more.
    #[error("cannot {action} {file}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file, or the directory.
        file: String,
        /// What the operating system answered.
        source: io::Error,
    },
    /// An earlier failure; the log takes nothing more until it is opened again.
    #[error("the log takes nothing more since an earlier failure: {first}")]
    Poisoned {
        /// The text of the first failure.
        first: String,
    },
    /// The caller stopped the replay.
    #[error("the frame at position {position} was not accepted")]
    Visit {
        /// The frame that was being handed out.
        position: Position,
        /// The caller's reason.
        source: VisitError,
    },
}

impl LogError {
    /// Turns an error of the disk into one that says what was tried on which file.
    pub(crate) fn io(
        action: &'static str,
        disk: &dyn Disk,
        name: &str,
    ) -> impl FnOnce(io::Error) -> LogError {
        let file = file_of(disk, name);
        move |source| LogError::Io { action, file, source }
    }

    /// The text of this error and of its causes.
    pub(crate) fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

/// The file `name` as messages call it.
pub(crate) fn file_of(disk: &dyn Disk, name: &str) -> String {
    disk.path().join(name).display().to_string()
}
