//! A run: the scheduler picks one of the steps that are possible, again and again, and the checkers
//! look after each.
//!
//! Everything happens on one thread, and all chance comes from the seed, so a run repeats to the
//! last byte.

mod calls;
mod engine_steps;
mod importing;
mod lives;
mod quiet;
mod refusals;
mod registry_calls;
mod reports;
mod schedule;
mod sender;
pub(crate) mod server;

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Incarnation, PartitionId, Timestamp, WayIn};
use engine::devices::input::Input;
use engine::registry::RegistryInput;
use engine::{Report, Settings};

use crate::devices::checkers::contents;
use crate::devices::counts::Counts;
use crate::devices::meant::{CallId, Meant, MeantClient};
use crate::devices::model::breaker::Breakers;
use crate::devices::model::partition::Partition;
use crate::devices::model::registry::Registry;
use crate::devices::model::track::{Past, Track};
use crate::devices::plan::Plan;
use crate::devices::receivers::Receivers;
use crate::harness::lives::Life;
use crate::harness::machine::{Machine, MachineCounts};
use crate::harness::schedule::Scheduled;
use crate::harness::trace::Trace;
use crate::harness::violation::{Checked, Violation};
use calls::{Call, Expectations};
use sender::Sending;
use server::Server;

/// What a run saw: of the machine, and of what ran on it.
pub(crate) type Seen = (MachineCounts, Counts);

/// A run under way.
pub(crate) struct World {
    plan: Plan,
    /// In force in this life of the process.
    settings: Arc<Settings>,
    machine: Machine,
    server: Option<Server>,
    /// By partition.
    model: Vec<Track<Partition>>,
    registry: Track<Registry>,
    breakers: Breakers,
    expectations: Expectations,
    calls: Vec<Call>,
    sending: Sending,
    receivers: Receivers,
    clients_seen: BTreeSet<Incarnation>,
    last_call: CallId,
    /// Slices that nobody answered.
    repeats: Vec<(WayIn, Vec<Report>)>,
    /// Since when everything is well and nothing new is asked.
    quiet_since: Option<Timestamp>,
    counts: Counts,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let settings = &plan.settings;
        let syncs_later = plan.sync_interval().is_some();
        let partition = || Track::new(Partition::new(Arc::clone(settings), plan.partitions), syncs_later);
        Self {
            machine: Machine::new(plan.machine()),
            server: None,
            model: (0..plan.partitions).map(|_| partition()).collect(),
            registry: Track::new(Registry::new(), syncs_later),
            breakers: Breakers::default(),
            expectations: Expectations::default(),
            calls: Vec::new(),
            sending: Sending::default(),
            receivers: Receivers::new(settings.attempt_timeout),
            clients_seen: BTreeSet::new(),
            last_call: 0,
            quiet_since: None,
            repeats: Vec::new(),
            settings: Arc::clone(settings),
            counts: Counts::default(),
            plan,
        }
    }

    /// The whole run.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn run(&mut self) -> Checked {
        self.start()?;
        self.ask_for_a_fleet()?;
        for _ in 0..self.plan.steps {
            self.step()?;
        }
        self.become_quiet()?;
        self.machine.check_rows()?;
        self.counts.attempts = self.sending.begun;
        self.counts.delivered = self.sending.delivered;
        self.model.iter().for_each(|track| self.counts.add(&track.present.counts));
        self.counts.taken_by_power +=
            self.model.iter().map(|track| track.taken).sum::<u64>() + self.registry.taken;
        self.counts.add(&self.registry.present.counts);
        self.counts.add(&self.breakers.counts);
        Ok(())
    }

    fn next_call(&mut self) -> CallId {
        self.last_call += 1;
        self.last_call
    }

    /// Hands an input to a partition; whether it takes any.
    fn hand_in(&mut self, partition: PartitionId, input: Input, meant: Meant) -> bool {
        let Some(server) = &mut self.server else { return false };
        let port = server.port(partition);
        if port.dead {
            return false;
        }
        port.inbox.push_back((input, meant));
        true
    }

    fn hand_in_registry(&mut self, input: RegistryInput, meant: MeantClient) -> bool {
        let Some(server) = &mut self.server else { return false };
        if server.registry.dead {
            return false;
        }
        server.registry.inbox.push_back((input, meant));
        true
    }

    /// Whether what the registry's model has is durable, all of it.
    fn is_registry_settled(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.registry.runner.is_settled())
    }

    fn clients_ever(&self) -> usize {
        self.clients_seen.len().max(1)
    }

    /// Compares all that a reader sees of a partition with what the model has at the same batch.
    fn audit(&mut self, partition: PartitionId) -> Checked {
        let Some(store) = self.machine.storage.reader() else { return Ok(()) };
        self.machine.counts.audits += 1;
        let checked = if partition == PartitionId::REGISTRY {
            contents::check_registry(&*store, &self.registry, Past::Life)
        } else {
            let track = &self.model[usize::from(partition.0)];
            contents::check_partition(&*store, partition, track, Past::Life)
        };
        let failed = self.machine.storage.is_faulty() && store.failure().is_some();
        let seq = match checked {
            Err(_) if failed => {
                self.machine.trace.note(format_args!("the audit of {partition} met a fault of the storage"));
                return Ok(());
            }
            checked => checked?,
        };
        self.machine.trace.note(format_args!("audit of {partition} at batch {seq}"));
        // It was read: from now on it must stay.
        self.shown(partition, seq);
        Ok(())
    }

    fn shown(&mut self, partition: PartitionId, seq: u64) {
        if partition == PartitionId::REGISTRY {
            self.registry.shown(seq);
        } else {
            self.model[usize::from(partition.0)].shown(seq);
        }
    }

    /// The ways in that are configured.
    fn ways(&self) -> impl Iterator<Item = WayIn> {
        let configured = self.settings.ways_configured;
        WayIn::ALL.into_iter().filter(move |way| configured[way.index()])
    }

    fn now(&self) -> Timestamp {
        self.machine.now()
    }

    fn random_partition(&mut self) -> PartitionId {
        PartitionId(self.machine.random.below(u64::from(self.plan.partitions)) as u16)
    }
}

/// Runs a plan from beginning to end.
pub(crate) fn run(plan: Plan) -> (Result<Seen, Violation>, Trace) {
    let mut world = World::new(plan);
    let result = world.run().map(|()| (world.machine.counts, world.counts));
    (result, world.machine.trace)
}
