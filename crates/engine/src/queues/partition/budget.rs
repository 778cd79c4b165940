//! The budget of one step: work that weighs little in a batch and takes time. What is left waits
//! for the next step.
//!
//! Counted in [`Spent`], and asserted when the step is sealed:
//!
//! - jobs that come due, lapse or expire.
//! - parked jobs that are read in, and apart from them those that are read in at once.
//! - lines that go on, whose next job waited until parked ones were read.
//! - keys of parked jobs that are scanned.
//! - dead letters that are looked at for their age.
//! - rows of deleted queues that are swept, and jobs that are looked at to be dropped.
//! - consumers that are sent home.
//!
//! Counted and not asserted: leases of consumers that wait. They tell a model of the partition when
//! in the step each of them was served.
//!
//! `StepContext` asserts the weight of the batch, and bounds the payloads of answers.
//!
//! Not counted, and bounded by a constant where it is done:
//!
//! - 500 due locks and callers that wait for them, once before the inputs and once after
//!   (`LOCKS_DUE_PER_STEP`).
//! - queues that are looked at for backlogs, 100 (`LOOKS_PER_STEP`).
//! - empty queues that are forgotten, and surplus dead letters of a queue at a time, 1,000 each
//!   (`RECORDS_MAX`).
//! - old answers that are forgotten, 1,000 (`FORGOTTEN_MAX`).
//! - jobs that leave memory, 1,000 (`PARKED_AT_A_TIME`).
//! - names that a list passes over, 10,000 (`NAMES_SEEN_MAX`).
//!
//! Not counted, and bounded by what is resident: choosing what leaves memory looks at each job
//! twice at most. Those that consumers have are among them.

use crate::kernel::step_context::STEP_BYTES_MAX;

/// Jobs that come due, lapse or expire in a step.
const JOBS_ADVANCED_MAX: usize = 10_000;
/// Parked jobs that are read in in a step; each adds two or three changes to the batch.
const JOBS_READ_MAX: usize = 2_000;
/// Jobs that are read in because nothing else leads to their groups, before nothing more is done in
/// a step that brings others.
const READ_AT_ONCE_MAX: usize = 512;
/// And how many one call, a sweep and a drop bring at most after that.
const READ_AT_ONCE_BESIDES: usize = 4 * super::RECORDS_MAX;
/// Lines that go on in a step, of those whose next job waited until parked ones were read.
const LINES_UNBLOCKED_MAX: usize = 10_000;
/// Dead letters that a step reads to see whether they are too old, before it leaves the other
/// queues to the next.
const DEAD_READ_MAX: usize = 4_000;
/// Keys of parked jobs that are looked at in a step: at some 300 ns each, where payloads are small,
/// 6 ms.
const KEYS_SCANNED_MAX: usize = 20_000;
/// Rows of a deleted queue that a step looks at; other queues' are among them.
const ROWS_SWEPT_MAX: usize = 10_000;
/// Jobs of a queue whose ready jobs are dropped that a step looks at.
const JOBS_DROPPED_MAX: usize = super::RECORDS_MAX;
/// Consumers that have waited enough and are sent home in a step.
const WAITERS_RETIRED_MAX: usize = 10_000;

/// The most that a step does of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLimits {
    /// What its batch weighs before no more work is taken into it.
    pub bytes: usize,
    /// Jobs that come due, lapse or expire.
    pub advanced: usize,
    /// Parked jobs that are read in.
    pub read: usize,
    /// Keys of parked jobs that are looked at.
    pub scanned: usize,
    /// Parked jobs that are read in because nothing else leads to their groups, before nothing more
    /// is done that brings others.
    pub read_at_once: usize,
    /// Lines that go on, whose next job waited until parked ones were read.
    pub unblocked: usize,
    /// Dead letters that are looked at for their age, before the other queues wait.
    pub dead_read: usize,
    /// Rows of deleted queues that are looked at.
    pub swept: usize,
    /// Jobs that are looked at to be dropped.
    pub dropped: usize,
    /// Consumers that are sent home because they have waited enough.
    pub retired: usize,
}

