//! Tasks and campaigns as the edges hold them: devices that come, answer, stay silent and leave,
//! and processes that follow each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::{Clock, DeviceId, Lineage, Timestamp, WayIn};
use engine::campaigns::{NewCampaign, NewPickTerms, NewTask, TrackedTask};
use engine::fleet::Selection;
use engine::presence::{KindSet, Session};
use engine::{Downlink, Engine, NewDevice, PublishedCommand, Report, ReportContent};
use records::{CampaignPace, DisconnectReason, MissedSlots, Pick, PickOutcome, TaskRelation, TaskStanding};
use store::MemoryStore;

use crate::whole::settings;

const PARTITIONS: u16 = 4;
/// A full hour.
const NOW: i64 = 1_795_003_200_000;

/// What went out, in order.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Vec<PublishedCommand>>>);

impl Downlink for Wire {
    fn publish(&self, command: PublishedCommand) {
        self.0.lock().expect("no test panics with it").push(command);
    }
}

/// A clock that goes on by itself, and leaps when the test says so.
struct Leaping {
    began: Instant,
    ahead_ms: AtomicI64,
}

impl Clock for Leaping {
    fn now(&self) -> Timestamp {
        Timestamp(self.ahead_ms.load(Ordering::SeqCst)).after(self.began.elapsed())
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

struct Fleet {
    store: Arc<MemoryStore>,
    engine: Engine,
    wire: Wire,
    clock: Arc<Leaping>,
    /// Of what went out, so much was answered.
    answered: usize,
}

impl Fleet {
    async fn start(store: Arc<MemoryStore>, clock: Arc<Leaping>) -> Self {
        let engine = Engine::start(settings(), Arc::clone(&store) as _, Arc::clone(&clock) as _).await;
        let (engine, wire) = (engine.expect("loads"), Wire::default());
        engine.carry_commands_by(Arc::new(wire.clone()));
        Self { store, engine, wire, clock, answered: 0 }
    }

    /// With so many devices, `d000` and on, all of which come.
    async fn of(devices: usize) -> Self {
        let store = MemoryStore::new(Lineage(1), PARTITIONS);
        let clock = Leaping { began: Instant::now(), ahead_ms: AtomicI64::new(NOW) };
        let fleet = Self::start(Arc::new(store), Arc::new(clock)).await;
        for number in 0..devices {
            let labels = Some(vec![("site".to_owned(), (number % 2).to_string())]);
            let device = NewDevice { id: format!("d{number:03}"), labels, ..NewDevice::default() };
            fleet.engine.create_device(device).await.expect("registered");
            fleet.come(number).await;
        }
        fleet
    }

    /// Another process; every device is away.
    async fn restart(self) -> Self {
        self.engine.stop().await;
        Self::start(self.store, self.clock).await
    }

    async fn come(&self, number: usize) {
        self.connect(number).await;
        let reach = Some(KindSet::Any.into());
        self.engine.presence().reaches(id(number), number as u64, reach).await.expect("told");
    }

    /// A session, which listens to nothing yet.
    async fn connect(&self, number: usize) {
        let session = Session { number: number as u64, address: None, label: None };
        self.engine.presence().connected(id(number), KindSet::Any, session).await.expect("told");
    }

    async fn leave(&self, number: usize) {
        let reason = DisconnectReason::ConnectionLost;
        self.engine.presence().disconnected(id(number), number as u64, reason).await.expect("told");
    }

    async fn task(&self, count: u32, change: impl FnOnce(&mut NewTask)) -> TrackedTask {
        let terms = NewPickTerms::new(Arc::from(&b"{\"do\":1}"[..]), count);
        let mut new = NewTask { request: 7, terms, deadline: NewTask::DEADLINE };
        change(&mut new);
        self.engine.tasks().create(new, None).await.expect("begun")
    }

    fn published(&self) -> Vec<PublishedCommand> {
        self.wire.0.lock().expect("no test panics with it").clone()
    }

    /// Answers what went out and was not answered before.
    async fn answer_all(&mut self) {
        for command in self.published().split_off(self.answered) {
            let content = ReportContent::Answer { command: command.id, ok: true, result: Some("{}".into()) };
            let report = Report { device: command.device.clone(), kind: None, content, id: None };
            let taken = self.engine.intake(WayIn::Http).submit(vec![report]).await.expect("taken");
            assert_eq!(taken.durable().await.expect("durable").accepted, 1);
            self.answered += 1;
        }
    }

    async fn answer_until_done(&mut self, task: &TrackedTask) -> Vec<Pick> {
        while self.now(task).state.standing != TaskStanding::Done {
            self.answer_all().await;
            tokio::task::yield_now().await;
        }
        self.results(task)
    }

    fn now(&self, task: &TrackedTask) -> TrackedTask {
        self.engine.queries().task(&task.task.id).expect("readable").expect("it is there")
    }

    fn results(&self, task: &TrackedTask) -> Vec<Pick> {
        self.engine.queries().task_results(task.task.incarnation, None, false, 10_000).expect("readable")
    }

    fn pass(&self, span: Duration) {
        self.clock.ahead_ms.fetch_add(span.as_millis() as i64, Ordering::SeqCst);
        self.engine.clocks_stepped();
    }
}

fn id(number: usize) -> DeviceId {
    DeviceId::new(&format!("d{number:03}")).expect("an id")
}

async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

fn devices(picks: &[Pick]) -> BTreeSet<DeviceId> {
    picks.iter().map(|pick| pick.device.clone()).collect()
}

#[tokio::test]
async fn a_task_asks_connected_devices_of_its_selection_and_wakes_who_waits_for_its_end() {
    let mut fleet = Fleet::of(12).await;
    fleet.leave(1).await;
    let task = fleet.task(9, |new| new.terms.selection = Selection::parse("site=1").ok()).await;
    assert_eq!(task.state.counts.picked, 5, "six are of the site, and one is away");
    let tasks = fleet.engine.tasks();
    let id = task.task.id;
    let ended = tokio::spawn(async move { tasks.ended(id, Duration::from_secs(600)).await });
    let results = fleet.answer_until_done(&task).await;
    assert!(results.iter().all(|pick| pick.end.as_ref().is_some_and(|end| end.result.is_some())));
    assert_eq!(devices(&results), [3, 5, 7, 9, 11].map(self::id).into());
    let ended = ended.await.expect("no panic").expect("known").expect("it is there");
    assert_eq!(ended.state.counts.answered, 5);
}

#[tokio::test]
async fn who_leaves_before_it_was_asked_is_replaced() {
    let mut fleet = Fleet::of(2).await;
    fleet.leave(0).await;
    fleet.leave(1).await;
    fleet.connect(0).await;
    let task = fleet.task(1, |_| {}).await;
    assert_eq!(task.state.counts.picked, 1, "it is connected, and listens to nothing");
    fleet.come(1).await;
    fleet.leave(0).await;
    let results = fleet.answer_until_done(&task).await;
    let outcomes: Vec<_> = results.iter().filter_map(|pick| Some(pick.end.as_ref()?.outcome)).collect();
    assert_eq!(outcomes, [PickOutcome::WentAway, PickOutcome::Answered]);
    assert_eq!(results[1].device, id(1));
}

#[tokio::test]
async fn who_does_not_answer_is_replaced_and_a_late_answer_is_kept() {
    let mut fleet = Fleet::of(3).await;
    let task = fleet.task(1, |_| {}).await;
    until(|| fleet.published().len() == 1).await;
    fleet.pass(NewPickTerms::ANSWER_TIMEOUT);
    until(|| fleet.published().len() == 2).await;
    let results = fleet.answer_until_done(&task).await;
    assert_eq!(results.len(), 2);
    assert_eq!(results[0].end.as_ref().map(|end| end.outcome), Some(PickOutcome::NoAnswer));
    until(|| fleet.results(&task)[0].late.is_some()).await;
    assert_eq!(fleet.now(&task).state.counts.replaced, 1);
}

#[tokio::test]
async fn a_task_goes_on_in_another_process_and_asks_nobody_twice() {
    let mut fleet = Fleet::of(30).await;
    let task = fleet.task(10, |_| {}).await;
    until(|| fleet.published().len() == 10).await;
    let asked: BTreeSet<_> = fleet.published().iter().map(|command| command.device.clone()).collect();
    let under_way: Vec<_> = fleet.published();
    fleet = fleet.restart().await;
    *fleet.wire.0.lock().expect("no test panics with it") = under_way;
    for number in 0..30 {
        fleet.come(number).await;
    }
    let results = fleet.answer_until_done(&task).await;
    assert_eq!(devices(&results), asked);
    assert_eq!(fleet.now(&task).state.counts.picked, 10);
}

#[tokio::test]
async fn a_task_may_be_of_the_devices_of_another_or_of_none_of_them() {
    let mut fleet = Fleet::of(12).await;
    let first = fleet.task(4, |_| {}).await;
    let picked = devices(&fleet.answer_until_done(&first).await);
    let related = |relation| move |new: &mut NewTask| new.terms.relation = Some(relation);
    let same = fleet.task(9, related(TaskRelation::SameAs(first.task.id))).await;
    assert_eq!(devices(&fleet.answer_until_done(&same).await), picked);
    let others = fleet.task(9, related(TaskRelation::NotAs(first.task.id))).await;
    let others = devices(&fleet.answer_until_done(&others).await);
    assert_eq!((others.len(), others.intersection(&picked).count()), (8, 0));
}

#[tokio::test]
async fn equal_numbers_are_picked_of_each_value() {
    let mut fleet = Fleet::of(20).await;
    let task = fleet.task(6, |new| new.terms.spread_by = Some("site".into())).await;
    let results = fleet.answer_until_done(&task).await;
    let is_odd = |pick: &&Pick| pick.device.as_str().ends_with(['1', '3', '5', '7', '9']);
    assert_eq!((results.len(), results.iter().filter(is_odd).count()), (6, 3));
}

#[tokio::test]
async fn a_campaign_asks_its_count_at_each_slot_and_every_device_its_share() {
    let mut fleet = Fleet::of(9).await;
    let new = NewCampaign {
        request: 1,
        id: Some("probe".into()),
        name: None,
        terms: NewPickTerms::new(Arc::from(&b"{}"[..]), 4),
        pace: CampaignPace::Every(60_000),
        phase: Some(Duration::ZERO),
        from: None,
        until: None,
        missed: MissedSlots::Skip,
        is_panel: false,
    };
    let made = fleet.engine.campaigns().create(new, None).await.expect("made");
    let incarnation = made.campaign.incarnation;
    for slot in 1..=9 {
        fleet.pass(Duration::from_secs(60));
        until(|| fleet.published().len() == slot * 4).await;
        fleet.answer_all().await;
        let answered = |fleet: &Fleet| {
            let all = (Timestamp(0), Timestamp::MAX);
            let slots = fleet.engine.queries().slots(incarnation, all, None, 100).expect("readable");
            slots.iter().map(|slot| slot.state.counts.answered as usize).collect::<Vec<_>>()
        };
        until(|| answered(&fleet) == vec![4; slot]).await;
    }
    let mut picks: BTreeMap<DeviceId, usize> = BTreeMap::new();
    fleet.published().into_iter().for_each(|command| *picks.entry(command.device).or_default() += 1);
    assert_eq!(picks.values().copied().collect::<Vec<_>>(), [4; 9]);
}
