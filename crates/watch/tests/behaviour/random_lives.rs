//! Random lives of a few devices, led by a watch and by the naive model side by side.
//!
//! After every step both must agree on what was noticed and on what each device is like. A crash
//! leaves the watch with nothing but what its batches said.

use std::time::Duration;

use base::{Timestamp, Value, WayIn};
use proptest::prelude::*;
use records::{AttendedReadings, Batch, Connection, DeviceSlot, Op};
use watch::{Connections, Noticed, SignOfLife, SilenceSettings, TICK, Watch, WatchProgress};

use crate::model::Model;
use crate::stored_devices::{self, StoredDevices};

const START: Timestamp = Timestamp(1_795_000_000_000);
const DEVICES: usize = 5;
const TICK_MS: i64 = TICK.as_millis() as i64;

/// What happens next, some milliseconds after what happened last.
#[derive(Clone, Debug)]
enum Step {
    Sign {
        device: usize,
        way: WayIn,
        sign: SignOfLife,
    },
    Attend {
        way: WayIn,
        attended: bool,
    },
    /// Time passes, and the watch is woken when it asks for it.
    Wake {
        for_ms: i64,
    },
    /// Time passes, and nobody wakes the watch.
    Sleep {
        for_ms: i64,
    },
    Crash {
        down_ms: i64,
        attended: [bool; 3],
    },
    SetInterval {
        device: usize,
        interval_ms: Option<u64>,
    },
    RegisterAnew {
        device: usize,
        interval_ms: Option<u64>,
    },
}

fn way() -> impl Strategy<Value = WayIn> {
    prop_oneof![5 => Just(WayIn::Mqtt), 3 => Just(WayIn::Http), 1 => Just(WayIn::Amqp)]
}

fn sign() -> impl Strategy<Value = SignOfLife> {
    let value = prop_oneof![
        (0..2).prop_map(|n| Value::number(f64::from(n)).expect("finite")),
        prop_oneof![Just("true"), Just("{\"a\":1}")].prop_map(Value::from_canonical),
    ];
    let ts = prop::option::of((0..6_i64).prop_map(Timestamp));
    let report = (value, ts).prop_map(|(value, ts)| SignOfLife::Report { value, ts });
    prop_oneof![3 => report, 1 => Just(SignOfLife::Alive)]
}

fn interval() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![Just(1_000), Just(1_537), Just(4_000), Just(20_000), Just(300_000)])
}

fn step() -> impl Strategy<Value = Step> {
    let spans = || prop_oneof![0..400_i64, 0..4_000_i64, 4_000..30_000_i64];
    let device = || 0..DEVICES;
    prop_oneof![
        10 => (device(), way(), sign()).prop_map(|(device, way, sign)| Step::Sign { device, way, sign }),
        3 => (way(), prop::bool::weighted(0.7)).prop_map(|(way, attended)| Step::Attend { way, attended }),
        6 => spans().prop_map(|for_ms| Step::Wake { for_ms }),
        2 => spans().prop_map(|for_ms| Step::Sleep { for_ms }),
        1 => (spans(), prop::array::uniform3(prop::bool::weighted(0.8)))
            .prop_map(|(down_ms, attended)| Step::Crash { down_ms, attended }),
        1 => (device(), interval()).prop_map(|(device, interval_ms)| Step::SetInterval { device, interval_ms }),
        1 => (device(), interval()).prop_map(|(device, interval_ms)| Step::RegisterAnew { device, interval_ms }),
    ]
}

fn settings() -> impl Strategy<Value = SilenceSettings> {
    let ms = Duration::from_millis;
    let times = (
        prop_oneof![Just(2_000), Just(10_000)],
        prop_oneof![Just(0), Just(250)],
        prop_oneof![Just(0), Just(3_100)],
    );
    (times, prop::array::uniform3(prop::bool::weighted(0.7))).prop_map(
        move |((report_interval, loss_grace, restart_grace), configured)| SilenceSettings {
            report_interval: ms(report_interval),
            loss_grace: ms(loss_grace),
            restart_grace: ms(restart_grace),
            configured,
        },
    )
}

