//! The naive model of a partition of queues: the inputs of each step, one after the other, by the
//! words of the contract.
//!
//! It shares ids and the types of inputs with production, never its code. A queue is a list that is
//! searched from end to end, and nothing is kept that could be found by looking. The model follows
//! every step as it is made, and goes back with the store when batches are lost. So it never has to
//! guess what became of an input.

mod advancing;
mod calls;
mod consuming;
mod controls;
pub(crate) mod dead;
mod ending;
pub(crate) mod evidence;
pub(crate) mod expected;
pub(crate) mod job;
pub(crate) mod locks;
mod publishing;
pub(crate) mod queue;

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use engine::queues::{PublishedJob, QueueName};
use records::{AnswerKey, Process, WorkerControl};

use crate::harness::calls::CallId;
use crate::harness::violation::{Checked, Invariant};
use crate::queues::counts::Counts;
use crate::queues::meant::Meant;
use evidence::{Evidence, StepPhase};
use expected::Expected;
use locks::ModelLocks;
use queue::Queue;

/// For how long the answer to a request with a key is kept, in milliseconds.
const ANSWERS_KEPT_MS: i64 = 24 * 3_600_000;

/// When a step is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    pub(crate) wall: Timestamp,
}

/// A step.
pub(crate) struct Step<'a> {
    pub(crate) moment: Moment,
    pub(crate) inputs: &'a [Meant],
    /// Consumers that have hung up.
    pub(crate) gone: &'a BTreeSet<CallId>,
    /// It did not get to the end of what was due.
    pub(crate) more: bool,
    /// It is the last before a clean stop.
    pub(crate) closing: bool,
}

/// The answer to a request with a key.
#[derive(Clone, Debug)]
pub(crate) struct ModelAnswer {
    pub(crate) at: Timestamp,
    pub(crate) body: u128,
    pub(crate) jobs: Vec<PublishedJob>,
}

/// What a step answers, by call.
pub(crate) type Answers = Vec<(CallId, Expected)>;

/// A partition.
#[derive(Clone, Default)]
pub(crate) struct Partition {
    /// The time of the latest step.
    pub(crate) now: Timestamp,
    pub(crate) wall: Timestamp,
    pub(crate) queues: BTreeMap<QueueName, Queue>,
    pub(crate) kept: BTreeMap<AnswerKey, ModelAnswer>,
    pub(crate) locks: ModelLocks,
    /// What the workers of queues are told.
    pub(crate) controls: BTreeMap<QueueName, WorkerControl>,
    pub(crate) counts: Counts,
    /// Memory is small: most jobs are parked.
    pub(crate) is_parking: bool,
    /// Jobs that have expired in this step: a parked one may be read at its end only, and be
    /// counted until then.
    expired_in_step: u64,
    /// The step did not get to the end of what was due.
    stops_early: bool,
    /// Counts publishing, and whatever else gives a job a new place.
    number: u64,
    /// The number of the latest lease.
    last_lease: Option<u64>,
}

impl Partition {
    pub(crate) fn new(is_parking: bool) -> Self {
        Self { is_parking, ..Self::default() }
    }

    /// What the passing of time brings, the inputs in order, what they leave to do at this moment,
    /// and then those that wait. Those that the step before had no room for come before the inputs.
    pub(crate) fn step(&mut self, step: &Step<'_>, evidence: &mut Evidence) -> Checked<Answers> {
        self.now = step.moment.now.max(self.now);
        self.wall = step.moment.wall;
        evidence.only_leases_after(self.last_lease);
        let mut answers = Answers::new();
        self.expired_in_step = 0;
        self.stops_early = step.more;
        self.advance(evidence)?;
        self.drop_old_dead(evidence)?;
        self.advance_locks(&mut answers);
        if evidence.has_leases_before_inputs() {
            self.serve(step, evidence, &mut answers)?;
        }
        evidence.comes_to(StepPhase::Inputs);
        for input in step.inputs {
            match input {
                Meant::Lock(meant) => self.apply_to_lock(meant, step, &mut answers),
                other => answers.extend(self.apply(other, evidence)?),
            }
        }
        if !step.more {
            self.counts.steps_to_the_end += 1;
        }
        self.advance(evidence)?;
        self.drop_old_dead(evidence)?;
        evidence.comes_to(StepPhase::Behind);
        self.serve(step, evidence, &mut answers)?;
        self.send_home(step, &mut answers);
        self.advance_locks(&mut answers);
        if step.closing {
            self.locks_loaded();
        }
        self.last_lease = evidence.last_lease().max(self.last_lease);
        self.nothing_is_left(evidence)?;
        Ok(answers)
    }

    /// The step did nothing that there is no reason for.
    fn nothing_is_left(&self, evidence: &Evidence) -> Checked {
        if let Some(id) = evidence.open_leases().next() {
            let found =
                self.queues.values().find_map(|queue| Some((queue, &queue.jobs[queue.place_of(id)?])));
            let (invariant, job) = match found {
                None => (Invariant::DONE_STAYS_DONE, None),
                Some((queue, job)) => (queue.why_not(job, (self.now, self.wall)), Some(job)),
            };
            let first = found.and_then(|(queue, _)| queue.first().map(|place| &queue.jobs[place]));
            let detail = format!("{id:?} was leased, and nobody may have it: {job:?}, {first:?} is first");
            return Err(invariant.broken(detail));
        }
        evidence.no_death_is_left()
    }

