//! What a seed decides before its run begins: how much there is of everything, how it is set, and
//! which faults come how often.
//!
//! Runs differ widely on purpose. A run in which every fault is rare finds other things than one in
//! which a single fault comes all the time.

use std::sync::Arc;
use std::time::Duration;

use base::random::Random;
use engine::EngineSettings;
use engine::settings::{RetentionLimits, RetrySettings, UnknownDevice};

use crate::harness::machine::{MachinePlan, MachineWeights, StorageKind, syncs_later};
use crate::harness::workload;

/// How often the scheduler picks each kind of step, relative to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) reports: u64,
    pub(crate) registry: u64,
    pub(crate) attend: u64,
    pub(crate) mood: u64,
}

/// Devices, their clients, and how they behave.
#[derive(Clone)]
pub(crate) struct FleetPlan {
    pub(crate) devices: u64,
    pub(crate) clients: u64,
    pub(crate) per_client_in_flight: usize,
    /// Of the first process.
    pub(crate) settings: Arc<EngineSettings>,
    /// Whether processes that follow may have other settings.
    pub(crate) reconfigures: bool,
    pub(crate) weights: Weights,
    /// Receivers fail for long, and are well for long.
    pub(crate) moods_last: bool,
    /// Slices may be as long, and values as large, as the contract allows: more than one batch
    /// takes.
    pub(crate) long_reports: bool,
}

/// A run.
pub(crate) type Plan = workload::Plan<FleetPlan>;

/// Steps of a run before it becomes quiet.
const STEPS: u64 = 1_500;
/// Steps of a run with a crowd: each costs as much as many others.
const STEPS_WITH_A_CROWD: u64 = 150;
/// Steps of a run with long reports.
const STEPS_WITH_LONG_REPORTS: u64 = 400;
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

    fn ordinary(seed: u64, random: &mut Random) -> Self {
        let storage = if random.chance(2, 5) { StorageKind::Memory } else { StorageKind::Embedded };
        let steps = STEPS / 2 + random.below(STEPS);
        let partitions = 1 + random.below(4) as u16;
        let (devices, clients) = (1 + random.below(12), 1 + random.below(4));
        let per_client_in_flight = 1 + random.below(4) as usize;
        let settings = Arc::new(settings(random));
        let reconfigures = random.chance(1, 3);
        let (of_machine, weights) = weights(random);
        let machine = MachinePlan {
            seed,
            variation: 0,
            steps,
            storage,
            partitions,
            weights: of_machine,
            has_large_batches: false,
            audits_starts: true,
            syncs_later: syncs_later(seed),
            injected: None,
        };
        let workload = FleetPlan {
            devices,
            clients,
            per_client_in_flight,
            settings,
            reconfigures,
            weights,
            moods_last: false,
            long_reports: false,
        };
        Self { machine, workload }
    }

    fn with_long_reports(mut self) -> Self {
        (self.machine.steps, self.machine.has_large_batches) = (STEPS_WITH_LONG_REPORTS, true);
        let devices = self.workload.devices.max(3);
        self.workload = FleetPlan { long_reports: true, devices, ..self.workload };
        self
    }

    /// Receivers fail for longer than notifications are tried, so that many are given up.
    fn with_moods_that_last(mut self, random: &mut Random) -> Self {
        let mut settings = (*self.workload.settings).clone();
        settings.retry = RetrySettings {
            base: Duration::from_secs(1),
            attempts_max: 1 + random.below(2) as u32,
            ..settings.retry
        };
        settings.stale_probe = Duration::from_secs(5 + random.below(20));
        self.workload = FleetPlan {
            settings: Arc::new(settings),
            devices: self.workload.devices.max(4),
            ..self.workload
        };
        // A newer event would take the place of what is given up, and a start would begin anew.
        let weights = self.workload.weights;
        self.calm(2, Weights { reports: 40, registry: 20, mood: 6, ..weights })
    }

    /// Receivers fail at many notifications and for long, and none is given up soon: breakers open.
    pub(crate) fn with_receivers_that_keep_failing(mut self) -> Self {
        let mut settings = (*self.workload.settings).clone();
        settings.retry = RetrySettings { base: Duration::from_secs(2), attempts_max: 12, ..settings.retry };
        self.workload = FleetPlan {
            settings: Arc::new(settings),
            devices: self.workload.devices.max(9),
            clients: self.workload.clients.min(2),
            ..self.workload
        };
        let weights = self.workload.weights;
        self.calm(1, Weights { reports: 60, registry: 30, mood: 8, ..weights })
    }

    /// Receivers change seldom, and little else happens; settings stay.
    fn calm(mut self, storage_faults_max: u64, weights: Weights) -> Self {
        let machine = self.machine.weights;
        self.machine.weights = MachineWeights {
            time: 400,
            leap: 0,
            day: 0,
            crash: machine.crash.min(1),
            kill: machine.kill.min(1),
            doom: machine.doom.min(1),
            stop: machine.stop.min(1),
            storage_fault: machine.storage_fault.min(storage_faults_max),
            ..machine
        };
        self.workload = FleetPlan { moods_last: true, reconfigures: false, weights, ..self.workload };
        self
    }

    /// The process lives on, and its store is well: what it has in memory is not loaded again.
    pub(crate) fn without_ends(mut self) -> Self {
        self.machine.weights = self.machine.weights.without_ends();
        self
    }

    fn with_a_crowd(mut self) -> Self {
        self.machine.weights.audit = 0;
        (self.machine.steps, self.machine.partitions) = (STEPS_WITH_A_CROWD, 1);
        self.machine.has_large_batches = true;
        self.workload = FleetPlan { devices: CROWD_DEVICES, clients: 2, ..self.workload };
        self
    }
}

