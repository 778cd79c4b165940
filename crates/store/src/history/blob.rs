//! A sealed blob: readings of one slice in columns.
//!
//! ```text
//! blob     version, count, base time, texts, one section for each device, CRC-32C of all before (4 bytes)
//! section  place, flags, then
//!          single: time - base, number, value code if it is not 0 or 1
//!          many:   length of what follows, count, time - base and number of the first,
//!                  times (differences, or differences of these), numbers unless they are consecutive,
//!                  values (one; bits; runs; each), changed (bits; or nothing: none, or wherever the value differs)
//! code     0 and 1: that number; 2: a value follows; 3 and on: a text of the blob
//! ```
//!
//! Sections are in order of place, readings within in order of (time, number). To change the form: give the blob the next
//! version and read this one for as long as the retention of readings is long.

mod columns;

use base::{Timestamp, Value};
use records::Reading;

use self::columns::{Column, Texts};
use super::SliceReading;
use crate::codec::{CodecError, Reader, bit, put_i64, put_u64};

const VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 4;
const WHAT: &str = "a blob of readings";

const SINGLE: u8 = 1 << 0;
const SINGLE_CHANGED: u8 = 1 << 1;
const SINGLE_CODE_SHIFT: u32 = 2;
const CODE_FOLLOWS: u8 = 2;

/// Seals readings; sorts them on the way. There is at least one.
pub(crate) fn encode_blob(readings: &mut [SliceReading]) -> Vec<u8> {
    readings.sort_unstable_by_key(SliceReading::order);
    let base = readings.iter().map(|reading| reading.reading.ts.0).min().unwrap_or(0);
    let texts = Texts::of(readings.iter().map(|reading| &reading.reading.value));
    let mut out = Vec::with_capacity(32 + readings.len() * 6);
    out.push(VERSION);
    put_u64(&mut out, readings.len() as u64);
    put_i64(&mut out, base);
    texts.put(&mut out);
    for section in readings.chunk_by(|a, b| a.within == b.within) {
        match section {
            [single] => put_single(&mut out, base, &texts, single),
            many => columns::put(&mut out, base, &texts, many),
        }
    }
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

fn put_single(out: &mut Vec<u8>, base: i64, texts: &Texts<'_>, single: &SliceReading) {
    let SliceReading { within, reading } = single;
    let code = match &reading.value {
        Value::Number(number) if *number == 0.0 => 0,
        Value::Number(number) if *number == 1.0 => 1,
        _ => CODE_FOLLOWS,
    };
    let changed = if reading.changed { SINGLE_CHANGED } else { 0 };
    out.push(*within);
    out.push(SINGLE | changed | code << SINGLE_CODE_SHIFT);
    put_u64(out, reading.ts.0.wrapping_sub(base).cast_unsigned());
    put_u64(out, u64::from(reading.number));
    if code == CODE_FOLLOWS {
        texts.put_code(out, &reading.value);
    }
}

/// A sealed blob whose checksum is right.
#[derive(Clone, Debug)]
pub(crate) struct Blob<'a> {
    count: usize,
    base: i64,
    texts: Vec<Value>,
    sections: Reader<'a>,
}

impl<'a> Blob<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let truncated = CodecError::Truncated { what: WHAT, at: bytes.len() };
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(truncated)?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return Err(CodecError::Checksum { what: WHAT });
        }
        let mut sections = Reader::new(body);
        let found = sections.u8(WHAT)?;
        if found != VERSION {
            return Err(CodecError::Version { what: WHAT, at: 0, found, known: VERSION });
        }
        let count = sections.length("a count")?;
        let base = sections.i64("a time")?;
        let texts = sections.list("texts", columns::get_text)?;
        Ok(Self { count, base, texts, sections })
    }

    /// The readings of one device, in the order of its feed.
    pub(crate) fn device(&self, wanted: u8) -> Result<Vec<Reading>, CodecError> {
        self.of(wanted)?.map_or_else(|| Ok(Vec::new()), |mut section| self.section(&mut section))
    }

    /// The times of one device's readings.
    pub(crate) fn times(&self, wanted: u8) -> Result<Vec<Timestamp>, CodecError> {
        let Some(mut reader) = self.of(wanted)? else { return Ok(Vec::new()) };
        let flags = reader.u8(WHAT)?;
        if flags & SINGLE != 0 {
            return Ok(vec![self.single(&mut reader, flags)?.ts]);
        }
        self.column().times(&mut Reader::new(reader.bytes(WHAT)?), flags)
    }

    /// The section of one device, behind its place.
    fn of(&self, wanted: u8) -> Result<Option<Reader<'a>>, CodecError> {
        let mut sections = self.sections.clone();
        while !sections.is_at_end() {
            match sections.u8(WHAT)? {
                within if within == wanted => return Ok(Some(sections)),
                within if within > wanted => break,
                _ => self.skip(&mut sections)?,
            }
        }
        Ok(None)
    }

    fn column(&self) -> Column<'_> {
        Column { base: self.base, texts: &self.texts, count_max: self.count }
    }

    /// Every reading, by device and then in the order of its feed.
    pub(crate) fn all(&self) -> Result<Vec<SliceReading>, CodecError> {
        let mut sections = self.sections.clone();
        let mut all = Vec::new();
        while !sections.is_at_end() {
            let within = sections.u8(WHAT)?;
            let readings = self.section(&mut sections)?;
            all.extend(readings.into_iter().map(|reading| SliceReading { within, reading }));
        }
        if all.len() == self.count { Ok(all) } else { Err(sections.invalid("a count")) }
    }

    fn section(&self, reader: &mut Reader<'a>) -> Result<Vec<Reading>, CodecError> {
        let flags = reader.u8(WHAT)?;
        if flags & SINGLE != 0 {
            return Ok(vec![self.single(reader, flags)?]);
        }
        let mut section = Reader::new(reader.bytes(WHAT)?);
        let readings = self.column().readings(&mut section, flags)?;
        section.end()?;
        Ok(readings)
    }

    fn single(&self, reader: &mut Reader<'_>, flags: u8) -> Result<Reading, CodecError> {
        let ts = self.base.wrapping_add(reader.u64("a time")?.cast_signed());
        let number = reader.u32("a number")?;
        let value = match flags >> SINGLE_CODE_SHIFT {
            code @ (0 | 1) => bit(code == 1),
            CODE_FOLLOWS => columns::get_coded(reader, &self.texts)?,
            _ => return Err(reader.invalid("a value")),
        };
        let changed = flags & SINGLE_CHANGED != 0;
        Ok(Reading { number, ts: Timestamp(ts), value, changed })
    }

    fn skip(&self, reader: &mut Reader<'a>) -> Result<(), CodecError> {
        let flags = reader.u8(WHAT)?;
        if flags & SINGLE != 0 { self.single(reader, flags).map(drop) } else { reader.bytes(WHAT).map(drop) }
    }
}
