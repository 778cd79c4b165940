//! The jobs of a partition, and what can be done to one without a reservation.

use base::Timestamp;
use records::{AliasKey, Batch, JobHead, JobId, Op, Process, QueueKey};

use crate::entry::{Entry, Next, Place, head_of_successor};
use crate::schedule::Schedule;
use crate::slab::Handle;
use crate::table::{Found, Table};

/// The jobs of a partition.
pub struct Jobs {
    pub(crate) process: Process,
    pub(crate) numbers: Numbers,
    pub(crate) table: Table,
    pub(crate) schedule: Schedule,
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

/// Where the jobs stand; successors are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waiting for their time.
    pub scheduled: usize,
    /// Available.
    pub ready: usize,
    /// With a worker.
    pub reserved: usize,
}

/// Why a job could not be rescheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmoved {
    /// There is no such job.
    #[error("there is no such job")]
    Unknown,
    /// It is with a worker.
    #[error("the job is with a worker")]
    Reserved,
}

/// What one call is given and may add to.
pub(crate) struct Turn<'a> {
    pub(crate) now: Timestamp,
    pub(crate) batch: &'a mut Batch,
    /// `None` while loading: then all jobs go through the timer, and the first advance names their queues.
    pub(crate) wakes: Option<&'a mut Vec<QueueKey>>,
}

impl Jobs {
    /// No jobs yet; what is stored is taken in with [`Jobs::load`].
    #[must_use]
    pub fn new(process: Process, numbers: Numbers) -> Self {
        Self { process, numbers, table: Table::default(), schedule: Schedule::default() }
    }

    /// The counters after everything so far.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Where the jobs stand.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (ready, reserved) = (self.schedule.ready(), self.table.leases.len());
        Counts { scheduled: self.table.entries.len() - ready - reserved, ready, reserved }
    }

    /// How many jobs of a queue can be leased at once.
    #[must_use]
    pub fn ready(&self, queue: QueueKey) -> usize {
        self.schedule.ready_in(queue)
    }

    /// When [`Jobs::advance`] has something to do.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.schedule.next(&self.table.entries).map(|(_, at)| at)
    }

    /// A job, or a successor as the waiting job that it will be.
    #[must_use]
    pub fn get(&self, id: JobId) -> Option<JobHead> {
        match self.table.find(id)? {
            Found::Job(job) => Some(self.table.head(job)),
            Found::SuccessorOf(job) => self.table.head_of_successor(job),
        }
    }

    /// The job that an alias means: the successor of the one that holds it, if there is one.
    #[must_use]
    pub fn by_alias(&self, queue: QueueKey, alias: AliasKey) -> Option<JobHead> {
        let job = self.table.by_alias(queue, alias)?;
        self.table.head_of_successor(job).or_else(|| Some(self.table.head(job)))
    }

    /// Takes a job out of the world, waiting or reserved, and answers what it was. A reserved one's reservation is stale
    /// from now on; a successor starts.
    pub fn cancel(
        &mut self,
        now: Timestamp,
        id: JobId,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) -> Option<JobHead> {
        let mut turn = Turn { now, batch, wakes: Some(wakes) };
        match self.table.find(id)? {
            Found::Job(job) => {
                let head = self.table.head(job);
                self.retire(job, &mut turn);
                Some(head)
            }
            Found::SuccessorOf(job) => {
                let head = self.table.head_of_successor(job);
                self.name_next(job, Next::Nobody, turn.batch);
                self.put(job, turn.batch);
                head
            }
        }
    }

    /// Gives a waiting job another time, and a successor too. A job that waits for a retry keeps the `run_at` it was first
    /// due at.
    ///
    /// # Errors
    /// When the job is reserved or not there.
    pub fn reschedule(
        &mut self,
        now: Timestamp,
        id: JobId,
        run_at: Timestamp,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) -> Result<(), Unmoved> {
        let mut turn = Turn { now, batch, wakes: Some(wakes) };
        match self.table.find(id).ok_or(Unmoved::Unknown)? {
            Found::SuccessorOf(job) => {
                if let Some(successor) = self.table.successor_mut(job) {
                    successor.run_at = run_at;
                }
                self.put(job, turn.batch);
            }
            Found::Job(job) if self.table.entries[job].lease.is_some() => return Err(Unmoved::Reserved),
            Found::Job(job) => {
                self.schedule.remove(&mut self.table.entries, job);
                let entry = &mut self.table.entries[job];
                entry.visible_at = run_at;
                if entry.attempt == 0 {
                    entry.run_at = run_at;
                }
                self.settle(job, &mut turn);
            }
        }
        Ok(())
    }

    /// Takes a job in that is new in memory.
    pub(crate) fn admit(&mut self, head: &JobHead, turn: &mut Turn<'_>) {
        let job = self.table.insert(head);
        self.settle(job, turn);
    }

    /// Stores a job that has changed, and has it wait: as a ready one if its time has come.
    pub(crate) fn settle(&mut self, job: Handle<Entry>, turn: &mut Turn<'_>) {
        self.put(job, turn.batch);
        self.file(job, turn);
    }

    pub(crate) fn file(&mut self, job: Handle<Entry>, turn: &mut Turn<'_>) {
        let entries = &mut self.table.entries;
        debug_assert_eq!(entries[job].place, Place::Nowhere, "a job is in one heap at a time");
        let is_due = entries[job].visible_at <= turn.now && entries[job].lease.is_none();
        match &mut turn.wakes {
            Some(wakes) if is_due => {
                if self.schedule.make_ready(entries, job) {
                    wakes.push(entries[job].queue);
                }
            }
            _ => self.schedule.time(entries, job),
        }
    }

    /// Ends a job for good and starts its successor, whose id it answers.
    pub(crate) fn retire(&mut self, job: Handle<Entry>, turn: &mut Turn<'_>) -> Option<JobId> {
        self.schedule.remove(&mut self.table.entries, job);
        let removed = self.table.remove(job);
        turn.batch.ops.push(Op::DeleteJob(removed.entry.id));
        let claim = removed.claim?;
        let successor = claim.next.successor()?;
        let visible_at = successor.run_at.max(turn.now);
        let head = head_of_successor(successor, removed.entry.queue, claim.alias, visible_at);
        self.admit(&head, turn);
        Some(successor.id)
    }

    /// Sets who takes over a job. A successor that gives way is deleted, and its id answered.
    pub(crate) fn name_next(&mut self, job: Handle<Entry>, next: Next, batch: &mut Batch) -> Option<JobId> {
        let gone = self.table.set_next(job, next).successor().map(|successor| successor.id);
        batch.ops.extend(gone.map(Op::DeleteJob));
        gone
    }

    pub(crate) fn put(&self, job: Handle<Entry>, batch: &mut Batch) {
        batch.ops.push(Op::PutJob(Box::new(self.table.head(job))));
    }
}

impl std::fmt::Debug for Jobs {
    /// Figures only: there may be millions of jobs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs")
            .field("process", &self.process)
            .field("numbers", &self.numbers)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
