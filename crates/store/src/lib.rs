//! The storage port, its encodings, and the in-memory and embedded implementations.
//!
//! Knows records and files, but no rule and no socket. Everything above it sees only [`port`].

mod batch_backoff;
mod blocks;
mod change;
pub mod codec;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod embedded;
mod history;
mod key_range;
mod memory;
pub mod port;
mod queries;
mod record;
pub mod sealed;
mod table;

pub use blocks::{BLOCK_SUFFIX, BlockStorage, BlockStorages, DiskBlocks, MemoryBlocks, SwitchedBlocks};
pub use embedded::{
    Backup, BackupSummary, Checked, EmbeddedOptions, EmbeddedStore, Running, STORAGES_MADE, StepOutcome,
    SyncMode, check_backup, check_directory, check_free, is_data_directory, restore, verify_backup,
    was_data_directory,
};
pub use memory::{MemoryStore, Planned};
pub use port::{
    BATCH_BYTES_MAX, CommitDone, CommitOutcome, DeviceResident, FeedFilter, PARKED_SPAN_MS, Page, ParkedScan,
    ParkedTimes, QueueResident, ReadingKey, ScannedJobs, Store, StoreError, StoreMetric, StoredJob, View,
    parked_span, parked_time,
};
pub use queries::ResultPage;
