//! The checkpointer moves what was changed to the tables: one partition at a time, in one small
//! transaction each. The position in the log that they cover from then on goes with it.
//!
//! Due is the partition that the log has waited for longest once the log is long, else one whose
//! oldest change is old. A partition without changes is covered up to whatever is applied, so its
//! position moves along with every checkpoint. When nothing is due, what deleted devices left
//! behind is swept, and what is too old is removed, some thousand rows at a time. Blobs of readings
//! are merged then too.

mod cut;
mod expire;
mod merge;
mod sweep;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use base::{PartitionId, Timestamp};
use blocklog::Position;
use records::{NotificationState, PartitionHead};

use super::directory::Covered;
use super::existence_filter::{BloomFilter, ExistenceFilter, LastCommand, Marks, NOTED};
use super::locks::locked;
use super::overlay::Overlay;
use super::partition::Partition;
use super::tables::{Snapshot, Table, TablesTransaction};
use super::view::damaged_row;
use super::{EmbeddedStore, StepOutcome, position};
use crate::codec::{Stored, key};
use crate::key_range::KeyRange;
use crate::port::StoreError;
pub(super) use expire::ExpiryProgress;
pub(super) use merge::{MergeCounters, Merging};

/// What the tables cover, and where something is to be swept.
#[derive(Debug)]
pub(super) struct Checkpointer {
    /// By the place of the partition.
    pub(super) covered: Vec<Position>,
    /// Partitions with deleted devices whose history is still there.
    pub(super) to_sweep: BTreeSet<usize>,
    /// By the place of the partition.
    pub(super) expired: Vec<ExpiryProgress>,
    /// Blobs that are to be merged.
    pub(super) merging: Merging,
}

impl Checkpointer {
    /// The log behind this position is not needed.
    pub(super) fn covered_by_all(&self) -> Position {
        self.covered.iter().copied().min().unwrap_or(Position::ZERO)
    }
}

enum DueCheckpoint {
    /// This partition's changes.
    Partition(usize),
    /// Only positions: the log is long with what the tables cover.
    Positions,
    /// What deleted devices left behind.
    Sweep(usize),
    /// What is kept no longer.
    Expire(usize),
}

impl EmbeddedStore {
    /// Does one piece of work, if any is due at the engine time `now`.
    pub fn checkpoint_step(&self, now: Timestamp) -> StepOutcome {
        let mut checkpointer = locked(&self.checkpointer);
        if self.health.failure().is_some() {
            return StepOutcome::Idle;
        }
        let Some(due) = self.due(&checkpointer, now) else {
            return self.merge_step(&mut checkpointer.merging, now);
        };
        let done = match due {
            DueCheckpoint::Partition(index) => {
                let frozen = self.partitions[index].freeze();
                self.checkpoint(&mut checkpointer, Some((index, &frozen)), now)
            }
            DueCheckpoint::Positions => self.checkpoint(&mut checkpointer, None, now),
            DueCheckpoint::Sweep(index) => self.sweep(&mut checkpointer, index),
            DueCheckpoint::Expire(index) => self.expire(&mut checkpointer, index),
        };
        if let Err(error) = done {
            self.failed(error);
        }
        StepOutcome::Worked
    }

    /// When a checkpoint will be due by age; `None` while nothing was changed, and after a failure.
    #[must_use]
    pub fn next_checkpoint(&self) -> Option<Timestamp> {
        if self.health.failure().is_some() {
            return None;
        }
        let oldest = self.partitions.iter().filter_map(Partition::dirty_since).min();
        oldest.map(|since| since.after(self.options.checkpoint_age))
    }

    /// Whether a checkpoint is due for what a start would have to read, or for the memory that it
    /// takes.
    pub(super) fn is_laden(&self) -> bool {
        self.log_is_long() || self.overlay_memory.bytes() >= self.options.checkpoint_memory_bytes
    }

    fn log_is_long(&self) -> bool {
        self.log_bytes.load(Ordering::Acquire) >= self.options.checkpoint_log_bytes
    }

