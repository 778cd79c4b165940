//! The budget of one step. Every path of a step spends from it; the rest waits for the next step.
//!
//! `Turn` bounds the weight of a batch and the payloads of answers. This budget bounds work that
//! weighs little and takes time: jobs coming due, parked jobs read in, and store keys scanned.

/// Jobs that come due, lapse or expire in a step.
const JOBS_ADVANCED_MAX: usize = 10_000;
/// Parked jobs that are read in in a step; each adds two changes to the batch.
const JOBS_READ_MAX: usize = 2_000;
/// Keys of parked jobs that are looked at in a step: at some 200 ns each, 4 ms.
const KEYS_SCANNED_MAX: usize = 20_000;

/// The most of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    advanced: usize,
    read: usize,
    scanned: usize,
}

impl Limits {
    /// Of a partition that keeps so many jobs in memory: no step replaces more than a part of them.
    pub(super) fn of(resident_max: usize) -> Self {
        Self {
            advanced: JOBS_ADVANCED_MAX,
            read: (resident_max / 4).clamp(2, JOBS_READ_MAX),
            scanned: resident_max.saturating_mul(4).clamp(16, KEYS_SCANNED_MAX),
        }
    }
}

/// What a step has done so far.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Limits,
    advanced: usize,
    read: usize,
    scanned: usize,
    /// Jobs read in because nothing else leads to their groups: one at most for each job that ended.
    read_at_once: usize,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, advanced: 0, read: 0, scanned: 0, read_at_once: 0 }
    }

    pub(super) fn may_advance(&self) -> bool {
        self.advanced < self.limits.advanced
    }

    pub(super) fn advanced(&mut self, jobs: usize) {
        self.advanced += jobs;
    }

    /// How many more jobs may be read in.
    pub(super) fn left_to_read(&self) -> usize {
        self.limits.read.saturating_sub(self.read)
    }

    /// The same before inputs are applied: half is theirs.
    pub(super) fn left_to_read_ahead(&self) -> usize {
        (self.limits.read / 2).saturating_sub(self.read)
    }

    pub(super) fn read(&mut self, jobs: usize) {
        self.read += jobs;
    }

    pub(super) fn read_at_once(&mut self, jobs: usize) {
        self.read_at_once += jobs;
    }

    /// How many more keys may be looked at.
    pub(super) fn left_to_scan(&self) -> usize {
        self.limits.scanned.saturating_sub(self.scanned)
    }

    pub(super) fn scanned(&mut self, keys: usize) {
        self.scanned += keys;
    }

    /// What was done, of each kind.
    pub(super) fn spent(&self) -> Spent {
        let Self { advanced, read, scanned, read_at_once, .. } = *self;
        Spent { advanced, read, scanned, read_at_once }
    }

    /// Stops the process if a step did more than it may.
    ///
    /// # Panics
    /// Then.
    pub(super) fn assert_kept(&self, at_a_time: usize) {
        let Self { limits, advanced, read, scanned, .. } = self;
        let is_kept =
            *advanced < limits.advanced + at_a_time && *read <= limits.read && *scanned <= limits.scanned;
        assert!(is_kept, "a step keeps within its budget: {self:?}");
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Jobs that came due, lapsed or expired.
    pub advanced: usize,
    /// Parked jobs that were read in.
    pub read: usize,
    /// Keys of parked jobs that were looked at.
    pub scanned: usize,
    /// Parked jobs that were read in because nothing else leads to their groups.
    pub read_at_once: usize,
}
