//! Readings: the many small things a fleet leaves behind, kept in bulk.
//!
//! The 256 devices of a slice share their history. What was just committed is appended to a
//! [`Chunk`] in memory. A checkpoint seals each chunk into [blobs](blob), one for each day it
//! touches; their [index rows](BlobIndex) say what may be in them. As time goes by many small blobs
//! are [merged](merging) into few large ones. A reading may carry any time of its own, so the times
//! of chunks and blobs overlap. A [`ReadingPage`] gathers from all that may matter and from no
//! others. Where blobs are kept is not known here.

mod blob;
mod chunk;
mod device_set;
mod index;
mod merging;
mod page;

use base::Timestamp;
use records::Reading;

pub(crate) use blob::{BLOCK_BYTES, Blob, BlobSource, encode_blob, merge_blobs};
pub(crate) use chunk::{Chunk, ChunkReadings};
pub(crate) use device_set::SliceDevices;
pub(crate) use index::{BlobIndex, Sealed, day_of, seal, span_of_day};
pub(crate) use merging::{FAN_IN, plan};
pub(crate) use page::{ReadingPage, ReadingSpan};

/// A reading of a device of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceReading {
    /// The device's place within the slice.
    pub(crate) within: u8,
    pub(crate) reading: Reading,
}

impl SliceReading {
    /// The order in a blob: by device, then as in the device's feed.
    fn order(&self) -> (u8, Timestamp, u32) {
        (self.within, self.reading.ts, self.reading.number)
    }
}

#[cfg(test)]
mod tests;
