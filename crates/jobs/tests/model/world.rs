//! Runs operations against engine and model and compares all there is.

use std::collections::{BTreeMap, BTreeSet};

use base::{PartitionId, Timestamp};
use jobs::{Jobs, NewJob, NoCalendar, Numbers, Passed, Published, Retry};
use records::{
    AliasKey, Batch, Holder, JobClock, JobHead, JobId, JobState, Op, Process, QueueKey, Reservation, Starts,
    Terms,
};

use crate::naive::{Job, Naive, Next};
use crate::operation::Operation;

pub(crate) struct World {
    engine: Jobs,
    model: Naive,
    now: Timestamp,
    process: Process,
    /// Every id and reservation that was ever given out.
    ids: Vec<JobId>,
    reservations: Vec<Reservation>,
    /// What the store holds, from the batches.
    heads: BTreeMap<JobId, JobHead>,
    bodies: BTreeSet<JobId>,
    /// Queues named in the last operation.
    wakes: Vec<QueueKey>,
    /// Queues whose consumers were given nothing, and have not been told of anything since.
    drained: BTreeSet<QueueKey>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            engine: Jobs::new(Process(1), Numbers::default()),
            model: Naive::default(),
            now: Timestamp(1_000),
            process: Process(1),
            ids: vec![JobId([0xff; 16])],
            reservations: vec![Reservation { job: JobId([0xff; 16]), lease: 0 }],
            heads: BTreeMap::new(),
            bodies: BTreeSet::new(),
            wakes: Vec::new(),
            drained: BTreeSet::new(),
        }
    }
}

impl World {
    pub(crate) fn run(mut self, steps: &[Operation]) {
        for step in steps {
            self.wakes.clear();
            self.model.wakes.clear();
            let mut batch = Batch::new(PartitionId(0));
            self.apply(step, &mut batch);
            self.store(batch);
            self.check_jobs();
            self.check_wakes();
        }
    }

    fn apply(&mut self, step: &Operation, batch: &mut Batch) {
        let now = self.now;
        match *step {
            Operation::Publish { .. } => self.publish(step, batch),
            Operation::Lease { queue, own, ttr } => {
                let queue = QueueKey(queue);
                let holder = if own { Holder::Own(self.process) } else { Holder::Outside };
                let leased = self.engine.lease(now, queue, holder, ttr, batch);
                assert_eq!(leased, self.model.lease(now, queue, holder, ttr));
                match leased {
                    Some(leased) => self.reservations.push(leased.reservation),
                    None => drop(self.drained.insert(queue)),
                }
            }
            Operation::Ack { picked } => {
                let held = self.picked_reservation(picked);
                let acked = self.engine.ack(now, held, &mut NoCalendar, batch, &mut self.wakes);
                assert_eq!(acked, self.model.ack(now, held));
            }
            Operation::Release { picked, delay, charge } => {
                let (held, retry) = (self.picked_reservation(picked), Retry { delay, charge });
                let released = self.engine.release(now, held, retry, &mut NoCalendar, batch, &mut self.wakes);
                assert_eq!(released, self.model.release(now, held, retry));
            }
            Operation::Extend { picked, ttr } => {
                let held = self.picked_reservation(picked);
                assert_eq!(self.engine.extend(now, held, ttr, batch), self.model.extend(now, held, ttr));
            }
            Operation::Cancel { picked } => {
                let id = self.picked_id(picked);
                let before = self.engine.get(id);
                let cancelled = self.engine.cancel(now, id, batch, &mut self.wakes);
                assert_eq!((cancelled.is_some(), &cancelled), (self.model.cancel(now, id), &before));
            }
            Operation::Reschedule { picked, run_in_ms } => {
                let (id, run_at) = (self.picked_id(picked), Timestamp(now.0 + run_in_ms));
                let moved = self.engine.reschedule(now, id, JobClock::Engine, run_at, batch, &mut self.wakes);
                assert_eq!(moved, self.model.reschedule(now, id, run_at));
            }
            Operation::Pass { ms } => self.now = Timestamp(now.0 + ms),
            Operation::Advance { limit } => {
                let mut lapsed = Vec::new();
                let progress =
                    self.engine.advance(now, limit, &mut NoCalendar, batch, &mut self.wakes, &mut lapsed);
                let lapsed = lapsed.into_iter().map(|passed| match passed {
                    Passed::Lapsed(lapsed) => lapsed,
                    Passed::Expired(expired) => panic!("{expired:?}"),
                });
                assert_eq!((lapsed.collect(), progress), self.model.advance(now, limit));
            }
            Operation::Restart { same_process } => self.restart(same_process, batch),
        }
    }

    fn publish(&mut self, step: &Operation, batch: &mut Batch) {
        let Operation::Publish { queue, run_in_ms, tries, alias, on_conflict } = *step else { return };
        let new = NewJob {
            id: self.fresh_id(),
            queue: QueueKey(queue),
            run_at: Timestamp(self.now.0 + run_in_ms),
            tries,
            terms: Terms::default(),
            alias: alias.map(AliasKey),
            on_conflict,
        };
        let published = self.engine.publish(self.now, new, batch, &mut self.wakes);
        assert_eq!(published, self.model.publish(self.now, &new));
        self.ids.push(new.id);
        match published {
            Published::New | Published::Succeeds { .. } => drop(self.bodies.insert(new.id)),
            Published::Replaced { job, .. } => assert!(self.bodies.contains(&job)),
            Published::Kept(id) | Published::Conflict(id) => assert!(self.bodies.contains(&id)),
        }
    }

