//! Writing one partition's frozen overlay to the tables, in order of key.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::PartitionId;
use records::{DeviceProfile, DeviceSlot};

use crate::codec::key::{self, BlobKey, TableKey};
use crate::codec::{Stored, decode_seen_slice, encode_seen_slice};
use crate::embedded::blobs::BlobWriter;
use crate::embedded::overlay::{Final, OverlayData, SeenChange, SliceOverlay};
use crate::embedded::tables::{Table, TableWriter, TablesTransaction};
use crate::embedded::view::damaged_row;
use crate::history::{Sealed, day_of, seal};
use crate::key_range::KeyRange;
use crate::port::StoreError;
use crate::record::index_rows;
use crate::table::WriteMode;

/// What a checkpoint wrote.
#[derive(Debug, Default)]
pub(super) struct CheckpointOutput {
    /// Bytes of keys and values.
    pub(super) bytes: u64,
    /// Blobs of readings, in order.
    pub(super) blobs: Vec<BlobKey>,
}

/// Writes the overlay.
pub(super) fn write(
    writer: &TablesTransaction<'_>,
    partition: PartitionId,
    data: &OverlayData,
) -> Result<CheckpointOutput, StoreError> {
    let mut writing = PartitionWriter { writer, partition, written: CheckpointOutput::default() };
    let deleted = writing.deleted(data)?;
    writing.devices(data)?;
    for table in Table::ALL.into_iter().filter(|table| table.write_mode() == WriteMode::Rows) {
        writing.rows(table, data)?;
    }
    writing.seen(data)?;
    writing.readings(data, &deleted)?;
    Ok(writing.written)
}

struct PartitionWriter<'a> {
    writer: &'a TablesTransaction<'a>,
    partition: PartitionId,
    written: CheckpointOutput,
}

