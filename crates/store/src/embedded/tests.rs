//! The embedded store as a whole.

mod backups;
mod checkpoints;
mod checks;
mod commands;
mod conformance;
mod crashes;
mod damage;
mod driver;
mod expiring;
mod interval;
mod merging;
mod opening;
mod queues;
mod watched_disk;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use blocklog::{Disk, SimulatedDisk};

use super::*;
use crate::conformance::traffic::Traffic;

/// Small enough that every few batches bring a checkpoint and a new segment.
fn small() -> EmbeddedOptions {
    EmbeddedOptions {
        partitions: 2,
        table_cache_bytes: 1 << 20,
        checkpoint_log_bytes: 64 << 10,
        checkpoint_memory_bytes: 1 << 30,
        checkpoint_age: Duration::from_secs(60),
        merged_blobs: 4,
        sync: SyncMode::Always,
        log: LogOptions { segment_bytes: 8 << 10, ..LogOptions::default() },
        identity: Some((Lineage(1), LogId(2))),
    }
}

const PARTITIONS_OF_TEST: [PartitionId; 6] = [
    PartitionId(0),
    PartitionId(1),
    PartitionId::REGISTRY,
    PartitionId(1 << 15 | 1),
    PartitionId::CAMPAIGNS,
    PartitionId(0b11 << 14 | 1),
];

fn open(disk: &SimulatedDisk) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(Arc::new(disk.clone()) as Arc<dyn Disk>, small())
}

/// Commits all that waits, making room as long as there is none.
fn settle(store: &EmbeddedStore) {
    loop {
        match store.commit_step() {
            StepOutcome::Idle => return,
            StepOutcome::Worked => {}
            StepOutcome::Full => drop(store.checkpoint_step(Timestamp(0))),
        }
    }
}

/// Gives a batch to the store.
fn give(store: &EmbeddedStore, batch: Batch) -> Receiver<CommitOutcome> {
    let (sender, receiver) = channel();
    store.commit(batch, Box::new(move |outcome| drop(sender.send(outcome))));
    receiver
}

/// Traffic of each partition.
fn all_traffic(seed: u64) -> Vec<Traffic> {
    PARTITIONS_OF_TEST.iter().map(|id| Traffic::new(seed * 7 + u64::from(id.0), *id)).collect()
}
