//! A partition of queues: the rules of `jobs` over jobs that are resident or parked in the store,
//! and the consumers that wait.
//!
//! A state machine like every other. What its users see of a queue is here: its name, settings,
//! dead letters and kept answers. When a job may be leased is the rules' affair.

mod budget;
mod conditions;
mod consumers;
mod coordination;
mod dead;
mod dropping;
mod ending;
mod inspection;
mod lifetime;
mod loading;
mod oldest_dead;
mod paging;
mod parked;
mod publishing;
mod queue_metrics;
mod recently_parked;
mod soonest;
mod step_part;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{Lineage, PartitionId, Timestamp};
use jobs::Jobs;
use records::{DeadJob, JobId, Op, PartitionHead, QueueKey, QueueSettings};
use store::StoreError;

use self::coordination::PartitionLocks;
use super::context::QueueContext;
use super::effect::QueueEffect;
use super::input::QueueCall;
use super::queue_metrics::NamedPlaces;
use super::rates::RecentJobs;
use super::stats::{JobsCounted, PartitionStats};
use super::troubled::TroubleNotes;
use super::{QueueInput, QueueName};
use crate::kernel::fetch::Fetch;
use crate::kernel::hashed::HashMap;
use crate::kernel::idempotency::KeptAnswers;
use crate::kernel::loaded_changes::LoadedChanges;
use crate::kernel::machine::{Machine, Step, StepTime};
use crate::kernel::pending_writes::PendingWrites;
use crate::kernel::reply::answered;
use crate::kernel::step_context::StepContext;
use conditions::QueueConditions;
use dropping::Dropping;
use lifetime::QueueSweep;
use oldest_dead::OldestDead;
use paging::ParkedClocks;
use recently_parked::RecentlyParked;
use step_part::QueueStepPart;
use waiting::WaitingConsumers;

pub use budget::{Spent, StepLimits};
pub use dead::DeadView;
pub use inspection::{QueueMark, QueuePage, listed};

/// Jobs that come due between two looks at the weight of a batch. When a run of a recurring job
/// dies, it leaves a copy of what it carried.
const JOBS_AT_A_TIME: usize = 8;
/// Records that one input, or the passing of time, touches at most before the step looks up.
const RECORDS_MAX: usize = 1_000;
/// Keys of parked jobs that are looked at together.
const KEYS_AT_A_TIME: usize = 2_000;

/// The wall clock may be put forward, and not every machine tells when. So while jobs wait for a
/// time of it, it is looked at this often.
const WALL_LOOKED_AT_EVERY: Duration = Duration::from_secs(10);

/// A partition of queues.
#[derive(Debug)]
pub struct QueuePartition {
    id: PartitionId,
    lineage: Lineage,
    head: PartitionHead,
    jobs: Jobs,
    limits: StepLimits,
    clocks: ParkedClocks,
    names: BTreeMap<QueueName, QueueKey>,
    queues: HashMap<QueueKey, PartitionQueue>,
    waiting: WaitingConsumers,
    /// Deleted queues whose jobs are not swept yet.
    sweeps: BTreeMap<QueueKey, QueueSweep>,
    /// Queues whose ready jobs are to be dropped.
    dropping: Dropping,
    /// When to look whether a queue is still empty, in order.
    lingering: VecDeque<(Timestamp, QueueKey)>,
    /// When dead letters of a queue may have become too old; each queue once.
    ageing: BTreeSet<(Timestamp, QueueKey)>,
    /// Queues with more dead letters than they may keep.
    overfull: BTreeSet<QueueKey>,
    /// What jobs carry.
    bodies: PendingWrites<JobId, Arc<[u8]>>,
    parked: RecentlyParked,
    dead: PendingWrites<(QueueKey, u64), DeadJob>,
    oldest_dead: OldestDead,
    answers: KeptAnswers,
    conditions: QueueConditions,
    locks: PartitionLocks,
    /// Queues whose workers are told something, with the bytes of its data.
    controls: BTreeMap<QueueName, usize>,
    /// Dead letters of all queues.
    dead_total: u64,
    /// Its counts after the step before.
    latest_stats: PartitionStats,
    named: NamedPlaces,
    troubled: TroubleNotes,
    /// What the latest step did.
    spent: Spent,
    /// How many changes the latest batch had: the next one has about as many.
    latest_batch_ops: usize,
    /// The latest batch that is durable.
    settled: u64,
    loaded_changes: LoadedChanges<Op>,
    /// The next step is the last: it sends the consumers home.
    closing: bool,
}

