//! The times of a device's readings, for counting: from its slice's chunks in the overlays and blobs in the tables,
//! without the values and without an order.

use base::Timestamp;
use records::DeviceSlot;

use super::readings::{blobs_of, index};
use super::{EmbeddedView, damaged_row};
use crate::codec::key::BlobKey;
use crate::embedded::partition::Moment;
use crate::embedded::tables::Table;
use crate::history::{Blob, Span};
use crate::port::StoreError;

/// Hands out each time from the first until before the second of `times`.
pub(super) fn each(
    view: &EmbeddedView,
    moment: &Moment,
    slot: DeviceSlot,
    (from, to): (Timestamp, Timestamp),
    each: &mut dyn FnMut(Timestamp),
) -> Result<(), StoreError> {
    if from >= to || view.is_deleted(slot)? {
        return Ok(());
    }
    let span = Span { min: from, max: Timestamp(to.0 - 1) };
    let mut times = Times { moment, slot, span, each };
    times.chunks()?;
    times.blobs()
}

struct Times<'a> {
    moment: &'a Moment,
    slot: DeviceSlot,
    span: Span,
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
        let Some(range) = blobs_of(self.slot.slice(), self.span) else { return Ok(()) };
        for row in self.moment.snapshot.range(Table::BlobIndex, self.moment.partition, &range)? {
            let (key, index) = index(self.moment, &row?)?;
            if index.is_expired(key.day, self.moment.head.kept_from.readings) {
                continue;
            }
            if index.devices.contains(self.slot.within_slice()) && index.span.meets(self.span) {
                self.blob(key)?;
            }
        }
        Ok(())
    }

    fn blob(&mut self, key: BlobKey) -> Result<(), StoreError> {
        let key = key.to_key();
        let snapshot = &self.moment.snapshot;
        let row = snapshot.get(Table::Blobs, self.moment.partition, &key)?.unwrap_or_default();
        let times = Blob::open(&row).and_then(|blob| blob.times(self.slot.within_slice()));
        self.give(times.map_err(|error| damaged_row(snapshot.name(), Table::Blobs, &key, &error))?);
        Ok(())
    }
}
