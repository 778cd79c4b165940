//! Removing what is too old to be kept: some rows of each table at a time, readings by whole blobs.
//!
//! Views do not show it since the batch that moved the head's `kept_from`; this only gives the room
//! back. What is written later with an older time is hidden too, and goes when `kept_from` moves
//! again, which it does with every day.

use std::collections::BTreeSet;
use std::ops::Bound;

use base::{PartitionId, Timestamp};
use records::{CountsKey, Delivery, DeviceSlot, Event, KeptFrom};

use crate::codec::key::{self, BlobKey, Key, Moment};
use crate::embedded::blobs::{BlobWriter, of_days};
use crate::embedded::tables::{Table, TableWriter, Writer};
use crate::embedded::view::damaged_row;
use crate::history::{BlobIndex, day_of};
use crate::key_range::KeyRange;
use crate::port::StoreError;
use crate::record::{Placed, index_rows};

/// Most rows removed from a table at once.
const ROWS_AT_ONCE: usize = 2_000;

/// Most timelines looked at at once.
const TIMELINES_AT_ONCE: usize = 2_000;

/// How far what a partition keeps no longer is removed.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::embedded) struct Expired {
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
    writer: &Writer<'_>,
    partition: PartitionId,
    kept: &KeptFrom,
    expired: &mut Expired,
) -> Result<u64, StoreError> {
    let expiring = Expiring { writer, partition };
    let removed = expiring.indexed::<Event>(kept.events)?
        + expiring.counts(kept.events)?
        + expiring.timelines(kept.events, &mut expired.timelines)?
        + expiring.indexed::<Delivery>(kept.deliveries)?
        + expiring.plain(Table::Progress, kept.deliveries)?
        + expiring.plain(Table::Attempts, kept.deliveries)?
        + expiring.blobs(kept.readings)?;
    if removed == 0 && expired.timelines.kept == kept.events {
        expired.kept = *kept;
    }
    Ok(removed as u64)
}

struct Expiring<'a> {
    writer: &'a Writer<'a>,
    partition: PartitionId,
}

/// The keys of a feed before a time.
fn before(time: Timestamp) -> KeyRange {
    KeyRange { low: Bound::Unbounded, high: Bound::Excluded(Moment::first_at(time).below(&[])) }
}

impl Expiring<'_> {
    /// Removes the first rows of a range; what they were.
    fn remove(&self, table: Table, range: &KeyRange) -> Result<Vec<(Key, Vec<u8>)>, StoreError> {
        let mut rows = self.writer.table(table)?;
        let found = rows.first(self.partition, range, ROWS_AT_ONCE, |_, _| Ok(true))?;
        found.iter().try_for_each(|(key, _)| rows.remove(self.partition, key))?;
        Ok(found)
    }

    fn plain(&self, table: Table, from: Timestamp) -> Result<usize, StoreError> {
        Ok(self.remove(table, &before(from))?.len())
    }

    /// The records of a feed, with the rows of their indexes.
    fn indexed<R: Placed>(&self, from: Timestamp) -> Result<usize, StoreError> {
        let rows = self.remove(R::TABLE, &before(from))?;
        let mut indexes = BTreeSet::new();
        for (key, row) in &rows {
            let record = R::from_row(row);
            let record = record.map_err(|error| damaged_row(self.writer.name(), R::TABLE, key, &error))?;
            index_rows::<R>(&record.place(), |table, key, _| indexes.extend([(table, key)]));
        }
        for index in R::INDEXES {
            let mut out = self.writer.table(index.table)?;
            let keys = indexes.iter().filter(|(table, _)| *table == index.table);
            keys.into_iter().try_for_each(|(_, key)| out.remove(self.partition, key))?;
        }
        Ok(rows.len())
    }

    /// Entries of some timelines; a round that was begun goes on to its end, whatever is kept by
    /// then.
    fn timelines(&self, from: Timestamp, timelines: &mut Timelines) -> Result<usize, StoreError> {
        if timelines.kept == from {
            return Ok(0);
        }
        let (from, first) = timelines.round.unwrap_or((from, DeviceSlot(0)));
        let mut rows = self.writer.table(Table::Timeline)?;
        let (mut removed, mut next) = (0, Some(first.0));
        for _ in 0..TIMELINES_AT_ONCE {
            let found = next.map(|next| self.next_timeline(&rows, DeviceSlot(next)));
            let Some(slot) = found.transpose()?.flatten() else {
                *timelines = Timelines { kept: from, round: None };
                return Ok(removed);
            };
            let of_slot = key::slot(slot);
            let old = KeyRange::of(&of_slot).before(Some(Moment::first_at(from).below(&of_slot)));
            let old = rows.first(self.partition, &old, ROWS_AT_ONCE - removed, |_, _| Ok(true))?;
            old.iter().try_for_each(|(key, _)| rows.remove(self.partition, key))?;
            removed += old.len();
            timelines.round = Some((from, slot));
            if removed >= ROWS_AT_ONCE {
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

    fn counts(&self, from: Timestamp) -> Result<usize, StoreError> {
        let (day, _) = CountsKey::day_and_hour(from);
        let range = KeyRange { low: Bound::Unbounded, high: Bound::Excluded(key::day(day)) };
        Ok(self.remove(Table::Counts, &range)?.len())
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