/// A queue.
#[derive(Debug)]
struct PartitionQueue {
    name: QueueName,
    paused: bool,
    settings: QueueSettings,
    /// Dead letters.
    dead: u64,
    /// Dead letters up to this one are gone: reading begins behind it, not at what is left of them
    /// in the store.
    dead_gone: Option<u64>,
    /// It is among the lingering ones.
    lingers: bool,
    /// When it is among those whose dead letters may be too old.
    ages_at: Option<Timestamp>,
    /// What happened to its jobs lately, if anything did.
    recent: Option<Box<RecentJobs>>,
}

/// A step of a partition of queues.
type QueueStep<'a> = StepContext<'a, QueueEffect, QueueStepPart>;

impl Machine for QueuePartition {
    type Input = QueueInput;
    type Effect = QueueEffect;
    type Context = QueueContext;

    fn weight(input: &QueueInput) -> usize {
        match input {
            QueueInput::Publish { jobs, .. } => jobs.len(),
            QueueInput::Consume(call) => call.max,
            QueueInput::Ack { held, .. } | QueueInput::GiveBack(held) => held.len(),
            QueueInput::Respawn { .. } | QueueInput::DeleteDead(..) => RECORDS_MAX,
            _ => 1,
        }
    }

    fn step(
        &mut self,
        moment: StepTime,
        inputs: &mut dyn Iterator<Item = QueueInput>,
        fetch: &dyn Fetch,
    ) -> Result<Step<QueueEffect>, StoreError> {
        let own = QueueStepPart::new(self.limits);
        let mut step = StepContext::new(self.id, &self.head, moment, fetch, own);
        step.bytes_max = self.limits.bytes;
        step.batch.ops.reserve(self.latest_batch_ops);
        self.jobs.set_wall(step.now, step.wall);
        self.jobs.set_unblocked_max(self.limits.unblocked);
        if !self.write_loaded(&mut step) {
            return Ok(self.seal(step, true));
        }
        // Who asks now is given what is due now, and shows a reservation whose time is over in
        // vain.
        self.read_in(|step| step.own.budget.left_to_read_ahead(), &mut step)?;
        self.advance_jobs_with_room(&mut step)?;
        self.age_dead(&mut step)?;
        self.advance_locks(&mut step);
        if self.waiting.are_due() {
            self.serve(&mut step)?;
            step.own.budget.spent.leased_before = step.own.counted.leased;
        }
        // One at least, also where the batch is full already: the driver has taken it out of the
        // inbox.
        for input in inputs {
            self.apply(input, &mut step)?;
            self.read_at_once(&mut step)?;
            if !step.has_room() || !step.own.budget.may_read_at_once() {
                break;
            }
        }
        let more = self.advance(&mut step)?;
        step.own.jobs.wakes.extend(self.waiting.take_unread());
        let leased = step.own.counted.leased;
        self.serve(&mut step)?;
        step.own.budget.spent.leased_behind = step.own.counted.leased - leased;
        self.retire_waiters(&mut step);
        self.read_at_once(&mut step)?;
        step.own.budget.spent.unblocked = self.jobs.unblocked();
        Ok(self.seal(step, more || self.waiting.want_a_step() || self.jobs.has_lines_to_unblock()))
    }

    fn settled(&mut self, seq: u64) {
        self.settled = seq;
        self.bodies.settle(seq);
        self.parked.settle(seq);
        self.dead.settle(seq);
        self.answers.settle(seq);
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn has_unfinished(&self) -> bool {
        !self.loaded_changes.is_empty()
    }

    fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        let lingering = self.lingering.front().map(|(at, _)| *at);
        let ageing = self.ageing.first().map(|(at, _)| *at);
        let answers = self.answers.next_wakeup();
        let sweep = self.sweeps.values().any(|sweep| sweep.may_go_on(self.settled)).then_some(now);
        let wall = self.jobs.wait_on_wall().then_some(now.after(WALL_LOOKED_AT_EVERY));
        let dropping = self.dropping.may_go_on(self.settled).then_some(now);
        let swept = sweep.or(dropping);
        let looks = self.conditions.next_wakeup();
        let own = [
            self.locks.next_wakeup(),
            wall,
            self.jobs.next_wakeup(),
            self.waiting.next_end(),
            lingering,
            ageing,
            answers,
            swept,
            looks,
        ];
        own.into_iter().flatten().min()
    }
}

impl QueuePartition {
    /// The most that a step does. Whoever looks for what goes wrong at a limit gives lower ones
    /// than [`StepLimits::of`] has.
    #[must_use]
    pub fn with_limits(mut self, limits: StepLimits) -> Self {
        self.limits = limits;
        self
    }

