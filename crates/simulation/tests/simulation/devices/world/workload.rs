//! Devices and clients as a workload: what the process is loaded with, and what the model makes of
//! its lives. It also says what may happen besides, and how likely that is.

use std::rc::Rc;
use std::sync::Arc;

use base::{PartitionId, Timestamp};
use engine::EngineSettings;
use engine::settings::{NotificationView, RetrySettings};
use notify::lanes::{IN_FLIGHT_MAX, SendLimits};
use store::StoreError;

use super::World;
use super::server::Server;
use crate::devices::checkers::contents;
use crate::devices::counts::Counts;
use crate::devices::fault_injection::{LIMIT_IGNORED, NOTHING_SKIPPED, RETRIES_TOO_SOON};
use crate::devices::model::breaker::Breakers;
use crate::devices::model::partition::Partition;
use crate::devices::model::registry::Registry;
use crate::devices::plan::{self, FleetPlan};
use crate::devices::receivers::{Mood, Receivers};
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
    Registry,
    Lanes,
    AttemptEnds,
    Reports,
    RegistryCall,
    Attend,
    Mood,
}

impl Workload for World {
    type Plan = FleetPlan;
    type Counts = Counts;
    type Act = Act;

    const NEXT_MS_MAX: i64 = i64::MAX;

    fn new(plan: FleetPlan, machine: &Rc<Machine>) -> Self {
        let settings = &plan.settings;
        let syncs_later = machine.plan.sync_interval().is_some();
        let partition = |id| Track::new(Partition::new(Arc::clone(settings), PartitionId(id)), syncs_later);
        Self {
            machine: Rc::clone(machine),
            server: None,
            model: (0..machine.plan.partitions).map(partition).collect(),
            registry: Track::new(Registry::new(), syncs_later),
            breakers: Breakers::default(),
            expectations: Expectations::new(),
            calls: Calls::new(),
            sending: super::sender::Sending::default(),
            receivers: Receivers::new(settings.attempt_timeout),
            clients_seen: std::collections::BTreeSet::new(),
            rest_by: None,
            quiet_since: None,
            repeats: Vec::new(),
            settings: Arc::clone(settings),
            counts: Counts::default(),
            plan,
        }
    }

