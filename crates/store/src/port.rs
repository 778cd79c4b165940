//! The storage port: what everything above it may ask, the same for every implementation.
//!
//! A partition loads what must be resident, fetches the rest by key, and commits batches. Lists and history read a
//! [`View`]: one partition at one moment, with every durable batch and nothing else. The conformance suite
//! (`conformance.rs`) is the second half of this file's meaning.

mod parked;

use std::fmt;
use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation, Kind, Lineage, PartitionId, Timestamp};
use records::{
    AliasKey, AnswerKey, Attempt, Batch, Client, Counts, CountsKey, DeadJob, Delivery, DeliveryKey,
    DeviceProfile, DeviceSlot, DeviceState, Event, EventKey, GroupKey, JobClock, JobHead, JobId, KeptAnswer,
    Pair, ParkedJob, PartitionHead, QuarantineKey, Quarantined, Queue, QueueCounts, QueueKey, Reading,
    ReportIds, Seen,
};

pub(crate) use parked::parked_lines;
pub use parked::{PARKED_SPAN_MS, ParkedTimes, StoredJob, parked_span, parked_time};

/// What became of a batch.
#[derive(Clone, Debug)]
pub enum CommitOutcome {
    /// It survives `kill -9` and, with `sync = "always"`, power loss; every view opened from now on shows it.
    Durable,
    /// Nothing was written: another owner has the partition, or the batch is larger than any may be. Drop its memory.
    Fenced,
    /// It may or may not have been written. Drop the partition's memory and load it again.
    Unknown,
    /// It was not written, and the store accepts nothing more until it is opened again.
    Failed(Arc<StoreError>),
}

/// What a batch may weigh at most, in bytes as [`records::Op::weight`] counts them: then it fits a frame of the log. Whoever makes
/// batches keeps far below.
pub const BATCH_BYTES_MAX: usize = 48 << 20;

/// Called once, when the outcome of a batch is known; on the thread that knows it, so it must only signal.
pub type CommitDone = Box<dyn FnOnce(CommitOutcome) + Send>;

/// Why the store cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The data directory is in use, of another version, or damaged: the text names the file, the offset and what to do.
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

/// Where batches are kept.
pub trait Store: Send + Sync + 'static {
    /// The data directory's lineage.
    fn lineage(&self) -> Lineage;
    /// How many device partitions there are, and as many of queues; fixed when the data directory is made.
    fn partitions(&self) -> u16;
    /// The latest engine time that any batch recorded; the engine clock starts no earlier.
    fn recorded_now(&self) -> Timestamp;

    /// Streams what must be resident, devices and queues before what belongs to them, and gives the head; a default head if
    /// nothing was ever committed.
    ///
    /// # Errors
    /// When the data cannot be read.
    fn load(
        &self,
        partition: PartitionId,
        resident: &mut dyn FnMut(Resident),
    ) -> Result<PartitionHead, StoreError>;

    /// Commits a batch. Batches of a partition are committed in the order of their `seq`, without gaps; a repeated
    /// `seq` is acknowledged and ignored.
    ///
    /// In a partition of queues the number of a dead letter is below the head's `next_dead`; a job is parked once before it is unparked,
    /// with the key that it was parked with; an alias has one parked job of a queue, and a key one answer. Ids of jobs and keys of queues
    /// that rise as time goes by cost least.
    fn commit(&self, batch: Batch, done: CommitDone);

    /// What is durable of a partition now.
    ///
    /// # Errors
    /// When the data cannot be read.
    fn view(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError>;

    /// The error that stopped the store, if one did.
    fn failure(&self) -> Option<Arc<StoreError>>;

    /// Figures for `/metrics`, as (name, help, value): counters and gauges of log, checkpoints and tables.
    fn figures(&self) -> Vec<Figure>;
}

/// One figure of the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The metric's name, `fieldpost_store_<what>_<unit>`.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Whether it only grows.
    pub counter: bool,
    /// Its value now.
    pub value: f64,
}

/// A record that a partition keeps in memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Resident {
    /// A device with what is known of it.
    Device(Box<DeviceProfile>, DeviceState, Option<Seen>),
    /// What a client was not told yet.
    Pair(Box<Pair>),
    /// A queue, and how much of it is not resident.
    Queue(Box<Queue>, QueueCounts),
    /// A job that is not parked.
    Job(Box<JobHead>),
    /// The ids of a device's latest reports.
    ReportIds(DeviceSlot, Box<ReportIds>),
    /// A refused report, by what it costs; in order.
    Quarantined(QuarantineKey, u32),
    /// A client; registry partition only.
    Client(Box<Client>),
}

/// Which part of a feed, and in which direction. `after` is exclusive and in the direction of reading.
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

/// Which of a feed's items belong to it; an index serves `device` and `client`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whose {
    /// Only this device's.
    pub device: Option<DeviceSlot>,
    /// Only this client's.
    pub client: Option<Incarnation>,
}

