//! What a partition changed since its last checkpoint began, in memory.
//!
//! The committer applies durable batches here; a checkpoint freezes it and writes it to the tables.
//! It holds versions: a view opened after batch *n* reads as of *n* for as long as it likes. While
//! no view is open nothing is kept twice. A deletion cancels out against a row that was made here,
//! so a row that begins and ends between two checkpoints never touches the tables. Any other
//! deletion is kept.

mod rows;
mod slice;
mod views;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use base::Timestamp;
use blocklog::Position;
use records::{DeviceSlot, PartitionHead};

use super::existence_filter::ExistenceFilter;
use super::locks::{locked, reading, writing};
use super::tables::Table;
use crate::change::{PreparedBatch, SlotSign, TableChange};
use crate::codec::key::{self, TableKey};
use crate::key_range::KeyRange;
pub(super) use rows::{ChangedRows, CopiedRow, Final, OverlayRow};
pub(super) use slice::{SeenChange, SliceOverlay};
pub(super) use views::{OpenViews, Versions};

/// One partition's changes; shared by the committer, the checkpointer and views.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    data: RwLock<OverlayData>,
    views: Mutex<OpenViews>,
    memory: Arc<OverlayMemory>,
}

/// About how many bytes of memory the overlays of all partitions take, as long as anybody reads
/// them. Those of jobs weigh less, those of parked ones more.
#[derive(Debug, Default)]
pub(super) struct OverlayMemory(AtomicUsize);

/// The changes.
#[derive(Debug, Default)]
pub(super) struct OverlayData {
    /// By the number of [`Table`].
    rows: Vec<ChangedRows>,
    slices: BTreeMap<u32, SliceOverlay>,
    slices_bytes: usize,
    /// The latest batch.
    head: PartitionHead,
    /// Its place in the log.
    position: Position,
    /// The time of the first batch.
    since: Option<Timestamp>,
}

/// What lies below an overlay: needed to know whether a row is born in it.
pub(super) struct Below<'a> {
    pub(super) frozen: Option<&'a Overlay>,
    pub(super) existence: &'a ExistenceFilter,
}

impl Below<'_> {
    /// Whether the row, or of a deletion any such row, may be in what lies below; never wrong when
    /// it says no.
    fn may_hold(&self, table: Table, key: &[u8], value: Option<&[u8]>) -> bool {
        let in_frozen =
            |frozen: &Overlay| reading(&frozen.data).rows(table).is_some_and(|rows| rows.holds(key));
        self.existence.may_hold(table, key, value) || self.frozen.is_some_and(in_frozen)
    }
}

impl OverlayMemory {
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let bytes = reading(&self.data).weight();
        self.memory.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Overlay {
    pub(super) fn new(memory: &Arc<OverlayMemory>) -> Self {
        Self { data: RwLock::default(), views: Mutex::default(), memory: Arc::clone(memory) }
    }

    /// Applies a durable batch.
    pub(super) fn apply(&self, batch: PreparedBatch, position: Position, below: &Below<'_>) {
        let versions = locked(&self.views).versions(batch.head.seq);
        let mut data = writing(&self.data);
        data.position = position;
        data.since.get_or_insert(batch.head.now);
        data.head = batch.head;
        let before = data.weight();
        for change in batch.changes {
            data.change(change, &versions, below);
        }
        let after = data.weight();
        self.memory.0.fetch_add(after, Ordering::Relaxed);
        self.memory.0.fetch_sub(before, Ordering::Relaxed);
    }

    /// Notes that a view reads as of batch `seq` until it is closed.
    pub(super) fn open_view(&self, seq: u64) {
        locked(&self.views).open(seq);
    }

    pub(super) fn close_view(&self, seq: u64) {
        locked(&self.views).close(seq);
    }

    /// The changes, to be read for a short while: the committer waits.
    pub(super) fn read(&self) -> std::sync::RwLockReadGuard<'_, OverlayData> {
        reading(&self.data)
    }
}

impl OverlayData {
    /// Whether nothing was changed.
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// The time of the first batch.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// The place of the latest batch in the log.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// The head of the latest batch.
    pub(super) fn head(&self) -> &PartitionHead {
        &self.head
    }

    /// Rows changed, devices seen not counted.
    pub(super) fn records(&self) -> usize {
        self.rows.iter().map(ChangedRows::len).sum()
    }

