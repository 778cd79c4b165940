//! What a seed decides of a run with several nodes before it begins.

use std::sync::Arc;

use base::random::Random;
use engine::EngineSettings;
use records::CopyDirection;

use crate::devices::plan::machine_of;
use crate::harness::machine::{MachinePlan, MachineWeights};
use crate::harness::shrinking::Knob;
use crate::harness::workload;
use crate::streams::plan::{StreamsPlan, SubscriptionWeights, Weights as StreamsWeights};

/// How often the scheduler picks what goes on between nodes, relative to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    pub(super) append: u64,
    pub(super) set: u64,
    /// Copies are put, paused, resumed and deleted.
    pub(super) copy: u64,
    pub(super) delete_stream: u64,
    /// A node comes back with another disk.
    pub(super) image: u64,
    pub(super) cut: u64,
    pub(super) receipt: u64,
    pub(super) look: u64,
}

/// What may go wrong with a request, in thousandths.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetworkPlan {
    pub(super) lost: u64,
    pub(super) twice: u64,
    pub(super) answer_lost: u64,
}

/// A copy that somebody wants.
#[derive(Clone, Debug)]
pub(super) struct WantedCopy {
    /// Whose stream it belongs to.
    pub(super) holder: usize,
    pub(super) stream: u64,
    pub(super) direction: CopyDirection,
    /// The other node, or the same one.
    pub(super) other: usize,
    pub(super) other_stream: u64,
    pub(super) segments: Vec<Box<str>>,
    pub(super) live_permille: u32,
    pub(super) rate: Option<u64>,
}

/// Nodes, and all that is between them.
#[derive(Clone)]
pub(super) struct NodesPlan {
    pub(super) settings: Arc<EngineSettings>,
    /// Of the machine of each node.
    pub(super) machine: MachinePlan,
    pub(super) weights: Weights,
    pub(super) network: NetworkPlan,
    pub(super) nodes: u64,
    pub(super) streams: u64,
    pub(super) copies: Vec<WantedCopy>,
    /// Streams keep what is young, or little.
    pub(super) drops: bool,
    /// The disk of a node becomes nearly full.
    pub(super) disk: u64,
    pub(super) memory_bytes: u64,
    /// How many of hundred settings have blocks go to the other storage of their node.
    pub(super) moving_percent: u64,
    /// That storage is away, or back.
    pub(super) cold: u64,
}

/// A run.
pub(super) type Plan = workload::Plan<NodesPlan>;

/// Steps of a run before it becomes quiet.
const STEPS: u64 = 2_500;
/// Keeps the seeds of nodes apart, and those of what they come back as.
const NODE_SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const IMAGE_SEED: u64 = 0xc2b2_ae3d_27d4_eb4f;

impl NetworkPlan {
    /// Of requests, and of answers, so many are lost at most, and so many come twice; or none.
    pub(super) fn any(random: &mut Random, [lost, twice, answer_lost]: [u64; 3]) -> Self {
        let mut permille = |most: u64| if random.chance(1, 3) { 0 } else { random.below(most) };
        Self { lost: permille(lost), twice: permille(twice), answer_lost: permille(answer_lost) }
    }

    pub(super) fn knobs(&mut self) -> [Knob<'_>; 3] {
        [
            Knob::new("lost", &mut self.lost, 0),
            Knob::new("twice", &mut self.twice, 0),
            Knob::new("answer_lost", &mut self.answer_lost, 0),
        ]
    }
}

/// The machine of a world of nodes, on which time passes; that of each node, which fails and ends;
/// and what an operator has set.
pub(super) fn machines_of(seed: u64, random: &mut Random) -> (MachinePlan, MachinePlan, Arc<EngineSettings>) {
    let (mut machine, settings) = machine_of(seed);
    let node_weights = MachineWeights { time: 0, leap: 0, day: 0, wall: 0, audit: 4, ..machine.weights };
    machine.steps = STEPS / 2 + random.below(STEPS);
    machine.partitions = 1;
    machine.has_large_batches = false;
    // What is synced later than it is answered may be lost after it is copied, as it is said.
    machine.syncs_later = None;
    let of_node = MachinePlan { weights: node_weights, ..machine };
    machine.weights = MachineWeights { day: 0, wall: 0, audit: 0, ..machine.weights.without_ends() };
    machine.weights.leap = machine.weights.leap.min(2);
    (machine, of_node, settings)
}

/// Numbers of the machine of each node that can be made smaller.
pub(super) fn knobs_of_node(machine: &mut MachinePlan) -> [Knob<'_>; 5] {
    let weights = &mut machine.weights;
    [
        Knob::new("node_crash", &mut weights.crash, 0),
        Knob::new("node_kill", &mut weights.kill, 0),
        Knob::new("node_doom", &mut weights.doom, 0),
        Knob::new("node_stop", &mut weights.stop, 0),
        Knob::new("node_storage_fault", &mut weights.storage_fault, 0),
    ]
}

