//! Makes the file of a block from its chunks.

use std::collections::BTreeMap;

use base::{Incarnation, Lineage, Timestamp};
use records::{ExternalSpan, LOCAL_STORAGE, StreamBlock, StreamChunk};

use super::footer::BlockFooter;
use super::index;
use super::slice::{MessageSlice, SLICE_BYTES, SLICE_MESSAGES_MAX};
use super::{BlockError, BlockName};
use crate::codec::{MessageReader, passed_before};
use crate::message::StreamMessage;
use crate::origins::BlockOrigins;

/// Most segments that the row of a block names.
const ROW_SEGMENTS_MAX: usize = 64;

/// Gathers the chunks of a block, in order.
#[derive(Clone, Debug, Default)]
pub struct BlockWriter {
    bytes: Vec<u8>,
    slices: Vec<MessageSlice>,
    /// No message is added to the last slice.
    is_complete: bool,
    last_at: Timestamp,
    /// Slices by segment, in order.
    segments: BTreeMap<Box<str>, Vec<usize>>,
    origins: BlockOrigins,
}

/// A block, ready to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedBlock {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its row.
    pub row: StreamBlock,
    /// Where the numbers of its sources are to be looked for, in order of source.
    pub spans: Vec<ExternalSpan>,
}

impl BlockWriter {
    /// Appends the messages of a chunk. Costs about a copy of its bytes, and an entry for each
    /// segment and external id.
    ///
    /// # Errors
    /// When the chunk is damaged, or its ids do not come behind those that are there. The writer is
    /// of no use afterwards.
    pub fn add(&mut self, chunk: &StreamChunk) -> Result<(), BlockError> {
        let next = self.slices.last().map_or(0, |slice| slice.last() + 1);
        if chunk.first < next {
            return Err(BlockError::OutOfOrder { found: chunk.first, next });
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&chunk.bytes);
        self.is_complete = !self.follows(chunk);
        let mut reader = MessageReader::of(chunk);
        let mut from = 0;
        while let Some(message) = reader.next() {
            let message = message?;
            let bytes = reader.bytes_read() - from;
            self.note(&message, start + from, bytes as u64);
            from = reader.bytes_read();
        }
        Ok(())
    }

    /// Whether the bytes of a chunk say what they should behind those that are there: a slice has
    /// the time of its first message only.
    fn follows(&self, chunk: &StreamChunk) -> bool {
        let at = passed_before(&chunk.bytes).and_then(|ms| self.last_at.0.checked_add_unsigned(ms));
        at == Some(chunk.at.0)
    }

    /// Notes a message that lies at `offset`.
    fn note(&mut self, message: &StreamMessage<'_>, offset: usize, bytes: u64) {
        let goes_on = |slice: &&mut MessageSlice| {
            let has_room = slice.messages < SLICE_MESSAGES_MAX && slice.bytes < SLICE_BYTES;
            has_room && slice.last() + 1 == message.id && !self.is_complete
        };
        match self.slices.last_mut().filter(goes_on) {
            Some(slice) => {
                slice.messages += 1;
                slice.bytes += bytes;
            }
            None => {
                self.seal_slice();
                let (first, at, offset) = (message.id, message.received_at, offset as u64);
                self.slices.push(MessageSlice { first, messages: 1, at, offset, bytes, checksum: 0 });
                self.is_complete = false;
            }
        }
        if let Some(segment) = message.segment {
            self.note_segment(segment);
        }
        if let Some(origin) = message.origin {
            self.origins.add(origin, message.id);
        }
        self.last_at = message.received_at;
    }

    fn note_segment(&mut self, segment: &str) {
        let slice = self.slices.len() - 1;
        match self.segments.get_mut(segment) {
            Some(slices) if slices.last() == Some(&slice) => {}
            Some(slices) => slices.push(slice),
            None => drop(self.segments.insert(segment.into(), vec![slice])),
        }
    }

    /// The last slice has all of its messages.
    fn seal_slice(&mut self) {
        if let Some(slice) = self.slices.last_mut() {
            let (offset, bytes) = (slice.offset as usize, slice.bytes as usize);
            slice.checksum = crc32c::crc32c(&self.bytes[offset..offset + bytes]);
        }
    }

    /// The file of the block, and its rows: it begins in the local storage. `None` without a
    /// message.
    #[must_use]
    pub fn finish(mut self, stream: Incarnation) -> Option<ClosedBlock> {
        self.seal_slice();
        let (begin, end) = (*self.slices.first()?, *self.slices.last()?);
        let mut bytes = self.bytes;
        let message_bytes = bytes.len() as u64;
        index::write(&mut bytes, &self.slices, &self.segments, &self.origins);
        let index = &bytes[message_bytes as usize..];
        let footer = BlockFooter {
            name: BlockName { stream, first: begin.first },
            message_bytes,
            index_bytes: index.len() as u64,
            index_checksum: crc32c::crc32c(index),
        };
        footer.write(&mut bytes);
        let any_segment = self.segments.len() > ROW_SEGMENTS_MAX;
        let messages: u64 = self.slices.iter().map(|slice| slice.messages).sum();
        let row = StreamBlock {
            stream,
            first: begin.first,
            last: end.last(),
            messages: u32::try_from(messages).unwrap_or(u32::MAX),
            bytes: message_bytes,
            stored_bytes: bytes.len() as u64,
            checksum: crc32c::crc32c(&bytes),
            storage: LOCAL_STORAGE.into(),
            brought_by: Lineage(0),
            created_at: begin.at,
            last_at: self.last_at,
            segments: if any_segment { Vec::new() } else { self.segments.into_keys().collect() },
            any_segment,
        };
        let span = |(source, from, to): (&str, u64, u64)| ExternalSpan {
            stream,
            source: source.into(),
            from,
            to,
            block: begin.first,
        };
        let spans = self.origins.spans().map(span).collect();
        Some(ClosedBlock { bytes, row, spans })
    }
}
