//! A partition of queues on a bench, step by step: what one step may carry, and how often it reads
//! the store.

mod flood;

use std::cell::Cell;
use std::time::Duration;

use base::{Lineage, PartitionId, Timestamp};
use records::{Op, Process, QueueSettings, WorkState, WorkerControl};
use store::{CommitOutcome, MemoryStore, Store, StoreError, View};
use tokio::sync::{mpsc, oneshot};

use super::QueuePartition;
use crate::kernel::fetch::{Fetch, FromStore};
use crate::kernel::machine::{Machine, StepTime};
use crate::kernel::reply::Reply;
use crate::queues::driving::{self, Leases, QueueCall};
use crate::queues::effect::QueueEffect;
use crate::queues::{
    ConsumeTerms, Dead, DueTime, JobPayload, NewJob, QueueInput, QueueName, RecurrenceTerms, ReservationToken,
};

const NOW: Timestamp = Timestamp(1_795_000_000_000);
const MEGABYTE: usize = 1 << 20;
/// What a step may carry: 8 MiB, and the job with which it has as much.
const CARRIED_MAX: usize = 9;

/// Counts how often the store is looked into.
struct Counting<'a>(FromStore<'a>, Cell<usize>);

impl Fetch for Counting<'_> {
    fn view(&self) -> Result<&dyn View, StoreError> {
        self.1.set(self.1.get() + 1);
        self.0.view()
    }
}

fn partition() -> PartitionId {
    PartitionId::of_queues(0)
}

struct Rig {
    partition: QueuePartition,
    store: MemoryStore,
    inbox: mpsc::Sender<QueueInput>,
    /// Leases that come back are not the matter here.
    _back: mpsc::Receiver<QueueInput>,
    views: usize,
    now: Timestamp,
    /// What the heaviest batch weighed.
    heaviest: usize,
    /// Jobs that the step with the most of them made resident.
    most_unparked: usize,
    /// Queues whose counts the step with the most of them wrote.
    most_recounted: usize,
}

fn orders() -> QueueName {
    QueueName::unchecked("shop", "orders")
}

fn jobs(count: usize, bytes: usize) -> Vec<driving::ToPublish> {
    let jobs = vec![NewJob::new(JobPayload::Bytes(vec![7; bytes].into())); count];
    driving::to_publish(&jobs, NOW).expect("they may be")
}

impl Rig {
    fn new() -> Self {
        Self::with_resident(65_536)
    }

    fn with_resident(resident_max: usize) -> Self {
        let store = MemoryStore::new(Lineage(1), 1);
        let partition = load(&store, resident_max, Process(1), NOW);
        let (inbox, back) = mpsc::channel(64);
        Self {
            partition,
            store,
            inbox,
            _back: back,
            views: 0,
            now: NOW,
            heaviest: 0,
            most_unparked: 0,
            most_recounted: 0,
        }
    }

    /// One step, durable at once: what it tells, whether there is more to do, and how many inputs
    /// it took.
    fn step(&mut self, inputs: &mut Vec<QueueInput>) -> (Vec<QueueEffect>, bool, usize) {
        let fetch = Counting(FromStore::new(&self.store, partition()), Cell::new(0));
        let moment = StepTime { now: self.now, stamp: self.now, wall: self.now };
        let before = inputs.len();
        let mut waiting = std::mem::take(inputs).into_iter();
        let step = self.partition.step(moment, &mut waiting, &fetch).expect("readable");
        *inputs = waiting.collect();
        self.views += fetch.1.get();
        if let Some(batch) = step.batch {
            let seq = batch.head.seq;
            self.heaviest = self.heaviest.max(batch.ops.iter().map(Op::weight).sum());
            let unparked = batch.ops.iter().filter(|op| matches!(op, Op::UnparkJob(_))).count();
            self.most_unparked = self.most_unparked.max(unparked);
            let recounted = batch.ops.iter().filter(|op| matches!(op, Op::PutQueueCounts(..))).count();
            self.most_recounted = self.most_recounted.max(recounted);
            drop(fetch);
            self.store.commit(batch, Box::new(|outcome| assert!(matches!(outcome, CommitOutcome::Durable))));
            self.partition.settled(seq);
        }
        let is_metric =
            |effect: &QueueEffect| matches!(effect, QueueEffect::Counted(_) | QueueEffect::StatsChanged(..));
        let told = step.effects.into_iter().filter(|effect| !is_metric(effect));
        (told.collect(), step.more, before - inputs.len())
    }

