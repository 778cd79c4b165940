//! The index of a block: where its messages are, and which of them to read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use base::Timestamp;

use super::footer::BlockFooter;
use super::slice::{self, MessageSlice};
use super::{BlockError, BlockName};
use crate::codec::MessageReader;
use crate::origins::BlockOrigins;
use crate::varint::{Unread, put_counted, put_number};

/// Bytes of memory of a segment beside its name and slices.
const SEGMENT_BYTES: usize = 80;

/// What is known of a block's messages without reading them. Some 60 bytes of memory for 64
/// messages, and what segments and external ids take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockIndex {
    name: BlockName,
    slices: Vec<MessageSlice>,
    /// Slices by segment, in order.
    segments: BTreeMap<Box<str>, Vec<usize>>,
    origins: BlockOrigins,
}

/// Appends an index.
pub(super) fn write(
    out: &mut Vec<u8>,
    slices: &[MessageSlice],
    segments: &BTreeMap<Box<str>, Vec<usize>>,
    origins: &BlockOrigins,
) {
    slice::write(out, slices);
    put_number(out, segments.len() as u64);
    for (segment, slices) in segments {
        put_counted(out, segment.as_bytes());
        put_number(out, slices.len() as u64);
        let mut next = 0;
        for slice in slices {
            put_number(out, (slice - next) as u64);
            next = slice + 1;
        }
    }
    origins.write(out, slices.first().map_or(0, |slice| slice.first));
}

impl BlockIndex {
    /// Reads the index of a block from `tail`, the end of its file, which has `file_bytes` in all.
    ///
    /// # Errors
    /// [`BlockError::ShortTail`] says how much of the end is needed, if `tail` is shorter. Any
    /// other says that the file is not the block's, or is damaged.
    pub fn parse(name: BlockName, tail: &[u8], file_bytes: u64) -> Result<Self, BlockError> {
        let footer = BlockFooter::read(tail)?;
        if footer.name != name {
            return Err(BlockError::OtherBlock(footer.name));
        }
        let (needed_bytes, tail_bytes) = footer.file_and_tail_bytes().ok_or(BlockError::Footer)?;
        if needed_bytes != file_bytes {
            return Err(BlockError::Footer);
        }
        let start = usize::try_from(tail_bytes).ok().and_then(|bytes| tail.len().checked_sub(bytes));
        let start = start.ok_or(BlockError::ShortTail(tail_bytes))?;
        // The index is no longer than the tail, which is in memory.
        let index = &tail[start..][..footer.index_bytes as usize];
        if crc32c::crc32c(index) != footer.index_checksum {
            return Err(BlockError::Index);
        }
        Self::read(name, Unread(index), footer.message_bytes).ok_or(BlockError::Index)
    }

    fn read(name: BlockName, mut unread: Unread<'_>, message_bytes: u64) -> Option<Self> {
        let slices = slice::read(&mut unread, name.first)?;
        let end = slices.last()?;
        if end.range().end != message_bytes {
            return None;
        }
        let segments = read_segments(&mut unread, slices.len())?;
        let origins = BlockOrigins::read(&mut unread, name.first, end.last())?;
        unread.0.is_empty().then_some(Self { name, slices, segments, origins })
    }

    /// Which block it is of.
    #[must_use]
    pub fn name(&self) -> BlockName {
        self.name
    }

    /// The last message's id.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.slices.last().map_or(self.name.first, MessageSlice::last)
    }

    /// How many slices there are, at least one.
    #[must_use]
    pub fn slices(&self) -> usize {
        self.slices.len()
    }

    /// The slice of the message with this id, or else of the first one behind it. `None` behind
    /// the last.
    #[must_use]
    pub fn slice_for(&self, id: u64) -> Option<usize> {
        let at = self.slices.partition_point(|slice| slice.last() < id);
        (at < self.slices.len()).then_some(at)
    }

    /// The slice to begin with to find the first message that was received at `from` or later. It
    /// may be in the next one, and in none.
    #[must_use]
    pub fn slice_from(&self, from: Timestamp) -> usize {
        self.slices.partition_point(|slice| slice.at < from).saturating_sub(1)
    }

    /// The slices that have messages of any of these segments, in order.
    #[must_use]
    pub fn slices_with<'s>(&self, segments: impl IntoIterator<Item = &'s str>) -> Vec<usize> {
        let found = segments.into_iter().filter_map(|segment| self.segments.get(segment)).flatten();
        found.copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Where the bytes of a slice are in the file. `None` if there is none of this number.
    #[must_use]
    pub fn range(&self, slice: usize) -> Option<Range<u64>> {
        Some(self.slices.get(slice)?.range())
    }

    /// Reads the messages of a slice from its bytes, once these agree with the checksum.
    ///
    /// # Errors
    /// When the bytes are others than those that were written.
    pub fn read_slice<'a>(&self, slice: usize, bytes: &'a [u8]) -> Result<MessageReader<'a>, BlockError> {
        let of_number = self
            .slices
            .get(slice)
            .filter(|slice| slice.bytes == bytes.len() as u64 && slice.checksum == crc32c::crc32c(bytes));
        let slice = of_number.ok_or(BlockError::DamagedSlice(slice))?;
        Ok(MessageReader::new(slice.first, slice.at, bytes))
    }

    /// External ids of the block's messages.
    #[must_use]
    pub fn origins(&self) -> &BlockOrigins {
        &self.origins
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let segments = self.segments.iter().map(|(name, at)| SEGMENT_BYTES + name.len() + size_of_val(&**at));
        size_of::<Self>() + size_of_val(&*self.slices) + segments.sum::<usize>() + self.origins.bytes()
    }
}

fn read_segments(unread: &mut Unread<'_>, slices: usize) -> Option<BTreeMap<Box<str>, Vec<usize>>> {
    let mut segments: BTreeMap<Box<str>, Vec<usize>> = BTreeMap::new();
    for _ in 0..unread.number()? {
        let name = unread.text()?;
        if segments.last_key_value().is_some_and(|(before, _)| **before >= *name) {
            return None;
        }
        let mut of_segment = Vec::new();
        let mut next = 0_usize;
        for _ in 0..unread.number()? {
            let slice = next.checked_add(unread.count()?).filter(|slice| *slice < slices)?;
            of_segment.push(slice);
            next = slice + 1;
        }
        if of_segment.is_empty() {
            return None;
        }
        segments.insert(name.into(), of_segment);
    }
    Some(segments)
}
