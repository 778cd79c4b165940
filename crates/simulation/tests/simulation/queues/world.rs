//! Queues on a machine, and those who publish, consume and look after them. Here is what they ask
//! of production's partitions, and what the model makes of it.

pub(crate) mod calls;
pub(crate) mod consumers;
mod controllers;
mod limits;
pub(crate) mod lockers;
mod managers;
pub(crate) mod publishers;
mod rest;
mod server;
mod steps;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::{PartitionId, Timestamp, hash};
use engine::queues::{QueueInput, QueueName};
use records::JobId;

use crate::harness::calls::{CallId, Calls, Expectations};
use crate::harness::machine::Machine;
use crate::harness::port::AnyPort;
use crate::harness::track::Track;
use crate::harness::workload::Workload;
use crate::queues::checkers::history::{History, Source};
use crate::queues::counts::Counts;
use crate::queues::meant::{LeaseRef, Meant};
use crate::queues::model::Partition;
use crate::queues::model::expected::Expected;
use crate::queues::plan::QueuesPlan;
use calls::{Answer, Call, Then, Waiting};
use consumers::{Holding, Several};
use limits::LatestSteps;
use publishers::Publishing;
use rest::Phase;
use server::Server;

/// The workload.
pub(crate) struct World {
    plan: QueuesPlan,
    queues: Vec<QueueName>,
    machine: Rc<Machine>,
    server: Option<Server>,
    /// By partition of queues.
    model: Vec<Track<Partition>>,
    expectations: Expectations<Expected>,
    history: History,
    calls: Calls<Answer, Then>,
    /// The process stops well: its next step is its last.
    closing: bool,
    /// How far the run is with coming to rest.
    phase: Phase,
    /// What consumers have, or had.
    holdings: Vec<Holding>,
    /// Consumers over several queues.
    several: BTreeMap<u64, Several>,
    /// Consumers that do not wait for their answer any more.
    hung_up: Vec<(CallId, PartitionId)>,
    /// Callers of locks that did not wait for their answer.
    left: BTreeSet<CallId>,
    /// Consumers that were helped once to what was parked.
    nudged: BTreeSet<CallId>,
    /// What the latest step of each partition did.
    latest: BTreeMap<PartitionId, LatestSteps>,
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
    fn next_call(&mut self) -> CallId {
        self.calls.next_id()
    }

    /// Hands an input to a partition; whether it takes any.
    fn hand_in(&mut self, partition: PartitionId, input: QueueInput, meant: Meant) -> bool {
        self.server.as_mut().is_some_and(|server| server.partition(partition).port.hand_in(input, meant))
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
        let id = self.calls.last_id();
        self.machine.trace.note(format_args!("call {id}: {meant:?}"));
        if !self.hand_in(partition, input, meant) {
            self.unanswered(then);
            return;
        }
        let life = self.port(partition).and_then(AnyPort::life);
        self.calls.waiting.push(Call { id, waiting, asked: vec![(partition, life)], then });
    }

    fn partition_of(&self, queue: &QueueName) -> PartitionId {
        hash::queue_partition(queue.namespace(), queue.queue(), self.machine.plan.partitions)
    }

    /// The model of the partition that a queue is in.
    fn model_of(&self, queue: &QueueName) -> &Partition {
        &self.model[index_of(self.partition_of(queue))].present
    }

    fn now(&self) -> Timestamp {
        self.machine.now()
    }
}

/// The place of a partition among those of queues.
fn index_of(partition: PartitionId) -> usize {
    usize::from(partition.queues_index().expect("only partitions of queues are asked for"))
}