    fn ask<T: std::fmt::Debug>(&mut self, make: impl FnOnce(Reply<T>) -> QueueInput) -> QueueEffect {
        let (told, _, _) = self.step(&mut vec![make(Reply::new().0)]);
        told.into_iter().next().expect("it is answered in its step")
    }

    fn publish(&mut self, count: usize, bytes: usize) {
        self.publish_these(jobs(count, bytes));
    }

    fn publish_these(&mut self, jobs: Vec<driving::ToPublish>) {
        let told = self.ask(|reply| QueueInput::Publish {
            queue: orders(),
            jobs,
            idempotency: None,
            source: None,
            reply,
        });
        assert!(matches!(told, QueueEffect::Published(_, Ok(_))), "{told:?}");
    }

    fn set(&mut self, settings: QueueSettings) {
        let told = self.ask(|reply| QueueInput::Queue(QueueCall::Set(orders(), settings, reply)));
        assert!(matches!(told, QueueEffect::Done(_, Ok(()))), "{told:?}");
    }

    fn asking(&self, max: usize, wait: Duration) -> (QueueInput, oneshot::Receiver<Leases>) {
        let want = ConsumeTerms { max, ttr: Duration::from_secs(60), wait, process: None };
        driving::consume(orders(), &want, NOW.after(wait), &self.inbox)
    }

    fn leased(&mut self, max: usize) -> Vec<ReservationToken> {
        let (input, _receiver) = self.asking(max, Duration::ZERO);
        let (told, _, _) = self.step(&mut vec![input]);
        let Some(QueueEffect::Leased(_, leases)) = told.into_iter().next() else { panic!("nothing leased") };
        leases.jobs.iter().map(|job| leases.token(job)).collect()
    }

    /// Buries a number of jobs that are ready, each in a step of its own.
    fn bury(&mut self, count: usize) {
        for held in self.leased(count) {
            let (queue, delay) = (orders(), Duration::ZERO);
            let told = self.ask(|reply| QueueInput::Release { queue, held, delay, error: None, reply });
            assert!(matches!(told, QueueEffect::Done(_, Ok(()))), "{told:?}");
        }
    }

    fn dead(&mut self) -> u64 {
        match self.ask(|reply| QueueInput::Queue(QueueCall::Stats(orders(), reply))) {
            QueueEffect::Stats(_, stats) => stats.dead,
            other => panic!("{other:?}"),
        }
    }
}

fn load(store: &MemoryStore, resident_max: usize, process: Process, now: Timestamp) -> QueuePartition {
    let moment = StepTime { now, stamp: now, wall: now };
    QueuePartition::load(store, partition(), resident_max, process, moment).expect("loads")
}

/// How many jobs each answer has.
fn counts(told: &[QueueEffect]) -> Vec<usize> {
    let leases = told.iter().filter_map(|effect| match effect {
        QueueEffect::Leased(_, leases) => Some(leases.jobs.len()),
        _ => None,
    });
    leases.collect()
}

#[test]
fn a_step_leases_no_more_than_it_can_carry_and_the_others_come_in_the_next() {
    let mut rig = Rig::new();
    rig.publish(15, MEGABYTE);
    rig.publish(15, MEGABYTE);
    let (mut inputs, _receivers): (Vec<_>, Vec<_>) = (0..30).map(|_| rig.asking(1, Duration::ZERO)).unzip();
    let mut answers = Vec::new();
    while !inputs.is_empty() {
        let (told, _, taken) = rig.step(&mut inputs);
        assert!((1..=CARRIED_MAX).contains(&taken), "{taken} in one step");
        answers.extend(counts(&told));
    }
    assert_eq!(answers, [1; 30]);
}

#[test]
fn an_answer_has_one_job_at_least_and_no_more_than_can_be_carried() {
    let mut rig = Rig::new();
    rig.publish(15, MEGABYTE);
    let (mut inputs, _receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| rig.asking(6, Duration::ZERO)).unzip();
    let mut answers = Vec::new();
    while !inputs.is_empty() {
        let (told, _, _) = rig.step(&mut inputs);
        assert!(counts(&told).iter().sum::<usize>() <= CARRIED_MAX);
        answers.extend(counts(&told));
    }
    assert_eq!(answers, [6, 2, 6, 1], "what others have taken is not there any more");
}

