//! What must happen later or again: due times, leases, attempts, aliases.
//!
//! A job is available when its `visible_at` has come; delay, retry and lease are all a `visible_at`. Knows no clock, no
//! socket and no encoding: time is an argument, and what changes goes into the batch. What a job carries is the caller's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use base::Timestamp;
use records::{AliasKey, Batch, Holder, JobHead, JobId, JobState, Op, Process, QueueKey, Reservation, Successor};

/// Counters that the partition's head keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The publish number that the next job gets.
    pub next_job: u64,
    /// The number that the next lease gets.
    pub next_lease: u64,
}

/// A job to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Its id; never used before.
    pub id: JobId,
    /// The queue it waits in.
    pub queue: QueueKey,
    /// When it is due.
    pub run_at: Timestamp,
    /// Attempts it may have.
    pub tries: u32,
    /// The caller's own id.
    pub alias: Option<AliasKey>,
    /// What to do if the alias is held.
    pub on_conflict: OnConflict,
}

/// What to do if the alias is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Refuse.
    Reject,
    /// The one that is there stays; behind a reserved one a successor is stored, once.
    Keep,
    /// The newer one takes the place of the waiting one, or of the reserved one's successor.
    Replace,
}

/// What publishing did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// A new job.
    New,
    /// The job that was there stays.
    Kept(JobId),
    /// The waiting job has a new time and starts its attempts anew, under its id.
    Replaced(JobId),
    /// It starts when the reserved job ends; the successor it took the place of.
    Succeeds {
        /// The successor that was there.
        replaced: Option<JobId>,
    },
    /// The alias is held.
    Conflict(JobId),
}

/// A job leased to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    /// What to show for it.
    pub reservation: Reservation,
    /// Counts attempts from 1.
    pub attempt: u32,
    /// Attempts it may have.
    pub tries: u32,
}

/// What becomes of a job whose attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    delay: Duration,
    counts: bool,
}

impl Retry {
    /// The attempt counts; the next one no earlier than `delay` from now.
    #[must_use]
    pub fn counted(delay: Duration) -> Self {
        Self { delay, counts: true }
    }

    /// The attempt does not count.
    #[must_use]
    pub fn uncounted(delay: Duration) -> Self {
        Self { delay, counts: false }
    }
}

/// What became of a job whose attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It waits.
    Waiting {
        /// Until then.
        until: Timestamp,
    },
    /// It is out of attempts.
    Dead,
    /// Its successor took its place.
    Superseded {
        /// The successor.
        successor: JobId,
    },
}

/// What an acknowledged job leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// The successor that starts now.
    pub successor: Option<JobId>,
}

/// A reservation that means nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale;

/// A lease that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapsed {
    /// The job.
    pub job: JobId,
    /// Its queue.
    pub queue: QueueKey,
    /// Its alias.
    pub alias: Option<AliasKey>,
    /// What became of it.
    pub released: Released,
}

/// What loading a job did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// It is as it was.
    Kept,
    /// It was with a worker of another process: the attempt was cut off, and counts, but is never the last.
    Interrupted {
        /// The attempt.
        attempt: u32,
        /// What became of the job.
        released: Released,
    },
}

/// Whether everything that is due was done.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing more is due.
    Done,
    /// The limit was reached first.
    More,
}

/// The jobs of a partition.
#[derive(Debug)]
pub struct Jobs {
    process: Process,
    numbers: Numbers,
    heads: HashMap<JobId, JobHead>,
    aliases: HashMap<(QueueKey, AliasKey), JobId>,
    ready: HashMap<QueueKey, BTreeMap<(Timestamp, u64), JobId>>,
    timers: BTreeSet<(Timestamp, u64, JobId)>,
}

impl Jobs {
    /// No jobs yet.
    #[must_use]
    pub fn new(process: Process, numbers: Numbers) -> Self {
        Self {
            process,
            numbers,
            heads: HashMap::new(),
            aliases: HashMap::new(),
            ready: HashMap::new(),
            timers: BTreeSet::new(),
        }
    }

    /// The counters.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// A job.
    #[must_use]
    pub fn get(&self, id: JobId) -> Option<&JobHead> {
        self.heads.get(&id)
    }

    /// The waiting or reserved job that holds an alias.
    #[must_use]
    pub fn by_alias(&self, queue: QueueKey, alias: AliasKey) -> Option<&JobHead> {
        self.heads.get(self.aliases.get(&(queue, alias))?)
    }

    /// The job that a reservation holds, if it still does.
    #[must_use]
    pub fn held(&self, reservation: Reservation) -> Option<&JobHead> {
        self.heads.get(&reservation.job).filter(
            |head| matches!(head.state, JobState::Reserved { lease, .. } if lease == reservation.lease),
        )
    }

