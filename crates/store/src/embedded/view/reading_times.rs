//! The times of a device's readings, for counting, without the values and without an order. They
//! come from its slice's chunks in the overlays and blobs in the tables.

use base::Timestamp;
use records::DeviceSlot;

use super::{EmbeddedView, damaged_row};
use crate::codec::key::BlobKey;
use crate::embedded::blobs::{self, StoredBlob, blobs_with};
use crate::embedded::partition::PinnedPartition;
use crate::embedded::tables::Table;
use crate::history::{Blob, BlobIndex, ReadingSpan};
use crate::port::StoreError;

/// Hands out each time from the first until before the second of `times`.
pub(super) fn each(
    view: &EmbeddedView,
    moment: &PinnedPartition,
    slot: DeviceSlot,
    (from, to): (Timestamp, Timestamp),
    each: &mut dyn FnMut(Timestamp),
) -> Result<(), StoreError> {
    if from >= to || view.is_deleted(slot)? {
        return Ok(());
    }
    let span = ReadingSpan { min: from, max: Timestamp(to.0 - 1) };
    let mut times = Times { moment, slot, span, each };
    times.chunks()?;
    times.blobs()
}

struct Times<'a> {
    moment: &'a PinnedPartition,
    slot: DeviceSlot,
    span: ReadingSpan,
    each: &'a mut dyn FnMut(Timestamp),
}

impl Times<'_> {
    fn give(&mut self, times: Vec<Timestamp>) {
        times.into_iter().filter(|ts| self.span.contains(*ts)).for_each(&mut *self.each);
    }

    /// One overlay at a time; the committer waits for no more than that.
    fn chunks(&mut self) -> Result<(), StoreError> {
        let (slice, within, seq) = (self.slot.slice(), self.slot.within_slice(), self.moment.seq);
        for overlay in &self.moment.overlays {
            let data = overlay.read();
            let Some(changes) = data.slice(slice) else { continue };
            let parts = changes.chunks(within, seq).filter(|(_, part)| part.span().meets(self.span));
            let times = parts.flat_map(|(_, part)| part.readings(Some(within)));
            let times: Result<Vec<_>, _> = times.map(|read| read.map(|read| read.reading.ts)).collect();
            drop(data);
            self.give(times.map_err(|error| damaged_row("memory", Table::Blobs, &[], &error))?);
        }
        Ok(())
    }

    fn blobs(&mut self) -> Result<(), StoreError> {
        let Some(range) = blobs_with(self.slot.slice(), self.span) else { return Ok(()) };
        let snapshot = &self.moment.snapshot;
        for row in snapshot.range(Table::BlobIndex, self.moment.partition, &range)? {
            let (key, index) = blobs::index(snapshot.name(), &row?)?;
            if index.is_expired(key.day, self.moment.head.kept_from.readings) {
                continue;
            }
            if index.devices.contains(self.slot.within_slice()) && index.span.meets(self.span) {
                self.blob(key, &index)?;
            }
        }
        Ok(())
    }

    fn blob(&mut self, key: BlobKey, index: &BlobIndex) -> Result<(), StoreError> {
        let PinnedPartition { snapshot, partition, .. } = self.moment;
        let blob = Blob::open(StoredBlob { snapshot, partition: *partition, key, index })?;
        for run in blob.runs(self.slot.within_slice()) {
            if run.span().meets(self.span) {
                self.give(blob.times(run)?);
            }
        }
        Ok(())
    }
}