impl StepLimits {
    /// Of a partition that keeps so many jobs in memory: no step replaces more than a part of them.
    #[must_use]
    pub fn of(resident_max: usize) -> Self {
        Self {
            bytes: STEP_BYTES_MAX,
            advanced: JOBS_ADVANCED_MAX,
            read: (resident_max / 4).clamp(2, JOBS_READ_MAX),
            scanned: resident_max.saturating_mul(4).clamp(16, KEYS_SCANNED_MAX),
            read_at_once: READ_AT_ONCE_MAX,
            unblocked: LINES_UNBLOCKED_MAX,
            dead_read: DEAD_READ_MAX,
            swept: ROWS_SWEPT_MAX,
            dropped: JOBS_DROPPED_MAX,
            retired: WAITERS_RETIRED_MAX,
        }
    }
}

/// What a step has done so far.
#[derive(Debug)]
pub(super) struct Budget {
    limits: StepLimits,
    /// Added to by whoever does it.
    pub(super) spent: Spent,
}

impl Budget {
    pub(super) fn new(limits: StepLimits) -> Self {
        Self { limits, spent: Spent::default() }
    }

    pub(super) fn may_advance(&self) -> bool {
        self.spent.advanced < self.limits.advanced && self.may_read_at_once()
    }

    /// How many more jobs may be read in.
    pub(super) fn left_to_read(&self) -> usize {
        self.limits.read.saturating_sub(self.spent.read)
    }

    /// The same before inputs are applied: half is theirs.
    pub(super) fn left_to_read_ahead(&self) -> usize {
        (self.limits.read / 2).saturating_sub(self.spent.read)
    }

    /// Whether jobs may end after which others must be read in at once.
    pub(super) fn may_read_at_once(&self) -> bool {
        self.spent.read_at_once < self.limits.read_at_once
    }

    /// How many more keys may be looked at.
    pub(super) fn left_to_scan(&self) -> usize {
        self.limits.scanned.saturating_sub(self.spent.scanned)
    }

    pub(super) fn may_read_dead(&self) -> bool {
        self.spent.dead_read < self.limits.dead_read
    }

    /// How many more rows of deleted queues may be looked at.
    pub(super) fn left_to_sweep(&self) -> usize {
        self.limits.swept.saturating_sub(self.spent.swept)
    }

    /// How many more jobs may be looked at to be dropped.
    pub(super) fn left_to_drop(&self) -> usize {
        self.limits.dropped.saturating_sub(self.spent.dropped)
    }

    pub(super) fn may_retire(&self) -> bool {
        self.spent.retired < self.limits.retired
    }

    /// Stops the process if a step did more than it may.
    ///
    /// # Panics
    /// Then.
    pub(super) fn assert_kept(&self, at_a_time: usize) {
        let Self { limits, spent } = self;
        let is_kept = spent.advanced < limits.advanced + at_a_time
            && spent.read <= limits.read
            && spent.scanned <= limits.scanned
            && spent.read_at_once <= limits.read_at_once + READ_AT_ONCE_BESIDES
            && spent.unblocked <= limits.unblocked
            && spent.dead_read < limits.dead_read + 2 * super::RECORDS_MAX
            && spent.swept <= limits.swept
            && spent.dropped <= limits.dropped
            && spent.retired <= limits.retired;
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
    /// Lines that went on, whose next job had waited until parked ones were read.
    pub unblocked: usize,
    /// Dead letters that were looked at for their age.
    pub dead_read: usize,
    /// Rows of deleted queues that were looked at.
    pub swept: usize,
    /// Jobs that were looked at to be dropped.
    pub dropped: usize,
    /// Consumers that were sent home because they had waited enough.
    pub retired: usize,
    /// Jobs that consumers that wait were given before the inputs.
    pub leased_before: u64,
    /// And behind the inputs.
    pub leased_behind: u64,
}
