//! Makes the file of a block from its chunks.

use std::collections::BTreeMap;

use base::{Incarnation, Lineage, Timestamp};
use records::{ExternalSpan, LOCAL_STORAGE, StreamBlock, StreamChunk};

use super::footer::BlockFooter;
use super::index;
use super::stretch::{MessageStretch, STRETCH_BYTES, STRETCH_MESSAGES_MAX};
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
    stretches: Vec<MessageStretch>,
    /// No message is added to the last stretch.
    is_complete: bool,
    last_at: Timestamp,
    /// Stretches by segment, in order.
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
        let next = self.stretches.last().map_or(0, |stretch| stretch.last() + 1);
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

    /// Whether the bytes of a chunk say what they should behind those that are there: a stretch has
    /// the time of its first message only.
    fn follows(&self, chunk: &StreamChunk) -> bool {
        let at = passed_before(&chunk.bytes).and_then(|ms| self.last_at.0.checked_add_unsigned(ms));
        at == Some(chunk.at.0)
    }

    /// Notes a message that lies at `offset`.
    fn note(&mut self, message: &StreamMessage<'_>, offset: usize, bytes: u64) {
        let goes_on = |stretch: &&mut MessageStretch| {
            let has_room = stretch.messages < STRETCH_MESSAGES_MAX && stretch.bytes < STRETCH_BYTES;
            has_room && stretch.last() + 1 == message.id && !self.is_complete
        };
        match self.stretches.last_mut().filter(goes_on) {
            Some(stretch) => {
                stretch.messages += 1;
                stretch.bytes += bytes;
            }
            None => {
                self.seal_stretch();
                let (first, at, offset) = (message.id, message.received_at, offset as u64);
                self.stretches.push(MessageStretch { first, messages: 1, at, offset, bytes, checksum: 0 });
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
        let stretch = self.stretches.len() - 1;
        match self.segments.get_mut(segment) {
            Some(stretches) if stretches.last() == Some(&stretch) => {}
            Some(stretches) => stretches.push(stretch),
            None => drop(self.segments.insert(segment.into(), vec![stretch])),
        }
    }

    /// The last stretch has all of its messages.
    fn seal_stretch(&mut self) {
        if let Some(stretch) = self.stretches.last_mut() {
            let (offset, bytes) = (stretch.offset as usize, stretch.bytes as usize);
            stretch.checksum = crc32c::crc32c(&self.bytes[offset..offset + bytes]);
        }
    }

    /// The file of the block, and its rows: it begins in the local storage. `None` without a
    /// message.
    #[must_use]
    pub fn finish(mut self, stream: Incarnation) -> Option<ClosedBlock> {
        self.seal_stretch();
        let (begin, end) = (*self.stretches.first()?, *self.stretches.last()?);
        let mut bytes = self.bytes;
        let message_bytes = bytes.len() as u64;
        index::write(&mut bytes, &self.stretches, &self.segments, &self.origins);
        let index = &bytes[message_bytes as usize..];
        let footer = BlockFooter {
            name: BlockName { stream, first: begin.first },
            message_bytes,
            index_bytes: index.len() as u64,
            index_checksum: crc32c::crc32c(index),
        };
        footer.write(&mut bytes);
        let any_segment = self.segments.len() > ROW_SEGMENTS_MAX;
        let messages: u64 = self.stretches.iter().map(|stretch| stretch.messages).sum();
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
