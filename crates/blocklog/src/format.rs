//! The bytes of a segment file, format version 1.
//!
//! A segment is a header of 64 bytes and then frames. Each frame is 40 bytes of header and its
//! payload, filled up with zeros to a multiple of 8. All numbers are little-endian, every checksum
//! is CRC-32C:
//!
//! ```text
//! segment header                         frame
//!  0  8  magic "FPLOGSEG"                 0  4  magic "FPF" 1
//!  8  4  format version                   4  4  payload bytes; 0 is a claim
//! 12  4  sequence of the segment          8  8  log id
//! 16  8  log id                          16  8  position
//! 24  8  position of its first frame     24  8  synced_through
//! 32  8  bytes used in the one before    32  4  sequence of the segment
//! 40  8  bytes of an earlier life        36  4  checksum of 0..36 and of all from 40 on
//! 48 12  zeros                           40     payload, and zeros up to a multiple of 8
//! 60  4  checksum of 0..60
//! ```
//!
//! A file may be used again for a later segment. Then up to so many of its bytes are what an
//! earlier segment has left behind. Beyond these there are zeros, as behind the frames of a file
//! that had no earlier life. The sequence under the checksum of a frame keeps an old one from ever
//! being taken for a new one.
//!
//! To change this format: give it the next version. Keep magic, version and checksum of the segment
//! header where they are. An older build must still see that it is looking at a newer log, not at a
//! damaged one. Read the old version for as long as a server may have one. Keep a directory of it
//! as a test fixture.

use std::ops::RangeInclusive;

use crate::position::{LogId, Position};

/// The longest payload of a frame, in bytes. It bounds what opening a log reads at once, and keeps
/// a damaged length from asking for more.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// The version of this format.
pub(crate) const FORMAT_VERSION: u32 = 1;
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
pub(crate) const FRAME_HEADER_BYTES: usize = 40;
/// Frames begin at multiples of this, so that a search for one need not look at every byte.
pub(crate) const FRAME_ALIGNMENT: usize = 8;

const SEGMENT_MAGIC: &[u8; 8] = b"FPLOGSEG";
const SEGMENT_CHECKSUM_AT: usize = 60;
const FRAME_MAGIC: &[u8; 4] = b"FPF\x01";
const FRAME_CHECKSUM_AT: usize = 36;

const _: () = assert!(SEGMENT_HEADER_BYTES.is_multiple_of(FRAME_ALIGNMENT));
const _: () = assert!(FRAME_HEADER_BYTES.is_multiple_of(FRAME_ALIGNMENT));
const _: () = assert!(PAYLOAD_BYTES_MAX <= u32::MAX as usize - FRAME_HEADER_BYTES - FRAME_ALIGNMENT);

/// Which segment of which log: what every frame in it must name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentId {
    pub log: LogId,
    pub sequence: u32,
}

/// The head of a segment file. Written and durable before the segment has its name, and only once
/// everything before it is durable. So a segment that exists is a claim for all frames before its
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub place: SegmentId,
    pub first: Position,
    /// Where the frames of the segment before this one end; 0 when there was none.
    pub previous_bytes: u64,
    /// The length that the file had when it was used again for this segment; 0 for one that was
    /// made for it.
    pub earlier_bytes: u64,
}

/// Why the first bytes of a file are no segment header of this build.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SegmentHeaderError {
    Damaged,
    Version(u32),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.place.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.place.log.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.previous_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.earlier_bytes.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..SEGMENT_CHECKSUM_AT]);
        bytes[SEGMENT_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Writes into the header at the start of `bytes` that the file had this length before.
    pub(crate) fn note_earlier_bytes(bytes: &mut [u8], earlier_bytes: u64) {
        bytes[40..48].copy_from_slice(&earlier_bytes.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..SEGMENT_CHECKSUM_AT]);
        bytes[SEGMENT_CHECKSUM_AT..SEGMENT_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }

    pub(crate) fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<SegmentHeader, SegmentHeaderError> {
        let checksum = crc32c::crc32c(&bytes[..SEGMENT_CHECKSUM_AT]);
        if &bytes[..8] != SEGMENT_MAGIC || checksum != u32_at(bytes, SEGMENT_CHECKSUM_AT) {
            return Err(SegmentHeaderError::Damaged);
        }
        match u32_at(bytes, 8) {
            FORMAT_VERSION => Ok(SegmentHeader {
                place: SegmentId { sequence: u32_at(bytes, 12), log: LogId(u64_at(bytes, 16)) },
                first: Position(u64_at(bytes, 24)),
                previous_bytes: u64_at(bytes, 32),
                earlier_bytes: u64_at(bytes, 40),
            }),
            version => Err(SegmentHeaderError::Version(version)),
        }
    }
}