    /// What the latest step did, for whoever checks that no step does too much, and in what order.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// How many jobs are in memory, and how many of these consumers have.
    #[must_use]
    pub fn resident(&self) -> (usize, usize) {
        let jobs = self.jobs.counts();
        (jobs.scheduled + jobs.ready + jobs.reserved, jobs.reserved)
    }

    fn apply(&mut self, input: QueueInput, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        let effect = match input {
            QueueInput::Publish { queue, jobs, idempotency, source, reply } => QueueEffect::Published(
                reply,
                answered(self.publish(&queue, jobs, (idempotency, source), step))?,
            ),
            QueueInput::Consume(call) => return self.consume(call, step),
            QueueInput::Watch { queue, until, signal } => {
                self.watch(queue, until, signal, step);
                return Ok(());
            }
            QueueInput::PassOn(queue) => return self.pass_on(&queue, step),
            QueueInput::Left { queue, until } => {
                self.left(&queue, until, step);
                return Ok(());
            }
            QueueInput::Ack { queue, held, reply } => {
                QueueEffect::Acked(reply, self.ack(&queue, &held, step)?)
            }
            QueueInput::Extend { queue, held, ttr, reply } => {
                QueueEffect::Extended(reply, self.extend(&queue, held, ttr, step))
            }
            QueueInput::Release { queue, held, delay, error, reply } => {
                QueueEffect::Done(reply, answered(self.release(&queue, held, delay, error, step))?)
            }
            QueueInput::GiveBack(held) => return self.give_back(&held, step),
            QueueInput::Look { queue, job, reply } => {
                QueueEffect::Seen(reply, answered(self.look(&queue, job.as_ref(), step))?.map(Box::new))
            }
            QueueInput::Change { queue, job, payload, due, reply } => {
                let changed = answered(self.change(&queue, &job, payload, due, step))?;
                QueueEffect::Seen(reply, changed.map(Box::new))
            }
            QueueInput::Cancel { queue, job, reply } => {
                QueueEffect::Done(reply, answered(self.cancel(&queue, &job, step))?)
            }
            QueueInput::Dead { queue, after, limit, reply } => {
                QueueEffect::DeadListed(reply, self.dead_page(&queue, after, limit, step)?)
            }
            QueueInput::Respawn { queue, which, ttl, reply } => {
                QueueEffect::Respawned(reply, answered(self.respawn(&queue, &which, ttl, step))?)
            }
            QueueInput::FindDead(queue, id, reply) => {
                QueueEffect::DeadListed(reply, self.find_dead(&queue, id, step)?.into_iter().collect())
            }
            QueueInput::DeleteDead(queue, which, reply) => {
                QueueEffect::DeadDeleted(reply, self.delete_dead(&queue, &which, step)?)
            }
            QueueInput::Recall(idempotency, reply) => {
                QueueEffect::Recalled(reply, answered(self.answers.recall(idempotency, step))?)
            }
            QueueInput::Remember(idempotency, answer, reply) => {
                self.answers.remember(idempotency, answer, step);
                QueueEffect::Done(reply, Ok(()))
            }
            QueueInput::Queue(call) => return self.apply_to_queue(call, step),
            QueueInput::Lock(call) => return self.apply_to_lock(call, step),
        };
        step.emit(effect);
        Ok(())
    }

    fn apply_to_queue(&mut self, call: QueueCall, step: &mut QueueStep<'_>) -> Result<(), StoreError> {
        let effect = match call {
            QueueCall::Stats(queue, reply) => {
                QueueEffect::Stats(reply, Box::new(self.stats(&queue, step.now)))
            }
            QueueCall::ManyStats(queues, reply) => {
                let stats = queues.iter().map(|queue| self.stats(queue, step.now)).collect();
                QueueEffect::ManyStats(reply, stats)
            }
            QueueCall::List { namespace, after, limit, reply } => {
                QueueEffect::Listed(reply, self.list(namespace.as_deref(), after.as_ref(), limit, step.now))
            }
            QueueCall::Set(queue, settings, reply) => {
                self.set(&queue, settings, step)?;
                QueueEffect::Done(reply, Ok(()))
            }
            QueueCall::Pause(queue, paused, reply) => {
                self.pause(&queue, paused, step);
                QueueEffect::Done(reply, Ok(()))
            }
            QueueCall::Delete(queue, reply) => {
                self.delete(&queue, step);
                QueueEffect::Done(reply, Ok(()))
            }
            QueueCall::Control(queue, control, reply) => {
                QueueEffect::Done(reply, self.put_control(&queue, control, step))
            }
            QueueCall::DropReady(queue, reply) => {
                self.drop_ready(&queue, reply, step);
                return Ok(());
            }
        };
        step.emit(effect);
        Ok(())
    }