impl PartitionWriter<'_> {
    fn put(&mut self, table: &mut TableWriter<'_>, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.written.bytes += row_bytes(key, value);
        table.put(self.partition, key, value)
    }

    fn rows(&mut self, table: Table, data: &OverlayData) -> Result<(), StoreError> {
        let Some(rows) = data.rows(table).filter(|rows| rows.len() > 0) else { return Ok(()) };
        let mut out = self.writer.table(table)?;
        let bytes = &mut self.written.bytes;
        let changes = rows.finals().map(|(key, last)| match last {
            Final::Put(value) => {
                *bytes += row_bytes(key, value);
                (&**key, Some(value))
            }
            Final::Remove => (&**key, None),
        });
        out.change_in_order(self.partition, changes)
    }

    /// The slots of devices deleted since the last checkpoint; their notification states go, which
    /// the overlay knows only in part.
    fn deleted(&mut self, data: &OverlayData) -> Result<BTreeSet<u32>, StoreError> {
        let mut slots = BTreeSet::new();
        let Some(rows) = data.rows(Table::Deleted).filter(|rows| rows.len() > 0) else { return Ok(slots) };
        let mut states = self.writer.table(Table::NotificationStates)?;
        for (key, _) in rows.finals() {
            let gone = states.first(self.partition, &KeyRange::of(key), usize::MAX, |_, _| Ok(true))?;
            gone.iter().try_for_each(|(key, _)| states.remove(self.partition, key))?;
            slots.extend(<[u8; 4]>::try_from(&**key).map(u32::from_be_bytes));
        }
        Ok(slots)
    }

    /// Profiles, and the indexes as far as what they say came or went.
    fn devices(&mut self, data: &OverlayData) -> Result<(), StoreError> {
        let Some(rows) = data.rows(Table::Devices).filter(|rows| rows.len() > 0) else { return Ok(()) };
        let mut devices = self.writer.table(Table::Devices)?;
        let mut changed = BTreeMap::new();
        for (key, last) in rows.finals() {
            let indexed = |row: &[u8]| {
                let device = DeviceProfile::from_row(row);
                let device =
                    device.map_err(|error| damaged_row(self.writer.name(), Table::Devices, key, &error))?;
                let mut rows = BTreeSet::new();
                index_rows::<DeviceProfile>(&device, |table, key, _| rows.extend([(table, key)]));
                Ok::<_, StoreError>(rows)
            };
            let old =
                devices.get(self.partition, key)?.map_or_else(|| Ok(BTreeSet::new()), |row| indexed(&row))?;
            let new = match last {
                Final::Put(row) => {
                    let new = indexed(row)?;
                    self.put(&mut devices, key, row)?;
                    new
                }
                Final::Remove => {
                    devices.remove(self.partition, key)?;
                    BTreeSet::new()
                }
            };
            changed.extend(old.difference(&new).map(|row| (row.clone(), false)));
            changed.extend(new.difference(&old).map(|row| (row.clone(), true)));
        }
        drop(devices);
        self.indexes(changed)
    }

    /// Rows of indexes that come and go, each index in order of key.
    fn indexes(&mut self, changed: BTreeMap<(Table, TableKey), bool>) -> Result<(), StoreError> {
        let mut open: Option<(Table, TableWriter<'_>)> = None;
        for ((table, key), is_there) in changed {
            if open.as_ref().is_none_or(|(other, _)| *other != table) {
                open = Some((table, self.writer.table(table)?));
            }
            let Some((_, rows)) = &mut open else { continue };
            if is_there {
                self.put(rows, &key, &[])?;
            } else {
                rows.remove(self.partition, &key)?;
            }
        }
        Ok(())
    }

    fn seen(&mut self, data: &OverlayData) -> Result<(), StoreError> {
        if data.slices().is_empty() {
            return Ok(());
        }
        let mut out = self.writer.table(Table::Seen)?;
        for (slice, changes) in data.slices() {
            let key = key::slice(*slice);
            let mut seen = match out.get(self.partition, &key)? {
                Some(row) => decode_seen_slice(&row)
                    .map_err(|error| damaged_row(self.writer.name(), Table::Seen, &key, &error))?,
                None => Box::new([None; DeviceSlot::SLICE_DEVICES as usize]),
            };
            for (seen, change) in seen.iter_mut().zip(changes.all_seen()) {
                match change {
                    SeenChange::Untouched => {}
                    SeenChange::Gone => *seen = None,
                    SeenChange::Seen(latest) => *seen = Some(*latest),
                }
            }
            self.put(&mut out, &key, &encode_seen_slice(&seen))?;
        }
        Ok(())
    }

    /// Seals every chunk; what a deleted device read is left out.
    fn readings(&mut self, data: &OverlayData, deleted: &BTreeSet<u32>) -> Result<(), StoreError> {
        let mut blobs = BlobWriter::open(self.writer, self.partition)?;
        let today = day_of(data.head().now);
        for (slice, changes) in data.slices() {
            let mut next = HashMap::new();
            for sealed in sealed(*slice, changes, today, deleted) {
                let sealed = sealed?;
                let (slice, day) = (*slice, sealed.day);
                let sequence = match next.get(&day) {
                    Some(next) => *next,
                    None => blobs.next_sequence(slice, day)?,
                };
                next.insert(day, sequence + 1);
                self.written.bytes += blobs.put(BlobKey { slice, day, sequence }, &sealed)?;
                self.written.blobs.push(BlobKey { slice, day, sequence });
            }
        }
        Ok(())
    }
}

fn row_bytes(key: &[u8], value: &[u8]) -> u64 {
    (key::PARTITION_BYTES + key.len() + value.len()) as u64
}

fn sealed(
    slice: u32,
    changes: &SliceOverlay,
    today: i32,
    deleted: &BTreeSet<u32>,
) -> impl Iterator<Item = Result<Sealed, StoreError>> {
    let slot = move |within: u8| slice * DeviceSlot::SLICE_DEVICES + u32::from(within);
    changes.all_chunks().flat_map(move |part| {
        let sealed = seal(part.readings(None), today, |reading| !deleted.contains(&slot(reading.within)));
        let damaged = |error| damaged_row("memory", Table::Blobs, &key::slice(slice), &error);
        let (blobs, error) = match sealed {
            Ok(blobs) => (blobs, None),
            Err(error) => (Vec::new(), Some(Err(damaged(error)))),
        };
        blobs.into_iter().map(Ok).chain(error)
    })
}
