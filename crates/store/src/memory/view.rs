//! A view in memory: the partition as it was, shared until the next commit copies what it changes.

use std::sync::Arc;

use base::Timestamp;
use records::{DeviceSlot, LastSeen, PartitionHead, Reading};

use super::partition::MemoryPartition;
use crate::codec::key::TableKey;
use crate::key_range::KeyRange;
use crate::port::{Page, ReadingKey, RowsInOrder, SeenSlice, StoreError, Table, View};

pub(super) struct MemoryView(pub(super) Arc<MemoryPartition>);

impl MemoryView {
    /// A device's readings in order.
    fn readings_of(&self, slot: DeviceSlot) -> impl DoubleEndedIterator<Item = &Reading> {
        let key = |ts, number| (slot, ReadingKey { ts, number });
        let all = key(Timestamp(i64::MIN), 0)..=key(Timestamp::MAX, u32::MAX);
        self.0.readings.range(all).map(|(_, (reading, _))| reading)
    }
}

impl View for MemoryView {
    fn head(&self) -> &PartitionHead {
        &self.0.head
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(table, key).map(|row| row.to_vec()))
    }

    fn range(&self, table: Table, range: &KeyRange, ascending: bool) -> Result<RowsInOrder<'_>, StoreError> {
        let rows = self.0.range(table, range.clone());
        let row = |(key, row): (&TableKey, &Arc<[u8]>)| Ok((key.clone(), Some(row.to_vec())));
        Ok(if ascending { Box::new(rows.map(row)) } else { Box::new(rows.rev().map(row)) })
    }

    fn seen_slice(&self, slice: u32) -> Result<Box<SeenSlice>, StoreError> {
        let mut seen = Box::new([None; DeviceSlot::SLICE_DEVICES as usize]);
        let first = slice * DeviceSlot::SLICE_DEVICES;
        let slots = DeviceSlot(first)..=DeviceSlot(first + (DeviceSlot::SLICE_DEVICES - 1));
        for (slot, latest) in self.0.seen.range(slots) {
            seen[usize::from(slot.within_slice())] = Some(*latest);
        }
        Ok(seen)
    }

    fn seen(&self, slot: DeviceSlot) -> Result<Option<LastSeen>, StoreError> {
        Ok(self.0.seen.get(&slot).copied())
    }

    fn readings(&self, slot: DeviceSlot, page: Page<ReadingKey>) -> Result<Vec<Reading>, StoreError> {
        let is_behind = |key: ReadingKey, after| if page.ascending { key > after } else { key < after };
        let is_wanted = |reading: &&Reading| {
            let key = ReadingKey { ts: reading.ts, number: reading.number };
            (page.from..page.to).contains(&key.ts) && page.after.is_none_or(|after| is_behind(key, after))
        };
        let readings = self.readings_of(slot).filter(is_wanted);
        Ok(if page.ascending {
            readings.take(page.limit).cloned().collect()
        } else {
            readings.rev().take(page.limit).cloned().collect()
        })
    }

    fn reading_times(
        &self,
        slot: DeviceSlot,
        from: Timestamp,
        to: Timestamp,
        each: &mut dyn FnMut(Timestamp),
    ) -> Result<(), StoreError> {
        self.readings_of(slot).map(|reading| reading.ts).filter(|ts| (from..to).contains(ts)).for_each(each);
        Ok(())
    }

    fn damaged(&self, table: Table, key: &[u8], what: String) -> StoreError {
        StoreError::damaged_row("memory", table, key, what)
    }
}
