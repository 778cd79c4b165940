//! Jobs that are not in memory, and by what they are found.

use base::Timestamp;
use records::{JobClock, JobHead, ParkedJob, ParkedKey, Parking};

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

/// The clock and the time by which a parked job is found, if it is: its own when it waits for its time, that of its expiry when it waits
/// for a worker and expires.
#[must_use]
pub fn parked_time(job: &ParkedKey) -> Option<(JobClock, Timestamp)> {
    match job.parking {
        Parking::Time => Some((job.clock, job.visible_at)),
        Parking::Worker => job.expires_at.map(|at| (JobClock::Engine, at)),
    }
}
