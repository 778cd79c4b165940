//! A run with queues: the scheduler picks one of the steps that are possible, again and again, and the checkers look after each.
//!
//! The machine - clocks, disk, process, outcomes of commits - is that of every run. Everything happens on one thread, and all
//! chance comes from the seed, so a run repeats to the last byte.

pub(crate) mod calls;
pub(crate) mod consumers;
mod lives;
mod managers;
pub(crate) mod publishers;
mod quiet;
mod schedule;
mod server;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::random::Random;
use base::{Clock, PartitionId, Timestamp, hash};
use engine::queues::{QueueInput, QueueName};
use records::JobId;

use crate::harness::clock::VirtualClock;
use crate::harness::storage::{Storage, check_rows};
use crate::harness::trace::Trace;
use crate::meant::CallId;
use crate::model::track::{Past, Track};
use crate::queues::checkers::contents;
use crate::queues::checkers::history::{History, Source};
use crate::queues::counts::Counts;
use crate::queues::meant::{LeaseRef, Meant};
use crate::queues::model::Partition;
use crate::queues::plan::Plan;
use crate::violation::{Checked, Invariant, Violation};
use calls::{Call, Expectations, Then, Waiting};
use consumers::{Holding, Several};
use publishers::Publishing;
use server::Server;

/// A run under way.
pub(crate) struct World {
    plan: Plan,
    random: Random,
    clock: Arc<VirtualClock>,
    storage: Box<dyn Storage>,
    server: Option<Server>,
    /// By partition of queues.
    model: Vec<Track<Partition>>,
    expectations: Expectations,
    history: History,
    calls: Vec<Call>,
    last_call: CallId,
    processes: u64,
    /// The process stops well: its next step is its last.
    closing: bool,
    /// Nothing new is asked, and what was asked has come to rest.
    is_quiet: bool,
    /// Since when something is committed and, with syncs at intervals, not synced.
    unsynced_since: Option<Timestamp>,
    /// What consumers have, or had.
    holdings: Vec<Holding>,
    /// Consumers over several queues.
    several: BTreeMap<u64, Several>,
    /// Consumers that do not wait for their answer any more.
    hung_up: Vec<(CallId, PartitionId)>,
    /// Consumers that were helped once to what was parked.
    nudged: BTreeSet<CallId>,
    /// Texts of reservations, and what each stands for.
    texts: BTreeMap<String, (LeaseRef, Source)>,
    /// Jobs that somebody was told of, newest last.
    seen_jobs: Vec<(QueueName, JobId)>,
    /// Requests with a key that may come again.
    repeats: Vec<Publishing>,
    last_payload: u64,
    pub(crate) trace: Trace,
    pub(crate) counts: Counts,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let machine = &plan.machine;
        let clock = Arc::new(VirtualClock::new());
        let syncs_later = machine.sync_interval().is_some();
        let partition = || Partition::new(plan.is_parking());
        Self {
            random: Random::new(machine.seed),
            storage: crate::harness::storage::of(machine, &clock),
            clock,
            server: None,
            model: (0..machine.partitions).map(|_| Track::new(partition(), syncs_later)).collect(),
            expectations: Expectations::default(),
            history: History::default(),
            calls: Vec::new(),
            last_call: 0,
            processes: 0,
            closing: false,
            is_quiet: false,
            unsynced_since: None,
            holdings: Vec::new(),
            several: BTreeMap::new(),
            hung_up: Vec::new(),
            nudged: BTreeSet::new(),
            texts: BTreeMap::new(),
            seen_jobs: Vec::new(),
            repeats: Vec::new(),
            last_payload: 0,
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
        let resident_max = self.plan.resident_max;
        self.trace.note(format_args!("{:?}, {resident_max} jobs may be resident", self.plan.machine.storage));
        self.start()?;
        for _ in 0..self.plan.machine.steps {
            self.step()?;
        }
        self.become_quiet()?;
        self.check_rows()?;
        self.counts.taken_by_power += self.model.iter().map(|track| track.taken).sum::<u64>();
        for track in &self.model {
            self.counts.add(&track.present.counts);
        }
        Ok(())
    }

    fn next_call(&mut self) -> CallId {
        self.last_call += 1;
        self.last_call
    }

    /// Hands an input to a partition; whether it takes any.
    fn hand_in(&mut self, partition: PartitionId, input: QueueInput, meant: Meant) -> bool {
        let Some(server) = &mut self.server else { return false };
        let port = server.port(partition);
        if port.dead {
            return false;
        }
        port.inbox.push_back((input, meant));
        true
    }

    /// Hands in a call about a queue, and waits for its answer.
    fn ask(&mut self, queue: &QueueName, (input, meant): (QueueInput, Meant), waiting: Waiting, then: Then) {
        let partition = self.partition_of(queue);
        self.ask_partition(partition, (input, meant), waiting, then);
    }

    fn ask_partition(
        &mut self,
        partition: PartitionId,
        (input, meant): (QueueInput, Meant),
        waiting: Waiting,
        then: Then,
    ) {
        let id = self.last_call;
        self.trace.note(format_args!("call {id}: {meant:?}"));
        if !self.hand_in(partition, input, meant) {
            self.unanswered(then);
            return;
        }
        let life = self.server.as_mut().and_then(|server| server.life(partition));
        self.calls.push(Call { id, waiting, partition, life, then });
    }

    fn partition_of(&self, queue: &QueueName) -> PartitionId {
        hash::queue_partition(queue.namespace(), queue.queue(), self.plan.machine.partitions)
    }

    /// The model of the partition that a queue is in.
    fn model_of(&self, queue: &QueueName) -> &Partition {
        let index = self.partition_of(queue).queues_index().unwrap_or_default();
        &self.model[usize::from(index)].present
    }

    fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.plan.machine.partitions).map(PartitionId::of_queues)
    }

    /// Compares all that a reader sees of a partition with what the model has at the same batch.
    fn audit(&mut self, partition: PartitionId) -> Checked {
        let Some(store) = self.storage.reader() else { return Ok(()) };
        self.counts.audits += 1;
        let track = &self.model[usize::from(partition.queues_index().unwrap_or_default())];
        let checked = contents::check(&*store, partition, track, Past::Life);
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
        if !self.plan.machine.checks_rows() {
            return Ok(());
        }
        self.counts.row_checks += 1;
        check_rows(&mut *self.storage)
    }

    /// Compares what a crash at this moment would leave, were it to lose all that is not durable.
    fn audit_after_a_crash(&mut self) -> Checked {
        let store = self.storage.after_a_crash().map_err(|error| {
            let detail = format!("after a crash at this moment the store refuses to open: {error}");
            Invariant::DurableBeforeAcknowledged.broken(detail)
        })?;
        self.counts.audits += 1;
        for (id, track) in self.partitions().zip(&self.model) {
            contents::check(&*store, id, track, Past::LossOfPower)?;
        }
        Ok(())
    }

    fn shown(&mut self, partition: PartitionId, seq: u64) {
        self.model[usize::from(partition.queues_index().unwrap_or_default())].shown(seq);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Runs a plan from beginning to end.
pub(crate) fn run(plan: Plan) -> (Result<Counts, Violation>, Trace) {
    let mut world = World::new(plan);
    let result = world.run().map(|()| world.counts);
    (result, world.trace)
}
