//! A cut: the tables brought to exactly one position of the log, for every partition at once.
//!
//! While the committer is held for a moment, every partition is frozen. Then their changes are
//! written one after the other, as any checkpoint does, and commits go on meanwhile. Nothing else
//! may write to the tables until the last is in. So what they hold then is what was durable at that
//! moment: not a batch less of any partition, and not one more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use blocklog::Position;

use super::Checkpointer;
use crate::embedded::EmbeddedStore;
use crate::embedded::locks::locked;
use crate::embedded::overlay::Overlay;
use crate::embedded::tables::Snapshot;
use crate::port::{Store as _, StoreError};

impl EmbeddedStore {
    /// Writes every change to the tables. What is acknowledged before the call is in them
    /// afterwards. An opening then has no batch to apply again, and sees when any of the log is
    /// missing.
    ///
    /// # Errors
    /// When the store has failed, or fails now; it accepts nothing more then.
    pub fn checkpoint_all(&self) -> Result<(), StoreError> {
        self.cut().map(drop)
    }

    /// The tables at a moment during the call, and its position in the log.
    pub(in crate::embedded) fn cut(&self) -> Result<(Snapshot, Position), StoreError> {
        let mut checkpointer = locked(&self.checkpointer);
        self.health.check()?;
        let (frozen, position) = self.freeze_all();
        let written = self.write_all(&mut checkpointer, &frozen);
        written
            .and_then(|()| self.tables.snapshot())
            .map_or_else(|error| Err(self.health.fail(error)), |snapshot| Ok((snapshot, position)))
    }

    /// What every partition changed and no checkpoint wrote, up to one position.
    fn freeze_all(&self) -> (Vec<(usize, Arc<Overlay>)>, Position) {
        let _no_commit = locked(&self.committer);
        let dirty =
            self.partitions.iter().enumerate().filter(|(_, partition)| partition.dirty_since().is_some());
        let frozen = dirty.map(|(index, partition)| (index, partition.freeze())).collect();
        (frozen, Position(self.applied.load(Ordering::Acquire)))
    }

    fn write_all(
        &self,
        checkpointer: &mut Checkpointer,
        frozen: &[(usize, Arc<Overlay>)],
    ) -> Result<(), StoreError> {
        let now = self.recorded_now();
        for (index, frozen) in frozen {
            self.checkpoint(checkpointer, Some((*index, frozen)), now)?;
            self.inbox.nudge();
        }
        // a partition without changes is covered as far as the others
        self.checkpoint(checkpointer, None, now)
    }
}
