//! What a seed decides before its run begins: how much there is of everything, how it is set, and
//! which faults come how often.
//!
//! Runs differ widely on purpose: a run in which every fault is rare finds other things than one in
//! which a single fault comes all the time.

use std::sync::Arc;
use std::time::Duration;

use base::random::Random;
use engine::Settings;
use engine::settings::{Keep, Retry, UnknownDevice};

use crate::harness::fault_injection::InjectedFault;
pub(crate) use crate::harness::machine::StorageKind as Storage;
use crate::harness::machine::{MachinePlan, MachineWeights};

/// How often the scheduler picks each kind of step, relative to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) reports: u64,
    pub(crate) registry: u64,
    pub(crate) attend: u64,
    pub(crate) time: u64,
    pub(crate) leap: u64,
    /// Most of a day passes, or more.
    pub(crate) day: u64,
    pub(crate) wall: u64,
    pub(crate) mood: u64,
    pub(crate) crash: u64,
    pub(crate) kill: u64,
    /// The process is to end in the middle of a step of the store.
    pub(crate) doom: u64,
    pub(crate) stop: u64,
    pub(crate) storage_fault: u64,
    pub(crate) audit: u64,
}

/// A run.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) steps: usize,
    pub(crate) storage: Storage,
    pub(crate) partitions: u16,
    pub(crate) devices: u64,
    pub(crate) clients: u64,
    pub(crate) per_client_in_flight: usize,
    /// Of the first process.
    pub(crate) settings: Arc<Settings>,
    /// Whether processes that follow may have other settings.
    pub(crate) reconfigures: bool,
    pub(crate) weights: Weights,
    /// Receivers fail for long, and are well for long.
    pub(crate) moods_last: bool,
    /// Slices may be as long, and values as large, as the contract allows: more than one batch
    /// takes.
    pub(crate) long_reports: bool,
    /// What is answered is synced so much later at most, if the store can do that.
    pub(crate) syncs_later: Option<Duration>,
    pub(crate) injected: Option<InjectedFault>,
}

/// Steps of a run before it becomes quiet.
const STEPS: u64 = 1_500;
/// Steps of a run with a crowd: each costs as much as many others.
const STEPS_WITH_A_CROWD: usize = 150;
/// Steps of a run with long reports.
const STEPS_WITH_LONG_REPORTS: usize = 400;
/// Devices of a crowd: more than one step of anything looks at.
const CROWD_DEVICES: u64 = 1_300;

impl Plan {
    /// The run of `seed`.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = chance_of(seed);
        let plan = Self::ordinary(seed, &mut random);
        match random.below(40) {
            0 => plan.with_a_crowd(),
            1 => plan.with_long_reports(),
            2..=9 => plan.with_moods_that_last(&mut random),
            10..=17 => plan.with_receivers_that_keep_failing(),
            _ => plan,
        }
    }

    /// The machine of `seed` and its faults, for runs without a fleet.
    pub(crate) fn of_machine(seed: u64) -> Self {
        Self::ordinary(seed, &mut chance_of(seed))
    }

    fn ordinary(seed: u64, random: &mut Random) -> Self {
        let storage = if random.chance(2, 5) { Storage::Memory } else { Storage::Embedded };
        Self {
            seed,
            steps: (STEPS / 2 + random.below(STEPS)) as usize,
            storage,
            partitions: 1 + random.below(4) as u16,
            devices: 1 + random.below(12),
            clients: 1 + random.below(4),
            per_client_in_flight: 1 + random.below(4) as usize,
            settings: Arc::new(settings(random)),
            reconfigures: random.chance(1, 3),
            weights: weights(random),
            moods_last: false,
            long_reports: false,
            syncs_later: syncs_later(seed),
            injected: None,
        }
    }

    /// What it decides of the machine.
    pub(crate) fn machine(&self) -> MachinePlan {
        let Weights { time, leap, day, wall, crash, kill, doom, stop, storage_fault, audit, .. } =
            self.weights;
        MachinePlan {
            seed: self.seed,
            storage: self.storage,
            partitions: self.partitions,
            weights: MachineWeights { time, leap, day, wall, crash, kill, doom, stop, storage_fault, audit },
            has_large_batches: self.has_large_batches(),
            sync_interval: self.sync_interval(),
            injected: self.injected,
        }
    }

    fn with_long_reports(self) -> Self {
        Self { long_reports: true, steps: STEPS_WITH_LONG_REPORTS, devices: self.devices.max(3), ..self }
    }

    /// Receivers fail for longer than notifications are tried, so that many are given up.
    fn with_moods_that_last(self, random: &mut Random) -> Self {
        let mut settings = (*self.settings).clone();
        settings.retry = Retry {
            base: Duration::from_secs(1),
            attempts_max: 1 + random.below(2) as u32,
            ..settings.retry
        };
        settings.stale_probe = Duration::from_secs(5 + random.below(20));
        // Little happens besides: a newer event would take the place of what is given up, and a
        // start would begin anew.
        let calm = self.weights;
        let weights = Weights {
            reports: 40,
            registry: 20,
            time: 400,
            leap: 0,
            day: 0,
            mood: 6,
            crash: calm.crash.min(1),
            kill: calm.kill.min(1),
            doom: calm.doom.min(1),
            stop: calm.stop.min(1),
            storage_fault: calm.storage_fault.min(2),
            ..calm
        };
        let settings = Arc::new(settings);
        Self {
            settings,
            moods_last: true,
            reconfigures: false,
            devices: self.devices.max(4),
            weights,
            ..self
        }
    }

    /// Receivers fail at many notifications and for long, and none is given up soon: breakers open.
    pub(crate) fn with_receivers_that_keep_failing(self) -> Self {
        let mut settings = (*self.settings).clone();
        settings.retry = Retry { base: Duration::from_secs(2), attempts_max: 12, ..settings.retry };
        let calm = self.weights;
        let weights = Weights {
            reports: 60,
            registry: 30,
            time: 400,
            leap: 0,
            day: 0,
            mood: 8,
            crash: calm.crash.min(1),
            kill: calm.kill.min(1),
            doom: calm.doom.min(1),
            stop: calm.stop.min(1),
            storage_fault: calm.storage_fault.min(1),
            ..calm
        };
        Self {
            settings: Arc::new(settings),
            moods_last: true,
            reconfigures: false,
            devices: self.devices.max(9),
            clients: self.clients.min(2),
            weights,
            ..self
        }
    }

    /// The process lives on, and its store is well: what it has in memory is not loaded again.
    pub(crate) fn without_ends(self) -> Self {
        let weights = Weights { crash: 0, kill: 0, doom: 0, stop: 0, storage_fault: 0, ..self.weights };
        Self { weights, ..self }
    }

    fn with_a_crowd(self) -> Self {
        let weights = Weights { audit: 0, ..self.weights };
        Self { steps: STEPS_WITH_A_CROWD, partitions: 1, devices: CROWD_DEVICES, clients: 2, weights, ..self }
    }

    /// How long a sync may be put off. Not with a crowd: what may be lost is remembered whole.
    pub(crate) fn sync_interval(&self) -> Option<Duration> {
        self.syncs_later.filter(|_| self.storage == Storage::Embedded && !self.has_large_batches())
    }

    fn has_large_batches(&self) -> bool {
        self.long_reports || self.has_a_crowd()
    }

    pub(crate) fn has_a_crowd(&self) -> bool {
        self.devices == CROWD_DEVICES
    }
}

