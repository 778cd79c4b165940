//! The storage port: what everything above it may ask, the same for every implementation.
//!
//! It is tables: a partition loads what must be resident, and commits batches, whose changes are
//! rows. Everything else reads a [`View`]: one partition at one moment, with every durable batch
//! and nothing else, by key or in order of key. Typed queries stand once above it (`queries.rs`).
//! The conformance suite (`conformance.rs`) is the second half of this file's meaning.

mod parked;

use std::fmt;
use std::sync::Arc;

use base::{Incarnation, Lineage, PartitionId, Timestamp};
use records::{
    Batch, DeviceProfile, DeviceSlot, DeviceState, JobHead, LastSeen, NotificationState, PartitionHead,
    QuarantineKey, Queue, QueueCounts, Reading, ReportIds,
};

use crate::blocks::BlockStorage;
use crate::codec::key::TableKey;

pub use crate::key_range::KeyRange;
pub use crate::table::Table;
pub(crate) use parked::parked_lines;
pub use parked::{PARKED_SPAN_MS, ParkedScan, ParkedTimes, ScannedJobs, StoredJob, parked_span, parked_time};

/// What became of a batch.
#[derive(Clone, Debug)]
pub enum CommitOutcome {
    /// It survives `kill -9` and, with `sync = "always"`, power loss; every view opened from now on
    /// shows it.
    Durable,
    /// Nothing was written: another owner has the partition, or the batch is larger than any may
    /// be. Drop its memory.
    Fenced,
    /// It may or may not have been written. Drop the partition's memory and load it again.
    Unknown,
    /// It was not written, and the store accepts nothing more until it is opened again.
    Failed(Arc<StoreError>),
}

/// What a batch may weigh at most, in bytes as [`records::Op::weight`] counts them: then it fits a
/// frame of the log. Whoever makes batches keeps far below.
pub const BATCH_BYTES_MAX: usize = 48 << 20;

/// Called once, when the outcome of a batch is known; on the thread that knows it, so it must only
/// signal.
pub type CommitDone = Box<dyn FnOnce(CommitOutcome) + Send>;

/// Why the store cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The data directory is in use, of another version, or damaged: the text names the file, the
    /// offset and what to do.
    #[error("{0}")]
    Refused(String),
    /// The disk failed; the store accepts nothing more.
    #[error("{what}: {source}")]
    Disk {
        /// What was being done, with the file's name.
        what: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file holds something it must not: which file, where, and what.
    #[error("{file} is damaged at {at}: {what}")]
    Damaged {
        /// The file's name.
        file: String,
        /// The offset or key.
        at: String,
        /// What was found.
        what: String,
    },
    /// An earlier failure poisoned the store.
    #[error("the store stopped accepting after an earlier failure: {0}")]
    Poisoned(String),
}

impl StoreError {
    /// A row of a file makes no sense.
    pub(crate) fn damaged_row(file: &str, table: Table, key: &[u8], what: String) -> Self {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::Damaged { file: file.to_owned(), at: format!("{table:?} {key}"), what }
    }
}

/// Where batches are kept.
pub trait Store: Send + Sync + 'static {
    /// The data directory's lineage.
    fn lineage(&self) -> Lineage;
    /// How many device partitions there are, and as many of queues and of streams; fixed when the
    /// data directory is made.
    fn partitions(&self) -> u16;
    /// The latest engine time that any batch recorded; the engine clock starts no earlier.
    fn recorded_now(&self) -> Timestamp;

    /// The view that a machine's memory is built from: at a start, and again after an outcome that
    /// is not [`CommitOutcome::Durable`]. Each machine asks it for its own residents.
    ///
    /// # Errors
    /// When the data cannot be read.
    fn load(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError> {
        self.view(partition)
    }

    /// Commits a batch. Batches of a partition are committed in the order of their `seq`, without
    /// gaps; a repeated `seq` is acknowledged and ignored.
    ///
    /// In a partition of queues the number of a dead letter is below the head's `next_dead`. A job
    /// is parked once before it is unparked, with the key that it was parked with. An alias has one
    /// parked job of a queue, and a key one answer. Ids of jobs and keys of queues that rise as
    /// time goes by cost least.
    ///
    /// In a partition of devices an open command is deleted as it was put, before it is put
    /// elsewhere. A command and its state are put together, and where it stands is what
    /// [`records::OpenCommand::of`] and [`records::FinishedCommand::of`] say. Commands that are
    /// given later than those before them cost least.
    fn commit(&self, batch: Batch, done: CommitDone);

    /// What is durable of a partition now.
    ///
    /// # Errors
    /// When the data cannot be read.
    fn view(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError>;

    /// Makes what was committed so far survive a loss of power too. Nothing is left to do where
    /// every commit is synced.
    ///
    /// # Errors
    /// When that fails: the store accepts nothing more.
    fn sync_committed(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The storage of blocks of streams that every store has: the one named `local`.
    fn blocks(&self) -> Arc<dyn BlockStorage>;

    /// The error that stopped the store, if one did.
    fn failure(&self) -> Option<Arc<StoreError>>;

    /// Figures for `/metrics`, as (name, help, value): counters and gauges of log, checkpoints and
    /// tables.
    fn metrics(&self) -> Vec<StoreMetric>;
}

/// One metric of the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoreMetric {
    /// The metric's name, `fieldpost_store_<what>_<unit>`.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Whether it only grows.
    pub counter: bool,
    /// Its value now.
    pub value: f64,
}

/// A record that a partition of devices keeps in memory.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceResident {
    /// A device with what is known of it.
    Device(Box<DeviceProfile>, DeviceState, Option<LastSeen>),
    /// What a client was not told yet.
    NotificationState(Box<NotificationState>),
    /// A job.
    Job(Box<JobHead>),
    /// The ids of a device's latest reports.
    ReportIds(DeviceSlot, Box<ReportIds>),
    /// A refused report, by what it costs; in order.
    Quarantined(QuarantineKey, u32),
}

