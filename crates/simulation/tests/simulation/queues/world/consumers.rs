//! Those who consume: they ask one queue or several, wait or do not, and are done, give back,
//! extend, are late, or vanish.

use std::time::Duration;

use base::{PartitionId, Timestamp};
use engine::kernel::reply::Reply;
use engine::queues::{ConsumeTerms, Consumed, HandOver, QueueInput, QueueName, ReservationToken, driving};
use records::{JobId, Process};

use super::World;
use super::calls::{self, Answer, Then, Waiting};
use crate::harness::calls::{CallId, Polled};
use crate::queues::checkers::history::Source;
use crate::queues::fault_injection::STALE_LEASE_HONOURED;
use crate::queues::meant::{Asked, LeaseRef, Meant};
use crate::queues::model::expected::Expected;

/// What a consumer has, or had.
#[derive(Clone)]
pub(crate) struct Holding {
    pub(crate) queue: QueueName,
    pub(crate) lease: LeaseRef,
    pub(crate) held: ReservationToken,
    pub(crate) until: Timestamp,
    /// Where it was leased, and the batch that this rests on.
    pub(crate) source: Source,
}

/// A call to consume, and what it belongs to.
pub(crate) struct Consuming {
    pub(crate) queue: QueueName,
    pub(crate) ttr: Duration,
    /// A worker of the process asks.
    pub(crate) is_own: bool,
    /// The consumer over several queues that asks.
    pub(super) several: Option<u64>,
}

/// A consumer over several queues: it asks them in order, and waits to be told where none has
/// anything.
pub(crate) struct Several {
    queues: Vec<QueueName>,
    /// The one that is asked.
    at: usize,
    asked: Asked,
    /// Those that told it that they had something, or are about to: what it leaves of that is for
    /// others.
    told: Vec<QueueName>,
    /// It waits to be told.
    waits: bool,
}

/// Leases that are remembered; whoever holds an older one has vanished.
const HOLDINGS_MAX: usize = 40;

impl World {
    /// Somebody asks for jobs.
    pub(super) fn consume(&mut self) {
        let asked = self.any_question();
        if self.queues.len() > 1 && self.plan.asks_several && self.machine.random.chance(1, 4) {
            let id = self.next_call();
            let queues = self.queues.clone();
            self.several.insert(id, Several { queues, at: 0, asked, told: Vec::new(), waits: false });
            self.ask_next(id);
            return;
        }
        let queue = self.any_queue();
        self.consume_from(&queue, asked, None);
    }

    fn any_question(&mut self) -> Asked {
        let wait = match self.machine.random.below(3) {
            0 => Duration::ZERO,
            1 => Duration::from_millis(self.machine.random.below(5_000)),
            _ => Duration::from_secs(self.machine.random.below(120)),
        };
        let ttr = match self.machine.random.below(3) {
            0 => Duration::from_millis(1 + self.machine.random.below(300)),
            1 => Duration::from_millis(1 + self.machine.random.below(20_000)),
            _ => Duration::from_secs(1 + self.machine.random.below(600)),
        };
        Asked {
            max: if self.machine.random.chance(1, 2) { 1 } else { 1 + self.machine.random.below(5) as usize },
            ttr,
            until: self.now().after(wait),
            process: self.machine.random.chance(1, 6).then_some(Process(self.machine.processes())),
        }
    }

    pub(super) fn consume_from(&mut self, queue: &QueueName, asked: Asked, several: Option<u64>) {
        let call = self.next_call();
        let partition = self.partition_of(queue);
        let Some(server) = &mut self.server else { return };
        let inbox = server.partition(partition).inbox.clone();
        let want =
            ConsumeTerms { max: asked.max, ttr: asked.ttr, wait: Duration::ZERO, process: asked.process };
        let (input, receiver) = driving::consume(queue.clone(), &want, asked.until, &inbox);
        let (ttr, is_own) = (asked.ttr, asked.process.is_some());
        let meant = Meant::Consume { call, queue: queue.clone(), asked };
        let then = Then::Consumed(Consuming { queue: queue.clone(), ttr, is_own, several });
        self.ask(queue, (input, meant), calls::leased(receiver), then);
    }

    /// A consumer over several queues asks the next one, which does not make it wait.
    fn ask_next(&mut self, id: u64) {
        let Some(several) = self.several.get(&id) else { return };
        let (queue, asked) = (several.queues[several.at].clone(), several.asked.clone());
        self.consume_from(&queue, Asked { until: Timestamp(i64::MIN), ..asked }, Some(id));
    }

