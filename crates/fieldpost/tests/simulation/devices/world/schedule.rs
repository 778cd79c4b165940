//! What may happen to devices, clients and those who look after them, and how likely it is.

use base::{PartitionId, Timestamp, WayIn};

use super::World;
use super::server::Server;
use crate::devices::receivers::Mood;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::schedule::{Acts, Scheduled, when};
use crate::harness::violation::Checked;

/// A kind of step that is this workload's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Registry,
    Lanes,
    AttemptEnds,
    Reports,
    RegistryCall,
    Attend,
    Mood,
}

impl Scheduled for World {
    type Act = Act;

    const NEXT_MS_MAX: i64 = i64::MAX;

    fn acts(&self) -> Acts<Act> {
        let weights = &self.plan.weights;
        Acts {
            engine: vec![(Act::Registry, when(self.registry_wants(), 200))],
            outside: vec![
                (Act::Lanes, 150),
                (Act::AttemptEnds, when(!self.over().is_empty(), 200)),
                (Act::Reports, weights.reports),
                (Act::RegistryCall, weights.registry),
                (Act::Attend, weights.attend),
            ],
            surroundings: vec![(Act::Mood, weights.mood)],
        }
    }

    fn act(&mut self, act: Act) -> Checked {
        match act {
            Act::Registry => {
                let count = self.machine.batch_size();
                return self.step_registry(count);
            }
            Act::Lanes => {
                self.order_stale();
                return self.drive_lanes();
            }
            Act::AttemptEnds => {
                let over = self.over();
                let index = over[self.machine.random.below(over.len() as u64) as usize];
                self.end_attempt(index);
            }
            Act::Reports => self.hand_in_reports(),
            Act::RegistryCall => self.call_registry(),
            Act::Attend => {
                let ways: Vec<WayIn> = self.ways().collect();
                let way = ways[self.machine.random.below(ways.len() as u64) as usize];
                let attended = self.machine.random.chance(2, 3);
                self.attend(way, attended);
            }
            Act::Mood => {
                let client = self.any_client_id();
                let mood =
                    if self.plan.moods_last { Mood::plain } else { Mood::any }(&mut self.machine.random);
                self.machine.trace.note(format_args!("{client} is {mood:?}"));
                self.receivers.set_mood(&client, mood);
            }
        }
        Ok(())
    }

    fn after_step(&mut self) -> Checked {
        if self.machine.random.chance(1, 20) { self.begin_waiting() } else { Ok(()) }
    }

    fn partitions_that_want(&self) -> Vec<PartitionId> {
        let wakes = self.machine.plan.injected != Some(InjectedFault::DeadlineLost);
        let now = if wakes { self.now() } else { Timestamp(0) };
        let ports = self.server.iter().flat_map(|server| &server.partitions);
        ports.filter(|port| port.wants_step(now)).map(|port| port.runner.id()).collect()
    }

    fn is_broken(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_broken)
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let now = self.now();
        let server = self.server.as_ref()?;
        let wakes = self.machine.plan.injected != Some(InjectedFault::DeadlineLost);
        let living = server.partitions.iter().filter(|port| wakes && !port.dead);
        let stale = server.context.devices.stale.next_probe();
        living
            .filter_map(|port| port.runner.next_wakeup(now))
            .chain(self.sending.next_end())
            .chain(stale)
            .chain(server.lanes.next_wakeup())
            .min()
    }

    fn audit_something(&mut self) -> Checked {
        let registry = self.machine.random.chance(1, 4);
        let partition = if registry { PartitionId::REGISTRY } else { self.random_partition() };
        self.audit(partition)
    }
}

impl World {
    pub(super) fn registry_wants(&self) -> bool {
        self.server.as_ref().is_some_and(|server| {
            let port = &server.registry;
            !port.dead && port.runner.may_step() && !port.inbox.is_empty()
        })
    }
}
