//! The file of a closed block: its messages in slices, an index of them, and a footer.
//!
//! ```text
//!   messages                               index                    footer
//!   [ slice | slice | ... | slice ]        [ slices, segments,      [ 52 bytes ]
//!     up to 64 messages each                 external ids ]
//! ```
//! A reader asks for the end of the file, and then for the slices that it needs. A slice has
//! consecutive ids, and a checksum in the index. It ends with its 64th message, where ids are left
//! out, or once it has 64 KiB.
//!
//! Footer, version 1, numbers in little-endian order; checksums are CRC-32C:
//!
//! | bytes | |
//! |---|---|
//! | 0..8 | the stream's incarnation |
//! | 8..16 | the first message's id |
//! | 16..24 | bytes of messages: where the index begins |
//! | 24..32 | bytes of the index |
//! | 32..36 | checksum of the index |
//! | 36..40 | version |
//! | 40..44 | checksum of bytes 0..40 |
//! | 44..52 | `FPSTRBLK` |
//!
//! The index, in numbers and texts as [`crate::codec`] has them:
//! - how many slices. Each has its messages less 1, the ids left out before it, and when its first
//!   message was received. Then come its bytes, and its checksum in 4 bytes. The time is less the
//!   one of the slice before, in milliseconds, a signed number.
//! - how many segments. Each has its name, and the slices that have messages of it: how many, then
//!   by how many each is behind the one before.
//! - how many sources. Each has its name, how many runs of numbers, the runs, how many texts, the
//!   texts. A run has its lowest number less the number behind the previous run, and its numbers
//!   less 1. Then comes the first message's id less the block's first. If it has two numbers, it
//!   also has by how much ids rise. A text is its hash in 8 bytes, and the message's id less the
//!   block's first.
//!
//! To change the form, give it the next version, and keep the last 16 bytes of the footer. Read
//! this one as long as a storage may hold it. Whatever changes a byte of a file is found: no
//! function here panics, or reads another message than the one that was written.

mod footer;
mod index;
mod name;
mod slice;
mod writer;

pub use footer::FOOTER_BYTES;
pub use index::BlockIndex;
pub use name::BlockName;
pub use writer::{BlockWriter, ClosedBlock};

use crate::codec::BadMessage;

/// Why a block cannot be written, or not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The footer is damaged, or the file is no block's.
    #[error("the file does not end as a block's does")]
    Footer,
    /// A later build wrote the file.
    #[error("the block is of version {0}, and this build reads version 1")]
    Version(u32),
    /// The file is another block's.
    #[error("the file is block {0}")]
    OtherBlock(BlockName),
    /// More of the file's end is needed.
    #[error("the index needs the last {0} bytes of the file")]
    ShortTail(u64),
    /// The index does not agree with its checksum, or makes no sense.
    #[error("the block's index is damaged")]
    Index,
    /// A slice of messages does not agree with its checksum, or there is none of this number.
    #[error("the messages of slice {0} are damaged")]
    DamagedSlice(usize),
    /// A chunk that is to be written is damaged.
    #[error(transparent)]
    Message(#[from] BadMessage),
    /// A chunk that is to be written has ids of messages that are written already.
    #[error("the chunk begins with message {found}, and message {next} comes next")]
    OutOfOrder {
        /// Its first id.
        found: u64,
        /// The lowest that it may have.
        next: u64,
    },
}

#[cfg(test)]
mod tests;