    /// A consumer gets its answer: jobs, or none in time.
    pub(super) fn consumed(
        &mut self,
        (call, source): (CallId, Source),
        consuming: &Consuming,
        jobs: &[Consumed],
        hand_over: HandOver,
    ) {
        for job in jobs {
            let lease = LeaseRef { consumer: call, job: job.id };
            self.texts.insert(job.reservation.text(), (lease, source));
            self.saw(&consuming.queue, job.id);
        }
        if !jobs.is_empty() && self.machine.random.chance(1, 15) {
            // The connection broke meanwhile.
            let leases: Vec<_> = jobs.iter().map(|job| LeaseRef { consumer: call, job: job.id }).collect();
            self.history.giving_back(&leases);
            drop(hand_over);
            return self.several_done(consuming.several);
        }
        hand_over.done();
        for job in jobs {
            let lease = LeaseRef { consumer: call, job: job.id };
            if self.holdings.len() == HOLDINGS_MAX {
                self.holdings.remove(0);
            }
            self.holdings.push(Holding {
                queue: consuming.queue.clone(),
                lease,
                held: job.reservation,
                until: job.until,
                source,
            });
        }
        match consuming.several {
            Some(id) if jobs.is_empty() => self.several_got_nothing(id),
            other => self.several_done(other),
        }
    }

    /// A consumer over several queues asks no more: others that wait are told of what it was told
    /// of.
    pub(super) fn several_done(&mut self, id: Option<u64>) {
        let several = id.and_then(|id| self.several.remove(&id));
        several.into_iter().for_each(|several| self.pass_on(several.told));
    }

    pub(super) fn pass_on(&mut self, queues: Vec<QueueName>) {
        if self.closing {
            // Nobody takes it any more.
            return;
        }
        for queue in queues {
            let partition = self.partition_of(&queue);
            let _not_accepting = self.hand_in(partition, QueueInput::PassOn(queue), Meant::PassOn);
        }
    }

    fn several_got_nothing(&mut self, id: u64) {
        let now = self.now();
        let Some(several) = self.several.get_mut(&id) else { return };
        several.at += 1;
        if several.at < several.queues.len() {
            return self.ask_next(id);
        }
        let (queues, until) = (several.queues.clone(), several.asked.until);
        if until <= now {
            return self.several_done(Some(id));
        }
        (several.at, several.waits) = (0, true);
        for queue in queues {
            self.next_call();
            let (signal, told) = tokio::sync::oneshot::channel();
            let input = QueueInput::Watch { queue: queue.clone(), until, signal };
            let then = Then::Told(id, queue.clone());
            self.ask(
                &queue,
                (input, Meant::Watch { queue: queue.clone() }),
                Waiting::on(told, |()| Answer::Told),
                then,
            );
        }
    }

    /// A consumer over several queues is told that one has something, and waits for none of them
    /// any more. Signals that are on their way to it are lost: it passes on all that may be.
    pub(super) fn told_of(&mut self, id: u64, queue: &QueueName) {
        self.counts.told += 1;
        let mut told = vec![queue.clone()];
        self.calls.waiting.retain_mut(|call| {
            let Then::Told(of, queue) = &call.then else { return true };
            if *of != id {
                return true;
            }
            if !matches!(call.waiting.poll(), Polled::Dropped) {
                told.push(queue.clone());
            }
            false
        });
        let Some(several) = self.several.get_mut(&id) else { return self.pass_on(told) };
        if !std::mem::take(&mut several.waits) {
            // Another told it at the same time: it asks already.
            return several.told.append(&mut told);
        }
        // Until it has asked again it keeps what it was told; what it was told before is asked for.
        let before = std::mem::replace(&mut several.told, told);
        self.pass_on(before);
        self.ask_next(id);
    }

    /// Its time is over, or its partition has lost its memory.
    pub(super) fn told_nothing(&mut self, id: u64) {
        let is_its = |then: &Then| matches!(then, Then::Told(of, _) if *of == id);
        if !self.calls.waiting.iter().any(|call| is_its(&call.then)) {
            self.several_done(Some(id));
        }
    }

    /// A consumer that waits hangs up. Leases that are on their way to it come back.
    pub(super) fn hang_up(&mut self) {
        let waiting =
            |call: &super::calls::Call| matches!(&call.then, Then::Consumed(Consuming { several: None, .. }));
        let waiting: Vec<usize> =
            (0..self.calls.waiting.len()).filter(|index| waiting(&self.calls.waiting[*index])).collect();
        if waiting.is_empty() {
            return;
        }
        let index = waiting[self.machine.random.below(waiting.len() as u64) as usize];
        let call = self.calls.waiting.remove(index);
        if let Then::Consumed(consuming) = &call.then {
            self.history.losing_leases(&consuming.queue);
        }
        self.machine.trace.note(format_args!("call {} hangs up", call.id));
        self.counts.hung_up += 1;
        self.hung_up.push((call.id, call.asked[0].0));
    }

    /// What leases stand for that came back: those that somebody saw, or that were on their way to
    /// who has hung up.
    pub(super) fn leases_of(&mut self, held: &[ReservationToken]) -> Vec<LeaseRef> {
        let jobs: Vec<JobId> = held.iter().map(ReservationToken::job).collect();
        // First these: what the power took may have been given out in the same words.
        let unseen = self.unseen_leases(&jobs);
        if !unseen.is_empty() {
            return unseen;
        }
        held.iter().filter_map(|held| Some(self.texts.get(&held.text())?.0)).collect()
    }