    /// Takes in a job from the store.
    pub fn load(&mut self, now: Timestamp, head: JobHead, batch: &mut Batch, wakes: &mut Vec<QueueKey>) -> Loaded {
        let cut = matches!(head.state, JobState::Reserved { holder: Holder::Own(process), .. } if process != self.process);
        let (id, attempt) = (head.id, head.attempt);
        if let Some(alias) = head.alias {
            self.aliases.insert((head.queue, alias), id);
        }
        self.timers.insert((head.visible_at, head.number, id));
        self.heads.insert(id, head);
        if !cut {
            return Loaded::Kept;
        }
        let retry = Retry { delay: Duration::ZERO, counts: true };
        let released = self.end_failed(now, id, retry, true, batch, wakes);
        Loaded::Interrupted { attempt, released }
    }

    /// Publishes a job.
    pub fn publish(&mut self, now: Timestamp, job: NewJob, batch: &mut Batch, wakes: &mut Vec<QueueKey>) -> Published {
        let number = self.numbers.next_job;
        self.numbers.next_job += 1;
        let held = job.alias.and_then(|alias| self.aliases.get(&(job.queue, alias))).copied();
        let Some(id) = held else {
            self.start(now, &job, number, batch, wakes);
            return Published::New;
        };
        let reserved = self.heads.get(&id).is_some_and(|head| matches!(head.state, JobState::Reserved { .. }));
        match (job.on_conflict, reserved) {
            (OnConflict::Reject, _) => Published::Conflict(id),
            (OnConflict::Keep, false) => Published::Kept(id),
            (OnConflict::Replace, false) => {
                self.untime(id);
                if let Some(head) = self.heads.get_mut(&id) {
                    head.number = number;
                    head.run_at = job.run_at;
                    head.visible_at = job.run_at;
                    head.attempt = 0;
                    head.tries = job.tries;
                }
                self.wait(now, id, batch, wakes);
                Published::Replaced(id)
            }
            (on_conflict, true) => {
                let Some(head) = self.heads.get_mut(&id) else { return Published::Conflict(id) };
                if let (OnConflict::Keep, Some(successor)) = (on_conflict, head.successor) {
                    return Published::Kept(successor.id);
                }
                let successor = Successor { id: job.id, number, run_at: job.run_at, tries: job.tries };
                let replaced = head.successor.replace(successor).map(|successor| successor.id);
                batch.ops.push(Op::PutJob(Box::new(head.clone())));
                Published::Succeeds { replaced }
            }
        }
    }

    fn start(&mut self, now: Timestamp, job: &NewJob, number: u64, batch: &mut Batch, wakes: &mut Vec<QueueKey>) {
        let head = JobHead {
            id: job.id,
            queue: job.queue,
            number,
            run_at: job.run_at,
            visible_at: job.run_at,
            attempt: 0,
            tries: job.tries,
            state: JobState::Waiting,
            alias: job.alias,
            successor: None,
        };
        if let Some(alias) = job.alias {
            self.aliases.insert((job.queue, alias), job.id);
        }
        self.heads.insert(job.id, head);
        self.wait(now, job.id, batch, wakes);
    }

    /// A waiting job goes to the ready ones or to the timers, and is written.
    fn wait(&mut self, now: Timestamp, id: JobId, batch: &mut Batch, wakes: &mut Vec<QueueKey>) {
        let Some(head) = self.heads.get_mut(&id) else { return };
        head.state = JobState::Waiting;
        batch.ops.push(Op::PutJob(Box::new(head.clone())));
        if head.visible_at <= now {
            self.ready.entry(head.queue).or_default().insert((head.run_at, head.number), id);
            wakes.push(head.queue);
        } else {
            self.timers.insert((head.visible_at, head.number, id));
        }
    }

    /// Takes a job out of the ready ones and the timers.
    fn untime(&mut self, id: JobId) {
        let Some(head) = self.heads.get(&id) else { return };
        self.timers.remove(&(head.visible_at, head.number, id));
        if let Some(ready) = self.ready.get_mut(&head.queue) {
            ready.remove(&(head.run_at, head.number));
            if ready.is_empty() {
                self.ready.remove(&head.queue);
            }
        }
    }

    /// Leases the first available job of a queue.
    pub fn lease(
        &mut self,
        now: Timestamp,
        queue: QueueKey,
        holder: Holder,
        ttr: Duration,
        batch: &mut Batch,
    ) -> Option<Leased> {
        let id = *self.ready.get(&queue)?.first_key_value()?.1;
        self.untime(id);
        let lease = self.numbers.next_lease;
        self.numbers.next_lease += 1;
        let head = self.heads.get_mut(&id)?;
        head.attempt += 1;
        head.visible_at = now.after(ttr);
        head.state = JobState::Reserved { lease, holder };
        self.timers.insert((head.visible_at, head.number, id));
        batch.ops.push(Op::PutJob(Box::new(head.clone())));
        let reservation = Reservation { job: id, lease };
        Some(Leased { reservation, attempt: head.attempt, tries: head.tries })
    }

