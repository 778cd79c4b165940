//! Readings of a slice that no checkpoint has sealed yet: an append-only buffer of 4 to 6 bytes a
//! reading.
//!
//! Each is the device's place, a varint, and its number. The varint is the time since the reading
//! before, with three bits of value and flag. A value that is not 0 or 1 follows. This form never
//! reaches a disk. A view reads the part that was there when it was opened: its length is noted by
//! whoever appends.

use base::{Timestamp, Value};
use records::Reading;

use super::page::ReadingSpan;
use super::{SliceDevices, SliceReading};
use crate::codec::{ByteReader, CodecError, bit, get_value, put_u64, put_value, skip_value};

/// A chunk is full at this size. So much a page of one device may have to go through, and so many
/// readings a blob holds at most.
const CHUNK_BYTES: usize = 48 * 1_024;

/// An append-only run of readings of one slice.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    devices: SliceDevices,
    span: ReadingSpan,
    last_ts: i64,
}

const ZERO: u8 = 0;
const ONE: u8 = 1;
/// The value follows.
const FOLLOWS: u8 = 2;
/// The time follows in full, then the value.
const FAR: u8 = 3;
const KIND: u64 = 0b11;
const CHANGED: u64 = 1 << 2;
const FLAG_BITS: u32 = 3;
/// Differences of time from here on do not fit beside the flags.
const NEAR_END: u64 = 1 << (64 - FLAG_BITS);

impl Chunk {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::new(), devices: SliceDevices::default(), span: ReadingSpan::EMPTY, last_ts: 0 }
    }

    /// Bytes so far; a prefix of such a length can be read later.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= CHUNK_BYTES
    }

    /// The times of its readings.
    pub(crate) fn span(&self) -> ReadingSpan {
        self.span
    }

    pub(crate) fn devices(&self) -> &SliceDevices {
        &self.devices
    }

    pub(crate) fn push(&mut self, within: u8, reading: &Reading) {
        let first = self.bytes.is_empty();
        let base = if first { 0 } else { self.last_ts };
        let step = reading.ts.0.wrapping_sub(base);
        let zigzag = ((step << 1) ^ (step >> 63)).cast_unsigned();
        let kind = match &reading.value {
            _ if zigzag >= NEAR_END => FAR,
            Value::Number(number) if *number == 0.0 => ZERO,
            Value::Number(number) if *number == 1.0 => ONE,
            _ => FOLLOWS,
        };
        let near = if kind == FAR { 0 } else { zigzag };
        let changed = if reading.changed { CHANGED } else { 0 };
        self.bytes.push(within);
        put_u64(&mut self.bytes, near << FLAG_BITS | changed | u64::from(kind));
        put_u64(&mut self.bytes, u64::from(reading.number));
        if kind == FAR {
            self.bytes.extend_from_slice(&reading.ts.0.to_le_bytes());
        }
        if kind >= FOLLOWS {
            put_value(&mut self.bytes, &reading.value);
        }
        self.last_ts = reading.ts.0;
        self.devices.insert(within);
        self.span.cover(reading.ts);
    }

    /// The readings in its first `length` bytes, of one device or of all.
    pub(crate) fn readings(&self, length: usize, only: Option<u8>) -> ChunkReadings<'_> {
        ChunkReadings { reader: ByteReader::new(&self.bytes[..length]), last_ts: 0, only }
    }
}

/// The readings of a chunk, in the order they were received.
pub(crate) struct ChunkReadings<'a> {
    reader: ByteReader<'a>,
    last_ts: i64,
    only: Option<u8>,
}

impl ChunkReadings<'_> {
    /// The next reading; `None` in place of one that is not wanted.
    fn read(&mut self) -> Result<Option<SliceReading>, CodecError> {
        const WHAT: &str = "a reading";
        let reader = &mut self.reader;
        let within = reader.u8(WHAT)?;
        let head = reader.u64(WHAT)?;
        let number = reader.u32(WHAT)?;
        let kind = (head & KIND) as u8;
        let zigzag = head >> FLAG_BITS;
        let step = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
        self.last_ts = match kind {
            FAR => i64::from_le_bytes(reader.array(WHAT)?),
            _ => self.last_ts.wrapping_add(step),
        };
        if self.only.is_some_and(|only| only != within) {
            if kind >= FOLLOWS {
                skip_value(reader)?;
            }
            return Ok(None);
        }
        let value = if kind >= FOLLOWS { get_value(reader)? } else { bit(kind == ONE) };
        let ts = Timestamp(self.last_ts);
        let reading = Reading { number, ts, value, changed: head & CHANGED != 0 };
        Ok(Some(SliceReading { within, reading }))
    }
}

impl Iterator for ChunkReadings<'_> {
    type Item = Result<SliceReading, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.reader.is_at_end() {
            if let Some(reading) = self.read().transpose() {
                return Some(reading);
            }
        }
        None
    }
}
