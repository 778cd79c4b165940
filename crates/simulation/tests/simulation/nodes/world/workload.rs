//! Several nodes as a workload. Its machine is the world: it has the time, and the chance.

use std::rc::Rc;
use std::time::Duration;

use base::Timestamp;

use super::World;
use crate::harness::machine::Machine;
use crate::harness::node::Node;
use crate::harness::schedule::{Acts, when};
use crate::harness::shrinking::Knob;
use crate::harness::violation::Checked;
use crate::harness::workload::{Rest, Workload};
use crate::nodes::counts::Counts;
use crate::nodes::ledger::Ledger;
use crate::nodes::network::{Network, NetworkCounts, NodesWorld};
use crate::nodes::plan::{NodesPlan, knobs_of_node, node_name, node_seed};
use crate::nodes::sim_node::SimNode;
use crate::streams::world::as_node::StreamsNode;

/// How long everybody has at the end until the last messages are given.
const SETTLE: Duration = Duration::from_secs(10);
/// How long a run waits behind these: copies find each other, and paced ones bring all.
const REST: Duration = Duration::from_secs(4 * 60);

/// A kind of step that is this workload's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nodes) enum Act {
    Node,
    RunCopy,
    Bring,
    Append,
    Set,
    Copy,
    DeleteStream,
    Image,
    Cut,
    Receipt,
    Look,
}

impl Workload for World {
    type Plan = NodesPlan;
    type Counts = (Counts, NetworkCounts);
    type Act = Act;

    fn new(plan: NodesPlan, machine: &Rc<Machine>) -> Self {
        let now = machine.now();
        let node = |number: usize| {
            let seed = node_seed(machine.plan.seed, number, 0);
            let trace = machine.trace.of(&node_name(number));
            SimNode::new(number, Node::new(plan.of_node(number, seed), trace, now))
        };
        let nodes: Vec<SimNode> = (0..plan.nodes as usize).map(node).collect();
        Self {
            wants_copies: (0..nodes.len()).collect(),
            machine: Rc::clone(machine),
            nodes,
            network: Network::new(plan.network, machine),
            clients: Vec::new(),
            settings_given: 0,
            ledger: Ledger::default(),
            rest_until: None,
            is_last_given: false,
            counts: Counts::default(),
            plan,
        }
    }

    fn knobs(plan: &mut NodesPlan) -> Vec<Knob<'_>> {
        let weights = &mut plan.weights;
        let uses = [
            Knob::new("append", &mut weights.append, 1),
            Knob::new("set", &mut weights.set, 0),
            Knob::new("copy", &mut weights.copy, 0),
            Knob::new("delete_stream", &mut weights.delete_stream, 0),
            Knob::new("image", &mut weights.image, 0),
            Knob::new("cut", &mut weights.cut, 0),
            Knob::new("receipt", &mut weights.receipt, 0),
        ];
        let disks = [
            Knob::new("disk", &mut plan.disk, 0),
            Knob::new("moving_percent", &mut plan.moving_percent, 0),
            Knob::new("cold", &mut plan.cold, 0),
        ];
        let machines = knobs_of_node(&mut plan.machine);
        machines.into_iter().chain(uses).chain(plan.network.knobs()).chain(disks).collect()
    }

    fn counts(&self) -> Self::Counts {
        (self.counts, self.network.counts)
    }

    fn acts(&self) -> Acts<Act> {
        let weights = &self.plan.weights;
        let many = self.nodes.len() as u64;
        let outside = vec![
            (Act::Node, 4_000 * many),
            (Act::RunCopy, 1_200),
            (Act::Bring, 1_600),
            (Act::Append, 3 * weights.append),
            (Act::Set, 3 * weights.set),
            (Act::Copy, 4 * weights.copy),
            (Act::DeleteStream, 5 * weights.delete_stream),
            (Act::Image, 6 * weights.image),
            (Act::Cut, when(many > 1, 6 * weights.cut)),
            (Act::Receipt, 2 * weights.receipt),
            (Act::Look, 6 * weights.look),
        ];
        Acts { engine: Vec::new(), outside, surroundings: Vec::new() }
    }

    fn act(&mut self, act: Act) -> Checked {
        self.follow_time();
        match act {
            Act::Node => {
                let number = self.any_node();
                self.step_node(number)?;
                self.put_wanted_copies(number);
            }
            Act::RunCopy => self.run_copy(),
            Act::Bring => self.bring_any(),
            Act::Append => self.append(),
            Act::Set => self.set(),
            Act::Copy => self.manage_copies(),
            Act::DeleteStream => self.delete_stream(),
            Act::Image => self.change_disk()?,
            Act::Cut => self.change_lines(),
            Act::Receipt => self.ask_receipt()?,
            Act::Look => self.check_positions()?,
        }
        Ok(())
    }

    fn after_step(&mut self) -> Checked {
        self.follow_time();
        Ok(())
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let nodes = self.nodes.iter().filter_map(SimNode::next_wakeup);
        nodes.chain(self.network.next_deadline()).min()
    }

    fn become_quiet(&mut self) {
        self.network.become_quiet();
    }

    fn act_at_rest(&mut self) -> Checked<bool> {
        self.settle(Self::settle_round)
    }

    fn rest(&mut self) -> Checked<Rest> {
        let now = self.now();
        if self.rest_until.is_none() {
            for number in 0..self.nodes.len() {
                self.nodes[number].node.become_quiet()?;
                self.look_at(number)?;
                self.put_wanted_copies(number);
            }
            self.resume_copies();
            self.rest_until = Some(now.after(SETTLE));
            return Ok(Rest::Asked);
        }
        if !self.is_last_given && self.rest_until.is_some_and(|until| until <= now) {
            self.is_last_given = true;
            // A partition that was loaded anew meanwhile may not have heard it.
            self.resume_copies();
            self.append_last();
            self.rest_until = Some(now.after(REST));
            return Ok(Rest::Asked);
        }
        let until = self.rest_until.unwrap_or(now);
        Ok(if now < until { Rest::Waits(until.0 - now.0) } else { Rest::Found })
    }

    fn check_rest(&mut self) -> Checked {
        self.check_at_rest()
    }
}

impl World {
    /// A node that came back has the copies that it had put, once it is up.
    fn put_wanted_copies(&mut self, number: usize) {
        if self.nodes[number].node.users().takes_input() && self.wants_copies.remove(&number) {
            self.set_first(number);
            self.put_copies_of(number);
        }
    }

    fn change_lines(&mut self) {
        let lines: Vec<_> = self.all_lines().into_iter().collect();
        let (one, other) = self.machine.random.one_of(&lines);
        self.network.change_line(one, other);
        self.machine.trace.note(format_args!("lines cut: {:?}", self.network.cuts()));
    }

    /// All that nodes, copies and the network can do now, each once. Whether there was anything.
    fn settle_round(&mut self) -> Checked<bool> {
        let mut any = false;
        for number in 0..self.nodes.len() {
            if self.nodes[number].node.process().is_none() {
                if self.rest_until.is_none() {
                    continue;
                }
                // It ended in the middle of what another node asked of it.
                self.nodes[number].node.become_quiet()?;
            }
            any |= self.nodes[number].node.settle()?;
            self.look_at(number)?;
            for index in 0..self.nodes[number].running() {
                self.nodes[number].run_copy(index);
            }
            self.take_up_requests();
        }
        Ok(self.bring_all() || any)
    }
}
