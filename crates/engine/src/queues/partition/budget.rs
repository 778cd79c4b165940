//! The budget of one step. Every path of a step spends from it; the rest waits for the next step.
//!
//! `StepContext` bounds the weight of a batch and the payloads of answers. This budget bounds work
//! that weighs little and takes time: jobs coming due, parked jobs read in, and store keys scanned.

/// Jobs that come due, lapse or expire in a step.
const JOBS_ADVANCED_MAX: usize = 10_000;
/// Parked jobs that are read in in a step; each adds two changes to the batch.
const JOBS_READ_MAX: usize = 2_000;
/// Jobs that are read in because nothing else leads to their groups, before nothing more is done in
/// a step that brings others.
const READ_AT_ONCE_MAX: usize = 512;
/// And how many one call, a sweep and a drop bring at most after that.
const READ_AT_ONCE_BESIDES: usize = 4 * super::RECORDS_MAX;
/// Dead letters that a step reads to see whether they are too old, before it leaves the other
/// queues to the next.
const DEAD_READ_MAX: usize = 4_000;
/// Keys of parked jobs that are looked at in a step: at some 200 ns each, 4 ms.
const KEYS_SCANNED_MAX: usize = 20_000;

/// The most of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepLimits {
    advanced: usize,
    read: usize,
    scanned: usize,
}

impl StepLimits {
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
    limits: StepLimits,
    advanced: usize,
    read: usize,
    scanned: usize,
    /// Jobs read in because nothing else leads to their groups, one at most for each job that
    /// ended, or because somebody looks at them.
    read_at_once: usize,
    /// Dead letters looked at for their age.
    dead_read: usize,
}

impl Budget {
    pub(super) fn new(limits: StepLimits) -> Self {
        Self { limits, advanced: 0, read: 0, scanned: 0, read_at_once: 0, dead_read: 0 }
    }

    pub(super) fn may_advance(&self) -> bool {
        self.advanced < self.limits.advanced && self.may_read_at_once()
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

    /// Whether jobs may end after which others must be read in at once.
    pub(super) fn may_read_at_once(&self) -> bool {
        self.read_at_once < READ_AT_ONCE_MAX
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

    pub(super) fn may_read_dead(&self) -> bool {
        self.dead_read < DEAD_READ_MAX
    }

    pub(super) fn dead_read(&mut self, dead: usize) {
        self.dead_read += dead;
    }

    /// What was done, of each kind.
    pub(super) fn spent(&self) -> Spent {
        let Self { advanced, read, scanned, read_at_once, dead_read, .. } = *self;
        Spent { advanced, read, scanned, read_at_once, dead_read }
    }

    /// Stops the process if a step did more than it may.
    ///
    /// # Panics
    /// Then.
    pub(super) fn assert_kept(&self, at_a_time: usize) {
        let Self { limits, advanced, read, scanned, read_at_once, dead_read } = self;
        let is_kept = *advanced < limits.advanced + at_a_time
            && *read <= limits.read
            && *scanned <= limits.scanned
            && *read_at_once <= READ_AT_ONCE_MAX + READ_AT_ONCE_BESIDES
            && *dead_read < DEAD_READ_MAX + 2 * super::RECORDS_MAX;
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
    /// Parked jobs that were read in because nothing else leads to their groups, or because
    /// somebody looks at them.
    pub read_at_once: usize,
    /// Dead letters that were looked at for their age.
    pub dead_read: usize,
}
