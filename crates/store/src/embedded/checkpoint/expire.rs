//! Removing what is too old to be kept: some rows of each table at a time, readings by whole blobs.
//! Which tables, and by what their age is measured, is what their [`Lifetime`] says.
//!
//! Views do not show it since the batch that moved the head's `kept_from`; this only gives the room
//! back. What is written later with an older time is hidden too, and goes when `kept_from` moves
//! again, which it does with every day.

use std::collections::BTreeSet;
use std::ops::Bound;

use base::{PartitionId, Timestamp};
use records::{CountsKey, DeviceSlot, KeptFrom};

use crate::codec::key::{self, BlobKey, FeedEntryKey, TableKey};
use crate::embedded::blobs::{BlobWriter, of_days};
use crate::embedded::tables::{Row, Table, TableWriter, TablesTransaction};
use crate::embedded::view::damaged_row;
use crate::history::{BlobIndex, day_of};
use crate::key_range::KeyRange;
use crate::port::StoreError;
use crate::record::{Placed, Record, RecordVisitor, for_each_record, index_rows};
use crate::table::Lifetime;

/// Most rows removed from a table at once.
const ROWS_AT_ONCE: usize = 2_000;

/// Most timelines looked at at once.
const TIMELINES_AT_ONCE: usize = 2_000;

/// How far what a partition keeps no longer is removed.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::embedded) struct ExpiryProgress {
    /// What is older is not in the tables.
    pub(super) kept: KeptFrom,
    timelines: Timelines,
}

/// Timelines lie one behind the other, so one device after the other is looked at: once for every
/// time that [`KeptFrom::events`] moves.
#[derive(Clone, Copy, Debug)]
struct Timelines {
    /// No entry is older.
    kept: Timestamp,
    /// The round that is under way: from when on it keeps entries, and the device that is next.
    round: Option<(Timestamp, DeviceSlot)>,
}

impl Default for Timelines {
    fn default() -> Self {
        Self { kept: KeptFrom::EVER.events, round: None }
    }
}

/// Removes some of what a partition keeps no longer; how many rows.
pub(super) fn expire(
    writer: &TablesTransaction<'_>,
    partition: PartitionId,
    kept: &KeptFrom,
    expired: &mut ExpiryProgress,
) -> Result<u64, StoreError> {
    let timelines = &mut expired.timelines;
    let mut expiring = Expiring { writer, partition, kept, timelines, removed: 0 };
    for_each_record(&mut expiring)?;
    let removed = expiring.removed + expiring.blobs(kept.readings)?;
    if removed == 0 && expired.timelines.kept == kept.events {
        expired.kept = *kept;
    }
    Ok(removed as u64)
}

struct Expiring<'a> {
    writer: &'a TablesTransaction<'a>,
    partition: PartitionId,
    kept: &'a KeptFrom,
    timelines: &'a mut Timelines,
    /// Rows of records.
    removed: usize,
}

impl RecordVisitor for Expiring<'_> {
    type Error = StoreError;

    fn placed<R: Placed>(&mut self) -> Result<(), StoreError> {
        let rows = self.rows(R::TABLE)?;
        self.removed += rows.len();
        self.indexes::<R>(&rows)
    }

    fn keyed<R: Record>(&mut self) -> Result<(), StoreError> {
        let rows = self.rows(R::TABLE)?;
        self.removed += rows.len();
        Ok(())
    }
}

