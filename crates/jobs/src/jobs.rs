//! The jobs of a partition, and what can be done to one without a reservation.

pub(crate) mod advance;
mod availability;
mod ending;
mod eviction;
mod grouping;
pub(crate) mod lease;
pub(crate) mod paging;
mod parking;
mod placement;
pub(crate) mod publish;

use std::collections::VecDeque;

use base::Timestamp;
use records::{AliasKey, JobClock, JobHead, JobId, Process, QueueKey, QueueOrder};

use crate::clocks::ClockOffset;
use crate::entry::{JobEntry, Succession};
use crate::groups::Groups;
use crate::jobs::ending::BodyDisposal;
use crate::parked::ParkedIndex;
use crate::parked::blocked_lines::BlockedLines;
use crate::parked::eviction::Eviction;
use crate::parked::read_queue::ReadQueue;
use crate::parked::resident_limit::ResidentLimit;
use crate::queues::{QueueEntry, QueueTable};
use crate::slab::Handle;
use crate::step::JobsStep;
use crate::table::{FoundJob, JobTable};
use crate::timers::Timers;

/// Most ready jobs that are looked at for the oldest where the first should be that.
const READY_SEEN_MAX: usize = 1_000;

/// The jobs of a partition.
pub struct Jobs {
    process: Process,
    numbers: Numbers,
    keeps_dead_letters: bool,
    clocks: ClockOffset,
    table: JobTable,
    queues: QueueTable,
    timers: Timers,
    groups: Groups,
    parked: ParkedIndex,
    /// Lines that should be read from the store.
    reads: ReadQueue,
    /// Lines whose next job waits until parked jobs are read.
    blocked_lines: BlockedLines,
    limit: ResidentLimit,
    eviction: Eviction,
}

/// Counters that outlive the process; they are kept in the partition's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The publish number that the next job gets.
    pub next_job: u64,
    /// The number that the next lease gets.
    pub next_lease: u64,
}

impl Numbers {
    pub(crate) fn take_job(&mut self) -> u64 {
        self.next_job += 1;
        self.next_job - 1
    }

    pub(crate) fn take_lease(&mut self) -> u64 {
        self.next_lease += 1;
        self.next_lease - 1
    }
}

/// Where jobs stand, of a queue or of all; successors are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Waiting for their time.
    pub scheduled: usize,
    /// Their time has come; also those behind another of their group.
    pub ready: usize,
    /// With a worker.
    pub reserved: usize,
}

/// Why a job could not be rescheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RescheduleError {
    /// There is no such job.
    #[error("there is no such job")]
    Unknown,
    /// It is with a worker.
    #[error("the job is with a worker")]
    Reserved,
}

impl Jobs {
    /// No jobs yet; what is stored is taken in with [`Jobs::load`].
    #[must_use]
    pub fn new(process: Process, numbers: Numbers) -> Self {
        Self {
            process,
            numbers,
            keeps_dead_letters: false,
            clocks: ClockOffset::default(),
            table: JobTable::default(),
            queues: QueueTable::default(),
            timers: Timers::default(),
            groups: Groups::default(),
            parked: ParkedIndex::default(),
            reads: ReadQueue::default(),
            blocked_lines: BlockedLines::default(),
            limit: ResidentLimit::default(),
            eviction: Eviction::default(),
        }
    }

    /// What a job carried stays in the store when it dies (`DeleteJobHead`), for the caller to make
    /// a dead letter of it.
    #[must_use]
    pub fn keeping_dead_letters(self) -> Self {
        Self { keeps_dead_letters: true, ..self }
    }

    /// When the engine clock shows `now`, the wall clock shows `wall`: from now on jobs of
    /// [`JobClock::Wall`] are due by that. It may go back: what is not ready yet then waits for
    /// longer, what is ready stays so. Without it the wall clock is the engine clock.
    pub fn set_wall(&mut self, now: Timestamp, wall: Timestamp) {
        self.clocks.set_wall(now, wall);
    }

    /// The counters after everything so far.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// A number that no job has or gets, for what the caller makes of one.
    pub fn take_number(&mut self) -> u64 {
        self.numbers.take_job()
    }

    /// Where the jobs stand.
    #[must_use]
    pub fn counts(&self) -> JobCounts {
        let (ready, reserved) = (self.queues.due(), self.table.reserved());
        JobCounts { scheduled: self.table.len() - ready - reserved, ready, reserved }
    }

    /// Where the jobs of a queue stand.
    #[must_use]
    pub fn counts_of(&self, queue: QueueKey) -> JobCounts {
        self.queues.get(queue).map(QueueEntry::counts).unwrap_or_default()
    }

