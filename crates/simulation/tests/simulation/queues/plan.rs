//! What a seed decides of a run with queues before it begins. The faults of the machine are those
//! of every run.

use std::sync::Arc;

use base::random::Random;
use engine::EngineSettings;
use engine::queues::QueueName;
use engine::queues::partition::StepLimits;

use crate::devices::plan::machine_of;
use crate::harness::workload;

/// How often the scheduler picks what users do, relative to each other and to the faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) publish: u64,
    pub(crate) consume: u64,
    /// What consumers do with what they hold.
    pub(crate) work: u64,
    /// Jobs looked at, changed, cancelled.
    pub(crate) touch: u64,
    /// Queues looked at, set, paused, deleted; dead letters.
    pub(crate) manage: u64,
    /// Locks held, waited for and let go.
    pub(crate) lock: u64,
    /// Workers told to run, drain or stop.
    pub(crate) control: u64,
}

/// What publishers publish, as one in so many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobMix {
    /// Jobs of a call that has several.
    pub(crate) call_max: u64,
    pub(crate) alias_in: u64,
    pub(crate) group_in: u64,
    pub(crate) recurs_in: u64,
    /// Of so many jobs two are due later.
    pub(crate) later_in: u64,
}

/// Queues, and those who use them.
#[derive(Clone)]
pub(crate) struct QueuesPlan {
    pub(crate) settings: Arc<EngineSettings>,
    pub(crate) weights: Weights,
    /// Queues; the first is asked first.
    pub(crate) queues: u64,
    /// Jobs that may be resident; few, so that others are parked, or enough.
    pub(crate) resident_max: u64,
    /// Jobs that a publisher leaves waiting in a queue before it stops.
    pub(crate) backlog: u64,
    /// Whether consumers ask several queues, and wait to be told.
    pub(crate) asks_several: bool,
    /// Names that are given as aliases and groups in each queue: few, so that they meet.
    pub(crate) names: u64,
    pub(crate) mix: JobMix,
    /// Whether a step does so little that the run comes to every limit of it.
    pub(crate) are_limits_low: bool,
}

/// A run.
pub(crate) type Plan = workload::Plan<QueuesPlan>;

/// Steps of a run before it becomes quiet.
const STEPS: u64 = 900;
/// Of runs with a crowd: queues, groups and aliases in each, jobs that wait in each, and jobs that
/// may be resident.
const CROWDED_QUEUES: u64 = 4;
const CROWDED_NAMES: u64 = 40;
const CROWDED_BACKLOG: u64 = 150;
const CROWDED_RESIDENT: u64 = 16;
/// The same of runs with thousands of groups. Few jobs come later or again: rest would be long in
/// coming.
const MANY_QUEUES: u64 = 40;
const MANY_NAMES: u64 = 80;
const MANY_RESIDENT: u64 = 64;
const MANY_MIX: JobMix = JobMix { call_max: 60, alias_in: 60, group_in: 1, recurs_in: 400, later_in: 100 };
/// What publishers publish in all other runs.
const USUAL_MIX: JobMix = JobMix { call_max: 6, alias_in: 3, group_in: 3, recurs_in: 12, later_in: 5 };
/// Jobs that may be resident: more than there ever are.
pub(super) const ENOUGH_RESIDENT: u64 = 10_000;

