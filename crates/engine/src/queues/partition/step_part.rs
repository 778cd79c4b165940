//! What the step of a partition of queues collects besides what all collect.

use std::collections::BTreeSet;

use records::QueueKey;

use super::budget::{Budget, StepLimits};
use crate::jobs_part::{HasJobs, JobsPart};
use crate::queues::stats::JobsCounted;

/// What only partitions of queues collect in a step.
pub(super) struct QueueStepPart {
    pub(super) jobs: JobsPart,
    pub(super) budget: Budget,
    /// More jobs were due than the step has room for.
    pub(super) is_behind: bool,
    /// Queues that may be empty now, or whose counts are others.
    pub(super) touched: Vec<QueueKey>,
    /// Queues with other counts of what is not resident.
    pub(super) recounted: BTreeSet<QueueKey>,
    /// Changes up to here were looked through for parked jobs.
    pub(super) noted: usize,
    pub(super) counted: JobsCounted,
}

impl QueueStepPart {
    pub(super) fn new(limits: StepLimits) -> Self {
        Self {
            jobs: JobsPart::default(),
            budget: Budget::new(limits),
            is_behind: false,
            touched: Vec::new(),
            recounted: BTreeSet::new(),
            noted: 0,
            counted: JobsCounted::default(),
        }
    }
}

impl HasJobs for QueueStepPart {
    fn jobs_part(&mut self) -> &mut JobsPart {
        &mut self.jobs
    }
}
