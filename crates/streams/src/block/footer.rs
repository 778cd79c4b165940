//! The last bytes of a block's file: whose it is, and where the index is.

use base::Incarnation;

use super::{BlockError, BlockName};
use crate::varint::Unread;

const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"FPSTRBLK";
const CHECKSUM_AT: usize = 40;

/// Bytes of the footer.
pub const FOOTER_BYTES: usize = CHECKSUM_AT + 4 + MAGIC.len();

/// What the footer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockFooter {
    pub(super) name: BlockName,
    /// Bytes of messages: where the index begins.
    pub(super) message_bytes: u64,
    pub(super) index_bytes: u64,
    pub(super) index_checksum: u32,
}

impl BlockFooter {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for number in [self.name.stream.0, self.name.first, self.message_bytes, self.index_bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.index_checksum.to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        let checksum = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(MAGIC);
    }

    /// Reads the footer of a file of which `tail` is the end.
    pub(super) fn read(tail: &[u8]) -> Result<Self, BlockError> {
        let footer: &[u8; FOOTER_BYTES] = tail.last_chunk().ok_or(BlockError::Footer)?;
        let mut unread = Unread(&footer[CHECKSUM_AT..]);
        let checksum = unread.array().map(u32::from_le_bytes);
        if unread.0 != MAGIC || checksum != Some(crc32c::crc32c(&footer[..CHECKSUM_AT])) {
            return Err(BlockError::Footer);
        }
        let (footer, version) = Self::fields(Unread(footer)).ok_or(BlockError::Footer)?;
        if version == VERSION { Ok(footer) } else { Err(BlockError::Version(version)) }
    }

    fn fields(mut unread: Unread<'_>) -> Option<(Self, u32)> {
        let mut number = || unread.array().map(u64::from_le_bytes);
        let name = BlockName { stream: Incarnation(number()?), first: number()? };
        let (message_bytes, index_bytes) = (number()?, number()?);
        let index_checksum = u32::from_le_bytes(unread.array()?);
        let version = u32::from_le_bytes(unread.array()?);
        Some((Self { name, message_bytes, index_bytes, index_checksum }, version))
    }

    /// Bytes of the file, and of its end from the index on. `None` if no file is that long.
    pub(super) fn file_and_tail_bytes(&self) -> Option<(u64, u64)> {
        let tail = self.index_bytes.checked_add(FOOTER_BYTES as u64)?;
        Some((self.message_bytes.checked_add(tail)?, tail))
    }
}