/// A watch and the model of it.
struct Lives {
    settings: SilenceSettings,
    watch: Watch,
    model: Model,
    stored: StoredDevices,
    /// How much counted time the latest kept batch knows of.
    counted_kept: usize,
    now: Timestamp,
    slots: Vec<DeviceSlot>,
    next_slot: u32,
}

impl Lives {
    fn new(settings: SilenceSettings) -> Self {
        let clocks = AttendedReadings::default();
        let mut lives = Self {
            settings,
            watch: Watch::new(settings, clocks, START),
            model: Model::new(settings, START),
            stored: StoredDevices::new(clocks),
            counted_kept: 0,
            now: START,
            slots: Vec::new(),
            next_slot: 250,
        };
        lives.attend_all([true; 3]);
        for _ in 0..DEVICES {
            let slot = lives.register(None);
            lives.slots.push(slot);
        }
        lives
    }

    fn attend_all(&mut self, attended: [bool; 3]) {
        for (way, attended) in WayIn::ALL.into_iter().zip(attended) {
            self.watch.attend(self.now, way, attended);
            self.model.attend(way, attended);
        }
    }

    fn register(&mut self, interval_ms: Option<u64>) -> DeviceSlot {
        let clocks = self.watch.readings_of_clocks(self.now);
        let profile = stored_devices::profile(self.next_slot, interval_ms, clocks);
        self.next_slot += 1;
        self.watch.register(&profile);
        self.stored.put_device(&profile, clocks);
        self.model.register(profile.slot, interval_ms);
        self.counted_kept = self.model.counted();
        profile.slot
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Sign { device, way, sign } => self.sign(self.slots[device], way, sign),
            Step::Attend { way, attended } => {
                self.watch.attend(self.now, way, attended);
                self.model.pass(self.now);
                self.model.attend(way, attended);
            }
            Step::Wake { for_ms } => self.wake_for(for_ms),
            Step::Sleep { for_ms } => self.now.0 += for_ms,
            Step::Crash { down_ms, attended } => self.crash(down_ms, attended),
            Step::SetInterval { device, interval_ms } => self.set_interval(self.slots[device], interval_ms),
            Step::RegisterAnew { device, interval_ms } => self.register_anew(device, interval_ms),
        }
    }

    fn sign(&mut self, slot: DeviceSlot, way: WayIn, sign: SignOfLife) {
        self.model.pass(self.now);
        let before = self.model.state(slot).clone();
        let expect = self.model.sign(slot, way, &sign);
        let (mut batch, mut noticed) = (stored_devices::batch(), Vec::new());
        self.watch.sign(self.now, slot, way, sign, &mut batch, &mut noticed);
        assert_eq!(noticed, expect);
        let ops = if before == *self.model.state(slot) { 1 } else { 2 };
        assert_eq!(batch.ops.len(), ops, "{:?}", batch.ops);
        assert!(matches!(batch.ops[0], Op::Sign(_)), "{:?}", batch.ops);
        self.commit(&batch);
    }

    /// Losses are noticed no later than a tick after they are due, unless they were due before.
    fn wake_for(&mut self, for_ms: i64) {
        let until = Timestamp(self.now.0 + for_ms);
        self.advance(3);
        while let Some(at) = self.watch.next_wakeup(self.now).filter(|at| *at <= until) {
            assert!(at > self.now, "woken at {at} for nothing");
            let held = self.model.silent_too_long();
            self.now = at;
            for (slot, late_ms) in self.advance(3) {
                assert!(late_ms <= TICK_MS || held.contains_key(&slot), "{slot:?} is {late_ms} ms late");
            }
        }
        self.now = until;
    }

    fn crash(&mut self, down_ms: i64, attended: [bool; 3]) {
        self.now.0 += down_ms;
        self.watch = self.stored.restart(self.settings, self.now);
        self.model.restart(self.now, self.counted_kept);
        self.attend_all(attended);
    }

    fn set_interval(&mut self, slot: DeviceSlot, interval_ms: Option<u64>) {
        self.advance(1);
        let mut profile = self.stored.profile(slot);
        profile.report_interval_ms = interval_ms;
        self.watch.set_interval(slot, interval_ms);
        self.model.set_interval(slot, interval_ms);
        self.stored.put_device(&profile, self.watch.readings_of_clocks(self.now));
        self.counted_kept = self.model.counted();
    }

    fn register_anew(&mut self, device: usize, interval_ms: Option<u64>) {
        self.advance(1);
        let slot = self.slots[device];
        self.watch.forget(slot);
        self.model.forget(slot);
        self.stored.delete_device(slot, self.watch.readings_of_clocks(self.now));
        self.slots[device] = self.register(interval_ms);
    }

    /// Lets silence be noticed, in steps of `limit`. Who was lost, and by how many milliseconds too
    /// late.
    fn advance(&mut self, limit: usize) -> Vec<(DeviceSlot, i64)> {
        self.model.pass(self.now);
        let overdue = self.model.overdue();
        let mut lost = Vec::new();
        loop {
            let (mut batch, mut noticed) = (stored_devices::batch(), Vec::new());
            let progress = self.watch.advance(self.now, limit, &mut batch, &mut noticed);
            assert!(noticed.len() <= limit, "{noticed:?}");
            assert_eq!(batch.ops.len(), noticed.len());
            self.commit(&batch);
            lost.extend(noticed.iter().map(|noticed| self.lose(noticed, overdue.get(&noticed.slot))));
            if progress == WatchProgress::Done {
                break;
            }
        }
        let missed = self.model.overdue().into_iter().find(|(_, ms)| *ms >= TICK_MS);
        assert_eq!(missed, None, "not noticed at {}", self.now);
        lost
    }

    fn lose(&mut self, noticed: &Noticed, overdue_ms: Option<&i64>) -> (DeviceSlot, i64) {
        self.model.lose(noticed);
        (noticed.slot, overdue_ms.copied().unwrap_or(0))
    }

    fn commit(&mut self, batch: &Batch) {
        self.stored.apply(batch, self.now, self.watch.readings_of_clocks(self.now));
        if !batch.ops.is_empty() {
            self.counted_kept = self.model.counted();
        }
    }

    fn agree(&self) {
        for slot in &self.slots {
            assert_eq!(self.watch.state(*slot).as_ref(), Some(self.model.state(*slot)), "{slot:?}");
            assert_eq!(self.watch.last_seen(*slot), self.model.last_seen(*slot), "{slot:?}");
            assert_eq!(self.watch.seen(*slot), self.stored.seen(*slot), "{slot:?}");
            assert_eq!(self.stored.state(*slot), *self.model.state(*slot), "{slot:?}");
        }
        let of = |connection| {
            let states = self.slots.iter().map(|slot| self.model.state(*slot).connection);
            states.filter(|is| *is == connection).count() as u64
        };
        let (never_seen, online) = (of(Connection::NeverSeen), of(Connection::Online));
        let expect = Connections { never_seen, online, lost: of(Connection::Lost) };
        assert_eq!(self.watch.connections(), expect);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_watch_agrees_with_the_model_at_every_step(
        settings in settings(),
        steps in prop::collection::vec((0..300_i64, step(), prop::bool::weighted(0.8)), 1..150),
    ) {
        let mut lives = Lives::new(settings);
        for (after_ms, step, advance) in steps {
            lives.now.0 += after_ms;
            lives.step(step);
            if advance {
                lives.advance(2);
            }
            lives.agree();
        }
    }
}
