//! Jobs as the edges give and get them.

use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use compact_str::CompactString;
use jobs::ConflictPolicy;
use records::{JobId, Process};

use super::ReservationToken;

/// What a job carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobPayload {
    /// A JSON value, as compact text.
    Json(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
}

/// Names and values that an edge keeps with a job and nobody else looks at.
pub type Attributes = Vec<(CompactString, CompactString)>;

/// A job to be published; checked by the edge as to form, by the engine as to sense.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// What it carries; at most [`base::limits::JOB_PAYLOAD_BYTES_MAX`].
    pub payload: JobPayload,
    /// When it is due; for a recurring job its first run.
    pub due: Option<DueTime>,
    /// How long it is worth doing, from publishing on; each run of a recurring one from its due
    /// time on.
    pub ttl: Option<Duration>,
    /// Attempts it may have, at least 1.
    pub tries: u32,
    /// The caller's own id.
    pub alias: Option<CompactString>,
    /// What to do when the alias is held.
    pub on_conflict: ConflictPolicy,
    /// Jobs of a group run one at a time, in order.
    pub group: Option<CompactString>,
    /// It comes again.
    pub recurs: Option<RecurrenceTerms>,
    /// The queue publishes one job with this key within a day, whoever asks and in whatever call.
    pub idempotency_key: Option<CompactString>,
    /// For edges only.
    pub attributes: Attributes,
}

impl NewJob {
    /// A plain job that is due at once, with one try.
    #[must_use]
    pub fn new(payload: JobPayload) -> Self {
        Self {
            payload,
            due: None,
            ttl: None,
            tries: 1,
            alias: None,
            on_conflict: ConflictPolicy::default(),
            group: None,
            recurs: None,
            idempotency_key: None,
            attributes: Attributes::new(),
        }
    }
}

/// When a job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueTime {
    /// This long from now.
    After(Duration),
    /// At a moment of the wall clock.
    At(Timestamp),
}

/// How a job comes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecurrenceTerms {
    /// This long after it was due before.
    Every {
        /// At least a second.
        interval: Duration,
        /// How many runs there are.
        executions: Option<u32>,
    },
    /// By a cron expression.
    Cron {
        /// Five fields, or six with seconds first.
        expression: CompactString,
        /// An IANA time zone; UTC if there is none.
        zone: Option<CompactString>,
        /// How many runs there are.
        executions: Option<u32>,
    },
}

/// A job that was published, or the one that was there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedJob {
    /// Its id.
    pub id: JobId,
    /// When it is due.
    pub run_at: Timestamp,
}

/// What a consumer asks for.
#[derive(Clone, Copy, Debug)]
pub struct ConsumeTerms {
    /// Most jobs; 1 to [`base::limits::JOBS_PER_CALL_MAX`].
    pub max: usize,
    /// How long each is reserved.
    pub ttr: Duration,
    /// How long to wait for the first one.
    pub wait: Duration,
    /// Who asks: a worker of this program, whose leases end with it, or a consumer outside.
    pub process: Option<Process>,
}

/// A job that a consumer got.
#[derive(Clone, Debug)]
pub struct Consumed {
    /// Its queue's place among those that were asked.
    pub queue: usize,
    /// Its id.
    pub id: JobId,
    /// What the consumer shows for it.
    pub reservation: ReservationToken,
    /// What it carries.
    pub payload: JobPayload,
    /// Counts its attempts from 1.
    pub attempt: u32,
    /// Attempts it may have.
    pub tries: u32,
    /// When it was published.
    pub published_at: Timestamp,
    /// When it was first due.
    pub run_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// Until when it is reserved, on the engine clock.
    pub until: Timestamp,
    /// The caller's own id.
    pub alias: Option<CompactString>,
    /// For edges only.
    pub attributes: Attributes,
}

/// Which job is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRef {
    /// By its id.
    Id(JobId),
    /// By the caller's own id: the successor where there is one.
    Alias(CompactString),
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// It waits for its time.
    Scheduled,
    /// It can be consumed.
    Ready,
    /// A consumer has it.
    Reserved,
}

base::names! {
    /// Every state.
    pub JobState: Scheduled = "scheduled", Ready = "ready", Reserved = "reserved"
}

/// A job, looked at without taking it.
#[derive(Clone, Debug)]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Where it stands.
    pub state: JobState,
    /// What it carries.
    pub payload: JobPayload,
    /// When it can be consumed, or since when; of a reserved job, when it was first due.
    pub run_at: Timestamp,
    /// When it was published.
    pub published_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// Attempts begun.
    pub attempt: u32,
    /// Attempts it may have.
    pub tries: u32,
    /// The caller's own id.
    pub alias: Option<CompactString>,
    /// Its group.
    pub group: Option<CompactString>,
    /// How it comes again, with the runs that are left, the present one included.
    pub recurs: Option<RecurrenceTerms>,
    /// For edges only.
    pub attributes: Attributes,
}

/// What to change of a waiting job.
#[derive(Clone, Debug, Default)]
pub struct JobChange {
    /// It carries this instead.
    pub payload: Option<JobPayload>,
    /// It is due then.
    pub due: Option<DueTime>,
}

/// What a consumer says when it gives a job back. What the attempt costs is not up to the consumer:
/// that is in [`jobs::ReleaseTerms`].
#[derive(Clone, Debug, Default)]
pub struct JobRelease {
    /// It is available again after this.
    pub delay: Duration,
    /// What the consumer says of it; kept if it was the last try.
    pub error: Option<CompactString>,
}
