//! What a seed decides of a run with an edge node and a centre before it begins.

use std::sync::Arc;

use base::random::Random;
use engine::EngineSettings;
use engine::settings::{RetentionLimits, UnknownDevice};

use crate::harness::machine::MachinePlan;
use crate::harness::workload;
use crate::nodes::plan::{NetworkPlan, machines_of, node_name, node_seed};

/// How often the scheduler picks what goes on between nodes, relative to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    pub(super) report: u64,
    /// Gathered reports go to the stream of their copy.
    pub(super) gather: u64,
    pub(super) cut: u64,
    /// The copy is paused, or resumed.
    pub(super) pause: u64,
    pub(super) look: u64,
}

/// Two nodes, and all that is between them.
#[derive(Clone)]
pub(super) struct ReportsPlan {
    pub(super) settings: Arc<EngineSettings>,
    /// Of the machine of each node.
    pub(super) machine: MachinePlan,
    pub(super) weights: Weights,
    pub(super) network: NetworkPlan,
}

/// A run.
pub(super) type Plan = workload::Plan<ReportsPlan>;

impl Plan {
    /// The run of `seed`.
    pub(super) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0000_ed6e_5000_0000);
        let (machine, of_node, settings) = machines_of(seed, &mut random);
        let weights = Weights {
            report: 150 + random.below(400),
            gather: 200 + random.below(600),
            cut: if random.chance(1, 3) { 0 } else { 1 + random.below(30) },
            pause: if random.chance(1, 2) { 0 } else { 1 + random.below(30) },
            look: 200,
        };
        let network = NetworkPlan::any(&mut random, [250, 200, 250]);
        let settings = EngineSettings {
            unknown: UnknownDevice::Reject,
            keep: RetentionLimits::default(),
            streams_memory_bytes: 1_000_000,
            ..(*settings).clone()
        };
        let workload = ReportsPlan { settings: Arc::new(settings), machine: of_node, weights, network };
        Self { machine, workload }
    }
}

impl ReportsPlan {
    /// One node, as a workload of its own.
    pub(super) fn of_node(&self, number: usize, seed: u64) -> workload::Plan<Arc<EngineSettings>> {
        let seed = node_seed(seed, number, 0);
        let settings =
            EngineSettings { node_name: Some(node_name(number).into()), ..(*self.settings).clone() };
        workload::Plan { machine: MachinePlan { seed, ..self.machine }, workload: Arc::new(settings) }
    }
}
