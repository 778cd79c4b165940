//! What a workload brings: its partitions, what happens to them, its model and its checkers.

use std::rc::Rc;
use std::sync::Arc;

use base::{PartitionId, Timestamp};
use store::{BlockStorage, StoreError, View};

use super::counts::Counted;
use super::fault_injection::InjectedFault;
use super::machine::{Machine, MachinePlan};
use super::port::AnyPort;
use super::process::Process;
use super::schedule::{Acts, DAY_MS};
use super::shrinking::Knob;
use super::track::{AnyTrack, Past};
use super::violation::Checked;

/// What a seed decides of a run.
#[derive(Clone)]
pub(crate) struct Plan<P> {
    pub(crate) machine: MachinePlan,
    pub(crate) workload: P,
}

impl<P> Plan<P> {
    /// The same run, broken on purpose.
    pub(crate) fn with_fault(mut self, fault: InjectedFault) -> Self {
        self.machine.injected = Some(fault);
        self
    }
}

/// What a reader sees of a partition.
pub(crate) struct Stored {
    /// The latest batch.
    pub(crate) seq: u64,
    pub(crate) view: Box<dyn View>,
    /// Files of blocks of streams.
    pub(crate) blocks: Arc<dyn BlockStorage>,
}

/// How far a workload is with coming to rest.
pub(crate) enum Rest {
    /// Nothing is left to do.
    Found,
    /// It has asked for something.
    Asked,
    /// It waits for time to pass, in milliseconds.
    Waits(i64),
}

/// Partitions of one process, with all who use them.
pub(crate) trait Workload: Sized {
    /// What a seed decides of it.
    type Plan: Clone + Send;
    /// What a run saw of it.
    type Counts: Counted;
    /// A kind of step that is its own.
    type Act: Copy;

    /// Time passes up to something that is due, if that is sooner than this.
    const NEXT_MS_MAX: i64 = DAY_MS as i64;

    fn new(plan: Self::Plan, machine: &Rc<Machine>) -> Self;

    /// Numbers of its plan that can be made smaller while something is still found.
    fn knobs(plan: &mut Self::Plan) -> Vec<Knob<'_>>;

    fn counts(&self) -> Self::Counts;

    // Its partitions: production's behind ports, and the model of each. One that runs nodes of
    // their own has none, and leaves these as they are.

    fn partitions(&self) -> Vec<PartitionId> {
        Vec::new()
    }

    /// Nothing while no process is up.
    fn port(&self, _: PartitionId) -> Option<&dyn AnyPort> {
        None
    }

    fn port_mut(&mut self, _: PartitionId) -> Option<&mut dyn AnyPort> {
        None
    }

    fn track(&mut self, partition: PartitionId) -> &mut dyn AnyTrack {
        not_its_own(partition)
    }

    /// Whether the scheduler draws its steps among those of all partitions. Else they are acts, and
    /// come first where nothing is drawn.
    fn is_drawn(&self, _: PartitionId) -> bool {
        true
    }

    /// One step of a partition over at most so many inputs; the model follows.
    fn step_partition(&mut self, partition: PartitionId, _count: usize) -> Checked {
        not_its_own(partition)
    }

    /// Compares all that is stored of a partition with what the model has at the same batch.
    fn check_stored(&self, partition: PartitionId, _stored: Stored, _past: Past) -> Checked {
        not_its_own(partition)
    }

    // Lives of the process.

    /// Loads its partitions.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load(&mut self, _: &Process) -> Result<(), StoreError> {
        Ok(())
    }

    /// A partition was loaded at a batch, by a process that starts or again: the model goes there.
    fn loaded(&mut self, partition: PartitionId, _seq: u64, _starts: bool) -> Checked {
        not_its_own(partition)
    }

    /// The process is up, and all that it shows is durable.
    fn started(&mut self) -> Checked {
        Ok(())
    }

    /// The process stops well: no input is taken from now on.
    fn closing(&mut self) {}

    /// After a clean stop, before the process is gone.
    fn check_stopped(&self) -> Checked {
        Ok(())
    }

    /// The power has failed, and may have taken what came of a partition after that batch.
    fn power_failed(&mut self, _: PartitionId, _kept: u64) {}

    /// The process is gone. Whoever waited for it waits for nothing.
    fn bury(&mut self) {}

    // Steps.

    /// Asks for what the run begins with, one part after the other. Whether there was such a part.
    fn begin(&mut self, _part: u64) -> bool {
        false
    }

    /// What may happen now, besides what happens to the machine. Without a process only the
    /// surroundings count.
    fn acts(&self) -> Acts<Self::Act>;

    fn act(&mut self, act: Self::Act) -> Checked;

    /// After every step.
    fn after_step(&mut self) -> Checked {
        Ok(())
    }

    /// A partition was told what became of a batch: answers may have come.
    fn told(&mut self) -> Checked {
        Ok(())
    }

    /// When somebody besides the partitions has something to do.
    fn next_moment(&self) -> Option<Timestamp> {
        None
    }

    /// When one of its partitions, or somebody else, has something to do.
    fn next_wakeup(&self, machine: &Machine) -> Option<Timestamp> {
        let now = machine.timers_now();
        let partitions = self.partitions().into_iter().filter_map(|partition| self.port(partition));
        partitions.filter_map(|port| port.next_wakeup(now?)).chain(self.next_moment()).min()
    }

    /// How long nothing of it happens, in milliseconds, if nobody asks for anything. `None` if
    /// nothing ever would.
    fn ms_to_next(&self, machine: &Machine) -> Option<i64> {
        self.next_wakeup(machine).map(|next| next.0.saturating_sub(machine.now().0))
    }

    /// A partition to look at.
    fn any_partition(&mut self) -> PartitionId {
        unreachable!("a workload without partitions looks at none")
    }

    // The end of a run.

    /// Everybody is well from now on, and asks nothing new.
    fn become_quiet(&mut self) {}

    /// Does something that can be done at this moment, besides steps of partitions. Whether there
    /// was anything.
    fn act_at_rest(&mut self) -> Checked<bool> {
        Ok(false)
    }

    /// Nothing more can be done at this moment.
    fn check_settled(&self) -> Checked {
        Ok(())
    }

    /// Takes the run nearer to where nothing is left to do. It must come to that, and stay there
    /// while others do.
    fn rest(&mut self) -> Checked<Rest>;

    /// Nothing is left to do for anybody.
    fn check_rest(&mut self) -> Checked;
}

fn not_its_own(partition: PartitionId) -> ! {
    unreachable!("{partition} is no partition of this workload")
}
