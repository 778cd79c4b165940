//! A run: the scheduler picks one of the steps that are possible, again and again, and the checkers look after each.
//!
//! Everything happens on one thread, and all chance comes from the seed, so a run repeats to the last byte.

mod calls;
mod engine_steps;
mod importing;
mod lives;
mod quiet;
mod refusals;
mod reports;
mod schedule;
mod sender;
pub(crate) mod server;
mod workload;

use std::collections::BTreeSet;
use std::sync::Arc;

use base::random::Random;
use base::{Clock, Incarnation, PartitionId, Timestamp, WayIn};
use engine::devices::input::Input;
use engine::registry::RegistryInput;
use engine::{Report, Settings};

use crate::checkers::contents;
use crate::counts::Counts;
use crate::harness::clock::VirtualClock;
use crate::harness::storage::{Storage, check_rows};
use crate::harness::trace::Trace;
use crate::meant::{CallId, Meant, MeantClient};
use crate::model::breaker::Breakers;
use crate::model::partition::Partition;
use crate::model::registry::Registry;
use crate::model::track::{Past, Track};
use crate::plan::Plan;
use crate::receivers::Receivers;
use crate::violation::{Checked, Violation};
use calls::{Call, Expectations};
use sender::Sending;
use server::Server;

/// A run under way.
pub(crate) struct World {
    plan: Plan,
    /// In force in this life of the process.
    settings: Arc<Settings>,
    random: Random,
    clock: Arc<VirtualClock>,
    storage: Box<dyn Storage>,
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
    processes: u64,
    /// Since when something is committed and, with syncs at intervals, not synced.
    unsynced_since: Option<Timestamp>,
    /// Slices that nobody answered.
    repeats: Vec<(WayIn, Vec<Report>)>,
    /// Since when everything is well and nothing new is asked.
    quiet_since: Option<Timestamp>,
    pub(crate) trace: Trace,
    pub(crate) counts: Counts,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let settings = &plan.settings;
        let clock = Arc::new(VirtualClock::new());
        let syncs_later = plan.sync_interval().is_some();
        let partition = || Track::new(Partition::new(Arc::clone(settings), plan.partitions), syncs_later);
        Self {
            random: Random::new(plan.seed),
            storage: crate::harness::storage::of(&plan, &clock),
            clock,
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
            processes: 0,
            quiet_since: None,
            unsynced_since: None,
            repeats: Vec::new(),
            settings: Arc::clone(settings),
            trace: Trace::new(),
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
        self.check_rows()?;
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
        let Some(store) = self.storage.reader() else { return Ok(()) };
        self.counts.audits += 1;
        let checked = if partition == PartitionId::REGISTRY {
            contents::check_registry(&*store, &self.registry, Past::Life)
        } else {
            let track = &self.model[usize::from(partition.0)];
            contents::check_partition(&*store, partition, track, Past::Life)
        };
        let failed = self.storage.is_faulty() && store.failure().is_some();
        let seq = match checked {
            Err(_) if failed => {
                self.trace.note(format_args!("the audit of {partition} met a fault of the storage"));
                return Ok(());
            }
            checked => checked?,
        };
        self.trace.note(format_args!("audit of {partition} at batch {seq}"));
        // It was read: from now on it must stay.
        self.shown(partition, seq);
        Ok(())
    }

    /// Checks the rows that are there, when a life has ended, and at the end of all.
    fn check_rows(&mut self) -> Checked {
        if !self.plan.checks_rows() {
            return Ok(());
        }
        self.counts.row_checks += 1;
        check_rows(&mut *self.storage)
    }

    /// Compares what a crash at this moment would leave, were it to lose all that is not durable.
    fn audit_after_a_crash(&mut self) -> Checked {
        let store = self.storage.after_a_crash().map_err(|error| {
            let detail = format!("after a crash at this moment the store refuses to open: {error}");
            crate::violation::Invariant::DurableBeforeAcknowledged.broken(detail)
        })?;
        self.counts.audits += 1;
        for (id, track) in (0..).zip(&self.model) {
            contents::check_partition(&*store, PartitionId(id), track, Past::LossOfPower)?;
        }
        contents::check_registry(&*store, &self.registry, Past::LossOfPower)?;
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
        self.clock.now()
    }

    fn random_partition(&mut self) -> PartitionId {
        PartitionId(self.random.below(u64::from(self.plan.partitions)) as u16)
    }
}

/// Runs a plan from beginning to end.
pub(crate) fn run(plan: Plan) -> (Result<Counts, Violation>, Trace) {
    let mut world = World::new(plan);
    let result = world.run().map(|()| world.counts);
    (result, world.trace)
}
