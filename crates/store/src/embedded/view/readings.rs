//! A page of a device's readings, from its slice's chunks in the overlays and blobs in the tables.
//!
//! Chunks are newer than blobs as a rule. So a page that goes back in time takes them first, and
//! one that goes forward takes them last. Either way what the page cannot hold is not read.

use records::{DeviceSlot, Reading};

use super::EmbeddedView;
use crate::codec::key::BlobKey;
use crate::embedded::blobs::{self, StoredBlob, blobs_with};
use crate::embedded::partition::PinnedPartition;
use crate::embedded::tables::Table;
use crate::history::{Blob, BlobIndex, ReadingPage, ReadingSpan, span_of_day};
use crate::port::{Page, ReadingKey, StoreError};

pub(super) fn page(
    view: &EmbeddedView,
    moment: &PinnedPartition,
    slot: DeviceSlot,
    page: Page<ReadingKey>,
) -> Result<Vec<Reading>, StoreError> {
    if page.limit == 0 || view.is_deleted(slot)? {
        return Ok(Vec::new());
    }
    let mut gathering = ReadingsPage { moment, slot, page: ReadingPage::new(page) };
    if page.ascending {
        gathering.blobs()?;
        gathering.chunks()?;
    } else {
        gathering.chunks()?;
        gathering.blobs()?;
    }
    Ok(gathering.page.finish())
}

struct ReadingsPage<'a> {
    moment: &'a PinnedPartition,
    slot: DeviceSlot,
    page: ReadingPage,
}

impl ReadingsPage<'_> {
    /// In the direction of the page.
    fn sort<T>(&self, sources: &mut [T], span: impl Fn(&T) -> ReadingSpan) {
        if self.page.is_ascending() {
            sources.sort_by_key(|source| span(source).min);
        } else {
            sources.sort_by_key(|source| std::cmp::Reverse(span(source).max));
        }
    }

    /// One chunk at a time, so that the committer waits for no more than that.
    fn chunks(&mut self) -> Result<(), StoreError> {
        let (slice, within, seq) = (self.slot.slice(), self.slot.within_slice(), self.moment.seq);
        let mut chunks = Vec::new();
        for (at, overlay) in self.moment.overlays.iter().enumerate() {
            let data = overlay.read();
            let Some(slice) = data.slice(slice) else { continue };
            chunks.extend(slice.chunks(within, seq).map(|(number, part)| (at, number, part.span())));
        }
        self.sort(&mut chunks, |(_, _, span)| *span);
        for (at, number, span) in chunks {
            if !self.page.wants(span) {
                continue;
            }
            let data = self.moment.overlays[at].read();
            let part = data.slice(slice).and_then(|slice| slice.chunk(number, seq));
            let readings = part.into_iter().flat_map(|part| part.readings(Some(within)));
            let readings: Result<Vec<_>, _> = readings.map(|r| r.map(|r| r.reading)).collect();
            let readings = readings.map_err(|error| StoreError::Damaged {
                file: "memory".to_owned(),
                at: format!("slice {slice}"),
                what: error.to_string(),
            })?;
            drop(data);
            self.page.add(readings);
        }
        Ok(())
    }

    fn blobs(&mut self) -> Result<(), StoreError> {
        let moment = self.moment;
        let Some(range) = blobs_with(self.slot.slice(), self.page.open_span()) else { return Ok(()) };
        let rows = moment.snapshot.range(Table::BlobIndex, moment.partition, &range)?;
        let mut rows: Box<dyn Iterator<Item = _>> =
            if self.page.is_ascending() { Box::new(rows) } else { Box::new(rows.rev()) };
        let mut day: Vec<(BlobKey, BlobIndex)> = Vec::new();
        loop {
            let next =
                rows.next().transpose()?.map(|row| blobs::index(moment.snapshot.name(), &row)).transpose()?;
            let is_next_day = match (&next, day.first()) {
                (Some((key, _)), Some((first, _))) => key.day != first.day,
                (None, _) => true,
                (Some(_), None) => false,
            };
            if is_next_day {
                self.day(std::mem::take(&mut day))?;
            }
            let Some((key, index)) = next else { return Ok(()) };
            if !self.page.wants(span_of_day(key.day)) {
                return Ok(());
            }
            let kept_from = moment.head.kept_from.readings;
            if index.devices.contains(self.slot.within_slice()) && !index.is_expired(key.day, kept_from) {
                day.push((key, index));
            }
        }
    }

    /// The blobs of one day.
    fn day(&mut self, mut blobs: Vec<(BlobKey, BlobIndex)>) -> Result<(), StoreError> {
        self.sort(&mut blobs, |(_, index)| index.span);
        for (key, index) in blobs {
            if self.page.wants(index.span) {
                self.blob(key, &index)?;
            }
        }
        Ok(())
    }

    /// The device's runs in a blob, in the direction of the page, until it is full.
    fn blob(&mut self, key: BlobKey, index: &BlobIndex) -> Result<(), StoreError> {
        let PinnedPartition { snapshot, partition, .. } = self.moment;
        let blob = Blob::open(StoredBlob { snapshot, partition: *partition, key, index })?;
        let mut runs: Vec<_> = blob.runs(self.slot.within_slice()).iter().collect();
        self.sort(&mut runs, |run| run.span());
        for run in runs {
            if self.page.wants(run.span()) {
                self.page.add(blob.readings(run)?);
            }
        }
        Ok(())
    }
}
