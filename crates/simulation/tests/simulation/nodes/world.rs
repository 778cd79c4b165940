//! The nodes, the network between them, and those who use both.

mod clients;
mod managers;
mod network;
mod workload;

use std::collections::BTreeSet;
use std::rc::Rc;

use base::Timestamp;

use self::clients::ClientCall;
use self::network::TakenMessages;
use super::counts::Counts;
use super::ledger::Ledger;
use super::network::Network;
use super::plan::NodesPlan;
use super::sim_node::SimNode;
use crate::harness::machine::Machine;
use crate::harness::violation::{Checked, Invariant};

/// The workload.
pub(super) struct World {
    pub(super) plan: NodesPlan,
    machine: Rc<Machine>,
    pub(super) nodes: Vec<SimNode>,
    network: Network<TakenMessages>,
    clients: Vec<ClientCall>,
    /// Nodes that are new, or came back with another disk: their copies are to be put.
    wants_copies: BTreeSet<usize>,
    /// Settings that nodes took.
    settings_given: u64,
    pub(super) ledger: Ledger,
    rest_until: Option<Timestamp>,
    /// Every stream has got its last messages.
    is_last_given: bool,
    pub(super) counts: Counts,
}

impl World {
    fn now(&self) -> Timestamp {
        self.machine.now()
    }

    fn any_node(&self) -> usize {
        self.machine.random.below(self.nodes.len() as u64) as usize
    }

    fn any_stream(&self) -> Box<str> {
        format!("s{}", self.machine.random.below(self.plan.streams)).into()
    }

    /// Something happened on a node: its process may have ended, and its streams may show more.
    fn look_at(&mut self, number: usize) -> Checked {
        let node = &mut self.nodes[number];
        if node.notice_process() {
            self.network.process_changed(number, node.node.process().is_some());
        }
        self.nodes[number].look_at_messages();
        let twice = self.nodes[number].seen.values().find_map(|seen| seen.twice);
        Invariant::EVERYWHERE_ONCE.check(twice.is_none(), || {
            let (message, first, second) = twice.unwrap_or_default();
            let sent = self.ledger.messages.get(&message);
            format!("message {message} is on node {number} as {first} and as {second}: {sent:?}")
        })?;
        self.nodes[number].tend_copies(&self.network.exchange);
        self.take_answers_of_clients()?;
        self.take_answers_of_nodes();
        Ok(())
    }

    /// A node does one thing.
    fn step_node(&mut self, number: usize) -> Checked {
        self.nodes[number].node.step()?;
        self.look_at(number)
    }

    /// A copy of a node goes on.
    fn run_copy(&mut self) {
        let number = self.any_node();
        let node = &mut self.nodes[number];
        if node.running() > 0 {
            let index = self.machine.random.below(node.running() as u64) as usize;
            node.run_copy(index);
            self.take_up_requests();
        }
    }

    /// Lines between nodes, cut or whole.
    fn all_lines(&self) -> BTreeSet<(usize, usize)> {
        let count = self.nodes.len();
        (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other))).collect()
    }
}