    /// What was leased after batch `seq` was taken by the power: as if it had never been given out,
    /// in whatever words.
    pub(super) fn forget_leases_after(&mut self, partition: PartitionId, seq: u64) {
        let is_left = |(of, made): Source| of != partition || made <= seq;
        self.holdings.retain(|holding| is_left(holding.source));
        self.texts.retain(|_, (_, source)| is_left(*source));
    }

    /// They come back when they would have been answered: only one who hung up can have been
    /// waiting for them. Of two, it is the one of the earlier batch.
    fn unseen_leases(&mut self, jobs: &[JobId]) -> Vec<LeaseRef> {
        let leased_in = |call: CallId| match self.expectations.of(call)? {
            (batch, Expected::Leased(leases)) => {
                leases.iter().map(|lease| lease.id).eq(jobs.iter().copied()).then_some(batch)
            }
            _ => None,
        };
        let all = self.hung_up.iter().enumerate();
        let found = all.filter_map(|(place, (call, _))| Some((leased_in(*call)?, place)));
        let Some((_, place)) = found.min() else { return Vec::new() };
        let (consumer, _) = self.hung_up.remove(place);
        self.expectations.forget(consumer);
        jobs.iter().map(|job| LeaseRef { consumer, job: *job }).collect()
    }

    /// A consumer does something about what it holds, or held.
    pub(super) fn work(&mut self) {
        let index = self.machine.random.below(self.holdings.len() as u64) as usize;
        let holding = self.holdings[index].clone();
        match self.machine.random.below(20) {
            0..=9 => self.ack(holding),
            10..=14 => self.release(&holding),
            15..=17 => self.extend(&holding),
            // It vanishes.
            _ => drop(self.holdings.remove(index)),
        }
    }

    fn ack(&mut self, first: Holding) {
        let mut acked = vec![first];
        if self.machine.random.chance(1, 3) {
            let queue = acked[0].queue.clone();
            let others = self.holdings.iter().filter(|other| other.queue == queue).cloned();
            acked.extend(others.take(3));
        }
        let queue = if self.machine.random.chance(1, 40) { self.any_queue() } else { acked[0].queue.clone() };
        self.acknowledge(&acked, &queue);
    }

    pub(super) fn acknowledge(&mut self, acked: &[Holding], queue: &QueueName) {
        let leases: Vec<LeaseRef> = acked.iter().map(|holding| holding.lease).collect();
        let held = acked.iter().map(|holding| self.as_shown(holding)).collect();
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = QueueInput::Ack { queue: queue.clone(), held, reply };
        let meant = Meant::Ack { call, queue: queue.clone(), leases: leases.clone() };
        self.history.ending(&leases);
        self.ask(queue, (input, meant), Waiting::on(receiver, Answer::Acked), Then::Acked(leases));
    }

    /// What a consumer shows: its own reservation, unless the harness is broken.
    fn as_shown(&self, holding: &Holding) -> ReservationToken {
        if !self.machine.injects(STALE_LEASE_HONOURED) {
            return holding.held;
        }
        let newest = self.holdings.iter().rev().find(|other| other.lease.job == holding.lease.job);
        newest.map_or(holding.held, |other| other.held)
    }

    fn release(&mut self, holding: &Holding) {
        let Holding { queue, lease, .. } = holding.clone();
        let delay = match self.machine.random.below(3) {
            0 => Duration::ZERO,
            1 => Duration::from_millis(self.machine.random.below(2_000)),
            _ => Duration::from_secs(self.machine.random.below(300)),
        };
        let error =
            self.machine.random.chance(1, 2).then(|| format!("error {}", self.machine.random.below(10)));
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let held = self.as_shown(holding);
        let given = error.as_deref().map(Into::into);
        let input = QueueInput::Release { queue: queue.clone(), held, delay, error: given, reply };
        let meant = Meant::Release { call, queue: queue.clone(), lease, delay, error };
        self.history.ending(&[lease]);
        self.ask(&queue, (input, meant), Waiting::on(receiver, Answer::Done), Then::Released(lease));
    }

    fn extend(&mut self, holding: &Holding) {
        let Holding { queue, lease, .. } = holding.clone();
        let ttr = Duration::from_millis(1 + self.machine.random.below(120_000));
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let held = self.as_shown(holding);
        let input = QueueInput::Extend { queue: queue.clone(), held, ttr, reply };
        let meant = Meant::Extend { call, queue: queue.clone(), lease, ttr };
        self.history.extending(lease);
        self.ask(&queue, (input, meant), Waiting::on(receiver, Answer::Extended), Then::Extended(lease));
    }

    /// What has been let go of is mostly forgotten; some try again.
    pub(super) fn let_go(&mut self, leases: &[LeaseRef]) {
        if self.machine.random.chance(3, 4) {
            self.holdings.retain(|holding| !leases.contains(&holding.lease));
        }
    }

    /// Where a partition is.
    pub(super) fn any_partition(&mut self) -> PartitionId {
        let index = self.machine.random.below(u64::from(self.machine.plan.partitions));
        PartitionId::of_queues(index as u16)
    }
}