    fn restart(&mut self, same_process: bool, batch: &mut Batch) {
        if !same_process {
            self.process = Process(self.process.0 + 1);
        }
        self.engine = Jobs::new(self.process, self.engine.numbers());
        let heads = self.heads.values();
        let loaded: Vec<_> = heads.map(|head| self.engine.load(self.now, head, batch)).collect();
        assert_eq!(loaded, self.model.restart(self.now, self.process));
        // Consumers begin anew: the first thing they get is a wake-up.
        self.drained.extend((0..3).map(QueueKey));
    }

    fn store(&mut self, batch: Batch) {
        for op in batch.ops {
            match op {
                Op::PutJob(head) => drop(self.heads.insert(head.id, *head)),
                Op::DeleteJob(id) => {
                    self.heads.remove(&id);
                    assert!(self.bodies.remove(&id), "what is deleted was stored");
                }
                other => panic!("jobs change nothing but jobs: {other:?}"),
            }
        }
    }

    /// Memory, store and model hold the same jobs.
    fn check_jobs(&self) {
        let mut model: Vec<_> =
            self.model.jobs.iter().map(|job| Job { ready: false, ..job.clone() }).collect();
        model.sort_by_key(|job| job.id);
        let stored: Vec<_> = self.heads.values().map(from_head).collect();
        assert_eq!(stored, model, "the store holds what the model holds");
        for id in &self.ids {
            let head = self.engine.get(*id);
            let successor = model.iter().find(|job| job.next.as_ref().is_some_and(|next| next.id == *id));
            match successor {
                Some(job) => assert_eq!(head.as_ref().map(from_head), as_waiting(job)),
                None => assert_eq!(head.as_ref(), self.heads.get(id), "memory holds what the store holds"),
            }
        }
        for job in model.iter().filter(|job| job.alias.is_some()) {
            let meant = job.alias.and_then(|alias| self.engine.by_alias(job.queue, alias));
            let expect = as_waiting(job).unwrap_or_else(|| job.clone());
            assert_eq!(meant.as_ref().map(from_head), Some(expect), "an alias has one meaning");
        }
        let successors = model.iter().filter_map(|job| job.next.as_ref()).map(|next| next.id);
        let ids: BTreeSet<_> = model.iter().map(|job| job.id).chain(successors).collect();
        assert_eq!(self.bodies, ids, "bodies live as long as their jobs");
    }

    fn check_wakes(&mut self) {
        assert_eq!(self.wakes, self.model.wakes);
        assert_eq!(self.engine.next_wakeup(), self.model.next_wakeup());
        let numbers = Numbers { next_job: self.model.published, next_lease: self.model.leased };
        assert_eq!(self.engine.numbers(), numbers);
        for queue in &self.wakes {
            self.drained.remove(queue);
        }
        for queue in (0..3).map(QueueKey) {
            let ready = self.engine.ready(queue);
            assert_eq!(ready, self.model.ready(queue));
            assert!(ready == 0 || !self.drained.contains(&queue), "a drained consumer is told");
        }
    }

    fn fresh_id(&self) -> JobId {
        JobId((self.ids.len() as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes())
    }

    /// Mostly one of the latest, sometimes any.
    fn picked_id(&self, picked: usize) -> JobId {
        self.ids[place_of(picked, self.ids.len())]
    }

    fn picked_reservation(&self, picked: usize) -> Reservation {
        self.reservations[place_of(picked, self.reservations.len())]
    }
}

fn place_of(picked: usize, len: usize) -> usize {
    let within = if picked.is_multiple_of(4) { len } else { len.min(6) };
    len - 1 - picked / 4 % within
}

fn from_head(head: &JobHead) -> Job {
    Job {
        id: head.id,
        queue: head.queue,
        number: head.number,
        run_at: head.run_at,
        visible_at: head.visible_at,
        attempt: head.attempt,
        tries: head.tries,
        lease: match head.state {
            JobState::Waiting => None,
            JobState::Reserved { lease, holder } => Some((lease, holder)),
        },
        alias: head.alias,
        next: head.successor.map(|next| Next {
            id: next.id,
            number: next.number,
            run_at: next.run_at,
            tries: next.tries,
            waits_for_retries: next.starts == Starts::AfterJob,
        }),
        ready: false,
    }
}

/// A job's successor as the job it will be.
fn as_waiting(job: &Job) -> Option<Job> {
    let next = job.next.as_ref()?;
    Some(Job {
        id: next.id,
        queue: job.queue,
        number: next.number,
        run_at: next.run_at,
        visible_at: next.run_at,
        attempt: 0,
        tries: next.tries,
        lease: None,
        alias: job.alias,
        next: None,
        ready: false,
    })
}
