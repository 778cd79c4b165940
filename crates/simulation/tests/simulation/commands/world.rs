//! Devices, and those who send them commands, on a machine: what they ask of production's
//! partitions, and what the model makes of it.

mod callers;
mod calls;
mod fleet;
mod rest;
mod rollouts;
mod server;
mod steps;
mod workload;

use std::collections::BTreeSet;
use std::rc::Rc;

use base::{DeviceId, EntityId, PartitionId, Timestamp, hash};
use engine::devices::input::DeviceInput;

use crate::commands::checkers::history::History;
use crate::commands::counts::Counts;
use crate::commands::meant::Meant;
use crate::commands::model::{Ledger, Partition, Presence};
use crate::commands::plan::CommandsPlan;
use crate::harness::calls::{Call, CallId, Calls, Expectations};
use crate::harness::machine::Machine;
use crate::harness::port::AnyPort;
use crate::harness::track::Track;
use crate::harness::workload::Workload;
use calls::{Answer, Then, Waiting};
use fleet::Fleet;
use rollouts::RolloutsSeen;
use server::Server;

/// The workload.
pub(crate) struct World {
    plan: CommandsPlan,
    machine: Rc<Machine>,
    server: Option<Server>,
    /// By partition.
    model: Vec<Track<Partition>>,
    /// Of the registry.
    ledger: Track<Ledger>,
    rollouts: RolloutsSeen,
    /// The sessions that the edges have told of.
    presence: Presence,
    /// Which batch an answer rests on.
    expectations: Expectations<()>,
    history: History,
    calls: Calls<Answer, Then>,
    fleet: Fleet,
    /// Commands that callers know, newest last.
    given: Vec<EntityId>,
    last_number: u64,
    /// Everybody is well, and nothing new is asked.
    is_quiet: bool,
    /// The process stops well, and takes no input any more.
    is_closing: bool,
    rounds: u64,
    counts: Counts,
}

impl World {
    /// Hands in a call, and waits for its answer; whether its partition takes any.
    fn ask(
        &mut self,
        partition: PartitionId,
        (input, meant): (DeviceInput, Meant),
        (waiting, then): (Waiting, Then),
    ) -> bool {
        let id = self.calls.last_id();
        self.machine.trace.note(format_args!("call {id}: {meant:?}"));
        let takes = self.hand_in(partition, input, meant);
        if takes {
            let life = self.port(partition).and_then(AnyPort::life);
            self.calls.waiting.push(Call { id, waiting, asked: vec![(partition, life)], then });
        }
        takes
    }

    fn hand_in(&mut self, partition: PartitionId, input: DeviceInput, meant: Meant) -> bool {
        let server = self.server.as_mut().filter(|_| !self.is_closing);
        server.is_some_and(|server| server.port(partition).hand_in(input, meant))
    }

    fn next_call(&mut self) -> CallId {
        self.calls.next_id()
    }

    /// Whether every partition takes another input.
    fn has_room(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.partitions.iter().all(|port| port.has_room()))
    }

    fn partition_of(&self, device: &DeviceId) -> PartitionId {
        hash::device_partition(device, self.machine.plan.partitions)
    }

    fn partition_of_command(&self, id: EntityId) -> PartitionId {
        hash::partition_of(id.routing, self.machine.plan.partitions)
    }

    /// Devices that poll, as far as they know.
    fn polling(&self) -> BTreeSet<DeviceId> {
        let polls = self.calls.waiting.iter().filter_map(|call| match &call.then {
            Then::Polled { device, .. } => Some(device.clone()),
            _ => None,
        });
        polls.collect()
    }

    fn now(&self) -> Timestamp {
        self.machine.now()
    }
}
