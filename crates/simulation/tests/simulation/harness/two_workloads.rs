//! Two workloads in one life: one process, one store, one machine with its faults.

use std::rc::Rc;

use base::{PartitionId, Timestamp};
use store::StoreError;

use super::machine::Machine;
use super::port::AnyPort;
use super::process::Process;
use super::schedule::Acts;
use super::shrinking::Knob;
use super::track::{AnyTrack, Past};
use super::violation::Checked;
use super::workload::{Rest, Stored, Workload};

/// Both. The first comes to rest first.
pub(crate) struct TwoWorkloads<A, B> {
    first: A,
    second: B,
    machine: Rc<Machine>,
}

/// A step of either.
#[derive(Clone, Copy)]
pub(crate) enum ActOf<A, B> {
    First(A),
    Second(B),
}

impl<A: Workload, B: Workload> TwoWorkloads<A, B> {
    fn is_first(&self, partition: PartitionId) -> bool {
        self.first.partitions().contains(&partition)
    }
}

/// Whichever has the partition does it.
macro_rules! whose {
    ($self:ident.$method:ident($partition:expr $(, $arg:expr)*)) => {
        if $self.is_first($partition) {
            $self.first.$method($partition $(, $arg)*)
        } else {
            $self.second.$method($partition $(, $arg)*)
        }
    };
}

impl<A: Workload, B: Workload> Workload for TwoWorkloads<A, B> {
    type Plan = (A::Plan, B::Plan);
    type Counts = (A::Counts, B::Counts);
    type Act = ActOf<A::Act, B::Act>;

    fn new((first, second): Self::Plan, machine: &Rc<Machine>) -> Self {
        Self { first: A::new(first, machine), second: B::new(second, machine), machine: Rc::clone(machine) }
    }

    fn knobs((first, second): &mut Self::Plan) -> Vec<Knob<'_>> {
        A::knobs(first).into_iter().chain(B::knobs(second)).collect()
    }

    fn counts(&self) -> Self::Counts {
        (self.first.counts(), self.second.counts())
    }

    fn partitions(&self) -> Vec<PartitionId> {
        [self.first.partitions(), self.second.partitions()].concat()
    }

    fn port(&self, partition: PartitionId) -> Option<&dyn AnyPort> {
        whose!(self.port(partition))
    }

    fn port_mut(&mut self, partition: PartitionId) -> Option<&mut dyn AnyPort> {
        whose!(self.port_mut(partition))
    }

    fn track(&mut self, partition: PartitionId) -> &mut dyn AnyTrack {
        whose!(self.track(partition))
    }

    fn is_drawn(&self, partition: PartitionId) -> bool {
        whose!(self.is_drawn(partition))
    }

    fn step_partition(&mut self, partition: PartitionId, count: usize) -> Checked {
        whose!(self.step_partition(partition, count))
    }

    fn check_stored(&self, partition: PartitionId, stored: Stored, past: Past) -> Checked {
        whose!(self.check_stored(partition, stored, past))
    }

    fn load(&mut self, process: &Process) -> Result<(), StoreError> {
        self.first.load(process)?;
        self.second.load(process)
    }

    fn loaded(&mut self, partition: PartitionId, seq: u64, starts: bool) -> Checked {
        whose!(self.loaded(partition, seq, starts))
    }

    fn started(&mut self) -> Checked {
        self.first.started()?;
        self.second.started()
    }

    fn closing(&mut self) {
        self.first.closing();
        self.second.closing();
    }

    fn check_stopped(&self) -> Checked {
        self.first.check_stopped()?;
        self.second.check_stopped()
    }

    fn power_failed(&mut self, partition: PartitionId, kept: u64) {
        whose!(self.power_failed(partition, kept));
    }

    fn bury(&mut self) {
        self.first.bury();
        self.second.bury();
    }

    fn begin(&mut self, part: u64) -> bool {
        let first = self.first.begin(part);
        self.second.begin(part) || first
    }

    fn acts(&self) -> Acts<Self::Act> {
        self.first.acts().map(ActOf::First).and(self.second.acts().map(ActOf::Second))
    }

    fn act(&mut self, act: Self::Act) -> Checked {
        match act {
            ActOf::First(act) => self.first.act(act),
            ActOf::Second(act) => self.second.act(act),
        }
    }

    fn after_step(&mut self) -> Checked {
        self.first.after_step()?;
        self.second.after_step()
    }

    fn told(&mut self) -> Checked {
        self.first.told()?;
        self.second.told()
    }

    fn next_moment(&self) -> Option<Timestamp> {
        self.first.next_moment().into_iter().chain(self.second.next_moment()).min()
    }

    fn any_partition(&mut self) -> PartitionId {
        if self.machine.random.chance(1, 2) {
            self.first.any_partition()
        } else {
            self.second.any_partition()
        }
    }

    fn become_quiet(&mut self) {
        self.first.become_quiet();
        self.second.become_quiet();
    }

    fn act_at_rest(&mut self) -> Checked<bool> {
        Ok(self.first.act_at_rest()? || self.second.act_at_rest()?)
    }

    fn check_settled(&self) -> Checked {
        self.first.check_settled()?;
        self.second.check_settled()
    }

    fn rest(&mut self) -> Checked<Rest> {
        match self.first.rest()? {
            Rest::Found => self.second.rest(),
            not_yet => Ok(not_yet),
        }
    }

    fn check_rest(&mut self) -> Checked {
        self.first.check_rest()?;
        self.second.check_rest()
    }
}