    fn knobs(plan: &mut FleetPlan) -> Vec<Knob<'_>> {
        let weights = &mut plan.weights;
        vec![
            Knob::new("devices", &mut plan.devices, 1),
            Knob::new("clients", &mut plan.clients, 1),
            Knob::new("mood", &mut weights.mood, 0),
            Knob::new("attend", &mut weights.attend, 0),
            Knob::new("registry", &mut weights.registry, 0),
            Knob::new("reports", &mut weights.reports, 0),
        ]
    }

    fn counts(&self) -> Counts {
        let mut counts = self.counts;
        (counts.attempts, counts.delivered) = (self.sending.begun, self.sending.delivered);
        self.model.iter().for_each(|track| counts.add(&track.present.counts));
        counts.add(&self.registry.present.counts);
        counts.add(&self.breakers.counts);
        counts
    }

    fn partitions(&self) -> Vec<PartitionId> {
        self.partitions_of_devices().chain([PartitionId::REGISTRY]).collect()
    }

    fn port(&self, partition: PartitionId) -> Option<&dyn AnyPort> {
        let server = self.server.as_ref()?;
        Some(match partition {
            PartitionId::REGISTRY => &server.registry,
            PartitionId(index) => &server.partitions[usize::from(index)],
        })
    }

    fn port_mut(&mut self, partition: PartitionId) -> Option<&mut dyn AnyPort> {
        let server = self.server.as_mut()?;
        Some(match partition {
            PartitionId::REGISTRY => &mut server.registry,
            _ => server.port(partition),
        })
    }

    fn track(&mut self, partition: PartitionId) -> &mut dyn AnyTrack {
        match partition {
            PartitionId::REGISTRY => &mut self.registry,
            PartitionId(index) => &mut self.model[usize::from(index)],
        }
    }

    fn is_drawn(&self, partition: PartitionId) -> bool {
        partition != PartitionId::REGISTRY
    }

    fn step_partition(&mut self, partition: PartitionId, count: usize) -> Checked {
        match partition {
            PartitionId::REGISTRY => self.step_registry(count),
            _ => self.step_devices(partition, count),
        }
    }

    fn check_stored(&self, partition: PartitionId, stored: Stored, past: Past) -> Checked {
        match partition {
            PartitionId::REGISTRY => {
                contents::check_registry(&*stored.view, self.registry.at(stored.seq, past)?)
            }
            PartitionId(index) => {
                let model = self.model[usize::from(index)].at(stored.seq, past)?;
                contents::check_partition(&*stored.view, model)
            }
        }
    }

    /// An operator may change the settings between two lives. How long an attempt may take is also
    /// what the receivers go by.
    fn load(&mut self, process: &Process) -> Result<(), StoreError> {
        let random = &self.machine.random;
        if self.machine.processes() > 1 && self.plan.reconfigures && random.chance(1, 3) {
            let attempt_timeout = self.settings.attempt_timeout;
            let settings = plan::settings(&mut random.numbers());
            self.settings = Arc::new(EngineSettings { attempt_timeout, ..settings });
            self.machine.trace.note(format_args!("other settings: {:?}", self.settings.ways_configured));
        }
        let ignored = usize::from(self.machine.injects(LIMIT_IGNORED));
        let limits = SendLimits {
            per_client: self.plan.per_client_in_flight + ignored,
            total: IN_FLIGHT_MAX,
            breaker_pause: self.settings.retry.base,
        };
        let server = Server::start(process, self.partitions_of_devices(), &self.settings_as_given(), limits)?;
        self.server = Some(server);
        Ok(())
    }

    fn loaded(&mut self, partition: PartitionId, seq: u64, starts: bool) -> Checked {
        if starts {
            // What came of batches that the power has taken is as if it had never been: nobody can
            // hold it against the server. What was sent in another life was cut off.
            self.sending.forget_after(partition, seq);
            self.receivers.forget_after(partition, seq);
        }
        self.expectations.forget_after(partition, seq);
        if partition == PartitionId::REGISTRY {
            return self.registry.back_to(seq);
        }
        let attended = self.server.as_ref().map_or([false; 3], Server::attended_now);
        let (now, process) = (self.now(), (self.machine.processes(), &self.settings));
        self.model[usize::from(partition.0)].load(seq, now, process, attended)
    }

    fn started(&mut self) -> Checked {
        let orphans = self.server.as_ref().map_or_else(Vec::new, |server| server.orphans.clone());
        for client in orphans {
            self.sweep(client, PartitionId(0));
        }
        for way in self.ways() {
            if self.machine.random.chance(9, 10) {
                self.attend(way, true);
            }
        }
        Ok(())
    }

    fn bury(&mut self) {
        self.server = None;
        for call in std::mem::take(&mut self.calls.waiting) {
            self.repeat_later(call.then);
        }
        self.expectations.clear();
        self.sending.cut_off();
        self.breakers.forget();
    }

    fn begin(&mut self, part: u64) -> bool {
        self.ask_for_a_fleet(part)
    }

    fn acts(&self) -> Acts<Act> {
        let weights = &self.plan.weights;
        let now = self.machine.now();
        let registry = self.port(PartitionId::REGISTRY).is_some_and(|port| port.wants_step(Some(now)));
        Acts {
            engine: vec![(Act::Registry, when(registry, 200))],
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
            Act::Registry => return self.step_registry(self.machine.batch_size()),
            Act::Lanes => {
                self.order_stale();
                return self.drive_lanes();
            }
            Act::AttemptEnds => {
                let index = self.machine.random.one_of(&self.over());
                self.end_attempt(index);
            }
            Act::Reports => self.hand_in_reports(),
            Act::RegistryCall => self.call_registry(),
            Act::Attend => {
                let way = self.any_way();
                let attended = self.machine.random.chance(2, 3);
                self.attend(way, attended);
            }
            Act::Mood => {
                let client = self.any_client_id();
                let mood = if self.plan.moods_last { Mood::plain } else { Mood::any };
                let mood = mood(&mut self.machine.random.numbers());
                self.machine.trace.note(format_args!("{client} is {mood:?}"));
                self.receivers.set_mood(&client, mood);
            }
        }
        Ok(())
    }

    fn after_step(&mut self) -> Checked {
        if self.machine.random.chance(1, 20) { self.begin_waiting() } else { Ok(()) }
    }

    fn told(&mut self) -> Checked {
        self.take_answers()?;
        self.check_directory()
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let server = self.server.as_ref()?;
        let stale = server.context.devices.stale.next_probe();
        self.sending.next_end().into_iter().chain(stale).chain(server.lanes.next_wakeup()).min()
    }

    fn any_partition(&mut self) -> PartitionId {
        if self.machine.random.chance(1, 4) { PartitionId::REGISTRY } else { self.random_partition() }
    }

    fn become_quiet(&mut self) {
        self.receivers.heal();
    }

    fn act_at_rest(&mut self) -> Checked<bool> {
        self.send_at_rest()
    }

    fn rest(&mut self) -> Checked<Rest> {
        self.wait_until_told()
    }

    fn check_rest(&mut self) -> Checked {
        self.check_told()
    }
}

impl World {
    /// The settings that the server is given: those in force, unless the harness is broken.
    fn settings_as_given(&self) -> Arc<EngineSettings> {
        let settings = &self.settings;
        if self.machine.injects(RETRIES_TOO_SOON) {
            let retry = RetrySettings { base: settings.retry.base / 2, ..settings.retry };
            return Arc::new(EngineSettings { retry, ..(**settings).clone() });
        }
        if self.machine.injects(NOTHING_SKIPPED) {
            let render = |view: &NotificationView<'_>| {
                notify::render(&NotificationView { skipped: 0, ..view.clone() })
            };
            return Arc::new(EngineSettings { render: Arc::new(render), ..(**settings).clone() });
        }
        Arc::clone(settings)
    }
}
