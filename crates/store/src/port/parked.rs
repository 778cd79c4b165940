//! Where parked jobs stand: how what is not in memory is found again.

use base::Timestamp;
use records::{JobClock, JobHead, JobId, ParkedJob, ParkedKey, Parking};

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

/// The place of a parked job among those of its clock: by a stretch of time, and within it by id.
///
/// Not by the very time, because a store keeps rows where their keys are: jobs of random times would go to as many places as there are
/// jobs; so they go to the ends of as many as there are stretches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimePlace {
    /// Which stretch: the time's milliseconds without their lowest [`TimePlace::BUCKET_BITS`] bits.
    pub bucket: i64,
    /// The job.
    pub id: JobId,
}

impl TimePlace {
    /// A bucket is 2 to the power of this in milliseconds: 17.5 minutes, so that jobs of a day go to the ends of less than a hundred.
    pub const BUCKET_BITS: u32 = 20;
    /// A time before this stands where this does.
    pub const FIRST: Timestamp = Timestamp(-(1 << (38 + Self::BUCKET_BITS)));
    /// A time after this stands where this does.
    pub const LAST: Timestamp = Timestamp(-Self::FIRST.0 - 1);

    /// The bucket of a time.
    #[must_use]
    pub fn bucket_of(at: Timestamp) -> i64 {
        at.clamp(Self::FIRST, Self::LAST).0 >> Self::BUCKET_BITS
    }

    /// Where a job is found by time, if it is: by its clock when it waits for its time, by the engine clock when it waits for a worker and
    /// expires.
    #[must_use]
    pub fn of(job: &ParkedKey) -> Option<(JobClock, Self)> {
        let (clock, at) = Self::time_of(job)?;
        Some((clock, Self { bucket: Self::bucket_of(at), id: job.id }))
    }

    /// The time by which a job is found, if it is.
    #[must_use]
    pub fn time_of(job: &ParkedKey) -> Option<(JobClock, Timestamp)> {
        match job.parking {
            Parking::Time => Some((job.clock, job.visible_at)),
            Parking::Worker => job.expires_at.map(|at| (JobClock::Engine, at)),
        }
    }
}
