//! What one step of a machine collects: its time, its batch, what that weighs, and the effects that
//! wait for it.

use base::{PartitionId, Timestamp};
use jobs::{Calendar, JobsStep, NoCalendar};
use records::{Batch, Op, PartitionHead, QueueKey};

use super::fetch::Fetch;
use super::machine::Moment;

/// What a batch may weigh before no more work is taken into it, in bytes as [`Op::weight`] counts
/// them. The heaviest report, of a device with 100 clients and values of 4 KiB, adds a megabyte:
/// far below what a frame of the log may hold.
pub(crate) const STEP_BYTES_MAX: usize = 1 << 20;
/// Payload bytes that the answers of one step may carry together before no more is given: a job may
/// carry a megabyte.
const CARRIED_BYTES_MAX: usize = 8 << 20;

/// One step of a machine with effects `E`. `own` is what only that machine collects.
pub(crate) struct StepContext<'a, E, O> {
    pub(crate) now: Timestamp,
    pub(crate) wall: Timestamp,
    /// The number that the batch will have.
    pub(crate) seq: u64,
    pub(crate) batch: Batch,
    /// Changes that are weighed, and what they weigh.
    weighed: (usize, usize),
    /// Payload bytes that the answers of this step carry.
    pub(crate) carried: usize,
    pub(crate) effects: Vec<E>,
    /// Lines of jobs that have something to lease since this step.
    pub(crate) wakes: Vec<QueueKey>,
    no_calendar: NoCalendar,
    pub(crate) fetch: &'a dyn Fetch,
    pub(crate) own: O,
}

impl<'a, E, O> StepContext<'a, E, O> {
    /// The step at `moment` behind `head`. The engine clock does not go back behind what is stored.
    pub(crate) fn new(
        id: PartitionId,
        head: &PartitionHead,
        moment: Moment,
        fetch: &'a dyn Fetch,
        own: O,
    ) -> Self {
        Self {
            now: moment.now.max(head.now),
            wall: moment.wall,
            seq: head.seq + 1,
            batch: Batch::new(id),
            weighed: (0, 0),
            carried: 0,
            effects: Vec::new(),
            wakes: Vec::new(),
            no_calendar: NoCalendar,
            fetch,
            own,
        }
    }

    /// This step for calls of [`jobs::Jobs`] in which no job comes again by a calendar.
    pub(crate) fn jobs(&mut self) -> JobsStep<'_> {
        JobsStep::new(self.now, &mut self.no_calendar, &mut self.batch, &mut self.wakes)
    }

    /// This step for calls of [`jobs::Jobs`] in which jobs may come again.
    pub(crate) fn jobs_by<'s>(&'s mut self, calendar: &'s mut dyn Calendar) -> JobsStep<'s> {
        JobsStep::new(self.now, calendar, &mut self.batch, &mut self.wakes)
    }

    /// Whether the answers take more payloads.
    pub(crate) fn may_carry(&self) -> bool {
        self.carried < CARRIED_BYTES_MAX
    }

    /// Whether the step takes more work.
    pub(crate) fn has_room(&mut self) -> bool {
        self.weigh() < STEP_BYTES_MAX && self.may_carry()
    }

    /// What the batch weighs so far. Each change is weighed once.
    pub(crate) fn weigh(&mut self) -> usize {
        let (ops, weight) = self.weighed;
        let added: usize = self.batch.ops[ops..].iter().map(Op::weight).sum();
        self.weighed = (self.batch.ops.len(), weight + added);
        self.weighed.1
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.batch.ops.push(op);
    }

    /// The batch behind which the store shows everything that was done so far.
    pub(crate) fn latest_change(&self) -> u64 {
        // Without a change there may be no batch of this step.
        if self.batch.ops.is_empty() { self.seq - 1 } else { self.seq }
    }

    /// Lets the outside see this once the batch is durable.
    pub(crate) fn emit(&mut self, effect: E) {
        self.effects.push(effect);
    }

    /// Ends the step: the changes as one batch, with the head as it is after it, and the effects.
    /// `finish` brings the machine's own fields of the head up to date. Without a change there is
    /// no batch, unless `must_write`.
    pub(crate) fn seal(
        mut self,
        head: &mut PartitionHead,
        must_write: bool,
        finish: impl FnOnce(&mut PartitionHead),
    ) -> (Option<Batch>, Vec<E>) {
        let batch = (must_write || !self.batch.ops.is_empty()).then(|| {
            head.seq = self.seq;
            head.now = self.now;
            finish(head);
            self.batch.head = head.clone();
            self.batch
        });
        (batch, self.effects)
    }
}
