//! Commands as a workload: what the process is loaded with, and what the model makes of its lives.
//! It also says what devices and callers do, and how likely it is.

use std::rc::Rc;
use std::sync::Arc;

use base::{PartitionId, Timestamp};
use engine::{CommandSettings, EngineSettings};
use store::StoreError;

use super::World;
use super::fleet::Fleet;
use super::rollouts::RolloutsSeen;
use super::server::Server;
use crate::commands::checkers::history::History;
use crate::commands::checkers::{contents, rollouts};
use crate::commands::counts::Counts;
use crate::commands::fault_injection::{GAP_IGNORED, WINDOW_IGNORED};
use crate::commands::model::{Ledger, Partition, Presence};
use crate::commands::plan::CommandsPlan;
use crate::harness::calls::{Calls, Expectations};
use crate::harness::counts::Counted;
use crate::harness::machine::Machine;
use crate::harness::port::AnyPort;
use crate::harness::process::Process;
use crate::harness::schedule::{Acts, when};
use crate::harness::shrinking::Knob;
use crate::harness::track::{AnyTrack, Past, Track};
use crate::harness::violation::Checked;
use crate::harness::workload::{Rest, Stored, Workload};

/// A kind of step that is this workload's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Send,
    Manage,
    Presence,
    Poll,
    Say,
    Rollouts,
    Carry,
}

impl Workload for World {
    type Plan = CommandsPlan;
    type Counts = Counts;
    type Act = Act;

    fn new(plan: CommandsPlan, machine: &Rc<Machine>) -> Self {
        let syncs_later = machine.plan.sync_interval().is_some();
        let track = |_| Track::new(Partition::default(), syncs_later);
        Self {
            model: (0..machine.plan.partitions).map(track).collect(),
            ledger: Track::new(Ledger::default(), syncs_later),
            rollouts: RolloutsSeen::default(),
            machine: Rc::clone(machine),
            server: None,
            presence: Presence::default(),
            expectations: Expectations::new(),
            history: History::default(),
            calls: Calls::new(),
            fleet: Fleet::new(plan.device_ids()),
            given: Vec::new(),
            last_number: 0,
            is_quiet: false,
            is_closing: false,
            rounds: 0,
            counts: Counts::default(),
            plan,
        }
    }