/// A record that a partition of queues keeps in memory.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueResident {
    /// A queue, and how much of it is not resident.
    Queue(Box<Queue>, QueueCounts),
    /// A job that is not parked.
    Job(Box<JobHead>),
}

/// Which part of a feed, and in which direction. `after` is exclusive and in the direction of
/// reading.
#[derive(Clone, Copy, Debug)]
pub struct Page<K> {
    /// Earliest time, inclusive.
    pub from: Timestamp,
    /// Latest time, exclusive.
    pub to: Timestamp,
    /// Oldest first.
    pub ascending: bool,
    /// The last item of the page before.
    pub after: Option<K>,
    /// Most items to give.
    pub limit: usize,
}

impl<K> Page<K> {
    /// The page without what is older than `from`.
    #[must_use]
    pub fn kept_from(self, from: Timestamp) -> Self {
        Self { from: self.from.max(from), ..self }
    }
}

/// The order of a device's readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadingKey {
    /// The reading's `ts`.
    pub ts: Timestamp,
    /// The reading's number.
    pub number: u32,
}

/// Which items of a feed are wanted; an index serves `device` and `client`.
#[derive(Clone, Copy, Debug, Default)]
pub struct FeedFilter {
    /// Only this device's.
    pub device: Option<DeviceSlot>,
    /// Only this client's.
    pub client: Option<Incarnation>,
}

/// Rows in order of key. A key without a row was looked at, but its row is gone: whoever bounds
/// work counts it too.
pub type RowsInOrder<'a> = Box<dyn Iterator<Item = Result<(TableKey, Option<Vec<u8>>), StoreError>> + 'a>;

/// Signs of life of the devices of a slice, by [`DeviceSlot::within_slice`].
pub type SeenSlice = [Option<LastSeen>; DeviceSlot::SLICE_DEVICES as usize];

/// One partition at one moment: the tables, and readings, which are kept in columns. Cheap to open,
/// short-lived: one page of a list each.
///
/// Callers read records by the typed queries of `dyn View`, which are written once above `get` and
/// `range`. These leave out what is older than the head's [`records::KeptFrom`]. A reading is as
/// old as the later of its `ts` and its receipt, and may be shown for some days more.
pub trait View: Send {
    /// The head of the partition's latest durable batch; a default one if nothing was ever
    /// committed.
    fn head(&self) -> &PartitionHead;
    /// The row under a key.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every method here.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// The rows of a range in order of key, from its front or its back.
    fn range(&self, table: Table, range: &KeyRange, ascending: bool) -> Result<RowsInOrder<'_>, StoreError>;
    /// The latest signs of life of a slice of devices.
    fn seen_slice(&self, slice: u32) -> Result<Box<SeenSlice>, StoreError>;
    /// A device's latest sign of life. An implementation that need not read the whole slice for it
    /// overrides this.
    fn seen(&self, slot: DeviceSlot) -> Result<Option<LastSeen>, StoreError> {
        Ok(self.seen_slice(slot.slice())?[usize::from(slot.within_slice())])
    }
    /// A device's readings, ordered by [`ReadingKey`].
    fn readings(&self, slot: DeviceSlot, page: Page<ReadingKey>) -> Result<Vec<Reading>, StoreError>;
    /// Hands out the `ts` of each of a device's readings from `from` until before `to`, in any
    /// order: for counting, without the values.
    fn reading_times(
        &self,
        slot: DeviceSlot,
        from: Timestamp,
        to: Timestamp,
        each: &mut dyn FnMut(Timestamp),
    ) -> Result<(), StoreError>;
    /// Notes that a row makes no sense, and answers what a caller is told of it.
    fn damaged(&self, table: Table, key: &[u8], what: String) -> StoreError;
}

impl fmt::Display for CommitOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Durable => f.write_str("durable"),
            Self::Fenced => f.write_str("fenced"),
            Self::Unknown => f.write_str("unknown"),
            Self::Failed(error) => write!(f, "failed: {error}"),
        }
    }
}
