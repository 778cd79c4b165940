//! What a seed decides of a run with queues before it begins. The faults of the machine are those
//! of every run.

use base::random::Random;
use engine::queues::QueueName;

use crate::devices::plan::Plan as OfMachine;

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
}

/// A run.
#[derive(Clone)]
pub(crate) struct Plan {
    /// Storage, steps and faults.
    pub(crate) machine: OfMachine,
    pub(crate) weights: Weights,
    /// By place in the list: the first is asked first.
    pub(crate) queues: Vec<QueueName>,
    /// Jobs that may be resident; few, so that others are parked, or enough.
    pub(crate) resident_max: usize,
    /// Jobs that a publisher leaves waiting in a queue before it stops.
    pub(crate) backlog: usize,
    /// Whether consumers ask several queues, and wait to be told.
    pub(crate) asks_several: bool,
    /// Names that are given as aliases and groups in each queue: few, so that they meet.
    pub(crate) names: u64,
}

/// Steps of a run before it becomes quiet.
const STEPS: u64 = 900;
/// Of runs with a crowd: queues, groups and aliases in each, jobs that wait in each, and jobs that
/// may be resident.
const CROWDED_QUEUES: u64 = 4;
const CROWDED_NAMES: u64 = 40;
const CROWDED_BACKLOG: usize = 150;
const CROWDED_RESIDENT: usize = 16;
/// Jobs that may be resident: more than there ever are.
const ENOUGH_RESIDENT: usize = 10_000;

impl Plan {
    /// The run of `seed`.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x00c0_ffee_0b5e_1f00);
        let mut machine = OfMachine::of_machine(seed);
        machine.steps = (STEPS / 2 + random.below(STEPS)) as usize;
        machine.partitions = 1 + random.below(2) as u16;
        let few_are_resident = random.chance(1, 3);
        let few = 5 + random.below(59) as usize;
        let resident_max = if few_are_resident { few } else { ENOUGH_RESIDENT };
        let count = 1 + random.below(4);
        Self {
            machine,
            weights: weights(&mut random),
            queues: (0..count).map(name).collect(),
            resident_max,
            backlog: 4 + random.below(40) as usize,
            asks_several: random.chance(1, 2),
            names: 1 + random.below(4),
        }
    }

    /// Whether memory is too small for the jobs.
    pub(crate) fn is_parking(&self) -> bool {
        self.resident_max < ENOUGH_RESIDENT
    }

    /// So many jobs may be resident.
    pub(crate) fn with_resident(self, resident_max: usize) -> Self {
        Self { resident_max, ..self }
    }

    /// Many jobs of many groups in several queues that are all polled, and room for few: steps read
    /// little, and are many.
    pub(crate) fn crowded(mut self) -> Self {
        self.queues = (0..CROWDED_QUEUES).map(name).collect();
        self.names = CROWDED_NAMES;
        self.backlog = CROWDED_BACKLOG;
        self.machine.partitions = 1;
        self.machine.steps = STEPS as usize;
        (self.weights.publish, self.weights.consume) = (240, 120);
        self.with_resident(CROWDED_RESIDENT)
    }

    /// Nobody looks at the store before the end: only what is answered can show that something is
    /// wrong.
    pub(crate) fn without_audits(mut self) -> Self {
        self.machine.weights.audit = 0;
        self
    }

    /// The process lives on, and its store is well: what it has in memory is not loaded again.
    pub(crate) fn without_ends(mut self) -> Self {
        self.machine = self.machine.without_ends();
        self
    }

    /// The process is killed all the time, and its store is well.
    pub(crate) fn with_many_lives(mut self) -> Self {
        self.machine.weights.kill = 30;
        self.machine.weights.crash = 5;
        self.machine.weights.storage_fault = 0;
        self
    }
}

fn name(number: u64) -> QueueName {
    let namespace = if number.is_multiple_of(2) { "shop" } else { "yard" };
    QueueName::new(namespace, &format!("q{number}")).expect("letters and digits")
}

fn weights(random: &mut Random) -> Weights {
    Weights {
        publish: 60 + random.below(150),
        consume: 60 + random.below(150),
        work: 80 + random.below(200),
        touch: random.below(60),
        manage: random.below(50),
    }
}
