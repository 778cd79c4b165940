//! An edge node and a centre as a workload.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::Timestamp;
use engine::streams::CopyStatus;

use super::World;
use super::reporters::Reporter;
use crate::harness::machine::Machine;
use crate::harness::node::Node;
use crate::harness::schedule::Acts;
use crate::harness::shrinking::Knob;
use crate::harness::violation::Checked;
use crate::harness::workload::{Rest, Workload};
use crate::nodes::network::{Network, NetworkCounts, NodesWorld};
use crate::nodes::plan::{knobs_of_node, node_name};
use crate::nodes::reports::counts::Counts;
use crate::nodes::reports::node::ReportsNode;
use crate::nodes::reports::plan::ReportsPlan;
use crate::nodes::reports::{CENTRE, EDGE};

/// How long everybody has at the end, twice: the copy tries again within seconds.
const SETTLE: Duration = Duration::from_secs(30);

/// A kind of step that is this workload's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nodes::reports) enum Act {
    Edge,
    Centre,
    RunCopy,
    Bring,
    Report,
    Gather,
    Cut,
    Pause,
    Look,
}

impl Workload for World {
    type Plan = ReportsPlan;
    type Counts = (Counts, NetworkCounts);
    type Act = Act;

    const NEXT_MS_MAX: i64 = 60_000;

    fn new(plan: ReportsPlan, machine: &Rc<Machine>) -> Self {
        let now = machine.now();
        let node = |number: usize| {
            let plan = plan.of_node(number, machine.plan.seed);
            Node::<ReportsNode>::new(plan, machine.trace.of(&node_name(number)), now)
        };
        Self {
            machine: Rc::clone(machine),
            nodes: vec![node(EDGE), node(CENTRE)],
            processes: [None; 2],
            network: Network::new(plan.network, machine),
            newest: (0, 0),
            copy: None,
            status: Arc::new(Mutex::new(CopyStatus::default())),
            reporters: Reporter::all(),
            rest_until: None,
            counts: Counts::default(),
            plan,
        }
    }

    fn knobs(plan: &mut ReportsPlan) -> Vec<Knob<'_>> {
        let weights = &mut plan.weights;
        let uses = [
            Knob::new("report", &mut weights.report, 1),
            Knob::new("cut", &mut weights.cut, 0),
            Knob::new("pause", &mut weights.pause, 0),
        ];
        let machines = knobs_of_node(&mut plan.machine);
        machines.into_iter().chain(uses).chain(plan.network.knobs()).collect()
    }

    fn counts(&self) -> Self::Counts {
        (self.counts, self.network.counts)
    }

    /// First both nodes start; then they know the devices; and then there is the copy.
    fn begin(&mut self, part: u64) -> bool {
        match part {
            0 => {}
            1 => self.register_devices(),
            2 => self.put_copy(),
            _ => return false,
        }
        true
    }

    fn acts(&self) -> Acts<Act> {
        let weights = &self.plan.weights;
        let outside = vec![
            (Act::Edge, 4_000),
            (Act::Centre, 3_000),
            (Act::RunCopy, 1_200),
            (Act::Bring, 1_600),
            (Act::Report, 2 * weights.report),
            (Act::Gather, 2 * weights.gather),
            (Act::Cut, 6 * weights.cut),
            (Act::Pause, 3 * weights.pause),
            (Act::Look, weights.look),
        ];
        Acts { engine: Vec::new(), outside, surroundings: Vec::new() }
    }

    fn act(&mut self, act: Act) -> Checked {
        self.follow_time();
        match act {
            Act::Edge => self.step_node(EDGE)?,
            Act::Centre => self.step_node(CENTRE)?,
            Act::RunCopy => self.run_copy(),
            Act::Bring => self.bring_any(),
            Act::Report => self.report(),
            Act::Gather => drop(self.gather()),
            Act::Cut => self.change_line(),
            Act::Pause => self.pause_copy(self.machine.random.chance(1, 2)),
            Act::Look => self.check_reports()?,
        }
        Ok(())
    }

    fn after_step(&mut self) -> Checked {
        self.follow_time();
        Ok(())
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let nodes = self.nodes.iter().filter_map(Node::next_wakeup);
        let copy = self.copy.as_ref().and_then(|copy| copy.next_wakeup());
        nodes.chain(copy).chain(self.network.next_deadline()).min()
    }

    fn become_quiet(&mut self) {
        self.network.become_quiet();
    }

    fn act_at_rest(&mut self) -> Checked<bool> {
        self.settle(Self::settle_round)
    }

    fn rest(&mut self) -> Checked<Rest> {
        let now = self.now();
        match self.rest_until {
            Some((until, _)) if now < until => Ok(Rest::Waits(until.0 - now.0)),
            Some((_, true)) => Ok(Rest::Found),
            first => {
                for number in [EDGE, CENTRE] {
                    self.nodes[number].become_quiet()?;
                    self.look_at(number);
                }
                // A partition that was loaded anew meanwhile may not have heard it the first time.
                self.pause_copy(false);
                self.rest_until = Some((now.after(SETTLE), first.is_some()));
                Ok(Rest::Asked)
            }
        }
    }

    fn check_rest(&mut self) -> Checked {
        self.check_at_rest()
    }
}

impl World {
    /// The copy goes on, as far as it can.
    fn run_copy(&mut self) {
        if let Some(copy) = &mut self.copy {
            copy.go_on();
        }
        self.network.take_up_requests();
    }

    fn change_line(&mut self) {
        self.network.change_line(EDGE, CENTRE);
        let is_cut = self.network.is_cut(EDGE, CENTRE);
        self.machine.trace.note(format_args!("the line is cut: {is_cut}"));
    }

    /// All that nodes, the copy and the network can do now, each once. Whether there was anything.
    fn settle_round(&mut self) -> Checked<bool> {
        let mut any = false;
        for number in [EDGE, CENTRE] {
            if self.nodes[number].process().is_none() {
                // It has not begun, or ended in the middle of what the other node asked of it.
                self.nodes[number].become_quiet()?;
            }
            any |= self.nodes[number].settle()?;
            self.look_at(number);
        }
        any |= self.gather();
        self.run_copy();
        Ok(self.bring_all() || any)
    }
}
