//! What a seed decides of a run with notices and operations before it begins. The faults of the
//! machine are those of every run.

use std::sync::Arc;
use std::time::Duration;

use base::ClientId;
use base::random::Random;
use engine::notices::NoticeSettings;
use engine::settings::RetentionLimits;
use engine::{EngineSettings, OperationSettings};

use crate::devices::plan::machine_of;
use crate::harness::workload;

/// How often the scheduler picks what goes on around the registry, relative to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    /// Receivers that fail or recover.
    pub(crate) mood: u64,
    /// Clients that are disabled or enabled.
    pub(crate) enable: u64,
    /// Operations that begin or are called off.
    pub(crate) operations: u64,
    /// Signals that arrive, and the worker of operations.
    pub(crate) work: u64,
}

/// Clients, and operations.
#[derive(Clone)]
pub(crate) struct RegistryPlan {
    pub(crate) settings: Arc<EngineSettings>,
    pub(crate) weights: Weights,
    pub(crate) clients: u64,
    /// Most rows of an operation's list.
    pub(crate) rows: u64,
}

/// A run.
pub(crate) type Plan = workload::Plan<RegistryPlan>;

/// Steps of a run before it becomes quiet.
const STEPS: u64 = 700;
/// Longer than any run: what has ended is not forgotten.
const KEPT: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

impl Plan {
    /// The run of `seed`.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0000_7e61_57e2_0000);
        let (mut machine, settings) = machine_of(seed);
        machine.steps = STEPS / 2 + random.below(STEPS);
        machine.partitions = 1;
        // What a worker did to rows elsewhere does not go with what the power takes here.
        machine.syncs_later = None;
        let quiet = Duration::from_millis(1_000 + random.below(120_000));
        let settings = EngineSettings {
            notices: NoticeSettings { keep: KEPT, quiet, ..NoticeSettings::default() },
            operations: OperationSettings {
                running_max: 1 + random.below(4) as usize,
                keep: KEPT,
                ..OperationSettings::default()
            },
            keep: RetentionLimits::default(),
            ..(*settings).clone()
        };
        let weights = Weights {
            mood: 5 + random.below(40),
            enable: random.below(20),
            operations: 10 + random.below(40),
            work: 100 + random.below(200),
        };
        let (clients, rows) = (1 + random.below(4), 1 + random.below(400));
        Self { machine, workload: RegistryPlan { settings: Arc::new(settings), weights, clients, rows } }
    }
}

impl RegistryPlan {
    pub(crate) fn client_ids(&self) -> impl Iterator<Item = ClientId> {
        (0..self.clients).map(|number| ClientId::new(&format!("c{number}")).expect("an id"))
    }
}
