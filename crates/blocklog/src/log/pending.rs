//! Frames that wait in memory for the next sync, by the segment they will be in.
//!
//! A frame names its segment under its checksum, so that where it goes is settled when it is
//! appended. Writes nothing itself.

use std::collections::VecDeque;

use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentId, encode_frame, frame_bytes};
use crate::position::Position;

/// A buffer that a rare large batch made larger than this is not kept for the next, in bytes.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// What is to be added to one segment.
pub(crate) struct SegmentWrite {
    pub place: SegmentId,
    /// The last frame in the segment so far.
    pub last: Position,
    /// Where `bytes` go in the file.
    begin: u64,
    /// Of a new segment, header and frames; else frames.
    pub bytes: Vec<u8>,
}

impl SegmentWrite {
    fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    fn has_room_for(&self, frame_bytes: usize, segment_bytes: u64) -> bool {
        let is_empty = self.end() == SEGMENT_HEADER_BYTES as u64;
        is_empty || self.end() + frame_bytes as u64 <= segment_bytes
    }
}

/// The writes in the order of their segments.
pub(crate) struct PendingFrames {
    /// Segments that get no more frames.
    full: VecDeque<SegmentWrite>,
    last: SegmentWrite,
}

impl PendingFrames {
    /// Nothing waits; the next frame goes to `place` at offset `begin`, after the frame at `end`.
    pub(crate) fn after(place: SegmentId, begin: u64, end: Position) -> PendingFrames {
        PendingFrames {
            full: VecDeque::new(),
            last: SegmentWrite { place, last: end, begin, bytes: Vec::new() },
        }
    }

    /// Adds a frame to the last segment, or to a new one where it has no room.
    pub(crate) fn push(
        &mut self,
        segment_bytes: u64,
        position: Position,
        synced_through: Position,
        payload: &[u8],
    ) {
        if !self.last.has_room_for(frame_bytes(payload.len()), segment_bytes) {
            self.begin_segment(position);
        }
        encode_frame(&mut self.last.bytes, self.last.place, position, synced_through, payload);
        self.last.last = position;
    }

    fn begin_segment(&mut self, first: Position) {
        let sequence = self.last.place.sequence.checked_add(1);
        let sequence = sequence.expect("four thousand million segments are more than any disk holds");
        let place = SegmentId { sequence, ..self.last.place };
        let bytes = header_bytes(place, first, self.last.end());
        let next = SegmentWrite { place, last: first, begin: 0, bytes };
        self.full.push_back(std::mem::replace(&mut self.last, next));
    }

    /// The oldest segment that gets no more frames.
    pub(crate) fn pop_full(&mut self) -> Option<SegmentWrite> {
        self.full.pop_front()
    }

    /// What waits for the last segment, and its sequence. [`PendingFrames::reuse`] takes the buffer
    /// back.
    pub(crate) fn take_last(&mut self) -> (u32, Vec<u8>) {
        self.last.begin = self.last.end();
        (self.last.place.sequence, std::mem::take(&mut self.last.bytes))
    }

    /// Takes back the buffer of [`PendingFrames::take_last`], empty, before the next frame is
    /// added.
    pub(crate) fn reuse(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() <= KEPT_BYTES_MAX {
            self.last.bytes = buffer;
        }
    }
}

/// The header of a new segment.
pub(crate) fn header_bytes(place: SegmentId, first: Position, previous_bytes: u64) -> Vec<u8> {
    SegmentHeader { place, first, previous_bytes, earlier_bytes: 0 }.encode().to_vec()
}
