//! One partition of the embedded store: its layers, and how they move.
//!
//! A row is looked for in the active overlay, then in the frozen one while a checkpoint is under
//! way, then in the tables. Whoever reads takes all three under one lock, and all that changes them
//! does so under the same: nothing is seen twice or missed.

use std::sync::{Arc, Mutex};

use base::{PartitionId, Timestamp};
use blocklog::Position;
use records::PartitionHead;

use super::existence_filter::ExistenceFilter;
use super::locks::locked;
use super::overlay::{Below, Final, Overlay, OverlayData, OverlayMemory};
use super::tables::Snapshot;
use crate::change::PreparedBatch;

/// One partition.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) id: PartitionId,
    layers: Mutex<PartitionLayers>,
    /// Of all partitions together.
    memory: Arc<OverlayMemory>,
    existence: Mutex<ExistenceFilter>,
}

#[derive(Debug)]
struct PartitionLayers {
    active: Arc<Overlay>,
    frozen: Option<Arc<Overlay>>,
    snapshot: Arc<Snapshot>,
    /// After the latest durable batch.
    head: PartitionHead,
}

/// What a view reads: the layers of one moment.
#[derive(Debug)]
pub(super) struct PinnedPartition {
    pub(super) partition: PartitionId,
    /// The latest batch that is seen.
    pub(super) seq: u64,
    pub(super) head: PartitionHead,
    /// Newest first.
    pub(super) overlays: Vec<Arc<Overlay>>,
    pub(super) snapshot: Arc<Snapshot>,
}

impl Drop for PinnedPartition {
    fn drop(&mut self) {
        if let Some(active) = self.overlays.first() {
            active.close_view(self.seq);
        }
    }
}

impl Partition {
    pub(super) fn new(
        id: PartitionId,
        snapshot: Arc<Snapshot>,
        head: PartitionHead,
        existence: ExistenceFilter,
        memory: Arc<OverlayMemory>,
    ) -> Self {
        let active = Arc::new(Overlay::new(&memory));
        let layers = PartitionLayers { active, frozen: None, snapshot, head };
        Self { id, layers: Mutex::new(layers), memory, existence: Mutex::new(existence) }
    }

    /// Applies a durable batch; it is seen from now on.
    pub(super) fn apply(&self, batch: PreparedBatch, position: Position) {
        let mut layers = locked(&self.layers);
        layers.head = batch.head.clone();
        let existence = locked(&self.existence);
        let below = Below { frozen: layers.frozen.as_deref(), existence: &existence };
        layers.active.apply(batch, position, &below);
    }

    /// The layers as they are now.
    pub(super) fn moment(&self) -> PinnedPartition {
        let layers = locked(&self.layers);
        let seq = layers.head.seq;
        layers.active.open_view(seq);
        PinnedPartition {
            partition: self.id,
            seq,
            head: layers.head.clone(),
            overlays: std::iter::once(&layers.active).chain(&layers.frozen).cloned().collect(),
            snapshot: Arc::clone(&layers.snapshot),
        }
    }

    /// The head after the latest durable batch.
    pub(super) fn head(&self) -> PartitionHead {
        locked(&self.layers).head.clone()
    }

    /// The head, if all of the partition is in the tables.
    pub(super) fn head_if_clean(&self) -> Option<PartitionHead> {
        let layers = locked(&self.layers);
        (layers.frozen.is_none() && layers.active.read().is_empty()).then(|| layers.head.clone())
    }

    /// The time of the first batch that no checkpoint has begun to write.
    pub(super) fn dirty_since(&self) -> Option<Timestamp> {
        locked(&self.layers).active.read().since()
    }

    /// Begins a checkpoint: what was changed so far is frozen, and goes on being read.
    pub(super) fn freeze(&self) -> Arc<Overlay> {
        let mut layers = locked(&self.layers);
        debug_assert!(layers.frozen.is_none(), "one checkpoint of a partition at a time");
        let frozen = std::mem::replace(&mut layers.active, Arc::new(Overlay::new(&self.memory)));
        layers.frozen = Some(Arc::clone(&frozen));
        frozen
    }

    /// Ends a checkpoint: what was frozen is in the tables of `snapshot`.
    pub(super) fn thaw(&self, snapshot: &Arc<Snapshot>) {
        let mut layers = locked(&self.layers);
        layers.frozen = None;
        layers.snapshot = Arc::clone(snapshot);
    }

    /// Reads newer tables from now on, unless a checkpoint of this partition is under way.
    pub(super) fn refresh(&self, snapshot: &Arc<Snapshot>) {
        let mut layers = locked(&self.layers);
        if layers.frozen.is_none() {
            layers.snapshot = Arc::clone(snapshot);
        }
    }

    /// Notes that what was frozen is in the tables from now on.
    pub(super) fn note_written(&self, data: &OverlayData) {
        let mut existence = locked(&self.existence);
        for table in existence.tables() {
            let finals = data.rows(*table).into_iter().flat_map(|rows| rows.finals());
            let mut put = finals.filter(|(_, last)| matches!(last, Final::Put(_))).map(|(key, _)| key);
            if existence.counts_last_only() {
                put.next_back().into_iter().for_each(|key| existence.insert(*table, key));
            } else {
                put.for_each(|key| existence.insert(*table, key));
            }
        }
        existence.insert_dead_before(data.head().next_dead);
    }

    pub(super) fn existence_filter_is_overfull(&self) -> bool {
        locked(&self.existence).is_overfull()
    }

    /// Takes a filter made anew from the tables.
    pub(super) fn set_existence_filter(&self, existence: ExistenceFilter) {
        *locked(&self.existence) = existence;
    }

    /// Rows in its overlays, and bytes of memory that their readings take.
    pub(super) fn overlay_size(&self) -> (usize, usize) {
        let layers = locked(&self.layers);
        let overlays = std::iter::once(&layers.active).chain(&layers.frozen);
        overlays
            .map(|overlay| overlay.read())
            .fold((0, 0), |(records, bytes), data| (records + data.records(), bytes + data.readings_bytes()))
    }
}
