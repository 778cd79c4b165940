//! Devices, clients and those who look after them, on a machine: what they ask of production's
//! partitions, and what the model makes of it.

mod calls;
mod engine_steps;
mod importing;
mod refusals;
mod registry_calls;
mod reports;
mod rest;
mod sender;
pub(crate) mod server;
mod workload;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use base::{Incarnation, PartitionId, Timestamp, WayIn};
use engine::devices::input::DeviceInput;
use engine::registry::RegistryInput;
use engine::{EngineSettings, Report};

use crate::devices::counts::Counts;
use crate::devices::meant::{Meant, MeantClient};
use crate::devices::model::Expected;
use crate::devices::model::breaker::Breakers;
use crate::devices::model::partition::Partition;
use crate::devices::model::registry::Registry;
use crate::devices::plan::FleetPlan;
use crate::devices::receivers::Receivers;
use crate::harness::calls::{Call, CallId, Calls, Expectations};
use crate::harness::machine::Machine;
use crate::harness::port::AnyPort;
use crate::harness::track::Track;
use crate::harness::workload::Workload;
use calls::{Answer, Then, Waiting};
use sender::Sending;
use server::Server;

/// The workload.
pub(crate) struct World {
    plan: FleetPlan,
    /// In force in this life of the process.
    settings: Arc<EngineSettings>,
    machine: Rc<Machine>,
    server: Option<Server>,
    /// By partition.
    model: Vec<Track<Partition>>,
    registry: Track<Registry>,
    breakers: Breakers,
    expectations: Expectations<Expected>,
    calls: Calls<Answer, Then>,
    sending: Sending,
    receivers: Receivers,
    clients_seen: BTreeSet<Incarnation>,
    /// Slices that nobody answered.
    repeats: Vec<(WayIn, Vec<Report>)>,
    /// When all must have been told, once nothing new is asked.
    rest_by: Option<Timestamp>,
    /// Since when everything is well and nothing new is asked.
    quiet_since: Option<Timestamp>,
    counts: Counts,
}

impl World {
    fn next_call(&mut self) -> CallId {
        self.calls.next_id()
    }

    /// Hands an input to a partition; whether it takes any.
    fn hand_in(&mut self, partition: PartitionId, input: DeviceInput, meant: Meant) -> bool {
        self.server.as_mut().is_some_and(|server| server.port(partition).hand_in(input, meant))
    }

    fn hand_in_registry(&mut self, input: RegistryInput, meant: MeantClient) -> bool {
        self.server.as_mut().is_some_and(|server| server.registry.hand_in(input, meant))
    }

    /// Whether what the registry's model has is durable, all of it.
    fn is_registry_settled(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.registry.runner.is_settled())
    }

    fn clients_ever(&self) -> usize {
        self.clients_seen.len().max(1)
    }

    /// The ways in that are configured.
    fn ways(&self) -> Vec<WayIn> {
        let configured = self.settings.ways_configured;
        WayIn::ALL.into_iter().filter(|way| configured[way.index()]).collect()
    }

    fn any_way(&mut self) -> WayIn {
        self.machine.random.one_of(&self.ways())
    }

    fn now(&self) -> Timestamp {
        self.machine.now()
    }

    fn partitions_of_devices(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.machine.plan.partitions).map(PartitionId)
    }

    fn random_partition(&mut self) -> PartitionId {
        PartitionId(self.machine.random.below(u64::from(self.machine.plan.partitions)) as u16)
    }

    /// Hands in the latest call, and waits for its answer; whether the partition takes any.
    fn ask(
        &mut self,
        partition: PartitionId,
        input: DeviceInput,
        meant: Meant,
        answer: (Waiting, Then),
    ) -> bool {
        self.machine.trace.note(format_args!("call {}: {meant:?}", self.calls.last_id()));
        let takes = self.hand_in(partition, input, meant);
        if takes {
            self.await_answer(vec![partition], answer);
        }
        takes
    }

    /// Waits for the answer to the latest call.
    fn await_answer(&mut self, of: Vec<PartitionId>, (waiting, then): (Waiting, Then)) {
        let asked = of.into_iter().map(|at| (at, self.life(at))).collect();
        self.calls.waiting.push(Call { id: self.calls.last_id(), waiting, asked, then });
    }

    /// Which life of a partition it is; nothing for one that is dead.
    fn life(&self, partition: PartitionId) -> Option<u32> {
        self.port(partition).and_then(AnyPort::life)
    }
}