impl Plan {
    /// The run of `seed`.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x00c0_ffee_0b5e_1f00);
        let (mut machine, settings) = machine_of(seed);
        machine.steps = STEPS / 2 + random.below(STEPS);
        machine.partitions = 1 + random.below(2) as u16;
        let mut workload = QueuesPlan::drawn(&mut random, settings);
        workload.weights.lock = random.below(60);
        workload.weights.control = if random.chance(1, 3) { 1 + random.below(60) } else { 0 };
        Self { machine, workload }
    }

    /// So many jobs may be resident.
    pub(crate) fn with_resident(mut self, resident_max: u64) -> Self {
        self.workload.resident_max = resident_max;
        self
    }

    /// Many jobs of many groups in several queues that are all polled, and room for few: steps read
    /// little, and are many.
    pub(crate) fn crowded(seed: u64) -> Self {
        let mut plan = Self::of(seed).with_resident(CROWDED_RESIDENT);
        (plan.machine.partitions, plan.machine.steps) = (1, STEPS);
        let queues = &mut plan.workload;
        (queues.queues, queues.names, queues.backlog) = (CROWDED_QUEUES, CROWDED_NAMES, CROWDED_BACKLOG);
        (queues.weights.publish, queues.weights.consume) = (240, 120);
        queues.are_limits_low = true;
        plan
    }

    /// The same with thousands of groups, in many queues.
    pub(crate) fn with_many_groups(seed: u64) -> Self {
        let mut plan = Self::crowded(seed).with_resident(MANY_RESIDENT);
        let queues = &mut plan.workload;
        (queues.queues, queues.names, queues.mix) = (MANY_QUEUES, MANY_NAMES, MANY_MIX);
        queues.weights.publish = 480;
        plan
    }

    /// Nobody looks at the store before the end: only what is answered can show that something is
    /// wrong.
    pub(crate) fn without_audits(mut self) -> Self {
        (self.machine.weights.audit, self.machine.audits_starts) = (0, false);
        self
    }

    /// Nobody uses locks.
    pub(crate) fn without_locks(mut self) -> Self {
        self.workload.weights.lock = 0;
        self
    }

    /// Nobody tells workers what to do.
    pub(crate) fn without_controls(mut self) -> Self {
        self.workload.weights.control = 0;
        self
    }

    /// The process lives on, and its store is well: what it has in memory is not loaded again.
    pub(crate) fn without_ends(mut self) -> Self {
        self.machine.weights = self.machine.weights.without_ends();
        self
    }

    /// The process is killed all the time, and its store is well.
    pub(crate) fn with_many_lives(mut self) -> Self {
        let weights = &mut self.machine.weights;
        (weights.kill, weights.crash, weights.storage_fault) = (30, 5, 0);
        self
    }
}

impl QueuesPlan {
    pub(crate) fn drawn(random: &mut Random, settings: Arc<EngineSettings>) -> Self {
        let few_are_resident = random.chance(1, 3);
        let few = 5 + random.below(59);
        let queues = 1 + random.below(4);
        Self {
            settings,
            weights: weights(random),
            queues,
            resident_max: if few_are_resident { few } else { ENOUGH_RESIDENT },
            backlog: 4 + random.below(40),
            asks_several: random.chance(1, 2),
            names: 1 + random.below(4),
            mix: USUAL_MIX,
            are_limits_low: false,
        }
    }

    /// The most that a step does.
    pub(crate) fn step_limits(&self) -> StepLimits {
        let usual = StepLimits::of(self.resident_max as usize);
        if !self.are_limits_low {
            return usual;
        }
        let low = StepLimits { dead_read: 64, swept: 64, ..usual };
        if self.names >= MANY_NAMES {
            // Leases of very many groups may end in one moment. In the model they do so in one
            // step, before anything is leased.
            return low;
        }
        StepLimits { bytes: 128 << 10, advanced: 64, read_at_once: 32, unblocked: 8, ..low }
    }

    /// Whether memory is too small for the jobs.
    pub(crate) fn is_parking(&self) -> bool {
        self.resident_max < ENOUGH_RESIDENT
    }

    pub(crate) fn names_of_queues(&self) -> Vec<QueueName> {
        let name = |number: u64| {
            let namespace = if number.is_multiple_of(2) { "shop" } else { "yard" };
            QueueName::new(namespace, &format!("q{number}")).expect("letters and digits")
        };
        (0..self.queues).map(name).collect()
    }
}

fn weights(random: &mut Random) -> Weights {
    Weights {
        publish: 60 + random.below(150),
        consume: 60 + random.below(150),
        work: 80 + random.below(200),
        touch: random.below(60),
        manage: random.below(50),
        lock: 0,
        control: 0,
    }
}
