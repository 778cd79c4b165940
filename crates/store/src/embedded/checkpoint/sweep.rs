//! Sweeping what a deleted device left behind: events, commands and what stands beside them, and
//! its readings within the blobs that its slice shares.
//!
//! It is hidden from views from the moment of the deletion by a mark, which goes last.

use std::collections::BTreeMap;

use base::PartitionId;
use records::{Command, CommandState, DeviceSlot};

use crate::codec::key::{self, BlobKey, FeedEntryKey, TableKey};
use crate::codec::rows_of_command;
use crate::embedded::blobs::{BlobWriter, damaged_blob};
use crate::embedded::tables::{Table, TablesTransaction};
use crate::embedded::view::damaged_row;
use crate::history::{Blob, BlobIndex, Sealed};
use crate::key_range::KeyRange;
use crate::port::StoreError;
use crate::record::Record;

/// Most events removed at once: two rows each.
const EVENTS_AT_ONCE: usize = 500;
/// Most commands removed at once: seven rows each, and a payload.
const COMMANDS_AT_ONCE: usize = 200;
/// Most rows removed at once of a table whose keys begin with the slot.
const ROWS_AT_ONCE: usize = 1_000;
/// Most blobs written anew at once.
const BLOBS_AT_ONCE: usize = 64;
/// Enough bytes of these: all their readings are decoded and encoded again.
const BYTES_AT_ONCE: u32 = 512 * 1_024;

/// Sweeps some of a partition; whether nothing is left to sweep.
pub(super) fn sweep(writer: &TablesTransaction<'_>, partition: PartitionId) -> Result<bool, StoreError> {
    let mut deleted = writer.table(Table::Deleted)?;
    let first = deleted.first(partition, &KeyRange::all(), 1, |_, _| Ok(true))?;
    let Some((mark, _)) = first.first() else { return Ok(true) };
    let Ok(slot) = <[u8; 4]>::try_from(&**mark) else {
        return deleted.remove(partition, mark).map(|()| false);
    };
    let slot = DeviceSlot(u32::from_be_bytes(slot));
    let found_any = events(writer, partition, mark)?
        || commands(writer, partition, mark)?
        || by_slot(writer, partition, mark)?
        || blobs(writer, partition, slot)?;
    if !found_any {
        deleted.remove(partition, mark)?;
    }
    Ok(false)
}

/// Removes some events of the device; whether there were any.
fn events(
    writer: &TablesTransaction<'_>,
    partition: PartitionId,
    slot: &TableKey,
) -> Result<bool, StoreError> {
    let mut index = writer.table(Table::EventsByDevice)?;
    let mut events = writer.table(Table::Events)?;
    let found = index.first(partition, &KeyRange::of(slot), EVENTS_AT_ONCE, |_, _| Ok(true))?;
    for (key, _) in &found {
        let event = FeedEntryKey::at_end_of(key);
        let event = event.map_err(|error| damaged_row(writer.name(), Table::EventsByDevice, key, &error))?;
        events.remove(partition, &event.below(&[]))?;
        index.remove(partition, key)?;
    }
    Ok(!found.is_empty())
}

/// Removes some commands of the device, each with all of its rows; whether there were any.
fn commands(
    writer: &TablesTransaction<'_>,
    partition: PartitionId,
    slot: &TableKey,
) -> Result<bool, StoreError> {
    let index = writer.table(Table::CommandsByDevice)?;
    let found = index.first(partition, &KeyRange::of(slot), COMMANDS_AT_ONCE, |_, _| Ok(true))?;
    drop(index);
    let mut gone: BTreeMap<Table, Vec<TableKey>> = BTreeMap::new();
    for (key, _) in &found {
        let damaged = |error| damaged_row(writer.name(), Table::CommandsByDevice, key, &error);
        let feed_entry = FeedEntryKey::at_end_of(key).map_err(damaged)?.below(&[]);
        let command: Option<Command> = record(writer, partition, &feed_entry)?;
        let state: Option<CommandState> = record(writer, partition, &feed_entry)?;
        let rows = command.zip(state).map(|(command, state)| rows_of_command(&command, &state));
        let itself = [(Table::CommandsByDevice, key.clone())];
        for (table, key) in rows.unwrap_or_default().into_iter().chain(itself) {
            gone.entry(table).or_default().push(key);
        }
    }
    for (table, keys) in gone {
        let mut rows = writer.table(table)?;
        keys.iter().try_for_each(|key| rows.remove(partition, key))?;
    }
    Ok(!found.is_empty())
}

fn record<R: Record>(
    writer: &TablesTransaction<'_>,
    partition: PartitionId,
    key: &TableKey,
) -> Result<Option<R>, StoreError> {
    let row = writer.table(R::TABLE)?.get(partition, key)?;
    let record = row.map(|row| R::from_row(&row)).transpose();
    record.map_err(|error| damaged_row(writer.name(), R::TABLE, key, &error))
}

/// Removes some rows of tables by slot; whether there were any.
fn by_slot(
    writer: &TablesTransaction<'_>,
    partition: PartitionId,
    slot: &TableKey,
) -> Result<bool, StoreError> {
    for table in Table::of_a_device() {
        let mut rows = writer.table(table)?;
        let found = rows.first(partition, &KeyRange::of(slot), ROWS_AT_ONCE, |_, _| Ok(true))?;
        rows.remove_in_order(partition, found.iter().map(|(key, _)| key))?;
        if !found.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes some blobs without the device's readings; whether there were any with them.
fn blobs(
    writer: &TablesTransaction<'_>,
    partition: PartitionId,
    slot: DeviceSlot,
) -> Result<bool, StoreError> {
    let mut blobs = BlobWriter::open(writer, partition)?;
    let range = KeyRange::of(&key::slice(slot.slice()));
    let holds = |_: BlobKey, index: &BlobIndex| index.devices.contains(slot.within_slice());
    let found = blobs.first(&range, BLOBS_AT_ONCE, holds)?;
    let mut bytes = 0;
    for (key, index) in &found {
        bytes += index.bytes;
        without(&mut blobs, *key, index, slot.within_slice())?;
        if bytes >= BYTES_AT_ONCE {
            break;
        }
    }
    Ok(!found.is_empty())
}

fn without(
    blobs: &mut BlobWriter<'_>,
    key: BlobKey,
    index: &BlobIndex,
    within: u8,
) -> Result<(), StoreError> {
    let blob = blobs.whole(key, index)?;
    let readings = Blob::open(&*blob).and_then(|blob| blob.all());
    let mut readings = readings.map_err(|error| damaged_blob(blobs.name(), key, &error))?;
    readings.retain(|reading| reading.within != within);
    blobs.remove(key, index)?;
    if !readings.is_empty() {
        let mut sealed = Sealed::of(key.day, readings, index.sealed);
        sealed.index.level = index.level;
        blobs.put(key, &sealed)?;
    }
    Ok(())
}