    fn due(&self, checkpointer: &Checkpointer, now: Timestamp) -> Option<DueCheckpoint> {
        let dirty =
            |(index, partition): (usize, &Partition)| partition.dirty_since().map(|since| (index, since));
        let dirty: Vec<_> = self.partitions.iter().enumerate().filter_map(dirty).collect();
        if self.is_laden() {
            let waited_for = dirty.iter().min_by_key(|(index, _)| checkpointer.covered[*index]);
            if let Some((index, _)) = waited_for {
                return Some(DueCheckpoint::Partition(*index));
            }
        }
        if self.log_is_long() && !self.clean(checkpointer).is_empty() {
            return Some(DueCheckpoint::Positions);
        }
        let oldest = dirty.iter().min_by_key(|(_, since)| *since);
        let is_old = |since: Timestamp| now >= since.after(self.options.checkpoint_age);
        match oldest {
            Some((index, since)) if is_old(*since) => Some(DueCheckpoint::Partition(*index)),
            _ => match checkpointer.to_sweep.first() {
                Some(index) => Some(DueCheckpoint::Sweep(*index)),
                None => self.expiring(checkpointer).map(DueCheckpoint::Expire),
            },
        }
    }

    /// A partition whose tables hold what it keeps no longer.
    fn expiring(&self, checkpointer: &Checkpointer) -> Option<usize> {
        let mut partitions = self.partitions.iter().zip(&checkpointer.expired);
        partitions.position(|(partition, expired)| partition.head().kept_from != expired.kept)
    }

    /// Removes some of what a partition keeps no longer.
    fn expire(&self, checkpointer: &mut Checkpointer, index: usize) -> Result<(), StoreError> {
        let partition = &self.partitions[index];
        let head = partition.head();
        let expired = &mut checkpointer.expired[index];
        let expire =
            |writer: &TablesTransaction<'_>| expire::expire(writer, partition.id, &head.kept_from, expired);
        let removed = self.write_tables(expire)?;
        self.show_tables(None)?;
        self.counters.expired(removed);
        Ok(())
    }

    /// Writes what was frozen of a partition, and every position that moves.
    fn checkpoint(
        &self,
        checkpointer: &mut Checkpointer,
        frozen: Option<(usize, &Overlay)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        let clean = self.clean(checkpointer);
        let bytes = match frozen {
            Some((index, frozen)) => {
                let (bytes, position) = self.write_frozen(checkpointer, index, frozen, &clean)?;
                checkpointer.covered[index] = position;
                bytes
            }
            None => {
                self.write_tables(|writer| put_covered(self, writer, &clean))?;
                0
            }
        };
        for (index, covered) in clean {
            checkpointer.covered[index] = covered.position;
        }
        self.covered.store(checkpointer.covered_by_all().0, Ordering::Release);
        self.free_log()?;
        self.counters.checkpoint(now, began.elapsed(), bytes);
        Ok(())
    }

    /// Partitions that the tables hold all of, and how far. What is applied is read before it is
    /// seen that nothing of it is left in their overlays.
    fn clean(&self, checkpointer: &Checkpointer) -> Vec<(usize, Covered)> {
        let applied = position(&self.applied);
        let heads = self.partitions.iter().enumerate();
        let clean = heads.filter_map(|(index, partition)| Some((index, partition.head_if_clean()?)));
        let moved = clean.filter(|(index, _)| checkpointer.covered[*index] < applied);
        moved.map(|(index, head)| (index, Covered { position: applied, head })).collect()
    }

    /// Answers the bytes written, and up to where the tables hold the partition from now on.
    fn write_frozen(
        &self,
        checkpointer: &mut Checkpointer,
        index: usize,
        frozen: &Overlay,
        clean: &[(usize, Covered)],
    ) -> Result<(u64, Position), StoreError> {
        let partition = &self.partitions[index];
        let data = frozen.read();
        let covered = Covered { position: data.position(), head: data.head().clone() };
        let is_forgotten = self.fault_injection.forgets_positions();
        let written = self.write_tables(|writer| {
            put_covered(self, writer, clean)?;
            if !is_forgotten {
                put_covered(self, writer, &[(index, covered.clone())])?;
            }
            write::write(writer, partition.id, &data)
        })?;
        partition.note_written(&data);
        if data.rows(Table::Deleted).is_some_and(|rows| rows.len() > 0) {
            checkpointer.to_sweep.insert(index);
        }
        drop(data);
        let snapshot = self.show_tables(Some(index))?;
        if partition.existence_filter_is_overfull() {
            partition.set_existence_filter(existence_filter_of(&snapshot, partition.id, &covered.head)?);
        }
        checkpointer.merging.note(index, &written.blobs, self.options.merged_blobs);
        Ok((written.bytes, if is_forgotten { checkpointer.covered[index] } else { covered.position }))
    }