impl FleetPlan {
    pub(crate) fn has_a_crowd(&self) -> bool {
        self.devices == CROWD_DEVICES
    }
}

/// The run draws from the seed itself; the plan must not foretell its first numbers.
fn chance_of(seed: u64) -> Random {
    Random::new(seed ^ 0x0005_eed0_f9a7_e000)
}

/// The machine that devices have with this seed, for other runs: seeds of theirs have found
/// something with it.
pub(crate) fn machine_of(seed: u64) -> (MachinePlan, Arc<EngineSettings>) {
    let plan = Plan::ordinary(seed, &mut chance_of(seed));
    (plan.machine, plan.workload.settings)
}

/// What an operator may have set.
pub(crate) fn settings(random: &mut Random) -> EngineSettings {
    let mut seconds = |least: u64, most: u64| Duration::from_secs(least + random.below(most - least + 1));
    let retry = RetrySettings {
        base: seconds(1, 30),
        max: seconds(20, 90),
        attempts_max: seconds(2, 6).as_secs() as u32,
    };
    let (report_interval, loss_grace, restart_grace) = (seconds(2, 40), seconds(0, 5), seconds(0, 20));
    let attempt_timeout = seconds(2, 10);
    let stale_probe = seconds(5, 120);
    let ways_configured = match random.below(4) {
        0 => [true, false, false],
        1 => [false, true, false],
        2 => [true, true, false],
        _ => [true, true, true],
    };
    EngineSettings {
        device_ids: base::DeviceIdForm::DEFAULT,
        unknown: if random.chance(1, 3) { UnknownDevice::Register } else { UnknownDevice::Reject },
        report_interval,
        loss_grace,
        restart_grace,
        ways_configured,
        retry,
        attempt_timeout,
        stale_probe,
        notices: engine::notices::NoticeSettings::default(),
        keep: keep(random),
        jobs_resident_max: 65_536,
        node_name: None,
        directory_mark: None,
        streams_memory_bytes: 64_000_000,
        block_storages: store::BlockStorages::default(),
        coordination: engine::CoordinationSettings::default(),
        commands: engine::CommandSettings::default(),
        operations: engine::OperationSettings::default(),
        campaigns: engine::CampaignSettings::default(),
        allow_private: false,
        render: Arc::new(notify::render),
        check_payload: engine::settings::any_payload(),
    }
}

/// For how long things are kept: half of the time so long that nothing goes.
fn keep(random: &mut Random) -> RetentionLimits {
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    let mut keep = RetentionLimits::default();
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

fn weights(random: &mut Random) -> (MachineWeights, Weights) {
    // One run in three is spared each fault; in the others it is rare or frequent.
    let mut fault = |often: u64| if random.chance(1, 3) { 0 } else { 1 + random.below(often) };
    let (attend, leap) = (fault(20), fault(8));
    let day = if fault(3) > 0 { fault(6) } else { 0 };
    let (wall, mood, crash, kill, doom) = (fault(6), fault(40), fault(10), fault(10), fault(20));
    let (stop, storage_fault) = (fault(6), fault(12));
    let (reports, registry) = (30 + random.below(200), 20 + random.below(100));
    let time = 100 + random.below(300);
    let machine = MachineWeights { time, leap, day, wall, crash, kill, doom, stop, storage_fault, audit: 10 };
    (machine, Weights { reports, registry, attend, mood })
}