    /// The partition was loaded: nobody waits any more, and what was due comes due again.
    pub(crate) fn loaded(&mut self, now: Timestamp, wall: Timestamp, process: Process) {
        self.now = now.max(self.now);
        self.wall = wall;
        self.locks_loaded();
        self.counts.locks_kept += self.locks.values().filter(|lock| lock.until > self.now).count() as u64;
        self.counts.controls_kept += self.controls.len() as u64;
        let names: Vec<QueueName> = self.queues.keys().cloned().collect();
        let is_parking = self.is_parking;
        for name in names {
            let queue = self.queue(&name);
            queue.line.clear();
            queue.is_watched = false;
            queue.fill_bucket(now);
            for job in &mut queue.jobs {
                job.not_due_yet(is_parking);
            }
            self.cut_off(&name, process);
        }
    }

    fn apply(&mut self, input: &Meant, evidence: &mut Evidence) -> Checked<Option<(CallId, Expected)>> {
        Ok(match input {
            Meant::Publish { call, queue, jobs, idempotency } => {
                Some((*call, Expected::Published(self.publish(queue, jobs, *idempotency, evidence)?)))
            }
            Meant::Consume { call, queue, asked } => {
                self.consume(*call, queue, asked, evidence)?.map(|leases| (*call, Expected::Leased(leases)))
            }
            Meant::Watch { queue } => {
                self.queue(queue).is_watched = true;
                None
            }
            Meant::PassOn => None,
            Meant::Ack { call, queue, leases } => {
                Some((*call, Expected::Acked(self.ack(queue, leases, evidence)?)))
            }
            Meant::Extend { call, queue, lease, ttr } => {
                Some((*call, Expected::Extended(self.extend(queue, *lease, *ttr))))
            }
            Meant::Release { call, queue, lease, delay, error } => {
                let released = self.release(queue, *lease, *delay, error.as_deref(), evidence)?;
                Some((*call, Expected::Done(released)))
            }
            Meant::GiveBack { leases } => {
                self.give_back(leases, evidence)?;
                None
            }
            other => self.manage(other, evidence)?,
        })
    }

    fn manage(&mut self, input: &Meant, evidence: &mut Evidence) -> Checked<Option<(CallId, Expected)>> {
        let (call, expected) = match input {
            Meant::Look { call, queue, job: Some(job) } => (call, Expected::Seen(self.look(queue, job))),
            Meant::Look { call, queue, job: None } => (call, Expected::Peeked(self.peek(queue))),
            Meant::Change { call, queue, job, payload, due } => {
                (call, Expected::Seen(self.change(queue, job, payload.as_ref(), *due)))
            }
            Meant::Cancel { call, queue, job } => (call, Expected::Done(self.cancel(queue, job))),
            Meant::QueueStats { call, queue } => (call, self.stats_of(std::slice::from_ref(queue))),
            Meant::List { call, namespace } => (call, self.stats_of(&self.list(namespace.as_deref()))),
            Meant::Set { call, queue, settings } => {
                let now = self.now;
                self.queue(queue).set(*settings, now);
                self.drop_surplus(queue, evidence);
                (call, Expected::Done(Ok(())))
            }
            Meant::Pause { call, queue, paused } => {
                self.queue(queue).paused = *paused;
                (call, Expected::Done(Ok(())))
            }
            Meant::Delete { call, queue } => {
                self.delete(queue);
                (call, Expected::Done(Ok(())))
            }
            Meant::Control { call, queue, control } => {
                self.control(queue, control.as_ref());
                (call, Expected::Done(Ok(())))
            }
            Meant::Dead { call, queue } => (call, Expected::Dead(self.queue(queue).shown_dead())),
            Meant::Respawn { call, queue, which, ttl } => {
                (call, Expected::Count(self.respawn(queue, which, *ttl, evidence)))
            }
            Meant::DeleteDead { call, queue, which } => {
                (call, Expected::Count(Ok(self.delete_dead(queue, which, evidence))))
            }
            other => {
                let detail = format!("the model does not know what to do with {other:?}");
                return Err(Invariant::AS_THE_MODEL.broken(detail));
            }
        };
        Ok(Some((*call, expected)))
    }

    /// Jobs that may be resident and not reserved, where so many should be. They may be twice as
    /// many, for queues that are swept and for those that are about to leave. Jobs that cannot
    /// leave come on top; more of them may come before that is noticed.
    pub(crate) fn resident_most(&self, resident_max: usize) -> usize {
        let soon = Timestamp(self.now.0 + 1_000);
        let stays = |job: &&job::Job| {
            let leaves_order = job.group.is_some() && (job.is_started() || job.visible_at != job.run_at);
            let is_kept = job.next.is_some() || leaves_order;
            is_kept || job.expires_at.is_some_and(|at| at <= soon.max(job.visible_at))
        };
        let jobs = self.queues.values().flat_map(|queue| &queue.jobs);
        let staying = jobs.filter(|job| !job.is_reserved()).filter(stays).count();
        2 * resident_max + 3 * self.queues.len() + staying + staying / 4
    }

    /// A queue: there whenever somebody names it.
    pub(crate) fn queue(&mut self, name: &QueueName) -> &mut Queue {
        self.queues.entry(name.clone()).or_default()
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// A moment of the wall clock on the engine clock, by the difference that they have now; and
    /// the other way round.
    fn on_engine(&self, wall: Timestamp) -> Timestamp {
        Timestamp(wall.0 + self.now.0 - self.wall.0)
    }

    fn on_wall(&self, engine: Timestamp) -> Timestamp {
        Timestamp(engine.0 + self.wall.0 - self.now.0)
    }
}
