//! What an index row says of a blob, and how a chunk becomes blobs.

use std::collections::BTreeMap;

use base::Timestamp;

use super::page::Span;
use super::{ChunkReadings, DeviceSet, SliceReading, encode_blob};
use crate::codec::{CodecError, Reader, Stored, put_i64, put_u64};

const DAY_MS: i64 = 86_400_000;

/// The day of a time, in days since 1970 UTC. A blob holds readings of one day, so that retention drops whole blobs and a
/// page goes day by day; days that no calendar has are taken for the first or the last.
pub(crate) fn day_of(ts: Timestamp) -> i32 {
    let day = ts.0.div_euclid(DAY_MS);
    i32::try_from(day).unwrap_or(if day < 0 { i32::MIN } else { i32::MAX })
}

/// The times of a day.
pub(crate) fn span_of_day(day: i32) -> Span {
    let start = i64::from(day) * DAY_MS;
    let min = if day == i32::MIN { i64::MIN } else { start };
    let max = if day == i32::MAX { i64::MAX } else { start + DAY_MS - 1 };
    Span { min: Timestamp(min), max: Timestamp(max) }
}

/// All that has to be known of a blob to pass it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobIndex {
    /// Readings in it.
    pub(crate) count: u32,
    /// Its bytes.
    pub(crate) bytes: u32,
    /// Times of its readings.
    pub(crate) span: Span,
    /// The day on which it was sealed: none of its readings was received later.
    pub(crate) sealed: i32,
    /// Devices that have readings in it.
    pub(crate) devices: DeviceSet,
}

/// Version 1: the fields in order; the later time as a difference from the earlier.
impl Stored for BlobIndex {
    const VERSION: u8 = 1;
    const NAME: &'static str = "an index of readings";

    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, u64::from(self.count));
        put_u64(out, u64::from(self.bytes));
        put_i64(out, self.span.min.0);
        put_u64(out, self.span.max.0.wrapping_sub(self.span.min.0).cast_unsigned());
        put_i64(out, i64::from(self.sealed));
        self.devices.put(out);
    }

    fn get(reader: &mut Reader<'_>, _version: u8) -> Result<Self, CodecError> {
        let count = reader.u32("a count")?;
        let bytes = reader.u32("a length")?;
        let min = reader.i64("a time")?;
        let max = min.wrapping_add(reader.u64("a time")?.cast_signed());
        let span = Span { min: Timestamp(min), max: Timestamp(max) };
        let sealed = i32::try_from(reader.i64("a day")?).map_err(|_| reader.invalid("a day"))?;
        Ok(Self { count, bytes, span, sealed, devices: DeviceSet::get(reader)? })
    }
}

impl BlobIndex {
    /// Whether a blob of `day` is kept no longer: neither its times nor its receipt are as late as that.
    pub(crate) fn is_expired(&self, day: i32, kept_from: Timestamp) -> bool {
        let first_kept = day_of(kept_from);
        day < first_kept && self.sealed < first_kept
    }
}

/// A blob ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) day: i32,
    pub(crate) index: BlobIndex,
    pub(crate) blob: Vec<u8>,
}

/// Seals the readings of a chunk today, one blob for each day, without those that `keep` does not want.
pub(crate) fn seal(
    readings: ChunkReadings<'_>,
    today: i32,
    keep: impl Fn(&SliceReading) -> bool,
) -> Result<Vec<Sealed>, CodecError> {
    let mut days: BTreeMap<i32, Vec<SliceReading>> = BTreeMap::new();
    for reading in readings {
        let reading = reading?;
        if keep(&reading) {
            days.entry(day_of(reading.reading.ts)).or_default().push(reading);
        }
    }
    Ok(days.into_iter().map(|(day, readings)| Sealed::of(day, readings, today)).collect())
}

impl Sealed {
    /// Seals readings of one day; at least one.
    pub(crate) fn of(day: i32, mut readings: Vec<SliceReading>, sealed: i32) -> Self {
        let mut devices = DeviceSet::default();
        let mut span = Span::EMPTY;
        for reading in &readings {
            devices.insert(reading.within);
            span.cover(reading.reading.ts);
        }
        let blob = encode_blob(&mut readings);
        let (count, bytes) = (readings.len() as u32, blob.len() as u32);
        let index = BlobIndex { count, bytes, span, sealed, devices };
        Self { day, index, blob }
    }
}