#[test]
fn who_waits_is_served_over_several_steps() {
    let mut rig = Rig::new();
    let wait = Duration::from_secs(60);
    let (mut inputs, mut receivers): (Vec<_>, Vec<_>) = (0..20).map(|_| rig.asking(1, wait)).unzip();
    rig.step(&mut inputs);
    rig.publish(15, 1);
    assert_eq!(rig.leased(1), [], "those that wait came first");
    let (mut inputs, more): (Vec<_>, Vec<_>) = (0..15).map(|_| rig.asking(1, wait)).unzip();
    receivers.extend(more);
    rig.step(&mut inputs);
    let jobs = jobs(20, MEGABYTE);
    let make = |reply| QueueInput::Publish { queue: orders(), jobs, idempotency: None, source: None, reply };
    let mut inputs = vec![make(Reply::new().0)];
    let (mut served, mut before) = (Vec::new(), 0);
    loop {
        let (told, more, _) = rig.step(&mut inputs);
        assert!(counts(&told).len() <= CARRIED_MAX, "{:?}", counts(&told));
        let spent = rig.partition.spent();
        assert_eq!(spent.leased_before + spent.leased_behind, counts(&told).len() as u64);
        assert!(spent.leased_before == 0 || !served.is_empty(), "what was published comes first");
        before += spent.leased_before;
        served.extend(counts(&told));
        if !more {
            break;
        }
    }
    assert_eq!(served, [1; 20]);
    assert!(before > 0, "who was left over is served before the inputs of the next step");
}

#[test]
fn a_respawn_goes_on_where_a_step_could_carry_no_more() {
    let mut rig = Rig::new();
    rig.publish(15, MEGABYTE);
    rig.bury(8);
    rig.bury(7);
    assert_eq!(rig.dead(), 15);
    let mut which = Dead::Oldest(100);
    let mut respawned = Vec::new();
    loop {
        let told = rig.ask(|reply| QueueInput::Respawn { queue: orders(), which, ttl: None, reply });
        let QueueEffect::Respawned(_, Ok(some)) = told else { panic!("{told:?}") };
        respawned.push(some.count);
        let Some(left) = some.left else { break };
        which = left;
    }
    assert_eq!((respawned, rig.dead()), (vec![8, 7], 0));
}

#[test]
fn runs_that_die_together_leave_their_copies_in_several_steps() {
    let mut rig = Rig::new();
    let recurs = Some(RecurrenceTerms::Every { interval: Duration::from_secs(3_600), executions: None });
    let due = Some(DueTime::After(Duration::ZERO));
    let job = NewJob { recurs, due, ..NewJob::new(JobPayload::Bytes(vec![7; MEGABYTE].into())) };
    for _ in 0..4 {
        rig.publish_these(driving::to_publish(&vec![job.clone(); 10], NOW).expect("they may be"));
    }
    while !rig.leased(10).is_empty() {}
    rig.now = NOW.after(Duration::from_secs(60));
    rig.heaviest = 0;
    while rig.step(&mut Vec::new()).1 {}
    assert!(rig.heaviest < 20 * MEGABYTE, "{}", rig.heaviest);
    assert_eq!(rig.dead(), 40);
}

#[test]
fn where_as_many_are_dead_as_may_be_the_store_is_not_read_for_every_death() {
    for dead_max in [0, 3, 40] {
        let mut rig = Rig::new();
        rig.set(QueueSettings { dead_max: Some(dead_max), ..QueueSettings::default() });
        rig.publish(200, 1);
        rig.bury(40);
        rig.views = 0;
        rig.bury(160);
        // Each lease reads what its job carries.
        let views = rig.views - 160;
        assert!(views <= 6, "{views} for 160 deaths where {dead_max} are kept");
        assert_eq!(rig.dead(), dead_max);
    }
}

#[test]
fn what_is_deleted_or_respawned_is_not_remembered_as_dead() {
    let mut rig = Rig::new();
    rig.set(QueueSettings { dead_max: Some(4), ..QueueSettings::default() });
    rig.publish(30, 1);
    rig.bury(6);
    let told = rig.ask(|reply| QueueInput::DeleteDead(orders(), Dead::Oldest(1), reply));
    assert!(matches!(told, QueueEffect::DeadDeleted(_, 1)), "{told:?}");
    rig.bury(3);
    let which = Dead::Oldest(2);
    let told = rig.ask(|reply| QueueInput::Respawn { queue: orders(), which, ttl: None, reply });
    assert!(matches!(&told, QueueEffect::Respawned(_, Ok(some)) if some.count == 2), "{told:?}");
    rig.bury(5);
    let listed = rig.ask(|reply| QueueInput::Dead { queue: orders(), after: None, limit: 10, reply });
    let QueueEffect::DeadListed(_, dead) = listed else { panic!("{listed:?}") };
    let numbers: Vec<_> = dead.iter().map(|view| view.dead.number).collect();
    assert_eq!((numbers, rig.dead()), (vec![10, 11, 12, 13], 4), "the latest");
}

