//! A view: one partition at one moment, read through its layers.

mod merged;
mod reading_times;
mod readings;

use std::sync::Arc;

use base::Timestamp;
use records::{DeviceSlot, LastSeen, PartitionHead, Reading};

use super::health::StoreHealth;
use super::overlay::{OverlayRow, SeenChange};
use super::partition::PinnedPartition;
use crate::codec::key;
use crate::codec::{CodecError, decode_seen_slice};
use crate::key_range::KeyRange;
use crate::port::{Page, ReadingKey, RowsInOrder, SeenSlice, StoreError, View};
use crate::table::Table;
use merged::Merged;

/// A partition's layers, and where to report what is found damaged.
pub(super) struct EmbeddedView {
    moment: PinnedPartition,
    health: Arc<StoreHealth>,
}

impl EmbeddedView {
    pub(super) fn new(moment: PinnedPartition, health: Arc<StoreHealth>) -> Self {
        Self { moment, health }
    }

    /// What cannot be read stops the store.
    fn reported<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        read.map_err(|error| self.health.fail(error))
    }

    /// A row of the newest layer that knows of it.
    fn row(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        for overlay in &self.moment.overlays {
            let data = overlay.read();
            match data.rows(table).map_or(OverlayRow::Untouched, |rows| rows.at(key, self.moment.seq)) {
                OverlayRow::Untouched => {}
                OverlayRow::Deleted => return Ok(None),
                OverlayRow::Value(value) => return Ok(Some(value.to_vec())),
            }
        }
        self.moment.snapshot.get(table, self.moment.partition, key)
    }

    /// Signs of life of a slice, with what every layer knows of it.
    fn seen_in(&self, slice: u32) -> Result<Box<SeenSlice>, StoreError> {
        let key = key::slice(slice);
        let row = self.moment.snapshot.get(Table::Seen, self.moment.partition, &key)?;
        let damaged = |error| damaged_row(self.moment.snapshot.name(), Table::Seen, &key, &error);
        let mut seen = match row {
            Some(row) => decode_seen_slice(&row).map_err(damaged)?,
            None => Box::new([None; DeviceSlot::SLICE_DEVICES as usize]),
        };
        for overlay in self.moment.overlays.iter().rev() {
            let data = overlay.read();
            let Some(changes) = data.slice(slice) else { continue };
            for (within, seen) in (0..=u8::MAX).zip(seen.iter_mut()) {
                match changes.seen(within, self.moment.seq) {
                    SeenChange::Untouched => {}
                    SeenChange::Gone => *seen = None,
                    SeenChange::Seen(latest) => *seen = Some(latest),
                }
            }
        }
        Ok(seen)
    }

    fn is_deleted(&self, slot: DeviceSlot) -> Result<bool, StoreError> {
        Ok(self.row(Table::Deleted, &key::slot(slot))?.is_some())
    }
}

impl View for EmbeddedView {
    fn head(&self) -> &PartitionHead {
        &self.moment.head
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.reported(self.row(table, key))
    }

    fn range(&self, table: Table, range: &KeyRange, ascending: bool) -> Result<RowsInOrder<'_>, StoreError> {
        let rows = self.reported(Merged::new(&self.moment, table, range, ascending))?;
        Ok(Box::new(rows.map(|row| self.reported(row))))
    }

    fn seen_slice(&self, slice: u32) -> Result<Box<SeenSlice>, StoreError> {
        self.reported(self.seen_in(slice))
    }

    /// Mostly the newest layer knows it.
    fn seen(&self, slot: DeviceSlot) -> Result<Option<LastSeen>, StoreError> {
        for overlay in &self.moment.overlays {
            let data = overlay.read();
            let change =
                data.slice(slot.slice()).map(|slice| slice.seen(slot.within_slice(), self.moment.seq));
            match change {
                None | Some(SeenChange::Untouched) => {}
                Some(SeenChange::Gone) => return Ok(None),
                Some(SeenChange::Seen(seen)) => return Ok(Some(seen)),
            }
        }
        Ok(self.seen_slice(slot.slice())?[usize::from(slot.within_slice())])
    }

    fn readings(&self, slot: DeviceSlot, page: Page<ReadingKey>) -> Result<Vec<Reading>, StoreError> {
        self.reported(readings::page(self, &self.moment, slot, page))
    }

    fn reading_times(
        &self,
        slot: DeviceSlot,
        from: Timestamp,
        to: Timestamp,
        each: &mut dyn FnMut(Timestamp),
    ) -> Result<(), StoreError> {
        self.reported(reading_times::each(self, &self.moment, slot, (from, to), each))
    }

    fn damaged(&self, table: Table, key: &[u8], what: String) -> StoreError {
        self.health.fail(StoreError::damaged_row(self.moment.snapshot.name(), table, key, what))
    }
}

/// What an operator is told of a row that makes no sense.
pub(super) fn damaged_row(file: &str, table: Table, key: &[u8], error: &CodecError) -> StoreError {
    StoreError::damaged_row(file, table, key, error.to_string())
}
