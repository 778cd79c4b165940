//! The registry on a machine, those whose receivers fail and recover, and the worker of operations.

mod clients;
mod operations;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use base::{ClientId, EntityId, PartitionId, Problem, Timestamp};
use engine::context::EngineContext;
use engine::operations::TrackedOperation;
use engine::registry::{Registry, RegistryInput};
use records::{Client, OperationState};

use crate::harness::calls::{self, Call, CallId, Calls, Expectations};
use crate::harness::machine::Machine;
use crate::harness::one_partition::Phase;
use crate::harness::port::{AnyPort, Port};
use crate::harness::track::{AnyTrack, Track};
use crate::harness::violation::{Checked, Invariant};
use crate::registry::counts::Counts;
use crate::registry::model::Model;
use crate::registry::plan::RegistryPlan;
use operations::Listed;

/// An input to the registry: the call that is answered.
type Meant = Option<CallId>;

/// What came of a call.
enum Answer {
    /// A client is as it was asked for.
    Client(Result<(), Problem>),
    Begun(Result<Box<TrackedOperation>, Problem>),
    Cancelled(Result<(), Problem>),
    Progressed(Result<Box<OperationState>, Problem>),
}

/// What follows from an answer.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    /// An operation with so many rows began.
    Begun(u64),
    /// An operation went on.
    Progressed(EntityId),
}

/// One life of the process.
struct Server {
    context: EngineContext,
    registry: Port<Registry, Meant>,
    /// Clients whose breaker is open.
    open: BTreeMap<ClientId, Arc<Client>>,
    /// Clients that the process before told failing.
    told_failing: BTreeSet<ClientId>,
    /// What the worker knows of the operations that go on.
    working: BTreeMap<EntityId, Box<OperationState>>,
    /// Operations of which it has told, and has no answer.
    told: BTreeSet<EntityId>,
    /// In which life of the registry it read them.
    read_in: Option<u32>,
}

/// The workload.
pub(crate) struct World {
    plan: RegistryPlan,
    machine: Rc<Machine>,
    server: Option<Server>,
    model: Track<Model>,
    expectations: Expectations<()>,
    calls: Calls<Answer, Then>,
    /// Clients whose receivers fail.
    failing: BTreeSet<ClientId>,
    /// Clients that somebody changed: what they were told failing for may be over in silence.
    changed: BTreeSet<ClientId>,
    /// The list of each operation, and what became of its rows.
    lists: BTreeMap<EntityId, Listed>,
    last_number: u32,
    phase: Phase,
    counts: Counts,
}

impl World {
    /// Hands in a call, and waits for its answer.
    fn ask(&mut self, input: RegistryInput, waiting: calls::Waiting<Answer>, then: Then) -> bool {
        let id = self.calls.next_id();
        if !self.hand_in(input, Some(id)) {
            return false;
        }
        let life = self.registry().and_then(AnyPort::life);
        self.calls.waiting.push(Call { id, waiting, asked: vec![(PartitionId::REGISTRY, life)], then });
        true
    }

    fn hand_in(&mut self, input: RegistryInput, meant: Meant) -> bool {
        let server = self.server.as_mut().filter(|_| !self.phase.is_closing);
        server.is_some_and(|server| server.registry.hand_in(input, meant))
    }

    fn registry(&self) -> Option<&dyn AnyPort> {
        self.server.as_ref().map(|server| &server.registry as &dyn AnyPort)
    }

    fn has_room(&self) -> bool {
        !self.phase.is_closing && self.server.as_ref().is_some_and(|server| server.registry.has_room())
    }

    fn now(&self) -> Timestamp {
        self.machine.now()
    }

    /// One step of the registry over some of its inbox.
    fn step(&mut self, count: usize) -> Checked {
        let Some(server) = &mut self.server else { return Ok(()) };
        let Some(stepped) = server.registry.step(count, &self.machine) else {
            return self.take_answers();
        };
        if let Some(batch) = &stepped.batch {
            self.model.present.made(batch, self.plan.settings.notices.quiet)?;
            self.model.made(batch.head.seq)?;
        }
        let seq = self.model.latest();
        for call in stepped.inputs.into_iter().flatten() {
            self.expectations.expect(call, PartitionId::REGISTRY, seq, ());
        }
        self.take_answers()
    }

    fn take_answers(&mut self) -> Checked {
        let ended = self.calls.take_ended();
        ended.deliver(
            self,
            |world, call, answer| world.answered(&call, answer),
            |world, call| {
                call.check_dropped(|_| world.registry().and_then(AnyPort::life))?;
                world.expectations.forget(call.id);
                world.unanswered(call.then);
                Ok(())
            },
        )
    }

    fn answered(&mut self, call: &Call<Answer, Then>, answer: Answer) -> Checked {
        let expected = self.expectations.take(call)?;
        if let Some(((_, seq), ())) = expected.first() {
            self.model.shown(*seq);
        }
        self.machine.trace.note(format_args!("call {} is answered", call.id));
        match (call.then, answer) {
            (Then::Begun(rows), Answer::Begun(begun)) => return self.begun(rows, begun),
            (Then::Progressed(id), Answer::Progressed(state)) => self.went_on(id, state),
            (_, Answer::Client(Err(problem))) => {
                return Err(Invariant::AS_THE_MODEL.broken(format!("refused without a reason: {problem:?}")));
            }
            (_, Answer::Cancelled(Err(problem))) => {
                let is_right = matches!(problem.code, "unknown_operation" | "finished");
                return Invariant::AS_THE_MODEL
                    .check(is_right, || format!("refused without a reason: {problem:?}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Nobody says what came of it: the worker reads how far the operation has come.
    fn unanswered(&mut self, then: Then) {
        if let (Then::Progressed(id), Some(server)) = (then, &mut self.server) {
            server.told.remove(&id);
            server.read_in = None;
        }
    }
}
