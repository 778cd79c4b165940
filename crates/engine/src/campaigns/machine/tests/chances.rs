//! Tasks and slots while devices come and go, answer or not. The process dies between any two
//! steps, or in one whose batch is lost.

use records::{CampaignPace, MissedSlots, TaskStanding};

use super::*;
use crate::campaigns::NewCampaign;
use crate::campaigns::input::{CampaignCall, PresentCampaign};
use crate::campaigns::links::PickMove;

const RUNS: u64 = 60;
const ROUNDS: usize = 80;
const DEVICES: u32 = 14;

/// Numbers that look like chance, and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = base::hash::derived(self.0, b"next");
        self.0 % end
    }

    fn is_one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// What the partitions of devices know of a pick's command: it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Waits,
    Sent,
    Answered,
    Silent,
    TakenBack,
}

/// The partitions of devices.
#[derive(Default)]
struct Partitions(BTreeMap<(base::Incarnation, u32), (DevicePlace, Command)>);

impl Partitions {
    fn standing(&self, key: (base::Incarnation, u32)) -> PickOrderOutcome {
        let command = self.0.get(&key).map_or(Command::TakenBack, |(_, command)| *command);
        let (status, was_sent, was_answered) = match command {
            Command::TakenBack => return PickOrderOutcome::TakenBack,
            Command::Waits => (CommandStatus::Scheduled, false, false),
            Command::Sent => (CommandStatus::Published, true, false),
            Command::Answered => (CommandStatus::Acknowledged, true, true),
            Command::Silent => (CommandStatus::Failed, true, false),
        };
        let command = EntityId::from_bytes(&[1; EntityId::BYTES]);
        let (result, late) = (None, None);
        let is_connected = true;
        let standing = PickStanding { command, status, is_connected, was_sent, was_answered, result, late };
        PickOrderOutcome::Stands(standing)
    }

    fn carry(&mut self, order: &PickOrder, is_connected: bool) -> PickReport {
        let key = (order.task, order.number);
        if let Some((place, _)) = self.0.get(&key) {
            assert_eq!(*place, order.place, "a pick is of one device");
        }
        let known = self.0.get(&key).map(|(_, command)| *command);
        let outcome = match (order.what, known) {
            (OrderKind::Give, None) if !is_connected => PickOrderOutcome::Away,
            (OrderKind::Give | OrderKind::Ensure, None) => {
                let is_asked = |(of, (place, _)): (&(base::Incarnation, u32), &(DevicePlace, Command))| {
                    of.0 == order.task && *place == order.place
                };
                assert!(!self.0.iter().any(is_asked), "a device is asked once by a task");
                self.0.insert(key, (order.place, Command::Waits));
                self.standing(key)
            }
            (OrderKind::TakeBack, None | Some(Command::Waits)) => {
                self.0.insert(key, (order.place, Command::TakenBack));
                PickOrderOutcome::TakenBack
            }
            _ => self.standing(key),
        };
        PickReport { task: order.task, number: order.number, outcome }
    }

    /// Commands move on by chance; nobody may be told.
    fn move_on(&mut self, connected: &BTreeSet<u32>, chance: &mut Chance, all: bool) -> Vec<PickMove> {
        let mut moved = Vec::new();
        for (key, (place, command)) in &mut self.0 {
            let next = match command {
                Command::Waits if connected.contains(&place.slot.0) => Command::Sent,
                Command::Sent if chance.is_one_in(3) => Command::Silent,
                Command::Sent => Command::Answered,
                _ => continue,
            };
            if all || chance.is_one_in(2) {
                *command = next;
                moved.push(*key);
            }
        }
        let told = |(task, number)| match self.standing((task, number)) {
            PickOrderOutcome::Stands(standing) => Some(PickMove { task, number, standing }),
            _ => None,
        };
        moved.into_iter().filter_map(told).collect()
    }
}

