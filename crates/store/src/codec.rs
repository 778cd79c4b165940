//! The stored formats: records to bytes and back. A record whose form is its fields in order is
//! declared by [`stored!`](field); any other is written by hand.
//!
//! Every record begins with its own version byte, in a row of a table and in a frame of the log
//! alike. To change a record, raise its [`Stored::VERSION`] and write only the newest. Let
//! [`Stored::get`] read every version since the oldest data directory that may still be opened. Add
//! the bytes of the old version to `tests/versions.rs`. A field is never given another meaning
//! under the same version. Nothing here trusts its input: bytes that make no sense are a
//! [`CodecError`], never a panic.

use std::cell::RefCell;

mod answer;
mod batch;
mod bytes;
mod campaign;
mod client;
mod command;
mod coordination;
mod copy;
mod counts;
mod delivery;
mod desired_state;
mod device;
mod event;
mod field;
mod gathered;
mod head;
mod job;
pub(crate) mod key;
mod notice;
mod operation;
mod portal;
mod quarantine;
mod queue;
mod report_ids;
mod rollout;
mod seen;
mod stream;
mod subscription;
mod task;
mod terms;
mod timeline;
mod value;

pub use batch::{decode_batch, encode_batch};
pub(crate) use bytes::{ByteReader, put_bytes, put_i64, put_u64};
pub(crate) use command::rows_of_command;
pub(crate) use job::ParkedId;
pub(crate) use seen::{decode_seen_slice, encode_seen_slice};
pub(crate) use subscription::SubscriptionPlace;
pub(crate) use value::{bit, get_value, put_value, skip_value};

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// They end too soon.
    #[error("they end at byte {at}, within {what}")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where.
        at: usize,
    },
    /// They were written by a later build.
    #[error("{what} at byte {at} is of version {found}, and this build knows versions up to {known}")]
    Version {
        /// What was being read.
        what: &'static str,
        /// Where.
        at: usize,
        /// The version they name.
        found: u8,
        /// The latest version that this build reads.
        known: u8,
    },
    /// They say something that cannot be.
    #[error("{what} at byte {at} is not one")]
    Invalid {
        /// What was being read.
        what: &'static str,
        /// Where.
        at: usize,
    },
    /// Their checksum is of other bytes.
    #[error("{what} does not agree with its checksum")]
    Checksum {
        /// What was being read.
        what: &'static str,
    },
    /// They go on behind the end.
    #[error("they should end at byte {at}")]
    LeftOver {
        /// Where.
        at: usize,
    },
}

/// Memory that a thread keeps to write rows in.
const SCRATCH_BYTES_KEPT: usize = 16 << 10;

/// A record with a stored form.
pub(crate) trait Stored: Sized {
    /// The version that is written.
    const VERSION: u8;
    /// The record's name, for messages.
    const NAME: &'static str;

    /// Appends the record in the newest version, without the version byte.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads a record of `version`, which is from 1 to [`Stored::VERSION`].
    fn get(reader: &mut ByteReader<'_>, version: u8) -> Result<Self, CodecError>;

    /// Appends the version byte and the record.
    fn write(&self, out: &mut Vec<u8>) {
        out.push(Self::VERSION);
        self.put(out);
    }

    /// Reads the version byte and the record.
    fn read(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
        let at = reader.at();
        let found = reader.u8(Self::NAME)?;
        if found == 0 {
            return Err(CodecError::Invalid { what: Self::NAME, at });
        }
        if found > Self::VERSION {
            return Err(CodecError::Version { what: Self::NAME, at, found, known: Self::VERSION });
        }
        Self::get(reader, found)
    }

    /// The value of a table's row.
    fn to_row(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.write(&mut out);
        out
    }

    /// The value of a table's row that is kept: without room to spare.
    fn to_boxed_row(&self) -> Box<[u8]> {
        thread_local! {
            static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        SCRATCH.with_borrow_mut(|scratch| {
            self.write(scratch);
            let row = Box::from(&**scratch);
            scratch.clear();
            scratch.shrink_to(SCRATCH_BYTES_KEPT);
            row
        })
    }

    /// Reads the value of a table's row.
    fn from_row(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = ByteReader::new(bytes);
        let record = Self::read(&mut reader)?;
        reader.end()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests;
