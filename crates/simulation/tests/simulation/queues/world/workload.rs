//! Queues as a workload: what the process is loaded with, and what the model makes of its lives. It
//! also says what publishers, consumers and those who look after queues do, and how likely it is.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::{Clock, PartitionId};
use records::Process as ProcessNumber;
use store::StoreError;

use super::rest::Phase;
use super::server::Server;
use super::{World, index_of};
use crate::harness::calls::{Calls, Expectations};
use crate::harness::counts::Counted;
use crate::harness::machine::Machine;
use crate::harness::port::AnyPort;
use crate::harness::process::Process;
use crate::harness::schedule::{Acts, when};
use crate::harness::shrinking::Knob;
use crate::harness::track::{AnyTrack, Past, Track};
use crate::harness::violation::{Checked, Invariant};
use crate::harness::workload::{Rest, Stored, Workload};
use crate::queues::checkers::contents;
use crate::queues::checkers::history::History;
use crate::queues::counts::Counts;
use crate::queues::fault_injection::READING_UNLIMITED;
use crate::queues::model::Partition;
use crate::queues::plan::{ENOUGH_RESIDENT, QueuesPlan};

/// A kind of step that is this workload's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Publish,
    Consume,
    Work,
    Touch,
    Manage,
    Lock,
    Control,
    HangUp,
}

impl Workload for World {
    type Plan = QueuesPlan;
    type Counts = Counts;
    type Act = Act;

    fn new(plan: QueuesPlan, machine: &Rc<Machine>) -> Self {
        let syncs_later = machine.plan.sync_interval().is_some();
        let (storage, resident_max) = (machine.plan.storage, plan.resident_max);
        machine.trace.note(format_args!("{storage:?}, {resident_max} jobs may be resident"));
        let track = |_| Track::new(Partition::new(plan.is_parking()), syncs_later);
        Self {
            model: (0..machine.plan.partitions).map(track).collect(),
            machine: Rc::clone(machine),
            server: None,
            expectations: Expectations::new(),
            history: History::default(),
            calls: Calls::new(),
            closing: false,
            phase: Phase::Busy,
            holdings: Vec::new(),
            several: BTreeMap::new(),
            hung_up: Vec::new(),
            left: BTreeSet::new(),
            nudged: BTreeSet::new(),
            latest: BTreeMap::new(),
            texts: BTreeMap::new(),
            seen_jobs: Vec::new(),
            repeats: Vec::new(),
            last_payload: 0,
            counts: Counts::default(),
            queues: plan.names_of_queues(),
            plan,
        }
    }