struct World {
    bench: Bench,
    partitions: Partitions,
    chance: Chance,
    tasks: Vec<TrackedTask>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            bench: Bench::of(DEVICES),
            partitions: Partitions::default(),
            chance: Chance(seed),
            tasks: Vec::new(),
        };
        let new = Box::new(NewCampaign {
            request: 1,
            id: None,
            name: None,
            terms: NewPickTerms::new(Arc::from(&b"{}"[..]), 3),
            pace: CampaignPace::Every(20_000),
            phase: Some(Duration::ZERO),
            from: None,
            until: None,
            missed: if seed.is_multiple_of(2) { MissedSlots::Skip } else { MissedSlots::CatchUp },
            is_panel: seed.is_multiple_of(3),
        });
        let (id, present) = (Box::from("probe"), PresentCampaign::Refuses);
        let made = |reply| CampaignsInput::Campaign(CampaignCall::Create { id, new, present, reply });
        world.bench.ask(made).expect("made");
        world
    }

    fn connected(&self) -> BTreeSet<u32> {
        self.bench.fleet.connected.lock().expect("no test panics with it").clone()
    }

    fn carry(&mut self) {
        let connected = self.connected();
        let orders = std::mem::take(&mut self.bench.orders);
        let carry = |order: &PickOrder| self.partitions.carry(order, connected.contains(&order.place.slot.0));
        let reports: Vec<_> = orders.iter().map(carry).collect();
        self.tell(PickUpdate::Reported(reports));
    }

    /// Tells the machine, which may die before its batch is durable: then all that was on its way
    /// is lost.
    fn tell(&mut self, update: PickUpdate) {
        if self.chance.is_one_in(12) {
            let moment = StepTime { now: self.bench.now, stamp: self.bench.now, wall: self.bench.now };
            let fetch = FromStore::new(&self.bench.store, PartitionId::CAMPAIGNS);
            let machine = self.bench.machine.as_mut().expect("it was loaded");
            let mut inputs = [CampaignsInput::Update(update, Reply::new().0)].into_iter();
            drop(machine.step(moment, &mut inputs, &fetch).expect("readable"));
            self.crash();
        } else {
            self.bench.tell(update);
        }
    }

    fn crash(&mut self) {
        self.bench.load();
        self.bench.settle(Vec::new());
    }

    fn round(&mut self) {
        match self.chance.below(8) {
            0 => {
                let count = 1 + self.chance.below(8) as u32;
                let begun = self.bench.task(count);
                self.tasks.push(begun);
            }
            1 => {
                let span = Duration::from_millis(self.chance.below(15_000));
                self.bench.pass(span);
            }
            2 => {
                let before = self.connected();
                let now: BTreeSet<_> = (0..DEVICES).filter(|_| !self.chance.is_one_in(4)).collect();
                self.bench.fleet.set(now.iter().copied());
                let places = |slots: BTreeSet<u32>| slots.into_iter().map(place).collect::<Vec<_>>();
                self.tell(PickUpdate::WentAway(places(&before - &now)));
                self.tell(PickUpdate::Came(places(&now - &before)));
            }
            3 => self.crash(),
            4 => {
                let tasks = self.tasks.len() as u64;
                if tasks > 0 && self.chance.is_one_in(4) {
                    let id = self.tasks[self.chance.below(tasks) as usize].task.id;
                    drop(self.bench.begin(|reply| CampaignsInput::Task(TaskCall::Cancel { id, reply })));
                }
            }
            _ => {
                self.carry();
                let moved = self.partitions.move_on(&self.connected(), &mut self.chance, false);
                self.tell(PickUpdate::Moved(moved));
            }
        }
    }

    /// Everything comes to its end.
    fn finish(&mut self) {
        let id = Box::from("probe");
        self.bench
            .ask(|reply| {
                CampaignsInput::Campaign(CampaignCall::Delete {
                    id,
                    only_if: crate::OnlyIf::default(),
                    reply,
                })
            })
            .expect("known");
        self.bench.fleet.set(0..DEVICES);
        self.crash();
        for _ in 0..12 {
            let reports: Vec<_> = std::mem::take(&mut self.bench.orders);
            let reports = reports.iter().map(|order| self.partitions.carry(order, true)).collect();
            self.bench.tell(PickUpdate::Reported(reports));
            let moved = self.partitions.move_on(&self.connected(), &mut self.chance, true);
            self.bench.tell(PickUpdate::Moved(moved));
            self.bench.pass(Duration::from_secs(10));
        }
    }

    fn check(&self, seed: u64) {
        assert_eq!(
            (self.bench.machine().running.len(), self.bench.machine().open_picks.all()),
            (0, 0),
            "run {seed}"
        );
        let view = self.bench.store.view(PartitionId::CAMPAIGNS).expect("readable");
        let ended = |is_slot| view.tasks_ended(is_slot, None, Timestamp::MAX, usize::MAX).expect("readable");
        let mut slots = BTreeSet::new();
        for state in ended(false).into_iter().chain(ended(true)) {
            let (task, state, picks) = self.bench.stored(state.task);
            let places: BTreeSet<_> = picks.iter().map(|pick| pick.place).collect();
            assert_eq!(places.len(), picks.len(), "run {seed}: nobody is picked twice");
            let counts = state.counts;
            assert!(
                counts.picked <= 2 * task.wanted && counts.replaced <= task.wanted,
                "run {seed}: {state:?}"
            );
            assert!(counts.answered + counts.failed <= task.wanted, "run {seed}: {state:?}");
            assert_eq!(counts.picked, counts.answered + counts.failed + counts.expired, "run {seed}");
            assert_eq!(state.ended, counts.picked, "run {seed}");
            assert_ne!(state.standing, TaskStanding::Running, "run {seed}");
            if let Some(slot) = task.slot {
                assert!(slots.insert(slot.number), "run {seed}: slot {} comes twice", slot.number);
            }
        }
        let numbers: Vec<_> = slots.into_iter().collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "run {seed}: none is forgotten");
        assert_eq!(ended(false).len(), self.tasks.len(), "run {seed}");
    }
}

#[test]
fn whatever_happens_nobody_is_picked_twice_and_no_slot_is_repeated_or_forgotten() {
    for seed in 0..RUNS {
        let mut world = World::new(seed);
        (0..ROUNDS).for_each(|_| world.round());
        world.finish();
        world.check(seed);
    }
}