    /// Since when the oldest ready job of a queue has waited, of those that are resident.
    ///
    /// `since` says it of each: it is told a job's id and `visible_at` on the engine clock, and
    /// answers no earlier time. Where the first are the oldest, few are looked at.
    #[must_use]
    pub fn ready_since(
        &self,
        queue: QueueKey,
        since: impl Fn(JobId, Timestamp) -> Timestamp,
    ) -> Option<Timestamp> {
        let queue = self.queues.get(queue)?;
        let entries = self.table.entries();
        let (mut open, mut oldest, mut seen) = (VecDeque::from_iter(queue.line().roots(entries)), None, 0);
        while let Some(job) = open.pop_front() {
            let entry = &entries[job];
            // None of its children became available earlier, on whichever clock.
            let earliest = self.clocks.earliest_on_engine(entry.visible_at);
            let may_be_older = seen < READY_SEEN_MAX && oldest.is_none_or(|oldest| earliest < oldest);
            if queue.order() == QueueOrder::Fifo && !may_be_older {
                continue;
            }
            let at = since(entry.id, self.clocks.on_engine(entry.clock_of_wait(), entry.visible_at));
            oldest = Some(oldest.map_or(at, |oldest: Timestamp| oldest.min(at)));
            seen += 1;
            open.extend(queue.line().children(entries, job));
        }
        oldest
    }

    /// How many jobs of a queue could be leased at once, if its rules allowed it.
    #[must_use]
    pub fn ready(&self, queue: QueueKey) -> usize {
        self.queues
            .get(queue)
            .filter(|queue| self.first(queue).is_some())
            .map_or(0, |queue| queue.line().ready())
    }

    /// The job of a queue that is leased next, as far as that is settled: see
    /// [`Jobs::is_first_unsettled`] and [`Jobs::has_lines_to_unblock_of`].
    #[must_use]
    pub fn peek(&self, queue: QueueKey) -> Option<JobHead> {
        self.first(self.queues.get(queue)?).map(|job| self.head(job))
    }

    /// Whether it is open which job of the queue goes first. Another has come due that may go
    /// before the first that is ready, or that one has expired. [`Jobs::advance`] has not got to
    /// it.
    #[must_use]
    pub fn is_first_unsettled(&self, queue: QueueKey, now: Timestamp) -> bool {
        let Some(queue) = self.queues.get(queue) else { return false };
        let first = queue.line().first(self.table.entries());
        if first.is_some_and(|first| self.table.expires_by(first, now)) {
            return true;
        }
        let time = self.clocks.at(now);
        let Some(timed_from) = queue.timed_from().filter(|from| *from <= now.max(time.wall)) else {
            return false;
        };
        match first {
            Some(first) if queue.order() == QueueOrder::Fifo => {
                let place = self.table[first].order();
                timed_from <= place.0 && self.timers.are_due_before(self.table.entries(), place, time)
            }
            _ => true,
        }
    }

    fn first(&self, queue: &QueueEntry) -> Option<Handle<JobEntry>> {
        queue.line().first(self.table.entries()).filter(|first| !self.is_blocked(*first))
    }

    /// Whether jobs, resident or not, wait for a time of the wall clock. It may come sooner than
    /// [`Jobs::next_wakeup`] says, where the clock is put forward.
    #[must_use]
    pub fn wait_on_wall(&self) -> bool {
        self.timers.wait_on_wall() || self.parked.horizon(JobClock::Wall).is_some()
    }