    /// Lets every partition read the tables as they are now; with a partition whose frozen overlay
    /// is in them.
    fn show_tables(&self, written: Option<usize>) -> Result<Arc<Snapshot>, StoreError> {
        let snapshot = Arc::new(self.tables.snapshot()?);
        self.counters.merging.hold(&snapshot)?;
        for (index, partition) in self.partitions.iter().enumerate() {
            if written == Some(index) {
                partition.thaw(&snapshot);
            } else {
                partition.refresh(&snapshot);
            }
        }
        Ok(snapshot)
    }

    /// Sweeps some of what deleted devices of a partition left behind.
    fn sweep(&self, checkpointer: &mut Checkpointer, index: usize) -> Result<(), StoreError> {
        let partition = self.partitions[index].id;
        let is_done = self.write_tables(|writer| sweep::sweep(writer, partition))?;
        self.show_tables(None)?;
        if is_done {
            checkpointer.to_sweep.remove(&index);
        }
        Ok(())
    }
}

fn put_covered(
    store: &EmbeddedStore,
    writer: &TablesTransaction<'_>,
    covered: &[(usize, Covered)],
) -> Result<(), StoreError> {
    let mut heads = writer.table(Table::Heads)?;
    covered
        .iter()
        .try_for_each(|(index, covered)| heads.put(store.partitions[*index].id, &[], &covered.to_row()))
}

/// What is in the tables of a partition whose latest head there is `head`.
pub(super) fn existence_filter_of(
    snapshot: &Snapshot,
    partition: PartitionId,
    head: &PartitionHead,
) -> Result<ExistenceFilter, StoreError> {
    if partition.queues_index().is_none() {
        let filter = filter_of(snapshot, partition)?;
        let mut existence = ExistenceFilter::Devices(filter, LastCommand::default());
        insert_last(snapshot, partition, Table::Commands, &mut existence)?;
        return Ok(existence);
    }
    let mut existence = ExistenceFilter::Marks(Marks::default());
    for table in existence.tables() {
        insert_last(snapshot, partition, *table, &mut existence)?;
    }
    existence.insert_dead_before(head.next_dead);
    Ok(existence)
}

fn insert_last(
    snapshot: &Snapshot,
    partition: PartitionId,
    table: Table,
    existence: &mut ExistenceFilter,
) -> Result<(), StoreError> {
    let last = snapshot.range(table, partition, &KeyRange::all())?.next_back().transpose()?;
    last.iter().for_each(|(key, _)| existence.insert(table, key));
    Ok(())
}

fn filter_of(snapshot: &Snapshot, partition: PartitionId) -> Result<BloomFilter, StoreError> {
    let mut count = 0;
    each_filtered(snapshot, partition, |_, _| count += 1)?;
    let mut filter = BloomFilter::for_keys(count);
    each_filtered(snapshot, partition, |table, key| filter.insert(table, key))?;
    Ok(filter)
}

/// The rows that a filter must hold. Bodies are not read for that, because a body comes and goes
/// with the head of its job. A notification that failed for good has no job any more; its
/// notification state names its body.
fn each_filtered(
    snapshot: &Snapshot,
    partition: PartitionId,
    mut each: impl FnMut(Table, &[u8]),
) -> Result<(), StoreError> {
    let by_key =
        |table: &Table| !matches!(table, Table::NotificationStates | Table::JobBodies | Table::Commands);
    for table in NOTED.into_iter().filter(by_key) {
        for row in snapshot.range(table, partition, &KeyRange::all())? {
            each(table, &row?.0);
        }
    }
    for row in snapshot.range(Table::NotificationStates, partition, &KeyRange::all())? {
        let (key, row) = row?;
        each(Table::NotificationStates, &key);
        let state = NotificationState::from_row(&row)
            .map_err(|error| damaged_row(snapshot.name(), Table::NotificationStates, &key, &error))?;
        if let Some(failed) = state.failed {
            each(Table::JobBodies, &key::job(NotificationState::body_of_failed(failed.delivery)));
        }
    }
    Ok(())
}
