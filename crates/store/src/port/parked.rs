//! Jobs that are not in memory, and by what they are found.

use base::Timestamp;
use records::{GroupKey, JobClock, JobHead, JobId, ParkedJob, ParkedKey, Parking};

/// A job, and which of the two places it is in.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredJob {
    /// It is loaded at a start.
    Resident(JobHead),
    /// It is not.
    Parked(ParkedJob),
}

impl StoredJob {
    /// Its head.
    #[must_use]
    pub fn head(&self) -> &JobHead {
        match self {
            Self::Resident(head) => head,
            Self::Parked(job) => &job.head,
        }
    }
}

/// The clock and the time by which a parked job is found, if it is. A job that waits for its time
/// is found by that. One that waits for a worker and expires is found by its expiry.
#[must_use]
pub fn parked_time(job: &ParkedKey) -> Option<(JobClock, Timestamp)> {
    match job.parking {
        Parking::Time => Some((job.clock, job.visible_at)),
        Parking::Worker | Parking::Head => job.expires_at.map(|at| (JobClock::Engine, at)),
    }
}

/// The lines that a parked job is found in: that of its queue, or of its group; of a group's head,
/// both.
pub(crate) fn parked_lines(job: &ParkedKey) -> impl Iterator<Item = Option<GroupKey>> {
    let (first, second) = match job.parking {
        Parking::Time => (None, None),
        Parking::Worker => (Some(job.group), None),
        Parking::Head => (Some(job.group), Some(None)),
    };
    first.into_iter().chain(second)
}

/// The span of time in which a moment is, counted in spans of [`PARKED_SPAN_MS`].
#[must_use]
pub fn parked_span(at: Timestamp) -> i64 {
    at.0.div_euclid(PARKED_SPAN_MS)
}

/// Milliseconds of a span: the store finds parked jobs in the order of these, 4.4 minutes each.
pub const PARKED_SPAN_MS: i64 = 1 << 18;

/// Some of the jobs of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScannedJobs {
    /// The jobs, in order of id.
    pub found: Vec<JobHead>,
    /// Where to go on; `None` at the end.
    pub next: Option<JobId>,
    /// How many jobs of the partition were looked at, those of other queues among them.
    pub scanned: usize,
}

/// Which parked jobs are looked for by their times.
#[derive(Clone, Copy, Debug)]
pub struct ParkedScan {
    /// The clock of the times.
    pub clock: JobClock,
    /// Where to begin, in the order of the store: behind this.
    pub after: (Timestamp, JobId),
    /// The jobs up to this time and id are known; some may be found again.
    pub known: (Timestamp, JobId),
    /// Those behind this time and id are not wanted.
    pub until: (Timestamp, JobId),
}

impl ParkedScan {
    /// All jobs of a clock.
    #[must_use]
    pub fn all(clock: JobClock) -> Self {
        let first = (Timestamp(i64::MIN), JobId([0; 16]));
        Self { clock, after: first, known: first, until: (Timestamp::MAX, JobId([u8::MAX; 16])) }
    }
}

/// Some of the parked jobs that are found by a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedTimes {
    /// The jobs, each by its time.
    pub found: Vec<(Timestamp, JobId)>,
    /// Where the same scan goes on; `None` at the end. Once it is in a later span than the scan's
    /// `until`, nothing more is found.
    pub next: Option<(Timestamp, JobId)>,
}
