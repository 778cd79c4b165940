//! A sealed blob: readings of one slice in columns.
//!
//! ```text
//! blob     contents in blocks (blocks.rs): head, then one section for each run
//! head     version, length of what follows, count, base time, shared texts, devices, whether any
//!          has several runs, then for each device: how many runs, if any has several; for each:
//!          time of its first reading - base, bytes of its section
//! section  flags, then
//!          single: texts of its own, if it has any; number, value code if it is not 0 or 1
//!          many:   texts of its own, if it has any; count, number of the first, times
//!                  (differences, or differences of these), numbers unless they are consecutive,
//!                  values (one; bits; runs; each), changed (bits; or nothing: none, or wherever
//!                  the value differs)
//! code     0 and 1: that number; 2: a value follows; 3 and on: a text, first the shared ones, then
//!          the section's own
//! ```
//!
//! Runs are in order of place and time, readings in order of (time, number). To change the form:
//! give the head the next version and read this one for as long as the retention of readings is
//! long.

mod blocks;
mod columns;
mod head;
mod texts;

use std::borrow::Cow;

use base::{Timestamp, Value};
use records::Reading;

pub(crate) use self::blocks::{BLOCK_BYTES, BlobSource};
use self::columns::Section;
pub(crate) use self::head::ReadingRun;
use self::head::{BlobHead, RUN_READINGS_MAX, RunStart};
use self::texts::SharedTexts;
use super::{SliceDevices, SliceReading};
use crate::codec::{ByteReader, CodecError};

/// Seals readings; sorts them on the way. There is at least one.
pub(crate) fn encode_blob(readings: &mut [SliceReading]) -> Vec<u8> {
    readings.sort_unstable_by_key(SliceReading::order);
    let base = readings.iter().map(|reading| reading.reading.ts.0).min().unwrap_or(0);
    let texts = readings.iter().filter_map(|reading| match &reading.reading.value {
        Value::Text(text) => Some(text),
        Value::Number(_) => None,
    });
    let mut writing = BlobEncoder::new(base, SharedTexts::among(texts));
    for of_device in readings.chunk_by(|a, b| a.within == b.within) {
        let within = of_device[0].within;
        of_device
            .chunks(RUN_READINGS_MAX)
            .for_each(|run| writing.run(within, run.iter().map(|r| &r.reading)));
    }
    writing.finish()
}

/// Makes one blob of several; none of them is changed.
pub(crate) fn merge_blobs(blobs: &[Vec<u8>]) -> Result<Vec<u8>, CodecError> {
    let blobs = blobs.iter().map(|blob| Blob::open(&**blob)).collect::<Result<Vec<_>, _>>()?;
    let base = blobs.iter().map(|blob| blob.head.base).min().unwrap_or(0);
    let mut devices = SliceDevices::default();
    blobs.iter().flat_map(|blob| &blob.head.runs).for_each(|run| devices.insert(run.within));
    let texts = SharedTexts::among(blobs.iter().flat_map(|blob| blob.head.texts.iter()));
    let mut writing = BlobEncoder::new(base, texts);
    for within in devices.iter() {
        let mut readings = Vec::new();
        for blob in &blobs {
            readings.append(&mut blob.device(within)?);
        }
        // stable: made for what is in order already, in pieces
        readings.sort_by_key(|reading| (reading.ts, reading.number));
        readings.chunks(RUN_READINGS_MAX).for_each(|run| writing.run(within, run.iter()));
    }
    Ok(writing.finish())
}

/// A blob that is being written, run by run in their order.
struct BlobEncoder {
    base: i64,
    texts: SharedTexts,
    count: usize,
    runs: Vec<RunStart>,
    sections: Vec<u8>,
}

impl BlobEncoder {
    fn new(base: i64, texts: SharedTexts) -> Self {
        Self { base, texts, count: 0, runs: Vec::new(), sections: Vec::new() }
    }

    fn run<'a>(&mut self, within: u8, run: impl Iterator<Item = &'a Reading>) {
        let run: Vec<_> = run.collect();
        let Some(first) = run.first() else { return };
        let before = self.sections.len();
        columns::put(&mut self.sections, &self.texts, &run);
        self.runs.push((within, first.ts.0, self.sections.len() - before));
        self.count += run.len();
    }

    fn finish(self) -> Vec<u8> {
        let mut contents = head::encode(self.count, self.base, &self.texts, &self.runs);
        contents.extend_from_slice(&self.sections);
        blocks::seal(&contents)
    }
}

/// A sealed blob whose head is read; sections are read and verified when they are asked for.
#[derive(Debug)]
pub(crate) struct Blob<S> {
    source: S,
    head: BlobHead,
}

fn read_head<S: BlobSource>(source: &S) -> Result<BlobHead, S::Error> {
    let start = blocks::first(source)?;
    let length = head::length(&start).map_err(|error| source.damaged(error))?;
    let whole = match start.get(..length) {
        Some(head) => Cow::Borrowed(head),
        None => blocks::read(source, 0..length)?,
    };
    let content_bytes = blocks::content_bytes(source.blob_bytes());
    BlobHead::read(&whole, content_bytes).map_err(|error| source.damaged(error))
}

impl<S: BlobSource> Blob<S> {
    pub(crate) fn open(source: S) -> Result<Self, S::Error> {
        let head = read_head(&source)?;
        Ok(Self { source, head })
    }

    /// The runs of one device, in order.
    pub(crate) fn runs(&self, within: u8) -> &[ReadingRun] {
        self.head.runs_of(within)
    }

    /// The readings of one device, in the order of its feed.
    pub(crate) fn device(&self, within: u8) -> Result<Vec<Reading>, S::Error> {
        let [first, others @ ..] = self.runs(within) else { return Ok(Vec::new()) };
        let mut readings = self.readings(first)?;
        for run in others {
            readings.append(&mut self.readings(run)?);
        }
        Ok(readings)
    }

    /// The readings of a run.
    pub(crate) fn readings(&self, run: &ReadingRun) -> Result<Vec<Reading>, S::Error> {
        self.section(run, |section, reader| {
            let readings = section.readings(reader)?;
            reader.end()?;
            Ok(readings)
        })
    }

    /// The times of a run's readings.
    pub(crate) fn times(&self, run: &ReadingRun) -> Result<Vec<Timestamp>, S::Error> {
        self.section(run, |section, reader| section.times(reader))
    }

    fn section<T>(
        &self,
        run: &ReadingRun,
        read: impl FnOnce(&Section<'_>, &mut ByteReader<'_>) -> Result<T, CodecError>,
    ) -> Result<T, S::Error> {
        let bytes = blocks::read(&self.source, run.section.clone())?;
        let section = Section { first: run.first, texts: &self.head.texts, count_max: self.head.count };
        read(&section, &mut ByteReader::new(&bytes)).map_err(|error| self.source.damaged(error))
    }

    /// Every reading, by device and then in the order of its feed.
    pub(crate) fn all(&self) -> Result<Vec<SliceReading>, S::Error> {
        let mut all = Vec::new();
        for run in &self.head.runs {
            let readings = self.readings(run)?;
            all.extend(readings.into_iter().map(|reading| SliceReading { within: run.within, reading }));
        }
        let wrong = CodecError::Invalid { what: "a count", at: 0 };
        if all.len() == self.head.count { Ok(all) } else { Err(self.source.damaged(wrong)) }
    }
}
