//! Merging blobs of readings, a bounded number of bytes at a time, each time in one transaction. So
//! a reader sees either the small blobs or the large one.
//!
//! What is to be merged need not be remembered over a crash. A checkpoint notes where it made many
//! blobs. A pass over the latest days of all slices finds what was forgotten, and the days that are
//! over. It begins with every start and every day.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{PartitionId, Timestamp};
use records::DeviceSlot;

use crate::codec::key::BlobKey;
use crate::embedded::blobs::{self, BlobWriter, damaged_blob, of_days};
use crate::embedded::tables::{Snapshot, Table, TablesTransaction};
use crate::embedded::{EmbeddedStore, StepOutcome};
use crate::history::{BlobIndex, Sealed, day_of, plan};
use crate::key_range::KeyRange;
use crate::port::{StoreError, StoreMetric};

/// Bytes of blobs after which no more are merged in the same step.
const BYTES_AT_ONCE: u64 = 512 * 1_024;
/// Rows that a step of a pass looks at, and some.
const ROWS_AT_ONCE: usize = 4_096;
/// Places that a pass has found and that are not merged yet, and some; no more are looked for.
const FOUND_MAX: usize = 256;

/// Blobs of a slice and day, of a partition by its place.
type Place = (usize, u32, i32);

/// Days before the day of the latest pass that the next one looks at again, for what came late.
const LATE_DAYS: i32 = 8;

/// Where blobs are to be merged.
#[derive(Debug)]
pub(in crate::embedded) struct Merging {
    /// Not more than one in `merged_blobs` of the blobs that there are, and those that a pass
    /// found.
    due: BTreeSet<Place>,
    pass: Option<Pass>,
    /// The day on which the latest pass began; before the first, the latest day that the store saw
    /// before it was opened.
    latest: i32,
    has_passed: bool,
}

/// A pass over all slices.
#[derive(Clone, Copy, Debug)]
struct Pass {
    /// The partition, by its place, and the slice that are looked at next.
    next: (usize, u32),
    /// No day before this one.
    from: i32,
}

impl Merging {
    /// `latest` is the latest engine time that was recorded.
    pub(in crate::embedded) fn new(latest: Timestamp) -> Self {
        Self { due: BTreeSet::new(), pass: None, latest: day_of(latest), has_passed: false }
    }

    /// Notes the blobs that a checkpoint of a partition wrote.
    pub(super) fn note(&mut self, index: usize, written: &[BlobKey], fan_in: u32) {
        let completes = |key: &&BlobKey| (key.sequence + 1).is_multiple_of(fan_in.max(1));
        self.due.extend(written.iter().filter(completes).map(|key| (index, key.slice, key.day)));
    }

    fn begin_pass(&mut self, today: i32) {
        if !self.has_passed || self.latest < today {
            self.pass = Some(Pass { next: (0, 0), from: self.latest.saturating_sub(LATE_DAYS) });
            self.latest = self.latest.max(today);
            self.has_passed = true;
        }
    }
}

/// What was merged since the store was opened, and what is to be.
#[derive(Debug, Default)]
pub(in crate::embedded) struct MergeCounters {
    merges: AtomicU64,
    merged_blobs: AtomicU64,
    merged_bytes: AtomicU64,
    waiting: AtomicU64,
    blobs: AtomicU64,
}

impl MergeCounters {
    /// Notes how many blobs the tables hold.
    pub(in crate::embedded) fn hold(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.blobs.store(snapshot.rows(Table::BlobIndex)?, Ordering::Relaxed);
        Ok(())
    }
}

/// Blobs that become one.
struct PlannedMerge {
    index: usize,
    blobs: Vec<(BlobKey, BlobIndex)>,
}

impl PlannedMerge {
    fn bytes(&self) -> u64 {
        self.blobs.iter().map(|(_, index)| u64::from(index.bytes)).sum()
    }
}

impl EmbeddedStore {
    /// Merges some blobs, or looks for some to be merged.
    pub(super) fn merge_step(&self, merging: &mut Merging, now: Timestamp) -> StepOutcome {
        let today = day_of(now);
        merging.begin_pass(today);
        if merging.due.is_empty() && merging.pass.is_none() {
            return StepOutcome::Idle;
        }
        let done = self.find_and_merge(merging, today);
        self.counters.merging.waiting.store(merging.due.len() as u64, Ordering::Relaxed);
        done.unwrap_or_else(|error| {
            self.failed(error);
            StepOutcome::Worked
        })
    }

    fn find_and_merge(&self, merging: &mut Merging, today: i32) -> Result<StepOutcome, StoreError> {
        let snapshot = self.tables.snapshot()?;
        if merging.due.is_empty() {
            self.look(&snapshot, merging, today)?;
        }
        let planned = self.planned(&snapshot, merging, today)?;
        drop(snapshot);
        if planned.is_empty() {
            return Ok(if merging.pass.is_some() { StepOutcome::Worked } else { StepOutcome::Idle });
        }
        self.merge(&planned)?;
        Ok(StepOutcome::Worked)
    }

