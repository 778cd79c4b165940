//! Blobs of readings, their index and their blocks: each names the other, and every reading can be
//! read.

use base::PartitionId;
use records::DeviceSlot;

use super::rows::{CheckedPartition, RowCheck, Wrong, elsewhere};
use crate::codec::key::{BlobKey, TableKey};
use crate::embedded::blobs::StoredBlob;
use crate::embedded::tables::Table;
use crate::history::{Blob, BlobIndex, ReadingSpan, SliceDevices};

impl RowCheck<'_, '_> {
    pub(super) fn readings(&mut self, within: &CheckedPartition) {
        let partition = within.partition;
        let mut readings = 0;
        self.records(Table::BlobIndex, partition, |check, key, index: BlobIndex| {
            readings += u64::from(index.count);
            check.blob(within, key, &index)
        });
        let mut latest = None;
        self.rows(Table::Blobs, partition, |check, key, _| check.block(partition, key, &mut latest));
        self.counted_readings(readings);
    }

    /// Whether a blob is what its index says.
    fn blob(&self, within: &CheckedPartition, key: &TableKey, index: &BlobIndex) -> Result<(), Wrong> {
        let key = BlobKey::from_key(key).map_err(|error| error.to_string())?;
        let stored = StoredBlob { snapshot: self.snapshot, partition: within.partition, key, index };
        let readings = Blob::open(stored).and_then(|blob| blob.all()).map_err(elsewhere)?;
        let (mut devices, mut span) = (SliceDevices::default(), ReadingSpan::EMPTY);
        let first = key.slice.saturating_mul(DeviceSlot::SLICE_DEVICES);
        for reading in &readings {
            within.was_given(DeviceSlot(first.saturating_add(u32::from(reading.within))))?;
            devices.insert(reading.within);
            span.cover(reading.reading.ts);
        }
        if (readings.len(), span, &devices) == (index.count as usize, index.span, &index.devices) {
            Ok(())
        } else {
            Err(format!("its blob is another, which holds {} readings", readings.len()))
        }
    }

    /// Whether a block is one of a blob's; `latest` is the blob of the block before.
    fn block(
        &self,
        partition: PartitionId,
        key: &TableKey,
        latest: &mut Option<(TableKey, u32)>,
    ) -> Result<(), Wrong> {
        let (blob, number) = key.split_last_chunk::<4>().ok_or("its key is too short")?;
        let number = u32::from_be_bytes(*number);
        let blocks = match latest {
            Some((known, blocks)) if **known == *blob => *blocks,
            _ => {
                let index: Option<BlobIndex> = self.record(partition, blob)?;
                let blocks = index.ok_or("its row in reading_blob_index is missing")?.blocks();
                *latest = Some((TableKey::from_slice(blob), blocks));
                blocks
            }
        };
        if number < blocks { Ok(()) } else { Err(format!("its blob has {blocks} blocks")) }
    }
}