    fn knobs(plan: &mut QueuesPlan) -> Vec<Knob<'_>> {
        let weights = &mut plan.weights;
        vec![
            Knob::new("queues", &mut plan.queues, 1),
            Knob::new("names", &mut plan.names, 1),
            Knob::new("backlog", &mut plan.backlog, 1),
            Knob::new("resident_max", &mut plan.resident_max, 5),
            Knob::new("lock", &mut weights.lock, 0),
            Knob::new("control", &mut weights.control, 0),
            Knob::new("manage", &mut weights.manage, 0),
            Knob::new("touch", &mut weights.touch, 0),
            Knob::new("work", &mut weights.work, 0),
            Knob::new("consume", &mut weights.consume, 0),
            Knob::new("publish", &mut weights.publish, 0),
        ]
    }

    fn counts(&self) -> Counts {
        let mut counts = self.counts;
        self.model.iter().for_each(|track| counts.add(&track.present.counts));
        counts
    }

    fn partitions(&self) -> Vec<PartitionId> {
        (0..self.machine.plan.partitions).map(PartitionId::of_queues).collect()
    }

    fn port(&self, partition: PartitionId) -> Option<&dyn AnyPort> {
        Some(&self.server.as_ref()?.partitions[index_of(partition)].port)
    }

    fn port_mut(&mut self, partition: PartitionId) -> Option<&mut dyn AnyPort> {
        Some(&mut self.server.as_mut()?.partition(partition).port)
    }

    fn track(&mut self, partition: PartitionId) -> &mut dyn AnyTrack {
        &mut self.model[index_of(partition)]
    }

    fn step_partition(&mut self, partition: PartitionId, count: usize) -> Checked {
        self.step_queues(partition, count)
    }

    fn check_stored(&self, partition: PartitionId, stored: Stored, past: Past) -> Checked {
        let model = self.model[index_of(partition)].at(stored.seq, past)?;
        contents::check(&*stored.view, model)
    }

    fn load(&mut self, process: &Process) -> Result<(), StoreError> {
        let QueuesPlan { settings, resident_max, .. } = &self.plan;
        let mut limits = self.plan.step_limits();
        if self.machine.injects(READING_UNLIMITED) {
            limits.read = ENOUGH_RESIDENT as usize;
        }
        let bounds = (*resident_max as usize, limits);
        let server = Server::start(process, &self.partitions(), settings, bounds)?;
        (self.server, self.closing) = (Some(server), false);
        Ok(())
    }

    fn loaded(&mut self, partition: PartitionId, seq: u64, _: bool) -> Checked {
        self.expectations.forget_after(partition, seq);
        // What was on its way to who has hung up is lost with what held it, though its lease may be
        // durable.
        let expectations = &self.expectations;
        self.hung_up.retain(|(call, of)| *of != partition || expectations.of(*call).is_none());
        let (now, wall) = (self.now(), self.machine.clock.wall());
        let track = &mut self.model[index_of(partition)];
        track.back_to(seq)?;
        track.present.loaded(now, wall, ProcessNumber(self.machine.processes()));
        Ok(())
    }

    fn closing(&mut self) {
        self.closing = true;
    }

    /// A clean stop sends every consumer home.
    fn check_stopped(&self) -> Checked {
        let ports = || self.partitions().into_iter().filter_map(|partition| self.port(partition));
        let waiting: Vec<_> = self.calls.waiting.iter().map(|call| call.id).collect();
        Invariant::BOUNDED.check(ports().any(AnyPort::is_dead) || waiting.is_empty(), || {
            format!("after a clean stop, calls {waiting:?} wait")
        })
    }

    /// Nobody can hold against the server what the power has taken.
    fn power_failed(&mut self, partition: PartitionId, kept: u64) {
        self.history.forget_after(partition, kept);
        self.forget_leases_after(partition, kept);
    }

    fn bury(&mut self) {
        (self.server, self.closing) = (None, false);
        for call in std::mem::take(&mut self.calls.waiting) {
            self.unanswered(call.then);
        }
        self.expectations.clear();
        self.several.clear();
        self.hung_up.clear();
        self.left.clear();
    }

    fn acts(&self) -> Acts<Act> {
        let weights = &self.plan.weights;
        let outside = vec![
            (Act::Publish, weights.publish),
            (Act::Consume, weights.consume),
            (Act::Work, when(!self.holdings.is_empty(), weights.work)),
            (Act::Touch, weights.touch),
            (Act::Manage, weights.manage),
            (Act::Lock, weights.lock),
            (Act::Control, weights.control),
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
            Act::Lock => self.use_locks(),
            Act::Control => self.control(),
            Act::HangUp => self.hang_up(),
        }
        Ok(())
    }

    fn told(&mut self) -> Checked {
        self.collect_returns();
        self.take_answers()
    }

    fn any_partition(&mut self) -> PartitionId {
        self.machine.random.one_of(&self.partitions())
    }

    /// Nobody is told that the wall clock was set: something has all partitions look at it.
    fn become_quiet(&mut self) {
        self.pass_on(self.queues.clone());
    }

    fn act_at_rest(&mut self) -> Checked<bool> {
        Ok(self.nudge())
    }

    fn check_settled(&self) -> Checked {
        self.nobody_waits_in_vain()
    }

    fn rest(&mut self) -> Checked<Rest> {
        self.consume_all()
    }

    fn check_rest(&mut self) -> Checked {
        let queues = self.model.iter().flat_map(|track| track.present.queues.values());
        let dead: BTreeSet<_> = queues.flat_map(|queue| queue.dead.iter().map(|dead| dead.id)).collect();
        self.history.is_settled(&dead)
    }
}