    fn knobs(plan: &mut CommandsPlan) -> Vec<Knob<'_>> {
        let weights = &mut plan.weights;
        vec![
            Knob::new("devices", &mut plan.devices, 1),
            Knob::new("names", &mut plan.names, 1),
            Knob::new("rollouts", &mut weights.rollouts, 0),
            Knob::new("poll", &mut weights.poll, 0),
            Knob::new("presence", &mut weights.presence, 0),
            Knob::new("manage", &mut weights.manage, 0),
            Knob::new("send", &mut weights.send, 0),
        ]
    }

    fn counts(&self) -> Counts {
        let mut counts = self.counts;
        self.model.iter().for_each(|track| counts.add(&track.present.counts));
        counts
    }

    fn partitions(&self) -> Vec<PartitionId> {
        let registry = self.has_rollouts().then_some(PartitionId::REGISTRY);
        self.device_partitions().chain(registry).collect()
    }

    fn port(&self, partition: PartitionId) -> Option<&dyn AnyPort> {
        let server = self.server.as_ref()?;
        if partition == PartitionId::REGISTRY {
            return server.registry.as_ref().map(|registry| registry as &dyn AnyPort);
        }
        Some(&server.partitions[usize::from(partition.0)])
    }

    fn port_mut(&mut self, partition: PartitionId) -> Option<&mut dyn AnyPort> {
        let server = self.server.as_mut()?;
        if partition == PartitionId::REGISTRY {
            return server.registry.as_mut().map(|registry| registry as &mut dyn AnyPort);
        }
        Some(server.port(partition))
    }

    fn track(&mut self, partition: PartitionId) -> &mut dyn AnyTrack {
        if partition == PartitionId::REGISTRY {
            return &mut self.ledger;
        }
        &mut self.model[usize::from(partition.0)]
    }

    fn step_partition(&mut self, partition: PartitionId, count: usize) -> Checked {
        if partition == PartitionId::REGISTRY {
            return self.step_registry(count);
        }
        self.step_commands(partition, count)
    }

    fn check_stored(&self, partition: PartitionId, stored: Stored, past: Past) -> Checked {
        if partition == PartitionId::REGISTRY {
            return rollouts::check_stored(&*stored.view, self.ledger.at(stored.seq, past)?);
        }
        let model = self.model[usize::from(partition.0)].at(stored.seq, past)?;
        contents::check(&*stored.view, model)
    }

    fn load(&mut self, process: &Process) -> Result<(), StoreError> {
        let (partitions, settings) = (self.device_partitions(), self.settings_as_given());
        self.server = Some(Server::start(process, partitions, &settings, self.has_rollouts())?);
        Ok(())
    }

    fn loaded(&mut self, partition: PartitionId, seq: u64, _: bool) -> Checked {
        self.expectations.forget_after(partition, seq);
        if partition == PartitionId::REGISTRY {
            return self.ledger.back_to(seq);
        }
        let track = &mut self.model[usize::from(partition.0)];
        track.back_to(seq)?;
        track.present.loaded(&self.presence);
        Ok(())
    }

    fn closing(&mut self) {
        self.is_closing = true;
    }

    fn power_failed(&mut self, partition: PartitionId, kept: u64) {
        self.history.forget_after(partition, kept);
        if self.machine.plan.sync_interval().is_some() {
            self.rollouts.power_failed();
        }
    }

    fn bury(&mut self) {
        (self.server, self.is_closing) = (None, false);
        self.presence = Presence::default();
        self.fleet.cut_off();
        for call in std::mem::take(&mut self.calls.waiting) {
            self.unanswered(call.then);
        }
        self.expectations.clear();
    }

    fn begin(&mut self, part: u64) -> bool {
        if part == 0 {
            self.register_all();
        }
        part == 0
    }

    fn acts(&self) -> Acts<Act> {
        let weights = &self.plan.weights;
        let room = |weight| when(self.has_room(), weight);
        let now = self.machine.now();
        let is_due = self.fleet.next_saying().is_some_and(|at| at <= now);
        let outside = vec![
            (Act::Send, room(weights.send)),
            (Act::Manage, room(weights.manage)),
            (Act::Presence, room(weights.presence)),
            (Act::Poll, room(weights.poll)),
            (Act::Say, when(is_due, 200)),
            (Act::Rollouts, room(weights.rollouts)),
            (Act::Carry, room(if weights.rollouts > 0 { 200 } else { 0 })),
        ];
        Acts { engine: Vec::new(), outside, surroundings: Vec::new() }
    }

    fn act(&mut self, act: Act) -> Checked {
        match act {
            Act::Send => self.send(),
            Act::Manage => self.manage(),
            Act::Presence => self.change_presence(),
            Act::Poll => self.poll(),
            Act::Say => drop(self.say()),
            Act::Rollouts => self.manage_rollouts(),
            Act::Carry => drop(self.carry()?),
        }
        Ok(())
    }

    fn told(&mut self) -> Checked {
        self.take_answers()
    }

    fn next_moment(&self) -> Option<Timestamp> {
        self.fleet.next_saying()
    }

    fn any_partition(&mut self) -> PartitionId {
        self.machine.random.one_of(&self.partitions())
    }

    fn become_quiet(&mut self) {
        self.is_quiet = true;
        self.stop_all_polls();
    }

    fn act_at_rest(&mut self) -> Checked<bool> {
        Ok(self.say() | self.carry()?)
    }

    fn rest(&mut self) -> Checked<Rest> {
        self.end_all()
    }

    fn check_rest(&mut self) -> Checked {
        self.check_ended()
    }
}

impl World {
    fn device_partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.machine.plan.partitions).map(PartitionId)
    }

    /// Whether the registry takes part.
    fn has_rollouts(&self) -> bool {
        self.plan.weights.rollouts > 0
    }

    /// The settings that the server is given: those in force, unless the harness is broken.
    fn settings_as_given(&self) -> Arc<EngineSettings> {
        let mut settings = (*self.plan.settings).clone();
        let CommandSettings { pace, by_kind, .. } = &mut settings.commands;
        for pace in by_kind.values_mut().chain([pace]) {
            pace.in_flight += u32::from(self.machine.injects(WINDOW_IGNORED));
            if self.machine.injects(GAP_IGNORED) {
                pace.gap = std::time::Duration::ZERO;
            }
        }
        Arc::new(settings)
    }
}
