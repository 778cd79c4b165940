//! The machine on a bench, step by step: a fleet of its own, a store in memory, and a hand that
//! carries orders and answers.

mod campaigns;
mod chances;
mod idempotency;
mod retention;
mod tasks;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::campaigns::{DeviceSet, device_set};
use base::{DeviceId, EntityId, Lineage, PartitionId, Timestamp};
use records::{CommandStatus, DevicePlace, DeviceSlot, Pick, TaskRecord, TaskState};
use store::{CommitOutcome, MemoryStore, Store};
use tokio::sync::oneshot;

use super::CampaignMachine;
use crate::campaigns::effect::{CampaignWarning, CampaignsEffect};
use crate::campaigns::fleet::FleetView;
use crate::campaigns::input::{CampaignsInput, PickUpdate, TaskCall};
use crate::campaigns::links::{OrderKind, PickOrder, PickOrderOutcome, PickReport, PickStanding};
use crate::campaigns::search::FoundDevices;
use crate::campaigns::{NewPickTerms, NewTask, TrackedTask};
use crate::kernel::fetch::FromStore;
use crate::kernel::machine::{Machine, StepTime};
use crate::kernel::reply::{Answered, Reply};
use crate::settings::EngineSettings;

/// A full hour.
const NOW: Timestamp = Timestamp(1_795_003_200_000);
/// Steps without an input: a machine that always has more to do never ends.
const STEPS_MAX: usize = 10_000;

/// Devices by slot, and which of them have a session.
#[derive(Default)]
struct BenchFleet {
    connected: Mutex<BTreeSet<u32>>,
    mute: Mutex<BTreeSet<u32>>,
}

impl FleetView for BenchFleet {
    fn connected(&self) -> u64 {
        self.connected.lock().expect("no test panics with it").len() as u64
    }

    fn device_id(&self, place: DevicePlace) -> Option<DeviceId> {
        DeviceId::new(&format!("d{}", place.slot.0))
    }

    fn mute(&self) -> DeviceSet {
        let mute = self.mute.lock().expect("no test panics with it");
        device_set::of_places(mute.iter().map(|slot| place(*slot)))
    }

    fn set_answering(&self, place: DevicePlace, is_answering: bool) {
        let mut mute = self.mute.lock().expect("no test panics with it");
        if is_answering {
            mute.remove(&place.slot.0);
        } else {
            mute.insert(place.slot.0);
        }
    }
}

impl BenchFleet {
    fn set(&self, slots: impl IntoIterator<Item = u32>) {
        *self.connected.lock().expect("no test panics with it") = slots.into_iter().collect();
    }

    fn found(&self) -> FoundDevices {
        let connected = self.connected.lock().expect("no test panics with it");
        let all: DeviceSet = device_set::of_places(connected.iter().map(|slot| place(*slot)));
        FoundDevices { strata: vec![all] }
    }
}

fn place(slot: u32) -> DevicePlace {
    DevicePlace { partition: PartitionId(0), slot: DeviceSlot(slot) }
}

struct Bench {
    machine: Option<CampaignMachine>,
    settings: Arc<EngineSettings>,
    store: MemoryStore,
    fleet: Arc<BenchFleet>,
    now: Timestamp,
    /// By how much the wall clock was set back.
    set_back: Duration,
    /// When the process began.
    began: Timestamp,
    /// Orders that nobody has carried yet.
    orders: Vec<PickOrder>,
    /// Searches that nobody has made yet, where they are not made at once.
    searches: Option<Vec<base::Incarnation>>,
    /// What operators were warned of.
    warnings: Vec<CampaignWarning>,
    tasks: u32,
}

impl Bench {
    /// With so many devices, all connected.
    fn of(devices: u32) -> Self {
        Self::with(devices, EngineSettings::for_tests())
    }

    fn with(devices: u32, settings: EngineSettings) -> Self {
        let fleet = Arc::new(BenchFleet::default());
        fleet.set(0..devices);
        let mut bench = Self {
            machine: None,
            settings: Arc::new(settings),
            store: MemoryStore::new(Lineage(1), 1),
            fleet,
            now: NOW,
            set_back: Duration::ZERO,
            began: NOW,
            orders: Vec::new(),
            searches: None,
            warnings: Vec::new(),
            tasks: 0,
        };
        bench.load();
        bench
    }