    /// When [`Jobs::advance`] has something to do, on the engine clock.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let due = self.timers.next(self.table.entries(), &self.clocks);
        due.into_iter().chain(self.parked.next(&self.clocks)).min()
    }

    /// A job, or a successor as the waiting job that it will be.
    #[must_use]
    pub fn get(&self, id: JobId) -> Option<JobHead> {
        match self.table.find(id)? {
            FoundJob::Job(job) => Some(self.head(job)),
            FoundJob::SuccessorOf(job) => self.head_of_successor(job),
        }
    }

    /// Whether this is a successor: it waits for the end of the job before it, whatever its own
    /// time is.
    #[must_use]
    pub fn is_successor(&self, id: JobId) -> bool {
        matches!(self.table.find(id), Some(FoundJob::SuccessorOf(_)))
    }

    /// The job that an alias means: the successor of the one that holds it, if there is one.
    #[must_use]
    pub fn by_alias(&self, queue: QueueKey, alias: AliasKey) -> Option<JobHead> {
        let job = self.table.by_alias(self.queues.find(queue)?, alias)?;
        self.head_of_successor(job).or_else(|| Some(self.head(job)))
    }

    /// The job that holds an alias, also where a successor waits for its end.
    #[must_use]
    pub fn holder_of(&self, queue: QueueKey, alias: AliasKey) -> Option<JobHead> {
        Some(self.head(self.table.by_alias(self.queues.find(queue)?, alias)?))
    }

    /// Takes a job out of the world, waiting or reserved, and answers what it was. A reserved one's
    /// reservation is stale from now on; a recurring one does not come again; a successor starts.
    pub fn cancel(&mut self, id: JobId, step: &mut JobsStep<'_>) -> Option<JobHead> {
        match self.table.find(id)? {
            FoundJob::Job(job) => {
                let head = self.head(job);
                self.retire(job, BodyDisposal::Deleted, step);
                Some(head)
            }
            FoundJob::SuccessorOf(job) => {
                let head = self.head_of_successor(job);
                self.set_successor(job, Succession::Nobody, step.batch);
                self.put(job, step.batch);
                head
            }
        }
    }

    /// Gives a waiting job another time, and a successor too. A job that waits for a retry keeps
    /// the `run_at` it was first due at. A recurring one counts on from the new time.
    ///
    /// # Errors
    /// When the job is reserved or not there.
    pub fn reschedule(
        &mut self,
        id: JobId,
        clock: JobClock,
        run_at: Timestamp,
        step: &mut JobsStep<'_>,
    ) -> Result<(), RescheduleError> {
        let on_engine = self.clocks.on_engine(clock, run_at);
        match self.table.find(id).ok_or(RescheduleError::Unknown)? {
            FoundJob::SuccessorOf(job) => {
                self.table.reschedule_successor(job, clock, run_at, on_engine);
                self.put(job, step.batch);
            }
            FoundJob::Job(job) if self.table[job].lease.is_some() => return Err(RescheduleError::Reserved),
            FoundJob::Job(job) => {
                self.update(job, step, |table| table.reschedule(job, clock, run_at, on_engine));
            }
        }
        Ok(())
    }

    /// A job in its stored form.
    fn head(&self, job: Handle<JobEntry>) -> JobHead {
        self.table.head(job, self.queue_key(job))
    }

    /// A job's successor as the job it will be.
    fn head_of_successor(&self, job: Handle<JobEntry>) -> Option<JobHead> {
        self.table.head_of_successor(job, self.queue_key(job))
    }

    fn queue_key(&self, job: Handle<JobEntry>) -> QueueKey {
        self.queues[self.table[job].queue].key()
    }
}

impl std::fmt::Debug for Jobs {
    /// Counts only: there may be millions of jobs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs")
            .field("process", &self.process)
            .field("numbers", &self.numbers)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::{PartitionId, Timestamp};
    use records::{AliasKey, Batch, GroupKey, JobId, JobTerms, LeaseHolder, Process, QueueKey};

    use crate::{ConflictPolicy, Jobs, JobsStep, NewJobHead, NoCalendar, Numbers};

    /// What tables and slabs may keep for the next jobs, in entries.
    const KEPT_MAX: usize = 1 << 13;

    #[test]
    fn queues_that_once_had_a_job_leave_nothing_behind() {
        let mut jobs = Jobs::new(Process(1), Numbers::default());
        let (mut batch, mut wakes, mut calendar) = (Batch::new(PartitionId(0)), Vec::new(), NoCalendar);
        let now = Timestamp(0);
        for n in 0..50_000_u64 {
            let expires_at = n.is_multiple_of(3).then_some(Timestamp(1));
            let group = n.is_multiple_of(2).then_some(GroupKey(n));
            let job = NewJobHead {
                id: JobId(u128::from(n).to_be_bytes()),
                queue: QueueKey(n),
                run_at: now,
                tries: 1,
                terms: JobTerms { expires_at, group, ..JobTerms::default() },
                alias: Some(AliasKey(u128::from(n))),
                on_conflict: ConflictPolicy::Reject,
            };
            jobs.publish(job, &mut JobsStep::new(now, &mut calendar, &mut batch, &mut wakes));
        }
        assert_eq!((jobs.queues.len(), wakes.len(), jobs.groups.len()), (50_000, 50_000, 25_000));
        for queue in wakes.split_off(0) {
            let mut step = JobsStep::new(now, &mut calendar, &mut batch, &mut wakes);
            let leased = jobs.lease(queue, LeaseHolder::Outside, Duration::from_secs(1), &mut step);
            let reservation = leased.expect("it was named").reservation;
            jobs.ack(reservation, &mut step).expect("it was just leased");
        }
        assert_eq!((jobs.queues.len(), jobs.table.len(), jobs.groups.len()), (0, 0, 0));
        assert_eq!(jobs.next_wakeup(), None);
        assert!(jobs.queues.indexed_max() <= KEPT_MAX);
        assert!(jobs.table.indexed_max() <= KEPT_MAX, "{}", jobs.table.indexed_max());
    }
}
