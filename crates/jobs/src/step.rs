//! The step that calls are made in: its time, and where their changes and wake-ups go.

use base::Timestamp;
use records::{Batch, QueueKey};

use crate::recurrence::Calendar;

/// What the calls of one step share.
pub struct JobsStep<'a> {
    pub(crate) now: Timestamp,
    pub(crate) calendar: &'a mut dyn Calendar,
    pub(crate) batch: &'a mut Batch,
    /// `None` while loading.
    pub(crate) wakes: Option<&'a mut Vec<QueueKey>>,
}

impl<'a> JobsStep<'a> {
    /// A step at `now` on the engine clock, which never goes back from one step to the next. Every
    /// change is put into `batch`. A queue is put into `wakes` when something of it can be leased
    /// and could not be before.
    #[must_use]
    pub fn new(
        now: Timestamp,
        calendar: &'a mut dyn Calendar,
        batch: &'a mut Batch,
        wakes: &'a mut Vec<QueueKey>,
    ) -> Self {
        Self { now, calendar, batch, wakes: Some(wakes) }
    }

    /// The same step while jobs are loaded: nothing is due then, and nobody is woken.
    pub(crate) fn loading(&mut self) -> JobsStep<'_> {
        JobsStep { now: self.now, calendar: self.calendar, batch: self.batch, wakes: None }
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.wakes.is_none()
    }

    /// Names a queue to the caller, if something of it can be leased now and could not be before.
    pub(crate) fn wake(&mut self, opened: Option<QueueKey>) {
        if let Some(wakes) = &mut self.wakes {
            wakes.extend(opened);
        }
    }
}

impl std::fmt::Debug for JobsStep<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobsStep").field("now", &self.now).finish_non_exhaustive()
    }
}
