//! What those do who publish, consume and look after queues, and how likely it is.

use base::{PartitionId, Timestamp};

use super::World;
use super::server::Server;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::schedule::{Acts, DAY_MS, Scheduled, when};
use crate::harness::violation::Checked;

/// A kind of step that is this workload's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Publish,
    Consume,
    Work,
    Touch,
    Manage,
    HangUp,
}

impl Scheduled for World {
    type Act = Act;

    const NEXT_MS_MAX: i64 = DAY_MS as i64;

    fn acts(&self) -> Acts<Act> {
        let weights = &self.plan.weights;
        let outside = vec![
            (Act::Publish, weights.publish),
            (Act::Consume, weights.consume),
            (Act::Work, when(!self.holdings.is_empty(), weights.work)),
            (Act::Touch, weights.touch),
            (Act::Manage, weights.manage),
            (Act::HangUp, 4),
        ];
        Acts { engine: Vec::new(), outside, surroundings: Vec::new() }
    }

    fn act(&mut self, act: Act) -> Checked {
        match act {
            Act::Publish => self.publish(),
            Act::Consume => self.consume(),
            Act::Work => self.work(),
            Act::Touch => self.touch(),
            Act::Manage => self.manage(),
            Act::HangUp => self.hang_up(),
        }
        Ok(())
    }

    fn partitions_that_want(&self) -> Vec<PartitionId> {
        let wakes = self.machine.plan.injected != Some(InjectedFault::DeadlineLost);
        let now = if wakes { self.now() } else { Timestamp(0) };
        let ports = self.server.iter().flat_map(Server::ports);
        ports.filter(|port| port.wants_step(now)).map(|port| port.runner.id()).collect()
    }

    fn is_broken(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_broken)
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let now = self.now();
        let wakes = self.machine.plan.injected != Some(InjectedFault::DeadlineLost);
        let living = self.server.as_ref()?.ports().filter(|port| wakes && !port.dead);
        living.filter_map(|port| port.runner.next_wakeup(now)).min()
    }

    fn audit_something(&mut self) -> Checked {
        let index = self.machine.random.below(u64::from(self.machine.plan.partitions));
        self.audit(PartitionId::of_queues(index as u16))
    }
}
