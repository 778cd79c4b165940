//! Blobs of readings in the tables: an index row for each, which holds a small blob too, and rows
//! of blocks for a large one.
//!
//! A block fills a page, so that large blobs waste little. A page of one device reads the index
//! rows of its slice and the few blocks that its readings are in. What is in a blob, and which of
//! them are merged, is the business of [`crate::history`].

use std::borrow::Cow;
use std::ops::Bound;

use base::PartitionId;

use super::tables::{Row, Snapshot, Table, TableWriter, TablesTransaction};
use super::view::damaged_row;
use crate::codec::key::{self, BlobKey, TableKey};
use crate::codec::{CodecError, Stored};
use crate::history::{BLOCK_BYTES, BlobIndex, BlobSource, ReadingSpan, Sealed, day_of};
use crate::key_range::KeyRange;
use crate::port::StoreError;

/// Where the blobs of a slice with these times may be.
pub(super) fn blobs_with(slice: u32, span: ReadingSpan) -> Option<KeyRange> {
    let range = of_days(slice, day_of(span.min), day_of(span.max));
    (span.min <= span.max && !range.is_empty()).then_some(range)
}

/// The blobs of a slice of these days, both included.
pub(super) fn of_days(slice: u32, first: i32, last: i32) -> KeyRange {
    let end = |day, sequence| BlobKey { slice, day, sequence }.to_key();
    KeyRange { low: Bound::Included(end(first, 0)), high: Bound::Included(end(last, u32::MAX)) }
}

/// A row of the index.
pub(super) fn index(file: &str, (key, row): &Row) -> Result<(BlobKey, BlobIndex), StoreError> {
    read_index(file, key, row)
}

fn read_index(file: &str, key: &TableKey, row: &[u8]) -> Result<(BlobKey, BlobIndex), StoreError> {
    let read = || Ok((BlobKey::from_key(key)?, BlobIndex::from_row(row)?));
    read().map_err(|error| damaged_row(file, Table::BlobIndex, key, &error))
}

/// Blobs as a snapshot shows them.
pub(super) struct StoredBlob<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) partition: PartitionId,
    pub(super) key: BlobKey,
    pub(super) index: &'a BlobIndex,
}

impl BlobSource for StoredBlob<'_> {
    type Error = StoreError;

    fn blob_bytes(&self) -> usize {
        self.index.bytes as usize
    }

    fn block(&self, number: usize) -> Result<Cow<'_, [u8]>, StoreError> {
        if let Some(blob) = &self.index.inline {
            let at = number * BLOCK_BYTES;
            let block = blob.get(at..blob.len().min(at + BLOCK_BYTES)).unwrap_or_default();
            return Ok(Cow::Borrowed(block));
        }
        let key = key::block(self.key, number as u32);
        let block = self.snapshot.get(Table::Blobs, self.partition, &key)?;
        Ok(Cow::Owned(block.unwrap_or_default()))
    }

    fn damaged(&self, error: CodecError) -> StoreError {
        damaged_blob(self.snapshot.name(), self.key, &error)
    }
}

/// What an operator is told of a blob that makes no sense.
pub(super) fn damaged_blob(file: &str, key: BlobKey, error: &CodecError) -> StoreError {
    damaged_row(file, Table::Blobs, &key.to_key(), error)
}

/// The blobs of a partition within a transaction.
pub(super) struct BlobWriter<'a> {
    partition: PartitionId,
    index: TableWriter<'a>,
    blocks: TableWriter<'a>,
}

impl<'a> BlobWriter<'a> {
    /// Opens both tables; neither must be open.
    pub(super) fn open(writer: &TablesTransaction<'a>, partition: PartitionId) -> Result<Self, StoreError> {
        Ok(Self { partition, index: writer.table(Table::BlobIndex)?, blocks: writer.table(Table::Blobs)? })
    }

    /// Where the file is.
    pub(super) fn name(&self) -> &'a str {
        self.index.name()
    }

    /// Writes a blob; answers the bytes of its rows.
    pub(super) fn put(&mut self, key: BlobKey, sealed: &Sealed) -> Result<u64, StoreError> {
        let row = sealed.index.to_row();
        let mut bytes = key::PARTITION_BYTES + BlobKey::BYTES + row.len();
        for (number, block) in (0..).zip(sealed.blocks.chunks(BLOCK_BYTES)) {
            let key = key::block(key, number);
            bytes += key::PARTITION_BYTES + key.len() + block.len();
            self.blocks.put(self.partition, &key, block)?;
        }
        self.index.put(self.partition, &key.to_key(), &row)?;
        Ok(bytes as u64)
    }

    /// Removes a blob; answers how many rows it had.
    pub(super) fn remove(&mut self, key: BlobKey, index: &BlobIndex) -> Result<usize, StoreError> {
        let blocks = index.blocks();
        for number in 0..blocks {
            self.blocks.remove(self.partition, &key::block(key, number))?;
        }
        self.index.remove(self.partition, &key.to_key())?;
        Ok(1 + blocks as usize)
    }

    /// All of a blob.
    pub(super) fn whole(&self, key: BlobKey, index: &BlobIndex) -> Result<Vec<u8>, StoreError> {
        if let Some(blob) = &index.inline {
            return Ok(blob.clone());
        }
        let mut blob = Vec::with_capacity(index.bytes as usize);
        for number in 0..index.blocks() {
            let block = self.blocks.get(self.partition, &key::block(key, number))?;
            blob.extend_from_slice(&block.unwrap_or_default());
        }
        Ok(blob)
    }

    /// The first blobs of a range that are wanted, at most `limit`.
    pub(super) fn first(
        &self,
        range: &KeyRange,
        limit: usize,
        wanted: impl Fn(BlobKey, &BlobIndex) -> bool,
    ) -> Result<Vec<(BlobKey, BlobIndex)>, StoreError> {
        let is_wanted = |key: &TableKey, row: &[u8]| {
            read_index(self.name(), key, row).map(|(key, index)| wanted(key, &index))
        };
        let rows = self.index.first(self.partition, range, limit, is_wanted)?;
        rows.iter().map(|row| index(self.name(), row)).collect()
    }

    /// The first slice from this one on that has blobs.
    pub(super) fn next_slice(&self, from: u32) -> Result<Option<u32>, StoreError> {
        let range = KeyRange { low: Bound::Included(key::slice(from)), high: Bound::Unbounded };
        let first = self.index.first(self.partition, &range, 1, |_, _| Ok(true))?;
        let first = first.first().map(|row| index(self.name(), row)).transpose()?;
        Ok(first.map(|(key, _)| key.slice))
    }

    /// The first number behind those of a slice's blobs of a day.
    pub(super) fn next_sequence(&self, slice: u32, day: i32) -> Result<u32, StoreError> {
        let Some(last) = self.index.last_key(self.partition, &of_days(slice, day, day))? else {
            return Ok(0);
        };
        let last = BlobKey::from_key(&last)
            .map_err(|error| damaged_row(self.name(), Table::BlobIndex, &last, &error))?;
        Ok(last.sequence + 1)
    }
}