impl Expiring<'_> {
    /// Removes some rows of a table that are too old; what they were.
    fn rows(&mut self, table: Table) -> Result<Vec<Row>, StoreError> {
        let first_at = |time| FeedEntryKey::first_at(time).below(&[]);
        match table.lifetime() {
            Lifetime::Kept | Lifetime::Device => Ok(Vec::new()),
            Lifetime::DeviceAndEvents => self.timelines(table),
            Lifetime::Events => self.before(table, first_at(self.kept.events)),
            Lifetime::EventDays => {
                let (day, _) = CountsKey::day_and_hour(self.kept.events);
                self.before(table, key::day(day))
            }
            Lifetime::Deliveries => self.before(table, first_at(self.kept.deliveries)),
        }
    }

    /// Removes the first rows before a key; what they were.
    fn before(&self, table: Table, high: TableKey) -> Result<Vec<Row>, StoreError> {
        let range = KeyRange { low: Bound::Unbounded, high: Bound::Excluded(high) };
        let mut rows = self.writer.table(table)?;
        let found = rows.first(self.partition, &range, ROWS_AT_ONCE, |_, _| Ok(true))?;
        rows.remove_in_order(self.partition, found.iter().map(|(key, _)| key))?;
        Ok(found)
    }

    /// Removes the rows that lead to records whose rows these were.
    fn indexes<R: Placed>(&self, rows: &[Row]) -> Result<(), StoreError> {
        if R::INDEXES.is_empty() || rows.is_empty() {
            return Ok(());
        }
        let mut indexes = BTreeSet::new();
        for (key, row) in rows {
            let record = R::from_row(row);
            let record = record.map_err(|error| damaged_row(self.writer.name(), R::TABLE, key, &error))?;
            index_rows::<R>(&record.place(), |table, key, _| indexes.extend([(table, key)]));
        }
        for index in R::INDEXES {
            let mut out = self.writer.table(index.table)?;
            let keys = indexes.iter().filter(|(table, _)| *table == index.table);
            out.remove_in_order(self.partition, keys.map(|(_, key)| key))?;
        }
        Ok(())
    }

    /// Entries of some timelines; a round that was begun goes on to its end, whatever is kept by
    /// then.
    fn timelines(&mut self, table: Table) -> Result<Vec<Row>, StoreError> {
        let mut removed = Vec::new();
        if self.timelines.kept == self.kept.events {
            return Ok(removed);
        }
        let (from, first) = self.timelines.round.unwrap_or((self.kept.events, DeviceSlot(0)));
        let mut rows = self.writer.table(table)?;
        let mut next = Some(first.0);
        for _ in 0..TIMELINES_AT_ONCE {
            let found = next.map(|next| self.next_timeline(&rows, DeviceSlot(next)));
            let Some(slot) = found.transpose()?.flatten() else {
                *self.timelines = Timelines { kept: from, round: None };
                return Ok(removed);
            };
            let of_slot = key::slot(slot);
            let old = KeyRange::of(&of_slot).before(Some(FeedEntryKey::first_at(from).below(&of_slot)));
            let old = rows.first(self.partition, &old, ROWS_AT_ONCE - removed.len(), |_, _| Ok(true))?;
            rows.remove_in_order(self.partition, old.iter().map(|(key, _)| key))?;
            removed.extend(old);
            self.timelines.round = Some((from, slot));
            if removed.len() >= ROWS_AT_ONCE {
                break;
            }
            next = slot.0.checked_add(1);
        }
        Ok(removed)
    }

    /// The first device from `first` on that has a timeline.
    fn next_timeline(
        &self,
        rows: &TableWriter<'_>,
        first: DeviceSlot,
    ) -> Result<Option<DeviceSlot>, StoreError> {
        let range = KeyRange { low: Bound::Included(key::slot(first)), high: Bound::Unbounded };
        let found = rows.first(self.partition, &range, 1, |_, _| Ok(true))?;
        let slot = found.first().and_then(|(key, _)| key.first_chunk());
        Ok(slot.map(|slot| DeviceSlot(u32::from_be_bytes(*slot))))
    }

    /// Blobs of days that are over and that were received by then, slice by slice; slices of
    /// devices that are gone are not looked at.
    fn blobs(&self, from: Timestamp) -> Result<usize, StoreError> {
        let mut blobs = BlobWriter::open(self.writer, self.partition)?;
        let (mut removed, mut next) = (0, Some(0));
        while let Some(slice) = next.map(|next| blobs.next_slice(next)).transpose()?.flatten() {
            next = slice.checked_add(1);
            let range = of_days(slice, i32::MIN, day_of(from));
            let is_expired = |key: BlobKey, index: &BlobIndex| index.is_expired(key.day, from);
            for (key, index) in blobs.first(&range, ROWS_AT_ONCE - removed, is_expired)? {
                // a blob goes as a whole, whatever it has of blocks
                removed += blobs.remove(key, &index)?;
                if removed >= ROWS_AT_ONCE {
                    return Ok(removed);
                }
            }
        }
        Ok(removed)
    }
}
