//! The port on one machine: a write-ahead log, an overlay in memory, and tables behind both.
//!
//! A batch is encoded on its caller's thread and waits in the [inbox]. One committer
//! ([`EmbeddedStore::commit_step`]) appends what waits to the log, syncs once, applies it to the
//! overlays and only then tells the callers. With [`SyncMode::Interval`] it only writes, and
//! [`EmbeddedStore::sync_step`] syncs afterwards. A checkpointer
//! ([`EmbeddedStore::checkpoint_step`]) moves one partition's overlay at a time into the tables and
//! frees the log behind all of them. The store itself has no thread and no clock: the steps are
//! called by a [`Running`] driver, or by a simulation.
//!
//! After the first failed write, sync or checkpoint nothing more is accepted. Every commit and
//! every view is refused; only [`Store::failure`] and [`Store::metrics`] still answer.

mod backpressure;
mod backup;
mod blobs;
mod check;
mod checkpoint;
mod commit;
mod directory;
mod driver;
mod existence_filter;
mod fault_injection;
mod health;
mod inbox;
mod locks;
mod migration;
mod open;
mod overlay;
mod pages;
mod partition;
mod restore;
mod stats;
mod tables;
mod view;

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{Lineage, PartitionId, Timestamp};
use blocklog::{LogId, LogOptions, Position};
use records::Batch;

use crate::blocks::{BlockStorage, DiskBlocks};
use crate::change::PreparedBatch;
use crate::port::{CommitDone, CommitOutcome, Store, StoreError, StoreMetric, View};
use checkpoint::Checkpointer;
use commit::Committer;
use directory::DataDirectory;
use fault_injection::FaultInjection;
use health::StoreHealth;
use inbox::{Inbox, WaitingBatch};
use overlay::OverlayMemory;
use partition::Partition;
use stats::Counters;
use tables::Tables;
use view::EmbeddedView;

pub use backup::Backup;
pub use backup::reader::{BackupSummary, verify_backup};
pub use check::{Checked, check_backup, check_directory, is_data_directory, was_data_directory};
pub use driver::Running;
pub use open::check_free;
pub use restore::STORAGES_MADE;
pub use restore::restore;

/// Bytes of log after which checkpoints begin: what a start has to read again, and what overlays
/// take in memory.
pub const CHECKPOINT_LOG_BYTES: u64 = 64 << 20;
/// Memory of overlays after which checkpoints begin: a row takes about ten times there what it
/// takes in the log. That of jobs counts half, that of parked ones eight times.
pub const CHECKPOINT_MEMORY_BYTES: usize = 32 << 20;
/// Age of a change after which its partition is checkpointed even if the log is short.
pub const CHECKPOINT_AGE: Duration = Duration::from_secs(60);
/// The log may grow to this many times [`EmbeddedOptions::checkpoint_log_bytes`]; then commits wait
/// for checkpoints. They are slowed from half of that on.
pub const LOG_BYTES_FACTOR_MAX: u64 = 3;
/// Memory for pages of the tables.
pub const TABLE_CACHE_BYTES: usize = 32 << 20;
/// Device partitions of a new data directory, and as many of queues.
pub const PARTITIONS: u16 = 16;

/// When what is committed is synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Before it is called durable.
    #[default]
    Always,
    /// At most so long afterwards. Until then it survives the death of the process, but not the
    /// power going out.
    Interval(Duration),
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Device partitions of a data directory that is made, and as many of queues; one that is there
    /// keeps its own number.
    pub partitions: u16,
    /// Memory for pages of the tables.
    pub table_cache_bytes: usize,
    /// Bytes of log after which checkpoints begin.
    pub checkpoint_log_bytes: u64,
    /// Bytes of memory for what no checkpoint has written, after which checkpoints begin.
    pub checkpoint_memory_bytes: usize,
    /// Age of a change after which its partition is checkpointed.
    pub checkpoint_age: Duration,
    /// About so many blobs of readings of the same slice and day are merged at once.
    pub merged_blobs: u32,
    /// When what is committed is synced.
    pub sync: SyncMode,
    /// The log's files.
    pub log: LogOptions,
    /// Lineage and log id of a data directory that is made; `None` draws them.
    pub identity: Option<(Lineage, LogId)>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            partitions: PARTITIONS,
            table_cache_bytes: TABLE_CACHE_BYTES,
            checkpoint_log_bytes: CHECKPOINT_LOG_BYTES,
            checkpoint_memory_bytes: CHECKPOINT_MEMORY_BYTES,
            checkpoint_age: CHECKPOINT_AGE,
            merged_blobs: crate::history::FAN_IN,
            sync: SyncMode::default(),
            log: LogOptions::default(),
            identity: None,
        }
    }
}

/// What a step found to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// Nothing.
    Idle,
    /// Something; there may be more.
    Worked,
    /// Batches wait, and the log has no room until a checkpoint has been made.
    Full,
}

