//! The registry as a workload: what the process is loaded with, what happens around it, and how
//! likely that is.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use base::{PartitionId, Timestamp};
use engine::EngineSettings;
use engine::context::EngineContext;
use engine::registry::Registry;
use store::StoreError;

use super::{Server, World};
use crate::harness::calls::{Calls, Expectations};
use crate::harness::machine::Machine;
use crate::harness::one_partition::{Phase, one_partition};
use crate::harness::port::Port;
use crate::harness::process::Process;
use crate::harness::schedule::{Acts, when};
use crate::harness::shrinking::Knob;
use crate::harness::track::Track;
use crate::harness::violation::Checked;
use crate::harness::workload::{Rest, Workload};
use crate::registry::counts::Counts;
use crate::registry::fault_injection::QUIET_IGNORED;
use crate::registry::model::Model;
use crate::registry::plan::RegistryPlan;

/// A kind of step that is this workload's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Mood,
    Enable,
    Begin,
    Cancel,
    Look,
    Carry,
    Work,
}

impl Workload for World {
    type Plan = RegistryPlan;
    type Counts = Counts;
    type Act = Act;

    one_partition!(PartitionId::REGISTRY, registry);

    fn new(plan: RegistryPlan, machine: &Rc<Machine>) -> Self {
        Self {
            model: Track::new(Model::default(), machine.plan.sync_interval().is_some()),
            machine: Rc::clone(machine),
            server: None,
            expectations: Expectations::new(),
            calls: Calls::new(),
            failing: BTreeSet::new(),
            changed: BTreeSet::new(),
            lists: BTreeMap::new(),
            last_number: 0,
            phase: Phase::default(),
            counts: Counts::default(),
            plan,
        }
    }

    fn knobs(plan: &mut RegistryPlan) -> Vec<Knob<'_>> {
        let weights = &mut plan.weights;
        vec![
            Knob::new("clients", &mut plan.clients, 1),
            Knob::new("rows", &mut plan.rows, 1),
            Knob::new("mood", &mut weights.mood, 0),
            Knob::new("enable", &mut weights.enable, 0),
            Knob::new("operations", &mut weights.operations, 0),
        ]
    }

    fn load(&mut self, process: &Process) -> Result<(), StoreError> {
        let settings = self.settings_as_given();
        let context = process.context(&settings);
        let registry = load(process, &context, &settings)?;
        self.server = Some(Server {
            told_failing: self.told_failing(&context),
            context,
            registry,
            open: BTreeMap::new(),
            working: BTreeMap::new(),
            told: BTreeSet::new(),
            read_in: None,
        });
        Ok(())
    }

    fn bury(&mut self) {
        (self.server, self.phase.is_closing) = (None, false);
        self.calls.waiting.clear();
        self.expectations.clear();
    }

    fn begin(&mut self, part: u64) -> bool {
        if part == 0 {
            self.register_all();
        }
        part == 0
    }

    fn acts(&self) -> Acts<Act> {
        let (weights, has_room) = (&self.plan.weights, self.has_room());
        let outside = vec![
            (Act::Enable, when(has_room, weights.enable)),
            (Act::Begin, when(has_room, weights.operations)),
            (Act::Cancel, when(has_room, weights.operations / 8)),
            (Act::Look, when(has_room, weights.work)),
            (Act::Carry, when(has_room, weights.work)),
            (Act::Work, when(has_room, 2 * weights.work)),
        ];
        Acts { engine: Vec::new(), outside, surroundings: vec![(Act::Mood, weights.mood)] }
    }

    fn act(&mut self, act: Act) -> Checked {
        match act {
            Act::Mood => self.change_mood(),
            Act::Enable => self.enable(),
            Act::Begin => self.begin_operation(),
            Act::Cancel => self.cancel_operation(),
            Act::Look => drop(self.look_at_receivers()),
            Act::Carry => drop(self.carry_signals()),
            Act::Work => drop(self.work()?),
        }
        Ok(())
    }

    fn next_moment(&self) -> Option<Timestamp> {
        self.next_work()
    }

    fn become_quiet(&mut self) {
        self.phase.is_quiet = true;
    }

    fn act_at_rest(&mut self) -> Checked<bool> {
        Ok(self.look_at_receivers() || self.carry_signals() || self.work()?)
    }

    /// What waits for the end of a quiet time is told at it, and keeps the subject quiet once more.
    fn rest(&mut self) -> Checked<Rest> {
        let now = self.now();
        if !self.all_have_ended() {
            return Ok(Rest::Waits(self.ms_to_next(&self.machine).unwrap_or(1_000).clamp(1, 60_000)));
        }
        let quiet = self.plan.settings.notices.quiet;
        let until = *self.phase.rest_until.get_or_insert(now.after(2 * quiet));
        Ok(if now < until { Rest::Waits(until.0 - now.0) } else { Rest::Found })
    }

    fn check_rest(&mut self) -> Checked {
        self.check_notices()?;
        self.check_operations()
    }
}

impl World {
    /// The settings that the server is given: those in force, unless the harness is broken.
    fn settings_as_given(&self) -> Arc<EngineSettings> {
        let mut settings = (*self.plan.settings).clone();
        if self.machine.injects(QUIET_IGNORED) {
            settings.notices.quiet /= 2;
        }
        Arc::new(settings)
    }
}

fn load(
    process: &Process,
    context: &EngineContext,
    settings: &Arc<EngineSettings>,
) -> Result<Port<Registry, super::Meant>, StoreError> {
    let (settings, shared) = (Arc::clone(settings), context.clone());
    let load = move || {
        let registry = Registry::load(&*shared.kernel.store, &settings)?;
        shared.registry_loaded(&registry);
        Ok(registry)
    };
    Port::load(process, PartitionId::REGISTRY, &context.registry, load)
}
