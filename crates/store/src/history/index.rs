//! What an index row says of a blob, and how a chunk becomes blobs.

use std::collections::BTreeMap;

use base::Timestamp;

use super::page::ReadingSpan;
use super::{BLOCK_BYTES, ChunkReadings, SliceDevices, SliceReading, encode_blob, merge_blobs};
use crate::codec::key::{BlobKey, TableKey};
use crate::codec::{ByteReader, CodecError, Stored, put_i64, put_u64};
use crate::record::Record;
use crate::table::Table;

const DAY_MS: i64 = 86_400_000;
/// A blob of at most so many bytes lies in the row of its index, which a checkpoint and a reader
/// need not leave then. Two of these rows, with a set of all devices, fill a page of the tables.
const INLINE_BYTES_MAX: usize = 1_920;

/// The day of a time, in days since 1970 UTC. A blob holds readings of one day, so that retention
/// drops whole blobs and a page goes day by day. Days that no calendar has are taken for the first
/// or the last.
pub(crate) fn day_of(ts: Timestamp) -> i32 {
    let day = ts.0.div_euclid(DAY_MS);
    i32::try_from(day).unwrap_or(if day < 0 { i32::MIN } else { i32::MAX })
}

/// The times of a day.
pub(crate) fn span_of_day(day: i32) -> ReadingSpan {
    let start = i64::from(day) * DAY_MS;
    let min = if day == i32::MIN { i64::MIN } else { start };
    let max = if day == i32::MAX { i64::MAX } else { start + DAY_MS - 1 };
    ReadingSpan { min: Timestamp(min), max: Timestamp(max) }
}

/// All that has to be known of a blob to pass it by; and the blob, if it is small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobIndex {
    /// Readings in it.
    pub(crate) count: u32,
    /// Its bytes.
    pub(crate) bytes: u32,
    /// Times of its readings.
    pub(crate) span: ReadingSpan,
    /// The day on which it was sealed: none of its readings was received later.
    pub(crate) sealed: i32,
    /// How often its readings were merged.
    pub(crate) level: u8,
    /// Devices that have readings in it.
    pub(crate) devices: SliceDevices,
    /// The blob, unless it lies in blocks.
    pub(crate) inline: Option<Vec<u8>>,
}

/// Version 2: the fields in order, the later time as a difference from the earlier; then the blob,
/// if its bytes are few.
impl Stored for BlobIndex {
    const VERSION: u8 = 2;
    const NAME: &'static str = "an index of readings";

    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, u64::from(self.count));
        put_u64(out, u64::from(self.bytes));
        put_i64(out, self.span.min.0);
        put_u64(out, self.span.max.0.wrapping_sub(self.span.min.0).cast_unsigned());
        put_i64(out, i64::from(self.sealed));
        out.push(self.level);
        self.devices.put(out);
        out.extend_from_slice(self.inline.as_deref().unwrap_or_default());
    }

    fn get(reader: &mut ByteReader<'_>, version: u8) -> Result<Self, CodecError> {
        if version < Self::VERSION {
            return Err(reader.invalid(Self::NAME));
        }
        let count = reader.u32("a count")?;
        let bytes = reader.u32("a length")?;
        let min = reader.i64("a time")?;
        let max = min.wrapping_add(reader.u64("a time")?.cast_signed());
        let span = ReadingSpan { min: Timestamp(min), max: Timestamp(max) };
        let sealed = i32::try_from(reader.i64("a day")?).map_err(|_| reader.invalid("a day"))?;
        let level = reader.u8("a level")?;
        let devices = SliceDevices::get(reader)?;
        let is_inline = bytes as usize <= INLINE_BYTES_MAX;
        let inline =
            is_inline.then(|| reader.take(bytes as usize, "a blob")).transpose()?.map(<[u8]>::to_vec);
        Ok(Self { count, bytes, span, sealed, level, devices, inline })
    }
}

impl Record for BlobIndex {
    const TABLE: Table = Table::BlobIndex;
    type Place = BlobKey;

    fn key(blob: &BlobKey) -> TableKey {
        blob.to_key()
    }
}

impl BlobIndex {
    /// Whether a blob of `day` is kept no longer: neither its times nor its receipt are as late as
    /// that.
    pub(crate) fn is_expired(&self, day: i32, kept_from: Timestamp) -> bool {
        let first_kept = day_of(kept_from);
        day < first_kept && self.sealed < first_kept
    }

    /// In how many blocks the blob lies; none if it lies here.
    pub(crate) fn blocks(&self) -> u32 {
        if self.inline.is_some() { 0 } else { self.bytes.div_ceil(BLOCK_BYTES as u32) }
    }
}

/// A blob ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) day: i32,
    pub(crate) index: BlobIndex,
    /// What does not lie in the index.
    pub(crate) blocks: Vec<u8>,
}

/// Seals the readings of a chunk today, one blob for each day, without those that `keep` does not
/// want.
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
        let mut devices = SliceDevices::default();
        let mut span = ReadingSpan::EMPTY;
        for reading in &readings {
            devices.insert(reading.within);
            span.cover(reading.reading.ts);
        }
        let blob = encode_blob(&mut readings);
        let (count, bytes) = (readings.len() as u32, blob.len() as u32);
        let index = BlobIndex { count, bytes, span, sealed, level: 0, devices, inline: None };
        Self::with(day, index, blob)
    }

    /// One blob in place of several of the same day, with their indexes; at least one.
    pub(crate) fn merged<'i>(
        day: i32,
        indexes: impl Iterator<Item = &'i BlobIndex>,
        blobs: &[Vec<u8>],
    ) -> Result<Self, CodecError> {
        let blob = merge_blobs(blobs)?;
        let mut merged = BlobIndex {
            count: 0,
            bytes: blob.len() as u32,
            span: ReadingSpan::EMPTY,
            sealed: i32::MIN,
            level: 0,
            devices: SliceDevices::default(),
            inline: None,
        };
        for index in indexes {
            merged.count += index.count;
            merged.span.cover(index.span.min);
            merged.span.cover(index.span.max);
            merged.sealed = merged.sealed.max(index.sealed);
            merged.level = merged.level.max(index.level.saturating_add(1));
            merged.devices.insert_all(&index.devices);
        }
        Ok(Self::with(day, merged, blob))
    }

    fn with(day: i32, index: BlobIndex, blob: Vec<u8>) -> Self {
        if blob.len() <= INLINE_BYTES_MAX {
            Self { day, index: BlobIndex { inline: Some(blob), ..index }, blocks: Vec::new() }
        } else {
            Self { day, index, blocks: blob }
        }
    }
}