/// The embedded store. See the module.
pub struct EmbeddedStore {
    options: EmbeddedOptions,
    directory: DataDirectory,
    /// Device partitions by number, then the registry, then partitions of queues by index, then
    /// that of campaigns, then partitions of streams by index.
    partitions: Vec<Partition>,
    blocks: DiskBlocks,
    inbox: Inbox,
    committer: Mutex<Committer>,
    checkpointer: Mutex<Checkpointer>,
    tables: Tables,
    health: Arc<StoreHealth>,
    counters: Counters,
    /// The latest engine time of any batch.
    recorded_now: AtomicI64,
    /// Every frame up to this position is in the overlays or the tables.
    applied: AtomicU64,
    /// Every frame up to this position is in the log, before it is applied.
    written: AtomicU64,
    /// Every frame up to this position is synced.
    synced: AtomicU64,
    /// Every frame up to this position is in the tables.
    covered: AtomicU64,
    /// Bytes of the log after it.
    log_bytes: AtomicU64,
    overlay_memory: Arc<OverlayMemory>,
    fault_injection: FaultInjection,
    /// Released last.
    _lock: Box<dyn Send + Sync>,
}

impl EmbeddedStore {
    /// The place of a partition in [`EmbeddedStore::partitions`].
    fn index(&self, partition: PartitionId) -> usize {
        let index = partition_index(partition, self.directory.partitions);
        index.unwrap_or_else(|| panic!("there is no partition {partition}"))
    }

    fn partition(&self, partition: PartitionId) -> &Partition {
        &self.partitions[self.index(partition)]
    }

    /// A failure of a step: noted, and the end of all further steps.
    fn failed(&self, error: StoreError) {
        let told = self.health.fail(error);
        debug_assert!(matches!(told, StoreError::Poisoned(_)), "a failure is noted");
    }
}

/// Every partition, in order of its place.
fn partition_ids(partitions: u16) -> impl Iterator<Item = PartitionId> {
    let queues = (0..partitions).map(PartitionId::of_queues);
    let devices = (0..partitions).map(PartitionId);
    let streams = (0..partitions).map(PartitionId::of_streams);
    devices.chain([PartitionId::REGISTRY]).chain(queues).chain([PartitionId::CAMPAIGNS]).chain(streams)
}

/// The place of a partition, if there is such a one.
fn partition_index(partition: PartitionId, partitions: u16) -> Option<usize> {
    let devices = usize::from(partitions);
    let (index, first) = match (partition, partition.queues_index(), partition.streams_index()) {
        (PartitionId::REGISTRY, ..) => return Some(devices),
        (PartitionId::CAMPAIGNS, ..) => return Some(2 * devices + 1),
        (_, Some(index), _) => (index, devices + 1),
        (_, _, Some(index)) => (index, 2 * devices + 2),
        (_, None, None) => (partition.0, 0),
    };
    (index < partitions).then_some(first + usize::from(index))
}

impl Store for EmbeddedStore {
    fn lineage(&self) -> Lineage {
        self.directory.lineage
    }

    fn partitions(&self) -> u16 {
        self.directory.partitions
    }

    fn recorded_now(&self) -> Timestamp {
        Timestamp(self.recorded_now.load(Ordering::Acquire))
    }

    /// Encodes on the caller's thread. How many batches wait is bounded by the callers: an engine
    /// has no more than a few of each partition under way.
    fn commit(&self, batch: Batch, done: CommitDone) {
        let index = self.index(batch.partition);
        if let Some(failure) = self.health.failure() {
            done(CommitOutcome::Failed(failure));
            return;
        }
        let (prepared, frame) = PreparedBatch::with_frame(batch);
        if frame.len() > blocklog::PAYLOAD_BYTES_MAX {
            // It never reaches the log, which would accept nothing more. Those after it are out of
            // order now, and fenced.
            tracing::error!(
                partition = index,
                bytes = frame.len(),
                "a batch is too large for the log and is dropped"
            );
            done(CommitOutcome::Fenced);
            return;
        }
        if let Err(done) = self.inbox.push(WaitingBatch { index, prepared, frame, done }) {
            let stopped = StoreError::Refused("the store was stopped".to_owned());
            done(CommitOutcome::Failed(Arc::new(stopped)));
        }
    }

    fn view(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError> {
        let partition = self.partition(partition);
        self.health.check()?;
        Ok(Box::new(EmbeddedView::new(partition.moment(), Arc::clone(&self.health))))
    }

    fn sync_committed(&self) -> Result<(), StoreError> {
        self.sync_step();
        match self.failure() {
            Some(failure) => Err(StoreError::Poisoned(failure.to_string())),
            None => Ok(()),
        }
    }

    fn blocks(&self) -> Arc<dyn BlockStorage> {
        Arc::new(self.blocks.clone())
    }

    fn failure(&self) -> Option<Arc<StoreError>> {
        self.health.failure()
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        stats::metrics(self)
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// What an operator is told of the log.
fn log_failure(error: blocklog::LogError) -> StoreError {
    use blocklog::LogError;
    let text = error.to_string();
    match error {
        LogError::Io { action, file, source } => {
            StoreError::Disk { what: format!("{action} {file}"), source }
        }
        LogError::Corrupt { file, offset, position } => StoreError::Damaged {
            file,
            at: format!("offset {offset}"),
            what: format!(
                "the frame at position {position} was durable and does not verify; check the disk and restore a backup"
            ),
        },
        LogError::Poisoned { first } => StoreError::Poisoned(first),
        _ => StoreError::Refused(text),
    }
}

/// The place of a batch in the log, from its atomic.
fn position(of: &AtomicU64) -> Position {
    Position(of.load(Ordering::Acquire))
}

#[cfg(test)]
mod tests;