/// The run draws from the seed itself; the plan must not foretell its first numbers.
fn chance_of(seed: u64) -> Random {
    Random::new(seed ^ 0x0005_eed0_f9a7_e000)
}

/// Some seeds, whatever else they decide.
pub(crate) fn syncs_later(seed: u64) -> Option<Duration> {
    let mut random = Random::new(seed ^ 0x0000_51bc_1a7e_0000);
    random.chance(1, 4).then(|| Duration::from_millis(1 + random.below(5_000)))
}

/// What an operator may have set.
pub(crate) fn settings(random: &mut Random) -> Settings {
    let mut seconds = |least: u64, most: u64| Duration::from_secs(least + random.below(most - least + 1));
    let retry =
        Retry { base: seconds(1, 30), max: seconds(20, 90), attempts_max: seconds(2, 6).as_secs() as u32 };
    let (report_interval, loss_grace, restart_grace) = (seconds(2, 40), seconds(0, 5), seconds(0, 20));
    let attempt_timeout = seconds(2, 10);
    let stale_probe = seconds(5, 120);
    let ways_configured = match random.below(4) {
        0 => [true, false, false],
        1 => [false, true, false],
        2 => [true, true, false],
        _ => [true, true, true],
    };
    Settings {
        device_ids: base::DeviceIdForm::DEFAULT,
        unknown: if random.chance(1, 3) { UnknownDevice::Register } else { UnknownDevice::Reject },
        report_interval,
        loss_grace,
        restart_grace,
        ways_configured,
        retry,
        attempt_timeout,
        stale_probe,
        keep: keep(random),
        jobs_resident_max: 65_536,
        allow_private: false,
        render: Arc::new(notify::render),
    }
}

/// For how long things are kept: half of the time so long that nothing goes.
fn keep(random: &mut Random) -> Keep {
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    let mut keep = Keep::default();
    if random.chance(1, 2) {
        let mut days = || DAY * (1 + random.below(2) as u32);
        (keep.readings, keep.events, keep.deliveries) = (days(), days(), days());
    }
    if random.chance(1, 2) {
        keep.quarantine_bytes_max = 1_000 + random.below(15_000);
    }
    if random.chance(1, 2) {
        keep.quarantined = Duration::from_secs(60 + random.below(7_200));
    }
    keep
}

fn weights(random: &mut Random) -> Weights {
    // One run in three is spared each fault; in the others it is rare or frequent.
    let mut fault = |often: u64| if random.chance(1, 3) { 0 } else { 1 + random.below(often) };
    Weights {
        attend: fault(20),
        leap: fault(8),
        day: if fault(3) > 0 { fault(6) } else { 0 },
        wall: fault(6),
        mood: fault(40),
        crash: fault(10),
        kill: fault(10),
        doom: fault(20),
        stop: fault(6),
        storage_fault: fault(12),
        reports: 30 + random.below(200),
        registry: 20 + random.below(100),
        time: 100 + random.below(300),
        audit: 10,
    }
}