/// Drops what is ready of a queue: after how many steps that is answered, and how many of these
/// looked into the store.
fn drop_ready(rig: &mut Rig, queue: QueueName) -> (usize, usize) {
    let mut inputs = vec![QueueInput::Queue(QueueCall::DropReady(queue, Reply::new().0))];
    rig.views = 0;
    for steps in 1..1_000 {
        let (told, _, _) = rig.step(&mut inputs);
        if told.iter().any(|effect| matches!(effect, QueueEffect::ReadyDropped(..))) {
            return (steps, rig.views);
        }
    }
    panic!("it is never answered");
}

#[test]
fn jobs_of_other_queues_are_not_looked_at_where_a_queue_is_dropped() {
    let mut rig = Rig::new();
    for _ in 0..20 {
        rig.publish(1_000, 1);
    }
    let own = QueueName::unchecked("other", "queue");
    let publish = |rig: &mut Rig, due| {
        let job = NewJob { due, ..NewJob::new(JobPayload::Bytes(vec![7].into())) };
        let jobs = driving::to_publish(&vec![job; 10], NOW).expect("they may be");
        let queue = own.clone();
        rig.ask(|reply| QueueInput::Publish { queue, jobs, idempotency: None, source: None, reply });
    };
    publish(&mut rig, Some(DueTime::After(Duration::from_secs(60))));
    assert_eq!(drop_ready(&mut rig, own.clone()), (1, 0), "it has none that is ready");
    publish(&mut rig, None);
    let (steps, views) = drop_ready(&mut rig, own);
    assert!(steps <= 2 && views == 0, "{steps} steps, {views} looks into the store");
}

#[test]
fn the_oldest_dead_letters_are_read_behind_those_that_are_gone() {
    let mut rig = Rig::new();
    rig.publish(30, 1);
    rig.bury(30);
    let numbers = |rig: &mut Rig| {
        let listed = rig.ask(|reply| QueueInput::Dead { queue: orders(), after: None, limit: 40, reply });
        let QueueEffect::DeadListed(_, dead) = listed else { panic!("{listed:?}") };
        dead.iter().map(|view| view.dead.number).collect::<Vec<_>>()
    };
    let all = numbers(&mut rig);
    for count in [10, 5] {
        let told = rig.ask(|reply| QueueInput::DeleteDead(orders(), Dead::Oldest(count), reply));
        assert!(matches!(told, QueueEffect::DeadDeleted(_, deleted) if deleted == count), "{told:?}");
    }
    assert_eq!(numbers(&mut rig), all[15..]);
    let key = rig.partition.key_of(&orders()).expect("it is there");
    assert_eq!(rig.partition.queues[&key].dead_gone, Some(all[9]), "the second began behind the first");
    rig.publish(1, 1);
    rig.bury(1);
    let told = rig.ask(|reply| QueueInput::DeleteDead(orders(), Dead::Oldest(100), reply));
    assert!(matches!(told, QueueEffect::DeadDeleted(_, 16)), "{told:?}");
    assert_eq!(rig.dead(), 0);
}

#[test]
fn a_deleted_queue_takes_its_control_with_it() {
    let mut rig = Rig::new();
    for has_jobs in [true, false] {
        if has_jobs {
            rig.publish(1, 1);
        }
        let control = WorkerControl {
            namespace: "shop".into(),
            queue: "orders".into(),
            state: WorkState::Drain,
            max_in_flight: None,
            data: None,
        };
        rig.ask(|reply| QueueInput::Queue(QueueCall::Control(orders(), Some(Box::new(control)), reply)));
        let delete = QueueInput::Queue(QueueCall::Delete(orders(), Reply::new().0));
        let (told, ..) = rig.step(&mut vec![delete]);
        let tells_workers = |effect: &QueueEffect| matches!(effect, QueueEffect::Control(_, _, None));
        assert!(told.iter().any(tells_workers), "{told:?}");
        let view = rig.store.view(partition()).expect("readable");
        assert!(view.queue_controls().expect("readable").is_empty());
    }
}
