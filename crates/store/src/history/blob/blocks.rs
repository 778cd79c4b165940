//! The outer form of a blob: blocks, each with a checksum. So a part of a blob can be read and
//! verified without the rest.
//!
//! ```text
//! block  up to 4,062 bytes of the blob's contents, CRC-32C of the block's number and these
//!        (4 bytes); all but the last are full
//! ```
//!
//! A full block with its key fills one page of the tables. Where blocks are kept is the business of
//! a [`BlobSource`].

use std::borrow::Cow;
use std::ops::Range;

use crate::codec::CodecError;

/// Bytes of a full block.
pub(crate) const BLOCK_BYTES: usize = 4_066;
const CHECKSUM_BYTES: usize = 4;
const CONTENT_BYTES: usize = BLOCK_BYTES - CHECKSUM_BYTES;
const WHAT: &str = "a block of readings";

/// Gives parts of a blob's contents.
pub(crate) trait BlobSource {
    type Error;

    /// Bytes of the blob, with its checksums.
    fn blob_bytes(&self) -> usize;
    /// A block by its number, as it is stored.
    fn block(&self, number: usize) -> Result<Cow<'_, [u8]>, Self::Error>;
    /// What the reader is told of bytes that make no sense.
    fn damaged(&self, error: CodecError) -> Self::Error;
}

/// A whole blob.
impl<B: AsRef<[u8]> + ?Sized> BlobSource for &B {
    type Error = CodecError;

    fn blob_bytes(&self) -> usize {
        self.as_ref().len()
    }

    fn block(&self, number: usize) -> Result<Cow<'_, [u8]>, CodecError> {
        let (blob, at) = (self.as_ref(), number * BLOCK_BYTES);
        let block = blob.get(at..blob.len().min(at + BLOCK_BYTES));
        block.map(Cow::Borrowed).ok_or(CodecError::Truncated { what: WHAT, at: blob.len() })
    }

    fn damaged(&self, error: CodecError) -> CodecError {
        error
    }
}

fn checksum(number: usize, content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&(number as u64).to_le_bytes()), content)
}

/// The blob with these contents.
pub(super) fn seal(contents: &[u8]) -> Vec<u8> {
    let blocks = contents.len().div_ceil(CONTENT_BYTES);
    let mut blob = Vec::with_capacity(contents.len() + blocks * CHECKSUM_BYTES);
    for (number, content) in contents.chunks(CONTENT_BYTES).enumerate() {
        blob.extend_from_slice(content);
        blob.extend_from_slice(&checksum(number, content).to_le_bytes());
    }
    blob
}

/// Bytes of contents in so many bytes of a blob.
pub(super) fn content_bytes(blob_bytes: usize) -> usize {
    blob_bytes.saturating_sub(blob_bytes.div_ceil(BLOCK_BYTES) * CHECKSUM_BYTES)
}

/// Contents that begin within the first block: as much of them as that block holds.
pub(super) fn first<S: BlobSource>(source: &S) -> Result<Cow<'_, [u8]>, S::Error> {
    read(source, 0..content_bytes(source.blob_bytes()).min(CONTENT_BYTES))
}

/// A part of the contents, verified with the blocks that it lies in.
pub(super) fn read<S: BlobSource>(source: &S, range: Range<usize>) -> Result<Cow<'_, [u8]>, S::Error> {
    if range.start > range.end || range.end > content_bytes(source.blob_bytes()) {
        return Err(source.damaged(CodecError::Truncated { what: WHAT, at: source.blob_bytes() }));
    }
    let first = range.start / CONTENT_BYTES;
    let within = range.start - first * CONTENT_BYTES..range.end - first * CONTENT_BYTES;
    let last = range.end.saturating_sub(1).max(range.start) / CONTENT_BYTES;
    if first == last {
        return Ok(match content(source, first)? {
            Cow::Borrowed(content) => Cow::Borrowed(&content[within]),
            Cow::Owned(mut content) => {
                content.truncate(within.end);
                content.drain(..within.start);
                Cow::Owned(content)
            }
        });
    }
    let mut joined = Vec::with_capacity((last - first + 1) * CONTENT_BYTES);
    for number in first..=last {
        joined.extend_from_slice(&content(source, number)?);
    }
    joined.truncate(within.end);
    joined.drain(..within.start);
    Ok(Cow::Owned(joined))
}

/// What a block holds, verified, as many bytes as it must hold.
fn content<S: BlobSource>(source: &S, number: usize) -> Result<Cow<'_, [u8]>, S::Error> {
    let expected =
        content_bytes(source.blob_bytes()).saturating_sub(number * CONTENT_BYTES).min(CONTENT_BYTES);
    let block = source.block(number)?;
    if block.len() != expected + CHECKSUM_BYTES {
        return Err(source.damaged(CodecError::Truncated { what: WHAT, at: block.len() }));
    }
    let (content, stored) = block.split_at(expected);
    if checksum(number, content).to_le_bytes() != stored {
        return Err(source.damaged(CodecError::Checksum { what: WHAT }));
    }
    Ok(match block {
        Cow::Borrowed(block) => Cow::Borrowed(&block[..expected]),
        Cow::Owned(mut block) => {
            block.truncate(expected);
            Cow::Owned(block)
        }
    })
}