    /// Another process: what was under way in memory is lost.
    fn load(&mut self) {
        self.began = self.now;
        self.load_again();
    }

    /// The same process, whose machine is loaded again.
    fn load_again(&mut self) {
        self.orders.clear();
        let moment = self.moment();
        let fleet = Arc::clone(&self.fleet) as Arc<dyn FleetView>;
        let moments = (self.began, moment);
        self.machine =
            Some(CampaignMachine::load(&self.store, &self.settings, fleet, moments).expect("readable"));
    }

    fn moment(&self) -> StepTime {
        StepTime { now: self.now, stamp: self.now, wall: self.now.before(self.set_back) }
    }

    fn machine(&self) -> &CampaignMachine {
        self.machine.as_ref().expect("it was loaded")
    }

    /// One step, durable at once; whether there is more to do.
    fn one_step(&mut self, inputs: Vec<CampaignsInput>) -> bool {
        let moment = self.moment();
        let fetch = FromStore::new(&self.store, PartitionId::CAMPAIGNS);
        let machine = self.machine.as_mut().expect("it was loaded");
        let mut inputs = inputs.into_iter();
        let step = machine.step(moment, &mut inputs, &fetch).expect("readable");
        drop(fetch);
        if let Some(batch) = step.batch {
            let seq = batch.head.seq;
            self.store.commit(batch, Box::new(|outcome| assert!(matches!(outcome, CommitOutcome::Durable))));
            machine.settled(seq);
        }
        let mut is_more = step.more;
        for effect in step.effects {
            match effect {
                CampaignsEffect::Order(order) => self.orders.push(order),
                CampaignsEffect::Search(search) => match &mut self.searches {
                    Some(searches) => searches.push(search.task),
                    None => {
                        let found = PickUpdate::Found(search.task, self.fleet.found());
                        is_more |= self.one_step(vec![CampaignsInput::Update(found, Reply::new().0)]);
                    }
                },
                CampaignsEffect::Answering(place, is) => self.fleet.set_answering(place, is),
                CampaignsEffect::Task(reply, answer) => reply.send(answer),
                CampaignsEffect::Begun(reply, answer) => reply.send(answer),
                CampaignsEffect::Campaign(reply, answer) => reply.send(answer),
                CampaignsEffect::Done(reply, answer) => reply.send(answer),
                CampaignsEffect::Kept(reply) => reply.send(()),
                CampaignsEffect::EndsLeased(reply, due) => reply.send(due),
                CampaignsEffect::Warn(warning) => self.warnings.push(warning),
                _ => {}
            }
        }
        is_more
    }

    /// Steps until nothing is to be done at this time.
    fn settle(&mut self, inputs: Vec<CampaignsInput>) {
        let mut is_more = self.one_step(inputs);
        for _ in 0..STEPS_MAX {
            let is_due = self.machine().next_wakeup(self.now).is_some_and(|at| at <= self.now);
            if !is_more && !is_due {
                return;
            }
            is_more = self.one_step(Vec::new());
        }
        panic!("it is never done");
    }

    fn ask<T: std::fmt::Debug>(&mut self, make: impl FnOnce(Reply<T>) -> CampaignsInput) -> T {
        let mut answer = self.begin(make);
        answer.try_recv().expect("it is answered")
    }

    fn begin<T>(&mut self, make: impl FnOnce(Reply<T>) -> CampaignsInput) -> oneshot::Receiver<T> {
        let (reply, answer) = Reply::new();
        self.settle(vec![make(reply)]);
        answer
    }

    fn tell(&mut self, update: PickUpdate) {
        self.ask(|reply| CampaignsInput::Update(update, reply));
    }