    /// About how many bytes of memory everything takes, by the [weight](Table::weight_in_halves) of
    /// its table. What is deleted of jobs counts half, parked or not: the more of it is written
    /// together, the fewer pages are written for each.
    fn weight(&self) -> usize {
        let weight = |(table, rows): (&Table, &ChangedRows)| {
            let (there, deleted) = rows.memory_bytes();
            let halves = table.weight_in_halves();
            (halves * there + if halves == 2 { 2 } else { 1 } * deleted) / 2
        };
        Table::ALL.iter().zip(&self.rows).map(weight).sum::<usize>() + self.slices_bytes
    }

    /// Bytes of memory that readings take.
    pub(super) fn readings_bytes(&self) -> usize {
        self.slices.values().map(SliceOverlay::readings_bytes).sum()
    }

    pub(super) fn rows(&self, table: Table) -> Option<&ChangedRows> {
        self.rows.get(table as usize)
    }

    pub(super) fn slice(&self, slice: u32) -> Option<&SliceOverlay> {
        self.slices.get(&slice)
    }

    pub(super) fn slices(&self) -> &BTreeMap<u32, SliceOverlay> {
        &self.slices
    }

    fn rows_mut(&mut self, table: Table) -> &mut ChangedRows {
        &mut self.all_rows_mut()[table as usize]
    }

    fn all_rows_mut(&mut self) -> &mut [ChangedRows] {
        if self.rows.is_empty() {
            self.rows.resize_with(Table::ALL.len(), ChangedRows::default);
        }
        &mut self.rows
    }

    fn change(&mut self, change: TableChange, versions: &Versions, below: &Below<'_>) {
        match change {
            TableChange::Sign(sign) => self.sign(&sign, versions),
            TableChange::Put { table: Table::JobHeads, key, value } => {
                self.put_job_head(key, value, versions, below);
            }
            TableChange::Put { table, key, value } => {
                let is_born = |key: &TableKey, value: &[u8]| !below.may_hold(table, key, Some(value));
                self.rows_mut(table).put(key, value, versions, is_born);
            }
            TableChange::Delete { table, key } => {
                let is_below = |key: &TableKey| below.may_hold(table, key, None);
                self.rows_mut(table).delete(key, versions, is_below);
            }
            TableChange::DropDevice(slot) => self.drop_device(slot, versions),
        }
    }

    /// A parked job has no head below. So the head of one that was read in here is born here.
    fn put_job_head(&mut self, key: TableKey, value: Box<[u8]>, versions: &Versions, below: &Below<'_>) {
        const TABLES: [usize; 2] = [Table::JobHeads as usize, Table::ParkedIds as usize];
        let [heads, parked] = self.all_rows_mut().get_disjoint_mut(TABLES).expect("two different tables");
        let is_born = |key: &TableKey, value: &[u8]| {
            parked.at(key, u64::MAX) == OverlayRow::Deleted
                || !below.may_hold(Table::JobHeads, key, Some(value))
        };
        heads.put(key, value, versions, is_born);
    }

    fn sign(&mut self, sign: &SlotSign, versions: &Versions) {
        let within = sign.slot.within_slice();
        let slice = self.slice_mut(sign.slot);
        slice.see(within, SeenChange::Seen(sign.seen), versions);
        if let Some(reading) = &sign.reading {
            let taken = slice.read(within, reading, versions);
            self.slices_bytes += taken;
        }
    }

    fn slice_mut(&mut self, slot: DeviceSlot) -> &mut SliceOverlay {
        self.slices.entry(slot.slice()).or_insert_with(|| {
            self.slices_bytes += SliceOverlay::EMPTY_BYTES;
            SliceOverlay::default()
        })
    }

    /// The device's rows that are keyed by something besides it; the others are deleted by key.
    fn drop_device(&mut self, slot: DeviceSlot, versions: &Versions) {
        self.slice_mut(slot).see(slot.within_slice(), SeenChange::Gone, versions);
        let states = self.rows_mut(Table::NotificationStates);
        for key in states.keys(&KeyRange::of(&key::slot(slot))) {
            // what may be below goes with the device's mark
            states.delete(key, versions, |_| true);
        }
    }
}

#[cfg(test)]
mod tests;
