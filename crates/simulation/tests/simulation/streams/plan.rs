//! What a seed decides of a run with streams before it begins. The faults of the machine are those
//! of every run.

use std::sync::Arc;

use base::random::Random;
use engine::EngineSettings;

use crate::devices::plan::machine_of;
use crate::harness::workload;

/// How often the scheduler picks what goes on around streams, relative to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) append: u64,
    pub(crate) set: u64,
    pub(crate) delete: u64,
    pub(crate) read: u64,
    /// The worker that stores blocks.
    pub(crate) work: u64,
    /// The disk becomes nearly full, or has room again.
    pub(crate) disk: u64,
    /// The other storage is away, or back.
    pub(crate) cold: u64,
}

/// How often the scheduler picks what goes on around subscriptions. By default nothing does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SubscriptionWeights {
    pub(crate) put: u64,
    pub(crate) delete: u64,
    /// Readers begin a call, or end one.
    pub(crate) read: u64,
    /// Somebody commits without reading.
    pub(crate) commit: u64,
    /// Those that are pushed are posted.
    pub(crate) post: u64,
    pub(crate) show: u64,
}

/// Streams, and those who append and read.
#[derive(Clone)]
pub(crate) struct StreamsPlan {
    pub(crate) settings: Arc<EngineSettings>,
    pub(crate) weights: Weights,
    pub(crate) subscriptions: SubscriptionWeights,
    pub(crate) streams: u64,
    /// How many of hundred settings have blocks go to the other storage.
    pub(crate) moving_percent: u64,
    /// Memory of the partition, in bytes.
    pub(crate) memory_bytes: u64,
}

/// A run.
pub(crate) type Plan = workload::Plan<StreamsPlan>;

/// Steps of a run before it becomes quiet.
const STEPS: u64 = 900;

impl Plan {
    /// The run of `seed`.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0057_4ea3_5000_0000);
        let (mut machine, settings) = machine_of(seed);
        machine.steps = STEPS / 2 + random.below(STEPS);
        machine.partitions = 1;
        let is_small = random.chance(1, 3);
        let streams_memory_bytes = if is_small { 2_000 } else { 1_000_000 };
        let settings = EngineSettings { streams_memory_bytes, ..(*settings).clone() };
        let weights = Weights {
            append: 60 + random.below(200),
            set: random.below(20),
            delete: if random.chance(1, 2) { 0 } else { 1 + random.below(6) },
            read: 5 + random.below(40),
            work: 20 + random.below(150),
            disk: if random.chance(3, 4) { 0 } else { 1 + random.below(10) },
            cold: 0,
        };
        let memory_bytes = if is_small { 500 + random.below(5_000) } else { 1 << 20 };
        let streams = 1 + random.below(4);
        let moving_percent = if random.chance(2, 3) { 50 + random.below(50) } else { 0 };
        let cold = if random.chance(1, 2) { 0 } else { 1 + random.below(20) };
        let weights = Weights { cold, ..weights };
        let settings = Arc::new(settings);
        let subscriptions = SubscriptionWeights::of(seed);
        let workload =
            StreamsPlan { settings, weights, subscriptions, streams, moving_percent, memory_bytes };
        Self { machine, workload }
    }
}

impl SubscriptionWeights {
    fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0055_b5c4_0000_0000);
        if random.chance(1, 4) {
            return Self::default();
        }
        Self {
            put: 3 + random.below(20),
            delete: if random.chance(1, 2) { 0 } else { 1 + random.below(5) },
            read: 10 + random.below(60),
            commit: 3 + random.below(20),
            post: if random.chance(1, 4) { 0 } else { 3 + random.below(50) },
            show: 3 + random.below(20),
        }
    }
}
