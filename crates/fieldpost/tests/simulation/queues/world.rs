//! A run with queues: the scheduler picks one of the steps that are possible, again and again, and
//! the checkers look after each.
//!
//! The machine - clocks, disk, process, outcomes of commits - is that of every run. Everything
//! happens on one thread, and all chance comes from the seed, so a run repeats to the last byte.

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

use base::{PartitionId, Timestamp, hash};
use engine::queues::{QueueInput, QueueName};
use records::JobId;

use crate::devices::meant::CallId;
use crate::devices::model::track::{Past, Track};
use crate::harness::lives::Life;
use crate::harness::machine::{Machine, MachineCounts};
use crate::harness::schedule::Scheduled;
use crate::harness::trace::Trace;
use crate::harness::violation::{Checked, Violation};
use crate::queues::checkers::contents;
use crate::queues::checkers::history::{History, Source};
use crate::queues::counts::Counts;
use crate::queues::meant::{LeaseRef, Meant};
use crate::queues::model::Partition;
use crate::queues::plan::Plan;
use calls::{Call, Expectations, Then, Waiting};
use consumers::{Holding, Several};
use publishers::Publishing;
use server::Server;

/// What a run saw: of the machine, and of what ran on it.
pub(crate) type Seen = (MachineCounts, Counts);

/// A run under way.
pub(crate) struct World {
    plan: Plan,
    machine: Machine,
    server: Option<Server>,
    /// By partition of queues.
    model: Vec<Track<Partition>>,
    expectations: Expectations,
    history: History,
    calls: Vec<Call>,
    last_call: CallId,
    /// The process stops well: its next step is its last.
    closing: bool,
    /// Nothing new is asked, and what was asked has come to rest.
    is_quiet: bool,
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
    counts: Counts,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let machine = &plan.machine;
        let syncs_later = machine.sync_interval().is_some();
        let partition = || Partition::new(plan.is_parking());
        Self {
            machine: Machine::new(plan.machine.machine()),
            server: None,
            model: (0..machine.partitions).map(|_| Track::new(partition(), syncs_later)).collect(),
            expectations: Expectations::default(),
            history: History::default(),
            calls: Vec::new(),
            last_call: 0,
            closing: false,
            is_quiet: false,
            holdings: Vec::new(),
            several: BTreeMap::new(),
            hung_up: Vec::new(),
            nudged: BTreeSet::new(),
            texts: BTreeMap::new(),
            seen_jobs: Vec::new(),
            repeats: Vec::new(),
            last_payload: 0,
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
        self.machine
            .trace
            .note(format_args!("{:?}, {resident_max} jobs may be resident", self.machine.plan.storage));
        self.start()?;
        for _ in 0..self.plan.machine.steps {
            self.step()?;
        }
        self.become_quiet()?;
        self.machine.check_rows()?;
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
        self.machine.trace.note(format_args!("call {id}: {meant:?}"));
        if !self.hand_in(partition, input, meant) {
            self.unanswered(then);
            return;
        }
        let life = self.server.as_mut().and_then(|server| server.life(partition));
        self.calls.push(Call { id, waiting, partition, life, then });
    }

    fn partition_of(&self, queue: &QueueName) -> PartitionId {
        hash::queue_partition(queue.namespace(), queue.queue(), self.machine.plan.partitions)
    }

    /// The model of the partition that a queue is in.
    fn model_of(&self, queue: &QueueName) -> &Partition {
        let index = self.partition_of(queue).queues_index().unwrap_or_default();
        &self.model[usize::from(index)].present
    }

    fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.machine.plan.partitions).map(PartitionId::of_queues)
    }

    /// Compares all that a reader sees of a partition with what the model has at the same batch.
    fn audit(&mut self, partition: PartitionId) -> Checked {
        let Some(store) = self.machine.storage.reader() else { return Ok(()) };
        self.machine.counts.audits += 1;
        let track = &self.model[usize::from(partition.queues_index().unwrap_or_default())];
        let checked = contents::check(&*store, partition, track, Past::Life);
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
        self.model[usize::from(partition.queues_index().unwrap_or_default())].shown(seq);
    }

    fn now(&self) -> Timestamp {
        self.machine.now()
    }
}

/// Runs a plan from beginning to end.
pub(crate) fn run(plan: Plan) -> (Result<Seen, Violation>, Trace) {
    let mut world = World::new(plan);
    let result = world.run().map(|()| (world.machine.counts, world.counts));
    (result, world.machine.trace)
}
