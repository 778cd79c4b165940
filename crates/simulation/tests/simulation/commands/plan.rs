//! What a seed decides of a run with commands before it begins. The faults of the machine are those
//! of every run.

use std::sync::Arc;
use std::time::Duration;

use base::random::Random;
use base::{DeviceId, Kind};
use engine::settings::{CommandPace, RetentionLimits, UnknownDevice};
use engine::{CommandSettings, EngineSettings};

use crate::devices::plan::machine_of;
use crate::harness::workload;

/// How often the scheduler picks what devices and callers do, relative to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) send: u64,
    /// Commands called off, tried anew, waited for.
    pub(crate) manage: u64,
    /// Sessions that come and go.
    pub(crate) presence: u64,
    pub(crate) poll: u64,
    /// Rollouts that are begun, paused, resumed and cancelled; none in most runs.
    pub(crate) rollouts: u64,
}

/// Devices, and those who send them commands.
#[derive(Clone)]
pub(crate) struct CommandsPlan {
    pub(crate) settings: Arc<EngineSettings>,
    pub(crate) weights: Weights,
    pub(crate) devices: u64,
    /// Different keys of commands: few, so that they meet.
    pub(crate) names: u64,
}

/// A run.
pub(crate) type Plan = workload::Plan<CommandsPlan>;

/// Steps of a run before it becomes quiet.
const STEPS: u64 = 700;
/// Longer than any run: what has ended is not forgotten.
const KEPT: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

impl Plan {
    /// The run of `seed`.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0000_c033_a2d5_0000);
        let (mut machine, settings) = machine_of(seed);
        machine.steps = STEPS / 2 + random.below(STEPS);
        machine.partitions = 1 + random.below(2) as u16;
        let settings = EngineSettings {
            unknown: UnknownDevice::Reject,
            keep: RetentionLimits::default(),
            commands: command_settings(&mut random),
            ..(*settings).clone()
        };
        let workload = CommandsPlan {
            settings: Arc::new(settings),
            weights: Weights { rollouts: rollouts_weight(seed), ..weights(&mut random) },
            devices: 2 + random.below(30),
            names: 1 + random.below(3),
        };
        Self { machine, workload }
    }
}

impl CommandsPlan {
    pub(crate) fn device_ids(&self) -> Vec<DeviceId> {
        (0..self.devices).map(device_id).collect()
    }
}

/// The device of that number; every other is a pump.
pub(crate) fn device_id(number: u64) -> DeviceId {
    let prefix = if number.is_multiple_of(2) { "a" } else { "b" };
    DeviceId::new(&format!("0x{prefix}{number:03}")).expect("an id")
}

/// The kind that devices with this id are registered with.
pub(crate) fn kind_of(device: &DeviceId) -> Kind {
    Kind::new(if device.as_str().starts_with("0xa") { "lock" } else { "pump" }).expect("a kind")
}

fn command_settings(random: &mut Random) -> CommandSettings {
    let ack_timeout = Duration::from_millis(500 + random.below(8_000));
    let attempts_max = 1 + random.below(5) as u32;
    let mut pace = || CommandPace {
        in_flight: 1 + random.below(3) as u32,
        gap: Duration::from_millis(if random.chance(1, 2) { 0 } else { random.below(4_000) }),
    };
    let (any, of_pumps) = (pace(), pace());
    let pump = Kind::new("pump").expect("a kind");
    let by_kind = [(pump, of_pumps)].into();
    CommandSettings { ack_timeout, attempts_max, pace: any, by_kind, keep: KEPT }
}

fn weights(random: &mut Random) -> Weights {
    Weights {
        send: 60 + random.below(150),
        manage: 10 + random.below(80),
        presence: 20 + random.below(120),
        poll: random.below(80),
        rollouts: 0,
    }
}

/// Drawn apart, so that runs without rollouts are as they were before there were any.
fn rollouts_weight(seed: u64) -> u64 {
    let mut random = Random::new(seed ^ 0x0000_2011_0075_0000);
    if seed % 4 == 3 { 20 + random.below(60) } else { 0 }
}
