//! The head of a blob: where the readings of each device are.
//!
//! The readings of a device are in runs of up to [`RUN_READINGS_MAX`], in order of time. So a page
//! of a device that reports often reads little more than it shows.

use std::ops::Range;

use base::Timestamp;

use super::texts::SharedTexts;
use crate::codec::{ByteReader, CodecError, put_i64, put_u64};
use crate::history::{ReadingSpan, SliceDevices};

/// Most readings of a run: so many, and no more, a page may decode without showing one.
pub(super) const RUN_READINGS_MAX: usize = 1_024;

const VERSION: u8 = 2;
const WHAT: &str = "a blob of readings";
/// Room for the version and the length of the head.
const START_BYTES_MAX: usize = 11;

/// Readings of one device that are in order and stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadingRun {
    /// The device's place within the slice.
    pub(crate) within: u8,
    /// The time of the first reading.
    pub(super) first: Timestamp,
    /// No reading is later: the first of the next run, or the end of time.
    last: Timestamp,
    /// Where in the contents its section is.
    pub(super) section: Range<usize>,
}

impl ReadingRun {
    pub(crate) fn span(&self) -> ReadingSpan {
        ReadingSpan { min: self.first, max: self.last }
    }
}

/// What a blob says of itself.
#[derive(Clone, Debug)]
pub(super) struct BlobHead {
    /// Readings in it.
    pub(super) count: usize,
    /// No later than any reading.
    pub(super) base: i64,
    pub(super) texts: SharedTexts,
    /// By place, then by time.
    pub(super) runs: Vec<ReadingRun>,
}

/// A run as it is written: place, time of its first reading, bytes of its section.
pub(super) type RunStart = (u8, i64, usize);

/// The head of a blob with these runs, which are in order.
pub(super) fn encode(count: usize, base: i64, texts: &SharedTexts, runs: &[RunStart]) -> Vec<u8> {
    let mut body = Vec::with_capacity(64 + runs.len() * 8);
    put_u64(&mut body, count as u64);
    put_i64(&mut body, base);
    texts.put(&mut body);
    let mut devices = SliceDevices::default();
    runs.iter().for_each(|(within, ..)| devices.insert(*within));
    devices.put(&mut body);
    let has_several = runs.len() > devices.len() as usize;
    body.push(u8::from(has_several));
    for of_device in runs.chunk_by(|a, b| a.0 == b.0) {
        if has_several {
            put_u64(&mut body, of_device.len() as u64);
        }
        for (_, first, bytes) in of_device {
            put_u64(&mut body, first.wrapping_sub(base).cast_unsigned());
            put_u64(&mut body, *bytes as u64);
        }
    }
    let mut head = Vec::with_capacity(body.len() + START_BYTES_MAX);
    head.push(VERSION);
    put_u64(&mut head, body.len() as u64);
    head.extend_from_slice(&body);
    head
}

/// How long the head is, from how the contents begin.
pub(super) fn length(start: &[u8]) -> Result<usize, CodecError> {
    let mut reader = ByteReader::new(start);
    let found = reader.u8(WHAT)?;
    if found != VERSION {
        return Err(CodecError::Version { what: WHAT, at: 0, found, known: VERSION });
    }
    let body = reader.length("a length")?;
    reader.at().checked_add(body).ok_or_else(|| reader.invalid("a length"))
}

impl BlobHead {
    /// Reads a head of so many bytes, in front of contents of `content_bytes` in all.
    pub(super) fn read(head: &[u8], content_bytes: usize) -> Result<Self, CodecError> {
        let mut reader = ByteReader::new(head);
        reader.u8(WHAT)?;
        reader.length("a length")?;
        let count = reader.length("a count")?;
        let base = reader.i64("a time")?;
        let texts = SharedTexts::get(&mut reader)?;
        let devices = SliceDevices::get(&mut reader)?;
        let has_several = reader.bool("a flag")?;
        let mut runs = Runs { base, at: head.len(), runs: Vec::with_capacity(devices.len() as usize) };
        for within in devices.iter() {
            let several = if has_several { reader.length("a count")? } else { 1 };
            runs.device(&mut reader, within, several)?;
        }
        reader.end()?;
        if runs.at != content_bytes {
            return Err(reader.invalid("a length"));
        }
        Ok(Self { count, base, texts, runs: runs.runs })
    }

    /// The runs of a device, in order.
    pub(super) fn runs_of(&self, within: u8) -> &[ReadingRun] {
        let start = self.runs.partition_point(|run| run.within < within);
        let end = self.runs.partition_point(|run| run.within <= within);
        &self.runs[start..end]
    }
}

/// Runs as they are read.
struct Runs {
    base: i64,
    /// Where the next section begins.
    at: usize,
    runs: Vec<ReadingRun>,
}

impl Runs {
    fn device(&mut self, reader: &mut ByteReader<'_>, within: u8, several: usize) -> Result<(), CodecError> {
        let mut before: Option<usize> = None;
        for _ in 0..several {
            let first = Timestamp(self.base.wrapping_add(reader.u64("a time")?.cast_signed()));
            let bytes = reader.length("a length")?;
            let end = self.at.checked_add(bytes).ok_or_else(|| reader.invalid("a length"))?;
            if let Some(before) = before {
                self.runs[before].last = first;
            }
            before = Some(self.runs.len());
            self.runs.push(ReadingRun { within, first, last: Timestamp::MAX, section: self.at..end });
            self.at = end;
        }
        Ok(())
    }
}