    /// Goes on with the pass.
    fn look(&self, snapshot: &Snapshot, merging: &mut Merging, today: i32) -> Result<(), StoreError> {
        let mut rows = 0;
        while let Some(Pass { next: (index, slice), from }) = merging.pass {
            if rows >= ROWS_AT_ONCE || merging.due.len() >= FOUND_MAX {
                break;
            }
            let Some(partition) = self.partitions.get(index) else {
                merging.pass = None;
                break;
            };
            if slice >= partition.head().next_slot.div_ceil(DeviceSlot::SLICE_DEVICES) {
                merging.pass = Some(Pass { next: (index + 1, 0), from });
                continue;
            }
            let of_slice = read(snapshot, partition.id, &of_days(slice, from, i32::MAX))?;
            for of_day in of_slice.chunk_by(|(a, _), (b, _)| a.day == b.day) {
                let day = of_day[0].0.day;
                if self.plan(day, today, of_day).is_some() {
                    merging.due.insert((index, slice, day));
                }
            }
            rows += of_slice.len();
            merging.pass = Some(Pass { next: (index, slice + 1), from });
        }
        Ok(())
    }

    /// What is merged next; places with nothing left to merge are forgotten.
    fn planned(
        &self,
        snapshot: &Snapshot,
        merging: &mut Merging,
        today: i32,
    ) -> Result<Vec<PlannedMerge>, StoreError> {
        let mut planned: Vec<PlannedMerge> = Vec::new();
        let mut settled = Vec::new();
        let (mut bytes, mut rows) = (0, 0);
        for place in &merging.due {
            if bytes >= BYTES_AT_ONCE || rows >= ROWS_AT_ONCE {
                break;
            }
            let (index, slice, day) = *place;
            let of_day = read(snapshot, self.partitions[index].id, &of_days(slice, day, day))?;
            rows += of_day.len();
            let Some(places) = self.plan(day, today, &of_day) else {
                settled.push(*place);
                continue;
            };
            let blobs = places.into_iter().map(|place| of_day[place].clone()).collect();
            let next = PlannedMerge { index, blobs };
            bytes += next.bytes();
            planned.push(next);
        }
        merging.due.retain(|place| !settled.contains(place));
        Ok(planned)
    }

    fn plan(&self, day: i32, today: i32, of_day: &[(BlobKey, BlobIndex)]) -> Option<Vec<usize>> {
        let indexes = of_day.iter().map(|(_, index)| index);
        plan(day, today, self.options.merged_blobs, indexes)
    }

    fn merge(&self, planned: &[PlannedMerge]) -> Result<(), StoreError> {
        let written = self.write_tables(|writer| {
            let mut written = 0;
            for of_partition in planned.chunk_by(|a, b| a.index == b.index) {
                written += merge_some(writer, self.partitions[of_partition[0].index].id, of_partition)?;
            }
            Ok(written)
        })?;
        self.show_tables(None)?;
        let counters = &self.counters.merging;
        let blobs = planned.iter().map(|planned| planned.blobs.len()).sum::<usize>();
        counters.merges.fetch_add(planned.len() as u64, Ordering::Relaxed);
        counters.merged_blobs.fetch_add(blobs as u64, Ordering::Relaxed);
        counters.merged_bytes.fetch_add(written, Ordering::Relaxed);
        Ok(())
    }

    /// Metrics of blobs and merges.
    pub(in crate::embedded) fn merge_metrics(&self) -> [StoreMetric; 5] {
        let counters = &self.counters.merging;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let blobs = count(&counters.blobs);
        let waiting = count(&counters.waiting);
        [
            ("fieldpost_store_blobs", "Blobs of readings in the tables", false, blobs),
            ("fieldpost_store_merges_waiting", "Slices and days with blobs to be merged", false, waiting),
            ("fieldpost_store_merges_total", "Merges of blobs", true, count(&counters.merges)),
            (
                "fieldpost_store_merged_blobs_total",
                "Blobs that were merged",
                true,
                count(&counters.merged_blobs),
            ),
            (
                "fieldpost_store_merged_bytes_total",
                "Bytes that merges wrote",
                true,
                count(&counters.merged_bytes),
            ),
        ]
        .map(|(name, help, counter, value)| StoreMetric { name, help, counter, value })
    }
}

/// The index rows of a range.
fn read(
    snapshot: &Snapshot,
    partition: PartitionId,
    range: &KeyRange,
) -> Result<Vec<(BlobKey, BlobIndex)>, StoreError> {
    let rows = snapshot.range(Table::BlobIndex, partition, range)?;
    rows.map(|row| row.and_then(|row| blobs::index(snapshot.name(), &row))).collect()
}

/// Writes what was planned for a partition; answers the bytes of the new rows.
fn merge_some(
    writer: &TablesTransaction<'_>,
    partition: PartitionId,
    planned: &[PlannedMerge],
) -> Result<u64, StoreError> {
    let mut blobs = BlobWriter::open(writer, partition)?;
    let mut written = 0;
    for PlannedMerge { blobs: merged, .. } in planned {
        written += merge_one(&mut blobs, merged)?;
    }
    Ok(written)
}

fn merge_one(blobs: &mut BlobWriter<'_>, merged: &[(BlobKey, BlobIndex)]) -> Result<u64, StoreError> {
    // in the place of the last, so that the order of writing stays
    let Some((place, _)) = merged.last() else { return Ok(0) };
    let whole = merged.iter().map(|(key, index)| blobs.whole(*key, index)).collect::<Result<Vec<_>, _>>()?;
    let indexes = merged.iter().map(|(_, index)| index);
    let sealed = Sealed::merged(place.day, indexes, &whole);
    let sealed = sealed.map_err(|error| damaged_blob(blobs.name(), *place, &error))?;
    for (key, index) in merged {
        blobs.remove(*key, index)?;
    }
    blobs.put(*place, &sealed)
}