    /// The job is done.
    ///
    /// # Errors
    /// When the reservation is stale.
    pub fn ack(
        &mut self,
        now: Timestamp,
        reservation: Reservation,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) -> Result<Acked, Stale> {
        let id = self.held(reservation).ok_or(Stale)?.id;
        let successor = self.end(now, id, batch, wakes);
        Ok(Acked { successor })
    }

    /// The attempt failed.
    ///
    /// # Errors
    /// When the reservation is stale.
    pub fn release(
        &mut self,
        now: Timestamp,
        reservation: Reservation,
        retry: Retry,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) -> Result<Released, Stale> {
        let id = self.held(reservation).ok_or(Stale)?.id;
        Ok(self.end_failed(now, id, retry, false, batch, wakes))
    }

    fn end_failed(
        &mut self,
        now: Timestamp,
        id: JobId,
        retry: Retry,
        never_last: bool,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) -> Released {
        let Some(head) = self.heads.get(&id) else { return Released::Dead };
        if head.successor.is_some() {
            return match self.end(now, id, batch, wakes) {
                Some(successor) => Released::Superseded { successor },
                None => Released::Dead,
            };
        }
        if retry.counts && !never_last && head.attempt >= head.tries {
            self.end(now, id, batch, wakes);
            return Released::Dead;
        }
        self.untime(id);
        let until = now.after(retry.delay);
        if let Some(head) = self.heads.get_mut(&id) {
            head.attempt -= u32::from(!retry.counts);
            head.visible_at = until;
        }
        self.wait(now, id, batch, wakes);
        Released::Waiting { until }
    }

    /// The job is gone; its successor starts.
    fn end(&mut self, now: Timestamp, id: JobId, batch: &mut Batch, wakes: &mut Vec<QueueKey>) -> Option<JobId> {
        self.untime(id);
        let head = self.heads.remove(&id)?;
        if let Some(alias) = head.alias {
            self.aliases.remove(&(head.queue, alias));
        }
        batch.ops.push(Op::DeleteJob(id));
        let successor = head.successor?;
        let job = NewJob {
            id: successor.id,
            queue: head.queue,
            run_at: successor.run_at.max(now),
            tries: successor.tries,
            alias: head.alias,
            on_conflict: OnConflict::Reject,
        };
        self.start(now, &job, successor.number, batch, wakes);
        Some(successor.id)
    }

    /// Takes a job away, waiting or reserved; its successor starts.
    pub fn cancel(
        &mut self,
        now: Timestamp,
        id: JobId,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) -> Option<JobId> {
        self.end(now, id, batch, wakes)
    }

    /// Gives a waiting job another time.
    ///
    /// # Errors
    /// When it is not waiting.
    pub fn reschedule(
        &mut self,
        now: Timestamp,
        id: JobId,
        run_at: Timestamp,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
    ) -> Result<(), Stale> {
        self.heads.get(&id).filter(|head| head.state == JobState::Waiting).ok_or(Stale)?;
        self.untime(id);
        if let Some(head) = self.heads.get_mut(&id) {
            head.visible_at = run_at;
        }
        self.wait(now, id, batch, wakes);
        Ok(())
    }

    /// What the passing of time brings.
    pub fn advance(
        &mut self,
        now: Timestamp,
        limit: usize,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
        lapsed: &mut Vec<Lapsed>,
    ) -> Progress {
        for _ in 0..limit {
            let Some((_, _, id)) = self.timers.pop_first_if_due(now) else { return Progress::Done };
            let Some(head) = self.heads.get(&id) else { continue };
            let (queue, alias) = (head.queue, head.alias);
            if head.state == JobState::Waiting {
                self.ready.entry(queue).or_default().insert((head.run_at, head.number), id);
                wakes.push(queue);
            } else {
                let retry = Retry { delay: Duration::ZERO, counts: true };
                let released = self.end_failed(now, id, retry, false, batch, wakes);
                lapsed.push(Lapsed { job: id, queue, alias, released });
            }
        }
        Progress::More
    }

    /// When a job comes due, or a lease runs out, next.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _, _)| *at)
    }
}

trait PopDue {
    fn pop_first_if_due(&mut self, now: Timestamp) -> Option<(Timestamp, u64, JobId)>;
}

impl PopDue for BTreeSet<(Timestamp, u64, JobId)> {
    fn pop_first_if_due(&mut self, now: Timestamp) -> Option<(Timestamp, u64, JobId)> {
        if self.first()?.0 > now {
            return None;
        }
        self.pop_first()
    }
}