/// One partition at one moment. Cheap to open, short-lived: one page of a list each. What is older than the head's
/// [`records::KeptFrom`] is not shown; a reading is as old as the later of its `ts` and its receipt, and may be shown for some days more.
pub trait View: Send {
    /// The head of the partition's latest durable batch; a default one if nothing was ever committed.
    fn head(&self) -> &PartitionHead;
    /// A device's profile.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every method here.
    fn device(&self, id: &DeviceId) -> Result<Option<DeviceProfile>, StoreError>;
    /// A device's state; the default for one that never had any.
    fn state(&self, slot: DeviceSlot) -> Result<DeviceState, StoreError>;
    /// A device's latest sign of life.
    fn seen(&self, slot: DeviceSlot) -> Result<Option<Seen>, StoreError>;
    /// Devices in order of id.
    fn devices(&self, after: Option<&DeviceId>, limit: usize) -> Result<Vec<DeviceProfile>, StoreError>;
    /// Devices with a label, in order of id.
    fn devices_with(
        &self,
        label: (&str, &str),
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError>;
    /// Devices of a kind, in order of id.
    fn devices_of_kind(
        &self,
        kind: &Kind,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError>;
    /// Devices linked to a client, in order of id.
    fn devices_of(
        &self,
        client: Incarnation,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<Vec<DeviceProfile>, StoreError>;
    /// A device's readings, ordered by [`ReadingKey`].
    fn readings(&self, slot: DeviceSlot, page: Page<ReadingKey>) -> Result<Vec<Reading>, StoreError>;
    /// Hands out the `ts` of each of a device's readings from `from` until before `to`, in any order: for counting, without
    /// what was read.
    fn reading_times(
        &self,
        slot: DeviceSlot,
        from: Timestamp,
        to: Timestamp,
        each: &mut dyn FnMut(Timestamp),
    ) -> Result<(), StoreError>;
    /// Events, ordered by [`EventKey`]; `keep` drops items before they count towards the limit.
    fn events(
        &self,
        whose: Whose,
        page: Page<EventKey>,
        keep: &dyn Fn(&Event) -> bool,
    ) -> Result<Vec<Event>, StoreError>;
    /// Deliveries, ordered by [`DeliveryKey`]; `keep` drops items before they count towards the limit.
    fn deliveries(
        &self,
        whose: Whose,
        page: Page<DeliveryKey>,
        keep: &dyn Fn(&Delivery) -> bool,
    ) -> Result<Vec<Delivery>, StoreError>;
    /// One delivery.
    fn delivery(&self, key: DeliveryKey) -> Result<Option<Delivery>, StoreError>;
    /// A delivery's attempts, oldest first.
    fn attempts(&self, key: DeliveryKey) -> Result<Vec<Attempt>, StoreError>;
    /// Refused reports, ordered by [`QuarantineKey`].
    fn quarantined(&self, page: Page<QuarantineKey>) -> Result<Vec<Quarantined>, StoreError>;
    /// One refused report.
    fn quarantined_one(&self, key: QuarantineKey) -> Result<Option<Quarantined>, StoreError>;
    /// What was counted on a day.
    fn counts(&self, of: CountsKey) -> Result<Option<Counts>, StoreError>;
    /// What a job carries.
    fn job_body(&self, job: JobId) -> Result<Option<Arc<[u8]>>, StoreError>;
    /// A job, wherever it is.
    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError>;
    /// The parked job of a queue that has this alias.
    fn parked_alias(&self, queue: QueueKey, alias: AliasKey) -> Result<Option<ParkedJob>, StoreError>;
    /// Parked jobs that are found by a time of `clock`: those of a span before those of later ones ([`parked_span`]), within a span in
    /// an order of the store's own. `after` is exclusive, in that order. Looks at `scan_max` keys at most; some may be of jobs that
    /// are not parked any more.
    fn parked_times(
        &self,
        clock: JobClock,
        after: (Timestamp, JobId),
        scan_max: usize,
    ) -> Result<ParkedTimes, StoreError>;
    /// Parked jobs that wait for a worker, without a group - the heads of groups are among them - or of one, in the order of their lines: `visible_at`, then the publish
    /// number; from the back in the reverse order. `after` is exclusive and in the direction of reading: what went since the last checkpoint
    /// lies at a line's front, and is not looked through again by who says how far it has come.
    fn parked_line(
        &self,
        queue: QueueKey,
        group: Option<GroupKey>,
        after: Option<(Timestamp, u64)>,
        from_back: bool,
        limit: usize,
    ) -> Result<Vec<ParkedJob>, StoreError>;
    /// Jobs of a queue in order of id, resident and parked; their successors are not jobs of their own. Looks at no more than `scan_max`
    /// jobs of the partition; answers also from where to go on, `None` at the end. `keep` drops jobs before they count towards
    /// the limit.
    fn jobs_of(
        &self,
        queue: QueueKey,
        after: Option<JobId>,
        scan_max: usize,
        limit: usize,
        keep: &dyn Fn(&JobHead) -> bool,
    ) -> Result<(Vec<JobHead>, Option<JobId>), StoreError>;
    /// Dead letters of a queue in order of their numbers; `after` is exclusive and in the direction of reading.
    fn dead(
        &self,
        queue: QueueKey,
        after: Option<u64>,
        ascending: bool,
        limit: usize,
    ) -> Result<Vec<DeadJob>, StoreError>;
    /// One dead letter.
    fn dead_by_id(&self, queue: QueueKey, id: JobId) -> Result<Option<DeadJob>, StoreError>;
    /// What a repeated request is answered. A key has one answer at a time: the one before it was deleted.
    fn answer(&self, key: AnswerKey) -> Result<Option<KeptAnswer>, StoreError>;
    /// Answers given before `at`, oldest first.
    fn answers_before(&self, at: Timestamp, limit: usize) -> Result<Vec<(Timestamp, AnswerKey)>, StoreError>;
    /// Clients in order of id; registry partition only.
    fn clients(&self, after: Option<&ClientId>, limit: usize) -> Result<Vec<Client>, StoreError>;
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
