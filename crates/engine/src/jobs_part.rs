//! What the step of a machine with jobs collects besides what all collect. The machines of devices
//! and of queues have jobs.

use jobs::{Calendar, JobsStep, NoCalendar};
use records::QueueKey;

use crate::kernel::step_context::StepContext;

/// What is collected for jobs in one step. A machine has it in the `own` of its [`StepContext`].
#[derive(Default)]
pub(crate) struct JobsPart {
    /// Lines of jobs that have something to lease since this step.
    pub(crate) wakes: Vec<QueueKey>,
    no_calendar: NoCalendar,
}

/// What a machine with jobs collects in a step.
pub(crate) trait HasJobs {
    /// The part of it that is for jobs.
    fn jobs_part(&mut self) -> &mut JobsPart;
}

impl<E, O: HasJobs> StepContext<'_, E, O> {
    /// This step for calls of [`jobs::Jobs`] in which no job comes again by a calendar.
    pub(crate) fn jobs(&mut self) -> JobsStep<'_> {
        let part = self.own.jobs_part();
        JobsStep::new(self.now, &mut part.no_calendar, &mut self.batch, &mut part.wakes)
    }

    /// This step for calls of [`jobs::Jobs`] in which jobs may come again.
    pub(crate) fn jobs_by<'s>(&'s mut self, calendar: &'s mut dyn Calendar) -> JobsStep<'s> {
        JobsStep::new(self.now, calendar, &mut self.batch, &mut self.own.jobs_part().wakes)
    }
}
