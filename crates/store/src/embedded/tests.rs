//! The embedded store as a whole.

mod conformance;

use std::sync::Arc;

use blocklog::{Disk, SimulatedDisk};

use super::*;

/// Small enough that every few batches bring a checkpoint and a new segment.
pub(super) fn small() -> EmbeddedOptions {
    EmbeddedOptions {
        partitions: 2,
        table_cache_bytes: 1 << 20,
        checkpoint_log_bytes: 64 << 10,
        checkpoint_age: Duration::from_secs(60),
        log: LogOptions { segment_bytes: 8 << 10, ..LogOptions::default() },
        identity: Some((Lineage(1), LogId(2))),
    }
}

pub(super) fn open(disk: &SimulatedDisk) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(Arc::new(disk.clone()) as Arc<dyn Disk>, small())
}

/// Commits all that waits, making room as long as there is none.
pub(super) fn settle(store: &EmbeddedStore) {
    loop {
        match store.commit_step() {
            Progress::Idle => return,
            Progress::Worked => {}
            Progress::Full => drop(store.checkpoint_step(Timestamp(0))),
        }
    }
}