    /// What the passing of time brings. Whether there is more of it now.
    fn advance(&mut self, step: &mut QueueStep<'_>) -> Result<bool, StoreError> {
        let mut more;
        // Once also where inputs have filled the batch: time passes however many come.
        loop {
            let is_behind = self.advance_jobs_with_room(step)?;
            let before = step.own.budget.spent;
            let wants = self.read_in(|step| step.own.budget.left_to_read(), step)?;
            more = is_behind || wants;
            if !more || !step.has_room() || step.own.budget.spent == before {
                break;
            }
        }
        more |= self.advance_locks(step);
        more |= self.answers.forget(step)?;
        more |= self.age_dead(step)?;
        more |= self.drop_more_surplus(step)?;
        more |= self.sweep(step)?;
        more |= self.go_on_dropping(step)?;
        more |= self.look_at_backlogs(step);
        self.let_empty_go(step);
        more |= self.jobs.evict(&mut step.jobs());
        // Where nothing more can leave, reading goes on without room.
        more |= self.jobs.next_read(step.now).is_some();
        Ok(more)
    }

    /// Takes what loading found into the batch, as far as there is room. Whether that was all.
    fn write_loaded(&mut self, step: &mut QueueStep<'_>) -> bool {
        while let Some(op) = self.loaded_changes.take_next(step) {
            step.push(op);
        }
        self.loaded_changes.is_empty()
    }

    /// Ends the step: its changes become one batch.
    ///
    /// # Panics
    /// When the step has done more than a step may.
    fn seal(&mut self, mut step: QueueStep<'_>, more: bool) -> Step<QueueEffect> {
        self.note_touched(&mut step);
        self.note_parked(&mut step);
        self.put_counts(&mut step);
        step.own.budget.assert_kept(JOBS_AT_A_TIME);
        self.spent = step.own.budget.spent;
        step.effects.extend(self.changed_troubles());
        let stats = self.stats_of_all();
        if stats != self.latest_stats {
            self.latest_stats = stats;
            step.emit(QueueEffect::StatsChanged(self.id, stats));
        }
        step.effects.extend(self.changed_queue_counts());
        if step.own.counted != JobsCounted::default() {
            step.emit(QueueEffect::Counted(step.own.counted));
        }
        self.latest_batch_ops = step.batch.ops.len();
        let (numbers, next_fence) = (self.jobs.numbers(), self.locks.next_fence());
        let (batch, effects) = step.seal(&mut self.head, false, |head| {
            head.next_job = numbers.next_job;
            head.next_lease = numbers.next_lease;
            head.next_fence = next_fence;
        });
        Step { batch, effects, more }
    }

    fn stats_of_all(&self) -> PartitionStats {
        let jobs = self.jobs.counts();
        let (parked_scheduled, parked_ready) = self.jobs.parked_in_all();
        PartitionStats {
            queues: self.queues.len() as u64,
            scheduled: jobs.scheduled as u64 + parked_scheduled,
            ready: jobs.ready as u64 + parked_ready,
            reserved: jobs.reserved as u64,
            dead: self.dead_total,
            parked: parked_scheduled + parked_ready,
            waiting: self.waiting.len() as u64,
            paused: self.troubled.paused() as u64,
            locks: self.locks.held() as u64,
            lock_waits: self.locks.waiting() as u64,
        }
    }

    fn key_of(&self, queue: &QueueName) -> Option<QueueKey> {
        self.names.get(queue).copied()
    }

    /// What a job carries, in stored form; weighed as part of an answer.
    fn body(&self, id: JobId, step: &mut QueueStep<'_>) -> Result<Arc<[u8]>, StoreError> {
        let body = self.bodies.get_or_read(&id, || step.fetch.view()?.job_body(id))?;
        let body = body.ok_or_else(|| StoreError::Damaged {
            file: "the tables".to_owned(),
            at: super::id::id_text(id),
            what: "a job without what it carries".to_owned(),
        })?;
        step.carried += body.len();
        Ok(body)
    }

    fn put_body(&mut self, id: JobId, body: Arc<[u8]>, step: &mut QueueStep<'_>) {
        self.bodies.put(step.seq, id, Some(Arc::clone(&body)));
        step.push(Op::PutJobBody(id, body));
    }
}

#[cfg(test)]
mod tests;