impl Plan {
    /// The run of `seed`.
    pub(super) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0000_40de_5000_0000);
        let (machine, of_node, settings) = machines_of(seed, &mut random);
        let nodes = 2 + random.below(3);
        let streams = 1 + random.below(2);
        let (sets_back, drops) = match random.below(4) {
            0 => (false, false),
            1 => (false, true),
            _ => (true, false),
        };
        let is_small = random.chance(1, 3);
        let streams_memory_bytes = if is_small { 4_000 } else { 1_000_000 };
        let weights = Weights {
            append: 150 + random.below(400),
            set: random.below(15),
            copy: random.below(15),
            delete_stream: if sets_back && random.chance(1, 2) { 1 + random.below(5) } else { 0 },
            image: if sets_back { 1 + random.below(8) } else { 0 },
            cut: if random.chance(1, 3) { 0 } else { 1 + random.below(20) },
            receipt: 10 + random.below(40),
            look: 10,
        };
        let network = NetworkPlan::any(&mut random, [150, 150, 200]);
        let copies = copies(&mut random, nodes as usize, streams);
        // A backup holds no blocks of other storages.
        let may_move = weights.image == 0 && random.chance(1, 2);
        let moving_percent = if may_move { 50 + random.below(50) } else { 0 };
        let cold = if may_move && random.chance(1, 2) { 1 + random.below(4) } else { 0 };
        let workload = NodesPlan {
            settings: Arc::new(EngineSettings { streams_memory_bytes, ..(*settings).clone() }),
            machine: of_node,
            weights,
            network,
            nodes,
            streams,
            copies,
            drops,
            disk: if drops && random.chance(1, 2) { 1 + random.below(4) } else { 0 },
            memory_bytes: if is_small { 2_000 + random.below(8_000) } else { 1 << 20 },
            moving_percent,
            cold,
        };
        Self { machine, workload }
    }
}

impl NodesPlan {
    /// Nothing is ever taken from a node but by a crash.
    pub(super) fn sets_nothing_back(&self) -> bool {
        self.weights.image == 0 && self.weights.delete_stream == 0
    }

    /// Messages of a source go one behind the other.
    pub(super) fn keeps_order(&self) -> bool {
        let in_order = |copy: &WantedCopy| copy.live_permille == 0 && copy.segments.is_empty();
        self.sets_nothing_back() && !self.drops && self.copies.iter().all(in_order)
    }

    /// The streams of one node, as a workload of its own.
    pub(super) fn of_node(&self, number: usize, seed: u64) -> workload::Plan<StreamsPlan> {
        let settings =
            EngineSettings { node_name: Some(node_name(number).into()), ..(*self.settings).clone() };
        let weights = StreamsWeights {
            append: 0,
            set: 0,
            delete: 0,
            read: 0,
            work: 60,
            disk: self.disk,
            cold: self.cold,
        };
        let workload = StreamsPlan {
            settings: Arc::new(settings),
            weights,
            subscriptions: SubscriptionWeights::default(),
            streams: self.streams,
            moving_percent: self.moving_percent,
            memory_bytes: self.memory_bytes,
        };
        workload::Plan { machine: MachinePlan { seed, ..self.machine }, workload }
    }
}

/// The seed of a node's machine: its lineage follows from it.
pub(super) fn node_seed(seed: u64, number: usize, image: u64) -> u64 {
    seed ^ NODE_SEED.wrapping_mul(1 + number as u64) ^ IMAGE_SEED.wrapping_mul(image)
}

/// What a node calls itself, and is called by others.
pub(super) fn node_name(number: usize) -> String {
    format!("n{number}")
}

/// A copy from one node to another, held by either.
fn wanted(random: &mut Random, streams: u64, (from, to): (usize, usize)) -> WantedCopy {
    let (holder, other, direction) = match random.chance(2, 3) {
        true => (from, to, CopyDirection::To),
        false => (to, from, CopyDirection::From),
    };
    let is_plain = random.chance(2, 3);
    let stream = random.below(streams);
    let other_stream = if random.chance(4, 5) { stream } else { random.below(streams) };
    let segments = match is_plain || random.chance(1, 2) {
        true => Vec::new(),
        false => vec![format!("g{}", random.below(2)).into()],
    };
    let live_permille = if is_plain { 0 } else { random.below(900) as u32 };
    let rate = random.chance(1, 6).then(|| 500 + random.below(5_000));
    WantedCopy { holder, stream, direction, other, other_stream, segments, live_permille, rate }
}

/// Which nodes give to which: a chain, mostly both ways; a ring; a fan; or any.
fn links(random: &mut Random, nodes: usize) -> Vec<(usize, usize)> {
    match random.below(4) {
        0 => {
            let steps = (1..nodes).map(|to| (to - 1, to, random.chance(2, 3)));
            let both = |(from, to, is_two_way)| [Some((from, to)), Some((to, from)).filter(|_| is_two_way)];
            steps.flat_map(both).flatten().collect()
        }
        1 => (0..nodes).map(|from| (from, (from + 1) % nodes)).collect(),
        2 => {
            let leaves = (1..nodes).map(|leaf| (leaf, random.chance(1, 2)));
            let both = |(leaf, is_two_way)| [Some((leaf, 0)), Some((0, leaf)).filter(|_| is_two_way)];
            leaves.flat_map(both).flatten().collect()
        }
        _ => {
            let any = |_| {
                let from = random.below(nodes as u64) as usize;
                (from, (from + 1 + random.below(nodes as u64 - 1) as usize) % nodes)
            };
            (0..nodes + 2).map(any).collect()
        }
    }
}

fn copies(random: &mut Random, nodes: usize, streams: u64) -> Vec<WantedCopy> {
    let links = links(random, nodes);
    let mut all: Vec<_> = links.into_iter().map(|link| wanted(random, streams, link)).collect();
    if streams > 1 && random.chance(1, 2) {
        let node = random.below(nodes as u64) as usize;
        let direction = if random.chance(1, 2) { CopyDirection::To } else { CopyDirection::From };
        let (segments, live_permille, rate) = (Vec::new(), 0, None);
        let (holder, other, stream, other_stream) = (node, node, 0, 1);
        all.push(WantedCopy {
            holder,
            stream,
            direction,
            other,
            other_stream,
            segments,
            live_permille,
            rate,
        });
    }
    all
}
