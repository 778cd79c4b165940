//! Sweeping what a deleted device left behind: its events, and its readings within the blobs that its slice shares.
//!
//! It is hidden from views from the moment of the deletion by a mark, which goes last.

use base::PartitionId;
use records::DeviceSlot;

use crate::codec::Stored;
use crate::codec::key::{BlobKey, Key, Moment};
use crate::embedded::key_range::KeyRange;
use crate::embedded::tables::{Row, Table, TableWriter, Writer};
use crate::embedded::view::damaged_row;
use crate::history::{Blob, BlobIndex, Sealed};
use crate::port::StoreError;

/// Most events removed at once: two rows each.
const EVENTS_AT_ONCE: usize = 500;
/// Most blobs written anew at once: each is up to some ten thousand readings.
const BLOBS_AT_ONCE: usize = 32;

/// Sweeps some of a partition; whether nothing is left to sweep.
pub(super) fn sweep(writer: &Writer<'_>, partition: PartitionId) -> Result<bool, StoreError> {
    let mut deleted = writer.table(Table::Deleted)?;
    let first = deleted.first(partition, &KeyRange::all(), 1, |_, _| Ok(true))?;
    let Some((mark, _)) = first.first() else { return Ok(true) };
    let Ok(slot) = <[u8; 4]>::try_from(&**mark) else {
        return deleted.remove(partition, mark).map(|()| false);
    };
    let slot = DeviceSlot(u32::from_be_bytes(slot));
    if !events(writer, partition, mark)? && !blobs(writer, partition, slot)? {
        deleted.remove(partition, mark)?;
    }
    Ok(false)
}

/// Removes some events of the device; whether there were any.
fn events(writer: &Writer<'_>, partition: PartitionId, slot: &Key) -> Result<bool, StoreError> {
    let mut index = writer.table(Table::EventsByDevice)?;
    let mut events = writer.table(Table::Events)?;
    let found = index.first(partition, &KeyRange::of(slot), EVENTS_AT_ONCE, |_, _| Ok(true))?;
    for (key, _) in &found {
        let moment = Moment::at_end_of(key);
        let moment =
            moment.map_err(|error| damaged_row(writer.name(), Table::EventsByDevice, key, &error))?;
        events.remove(partition, &moment.below(&[]))?;
        index.remove(partition, key)?;
    }
    Ok(!found.is_empty())
}

/// Writes some blobs without the device's readings; whether there were any with them.
fn blobs(writer: &Writer<'_>, partition: PartitionId, slot: DeviceSlot) -> Result<bool, StoreError> {
    let mut index = writer.table(Table::BlobIndex)?;
    let mut blobs = writer.table(Table::Blobs)?;
    let range = KeyRange::of(&crate::codec::key::slice(slot.slice()));
    let holds = |key: &Key, row: &[u8]| {
        let index = BlobIndex::from_row(row);
        let index = index.map_err(|error| damaged_row(writer.name(), Table::BlobIndex, key, &error))?;
        Ok(index.devices.contains(slot.within_slice()))
    };
    let found = index.first(partition, &range, BLOBS_AT_ONCE, holds)?;
    for row in &found {
        without(&mut blobs, &mut index, partition, row, slot.within_slice())?;
    }
    Ok(!found.is_empty())
}

fn without(
    blobs: &mut TableWriter<'_>,
    index: &mut TableWriter<'_>,
    partition: PartitionId,
    (key, row): &Row,
    within: u8,
) -> Result<(), StoreError> {
    let name = index.name();
    let damaged = |error| damaged_row(name, Table::Blobs, key, &error);
    let day = BlobKey::from_key(key).map_err(damaged)?.day;
    let blob = blobs.get(partition, key)?.unwrap_or_default();
    let mut readings = Blob::open(&blob).and_then(|blob| blob.all()).map_err(damaged)?;
    readings.retain(|reading| reading.within != within);
    if readings.is_empty() {
        blobs.remove(partition, key)?;
        return index.remove(partition, key);
    }
    let sealed = Sealed::of(day, readings, BlobIndex::from_row(row).map_err(damaged)?.sealed);
    blobs.put(partition, key, &sealed.blob)?;
    index.put(partition, key, &sealed.index.to_row())
}
