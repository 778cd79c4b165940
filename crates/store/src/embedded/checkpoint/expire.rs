//! Removing what is too old to be kept: some rows of each table at a time, readings by whole blobs.
//!
//! Views do not show it since the batch that moved the head's `kept_from`; this only gives the room
//! back. What is written later with an older time is hidden too, and goes when `kept_from` moves
//! again, which it does with every day.

use std::collections::BTreeSet;
use std::ops::Bound;

use base::{PartitionId, Timestamp};
use records::{CountsKey, Delivery, Event, KeptFrom};

use crate::codec::key::{self, BlobKey, Key, Moment};
use crate::embedded::blobs::{BlobWriter, of_days};
use crate::embedded::tables::{Table, Writer};
use crate::embedded::view::damaged_row;
use crate::history::{BlobIndex, day_of};
use crate::key_range::KeyRange;
use crate::port::StoreError;
use crate::record::{Placed, index_rows};

/// Most rows removed from a table at once.
const ROWS_AT_ONCE: usize = 2_000;

/// Removes some of what a partition keeps no longer: how many rows, 0 when nothing is left.
pub(super) fn expire(
    writer: &Writer<'_>,
    partition: PartitionId,
    kept: &KeptFrom,
) -> Result<u64, StoreError> {
    let expiring = Expiring { writer, partition };
    let removed = expiring.indexed::<Event>(kept.events)?
        + expiring.counts(kept.events)?
        + expiring.indexed::<Delivery>(kept.deliveries)?
        + expiring.plain(Table::Progress, kept.deliveries)?
        + expiring.plain(Table::Attempts, kept.deliveries)?
        + expiring.blobs(kept.readings)?;
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