/// A frame whose checksum, log and segment are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verified<'a> {
    pub position: Position,
    pub synced_through: Position,
    pub payload: &'a [u8],
}

impl Verified<'_> {
    /// What the frame takes in the file.
    pub(crate) fn bytes(&self) -> usize {
        frame_bytes(self.payload.len())
    }

    /// Whether it is the log's own: no payload, only `synced_through`.
    pub(crate) fn is_claim(&self) -> bool {
        self.payload.is_empty()
    }
}

/// What a frame with a payload of this length takes in the file.
pub(crate) fn frame_bytes(payload_bytes: usize) -> usize {
    FRAME_HEADER_BYTES + payload_bytes.next_multiple_of(FRAME_ALIGNMENT)
}

/// Adds a frame to `out`. The caller keeps the payload within [`PAYLOAD_BYTES_MAX`].
pub(crate) fn encode_frame(
    out: &mut Vec<u8>,
    place: SegmentId,
    position: Position,
    synced_through: Position,
    payload: &[u8],
) {
    let start = out.len();
    let end = start + frame_bytes(payload.len());
    out.reserve(end - start);
    out.extend_from_slice(FRAME_MAGIC);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&place.log.0.to_le_bytes());
    out.extend_from_slice(&position.0.to_le_bytes());
    out.extend_from_slice(&synced_through.0.to_le_bytes());
    out.extend_from_slice(&place.sequence.to_le_bytes());
    out.extend_from_slice(&[0; FRAME_HEADER_BYTES - FRAME_CHECKSUM_AT]);
    out.extend_from_slice(payload);
    out.resize(end, 0);
    let checksum = frame_checksum(&out[start..]);
    out[start + FRAME_CHECKSUM_AT..start + FRAME_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// The frame at the start of `bytes`, when it is a whole one of `place`.
pub(crate) fn verify_frame(bytes: &[u8], place: SegmentId) -> Option<Verified<'_>> {
    let header = bytes.get(..FRAME_HEADER_BYTES)?;
    if &header[..4] != FRAME_MAGIC || u64_at(header, 8) != place.log.0 || u32_at(header, 32) != place.sequence
    {
        return None;
    }
    let payload_bytes = u32_at(header, 4) as usize;
    if payload_bytes > PAYLOAD_BYTES_MAX {
        return None;
    }
    let frame = bytes.get(..frame_bytes(payload_bytes))?;
    if frame_checksum(frame) != u32_at(header, FRAME_CHECKSUM_AT) {
        return None;
    }
    Some(Verified {
        position: Position(u64_at(header, 16)),
        synced_through: Position(u64_at(header, 24)),
        payload: &frame[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + payload_bytes],
    })
}

/// Where the bytes end that look as if they had once been a frame of `place` at one of `positions`,
/// at the start of `bytes`. At least two of log, segment and position are right then. What an
/// earlier segment left in the file has one of them.
pub(crate) fn traces_of_frame(
    bytes: &[u8],
    place: SegmentId,
    positions: &RangeInclusive<u64>,
) -> Option<usize> {
    let header = bytes.get(..FRAME_HEADER_BYTES)?;
    let right = [
        u64_at(header, 8) == place.log.0,
        positions.contains(&u64_at(header, 16)),
        u32_at(header, 32) == place.sequence,
    ];
    let payload_bytes = (u32_at(header, 4) as usize).min(bytes.len());
    let is_one = right.iter().filter(|right| **right).count() >= 2;
    is_one.then(|| frame_bytes(payload_bytes).min(bytes.len()))
}

fn frame_checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..FRAME_CHECKSUM_AT]), &frame[FRAME_HEADER_BYTES..])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests;