    /// Time passes, in steps of at most a second.
    fn pass(&mut self, span: Duration) {
        let until = self.now.after(span);
        while self.now < until {
            let next = self.machine().next_wakeup(self.now).unwrap_or(until);
            self.now = next.clamp(Timestamp(self.now.0 + 1), until);
            self.settle(Vec::new());
        }
    }

    fn task(&mut self, count: u32) -> TrackedTask {
        self.new_task(count, |_| {}).expect("begun")
    }

    fn new_task(&mut self, count: u32, change: impl FnOnce(&mut NewTask)) -> Answered<TrackedTask> {
        self.tasks += 1;
        let id = task_id(self.tasks);
        let terms = NewPickTerms::new(Arc::from(&b"{}"[..]), count);
        let mut new = NewTask { request: 7, terms, deadline: NewTask::DEADLINE };
        change(&mut new);
        let (new, found) = (Box::new(new), self.fleet.found());
        let input = |reply| CampaignsInput::Task(TaskCall::Create { id, new, found, is_put: true, reply });
        self.ask(input).map(|tracked| *tracked)
    }

    /// Carries the orders that wait: each device does as `act` says.
    fn carry(&mut self, act: impl Fn(&PickOrder) -> Act) {
        while !self.orders.is_empty() {
            let reports = std::mem::take(&mut self.orders).into_iter().map(|order| report(&order, &act));
            let reports: Vec<_> = reports.collect();
            self.tell(PickUpdate::Reported(reports));
        }
    }

    fn stored(&self, task: base::Incarnation) -> (TaskRecord, TaskState, Vec<Pick>) {
        let view = self.store.view(PartitionId::CAMPAIGNS).expect("readable");
        let stored = view.task(task).expect("readable").expect("it is kept");
        let state = view.task_state(task).expect("readable").expect("it is kept");
        (stored, state, view.picks(task, None, usize::MAX).expect("readable"))
    }

    /// How often each device was picked, by slot.
    fn picks(&self) -> BTreeMap<u32, usize> {
        let view = self.store.view(PartitionId::CAMPAIGNS).expect("readable");
        let shares = view.pick_shares(None, usize::MAX).expect("readable");
        let picks = |place| view.picks_since(place, Timestamp(0), usize::MAX).expect("readable").len();
        shares.iter().map(|share| (share.place.slot.0, picks(share.place))).collect()
    }
}

/// What a device does with its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// It does it.
    Does,
    /// It says that it cannot.
    Refuses,
    /// It gets it and never answers.
    IsMute,
    /// It gets it.
    Gets,
    /// It is not there.
    IsAway,
    /// The command waits for it.
    IsBusy,
    /// There is no room for its result.
    HasNoRoom,
}

fn report(order: &PickOrder, act: &impl Fn(&PickOrder) -> Act) -> PickReport {
    let stands = |status, was_sent, was_answered| {
        PickOrderOutcome::Stands(PickStanding {
            command: EntityId::from_bytes(&[order.number as u8; EntityId::BYTES]),
            status,
            is_connected: act(order) != Act::IsAway,
            was_sent,
            was_answered,
            result: was_answered.then(|| "{}".into()),
            late: None,
        })
    };
    let outcome = match (order.what, act(order)) {
        (OrderKind::TakeBack, Act::IsBusy | Act::IsAway | Act::HasNoRoom) => PickOrderOutcome::TakenBack,
        (OrderKind::Give, Act::IsAway) => PickOrderOutcome::Away,
        (_, Act::HasNoRoom) => PickOrderOutcome::Busy,
        (_, Act::Does) => stands(CommandStatus::Acknowledged, true, true),
        (_, Act::Refuses) => stands(CommandStatus::Failed, true, true),
        (_, Act::IsMute) => stands(CommandStatus::Expired, true, false),
        (_, Act::Gets) => stands(CommandStatus::Published, true, false),
        (_, Act::IsBusy | Act::IsAway) => stands(CommandStatus::Scheduled, false, false),
    };
    PickReport { task: order.task, number: order.number, outcome }
}

fn task_id(number: u32) -> EntityId {
    let mut bytes = [0; EntityId::BYTES];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    EntityId::from_bytes(&bytes)
}
