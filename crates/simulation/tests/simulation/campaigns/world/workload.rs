//! The machine of campaigns as a workload: what the process is loaded with, what happens around it,
//! and how likely that is.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{Clock, PartitionId, Timestamp};
use engine::EngineSettings;
use engine::campaigns::{CampaignMachine, FleetView};
use engine::context::EngineContext;
use store::StoreError;

use super::fleet::{GivenPicks, SimulatedFleet};
use super::{Meant, Server, World};
use crate::campaigns::counts::Counts;
use crate::campaigns::fault_injection::{DELETION_NOT_SEEN, QUOTAS_DOUBLED};
use crate::campaigns::model::Model;
use crate::campaigns::plan::CampaignsPlan;
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

/// How long campaigns go on at the end: the wall clock is looked at sooner.
const REST: Duration = Duration::from_secs(30);

/// A kind of step that is this workload's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Tasks,
    Campaigns,
    Carry,
    Devices,
    Presence,
    Deletion,
}

impl Workload for World {
    type Plan = CampaignsPlan;
    type Counts = Counts;
    type Act = Act;

    one_partition!(PartitionId::CAMPAIGNS, campaigns);

    fn new(plan: CampaignsPlan, machine: &Rc<Machine>) -> Self {
        Self {
            model: Track::new(Model::new(&plan), machine.plan.sync_interval().is_some()),
            machine: Rc::clone(machine),
            server: None,
            expectations: Expectations::new(),
            calls: Calls::new(),
            fleet: Arc::new(SimulatedFleet::new(plan.devices, machine.injects(DELETION_NOT_SEEN))),
            given: GivenPicks::new(),
            accepted: Vec::new(),
            last_number: 0,
            phase: Phase::default(),
            counts: Counts::default(),
            plan,
        }
    }

    fn knobs(plan: &mut CampaignsPlan) -> Vec<Knob<'_>> {
        let weights = &mut plan.weights;
        vec![
            Knob::new("devices", &mut plan.devices, 1),
            Knob::new("campaigns", &mut plan.campaigns, 1),
            Knob::new("managed", &mut weights.campaigns, 0),
            Knob::new("tasks", &mut weights.tasks, 0),
            Knob::new("presence", &mut weights.presence, 0),
            Knob::new("deletions", &mut weights.deletions, 0),
        ]
    }

    fn load(&mut self, process: &Process) -> Result<(), StoreError> {
        let settings = match self.machine.injects(QUOTAS_DOUBLED) {
            true => Arc::new(doubled(&self.plan.settings)),
            false => Arc::clone(&self.plan.settings),
        };
        let context = process.context(&settings);
        let campaigns = load(process, &context, &settings, &self.fleet)?;
        self.server = Some(Server {
            number: process.number.0,
            context,
            campaigns,
            orders: VecDeque::new(),
            searches: VecDeque::new(),
            moves: VecDeque::new(),
            updates: VecDeque::new(),
        });
        if self.plan.all_stay() || self.phase.is_quiet {
            self.all_come();
        }
        Ok(())
    }

    fn bury(&mut self) {
        (self.server, self.phase.is_closing) = (None, false);
        self.fleet.all_go();
        self.calls.waiting.clear();
        self.expectations.clear();
    }

    fn acts(&self) -> Acts<Act> {
        let (weights, has_room) = (&self.plan.weights, self.has_room());
        let outside = vec![
            (Act::Tasks, when(has_room, weights.tasks)),
            (Act::Campaigns, when(has_room, weights.campaigns)),
            (Act::Carry, when(has_room, weights.carry)),
            (Act::Devices, when(has_room, weights.devices)),
            (Act::Presence, when(has_room, weights.presence)),
            (Act::Deletion, when(has_room, weights.deletions)),
        ];
        Acts { engine: Vec::new(), outside, surroundings: Vec::new() }
    }

    fn act(&mut self, act: Act) -> Checked {
        match act {
            Act::Tasks => self.manage_tasks(),
            Act::Campaigns => self.manage_campaigns(),
            Act::Carry => drop(self.carry()?),
            Act::Devices => drop(self.command_moves()),
            Act::Presence => self.change_presence(),
            Act::Deletion => self.delete_device(),
        }
        Ok(())
    }

    fn become_quiet(&mut self) {
        self.phase.is_quiet = true;
        self.all_come();
    }

    fn act_at_rest(&mut self) -> Checked<bool> {
        Ok(self.carry()? || self.command_moves())
    }

    /// Campaigns catch up with the clock; then they are removed, and all tasks end.
    fn rest(&mut self) -> Checked<Rest> {
        let now = self.now();
        let until = *self.phase.rest_until.get_or_insert(now.after(REST));
        if now < until {
            return Ok(Rest::Waits(until.0 - now.0));
        }
        self.model.present.check_up_to_date(Timestamp(self.machine.clock.wall().0 - 1_000))?;
        if self.remove_campaigns() {
            return Ok(Rest::Asked);
        }
        let is_open = self.model.present.tasks.values().any(|tracked| !tracked.has_ended());
        if is_open {
            return Ok(Rest::Waits(self.ms_to_next(&self.machine).unwrap_or(1_000).clamp(1, 60_000)));
        }
        Ok(Rest::Found)
    }

    fn check_rest(&mut self) -> Checked {
        self.check_all_ended()
    }
}

/// Twice the quotas.
fn doubled(settings: &EngineSettings) -> EngineSettings {
    let mut settings = settings.clone();
    let quotas = &mut settings.campaigns;
    quotas.device_picks_per_hour = quotas.device_picks_per_hour.map(|most| 2 * most);
    quotas.token_picks_per_hour.values_mut().for_each(|most| *most = most.map(|most| 2 * most));
    settings
}

fn load(
    process: &Process,
    context: &EngineContext,
    settings: &Arc<EngineSettings>,
    fleet: &Arc<SimulatedFleet>,
) -> Result<Port<CampaignMachine, Meant>, StoreError> {
    let (settings, shared, fleet) = (Arc::clone(settings), context.clone(), Arc::clone(fleet));
    let load = move || {
        let (kernel, fleet) = (&shared.kernel, Arc::clone(&fleet) as Arc<dyn FleetView>);
        let moments = (kernel.began_at_wall(), kernel.moment_of_load());
        CampaignMachine::load(&*kernel.store, &settings, fleet, moments)
    };
    Port::load(process, PartitionId::CAMPAIGNS, &context.campaigns, load)
}
