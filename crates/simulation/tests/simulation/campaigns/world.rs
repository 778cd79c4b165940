//! The machine of campaigns on a machine, those who ask for tasks and campaigns, and a fleet.

mod callers;
mod courier;
mod fleet;
mod workload;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use base::{Clock, EntityId, PartitionId, Problem};
use engine::campaigns::{CampaignMachine, CampaignsInput, PickMove, PickOrder, PickSearch, PickUpdate};
use engine::campaigns::{TrackedCampaign, TrackedTask};
use engine::context::EngineContext;

use super::counts::Counts;
use super::model::{Made, Model};
use super::plan::CampaignsPlan;
use crate::harness::calls::{self, Call, CallId, Calls, Expectations};
use crate::harness::machine::Machine;
use crate::harness::one_partition::Phase;
use crate::harness::port::{AnyPort, Port};
use crate::harness::track::{AnyTrack, Track};
use crate::harness::violation::{Checked, Invariant};
use fleet::{GivenPicks, SimulatedFleet};
pub(super) use fleet::{device_id, place as place_of};

/// An input to the machine: the call that is answered.
type Meant = CallId;

/// What came of a call.
enum Answer {
    Task(Result<Box<TrackedTask>, Problem>),
    Campaign(Result<Box<TrackedCampaign>, Problem>),
    Done(Result<(), Problem>),
    Kept,
}

/// What follows from an answer.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    /// A task was asked for.
    Begun(EntityId),
    /// Somebody waited for the end of a task.
    Ended(EntityId),
}

/// One life of the process, and what is on its way in it.
struct Server {
    number: u64,
    context: EngineContext,
    campaigns: Port<CampaignMachine, Meant>,
    orders: VecDeque<PickOrder>,
    searches: VecDeque<PickSearch>,
    moves: VecDeque<PickMove>,
    updates: VecDeque<PickUpdate>,
}

/// The workload.
pub(crate) struct World {
    plan: CampaignsPlan,
    machine: Rc<Machine>,
    server: Option<Server>,
    model: Track<Model>,
    expectations: Expectations<()>,
    calls: Calls<Answer, Then>,
    fleet: Arc<SimulatedFleet>,
    /// What partitions of devices know: it outlives the process.
    given: GivenPicks,
    /// Tasks that were accepted.
    accepted: Vec<EntityId>,
    last_number: u32,
    phase: Phase,
    counts: Counts,
}

impl World {
    /// Hands in a call, and waits for its answer.
    fn ask(&mut self, input: CampaignsInput, waiting: calls::Waiting<Answer>, then: Then) -> bool {
        let id = self.calls.next_id();
        let server = self.server.as_mut().filter(|_| !self.phase.is_closing);
        let takes = server.is_some_and(|server| server.campaigns.hand_in(input, id));
        if takes {
            let life = self.campaigns().and_then(AnyPort::life);
            self.machine.trace.note(format_args!("call {id}: {then:?}"));
            self.calls.waiting.push(Call { id, waiting, asked: vec![(PartitionId::CAMPAIGNS, life)], then });
        }
        takes
    }

    fn campaigns(&self) -> Option<&dyn AnyPort> {
        self.server.as_ref().map(|server| &server.campaigns as &dyn AnyPort)
    }

    fn has_room(&self) -> bool {
        !self.phase.is_closing && self.server.as_ref().is_some_and(|server| server.campaigns.has_room())
    }

    /// One step of the machine over some of its inbox.
    fn step(&mut self, count: usize) -> Checked {
        let wall = self.machine.clock.wall();
        let Some(server) = &mut self.server else { return Ok(()) };
        let Some(stepped) = server.campaigns.step(count, &self.machine) else {
            return self.take_answers();
        };
        if let Some(batch) = &stepped.batch {
            self.model.present.gone = self.fleet.gone();
            self.model.present.made(batch, Made { seq: batch.head.seq, wall, process: server.number })?;
            self.model.made(batch.head.seq)?;
            self.check_fair()?;
        }
        let seq = self.model.latest();
        for call in stepped.inputs {
            self.expectations.expect(call, PartitionId::CAMPAIGNS, seq, ());
        }
        self.take_answers()
    }

    /// Where all devices stay, those of each group are always in the same selections.
    fn check_fair(&self) -> Checked {
        if !self.plan.is_fair() {
            return Ok(());
        }
        let groups = self.plan.groups();
        for group in 0..groups {
            self.model.present.check_fair(group, &self.fleet.every(groups, group))?;
        }
        Ok(())
    }

    fn take_answers(&mut self) -> Checked {
        let ended = self.calls.take_ended();
        ended.deliver(
            self,
            |world, call, answer| world.answered(&call, answer),
            |world, call| {
                call.check_dropped(|_| world.campaigns().and_then(AnyPort::life))?;
                world.expectations.forget(call.id);
                Ok(())
            },
        )
    }

    fn answered(&mut self, call: &Call<Answer, Then>, answer: Answer) -> Checked {
        // Whoever waits for the end of a task is answered by a later batch than took the call.
        let expected = self.expectations.take(call)?;
        if let Some(((_, seq), ())) = expected.first() {
            self.model.shown(*seq);
        }
        self.machine.trace.note(format_args!("call {} is answered", call.id));
        match (call.then, answer) {
            (Then::Begun(id), Answer::Task(begun)) => self.begun(id, begun),
            (Then::Ended(id), Answer::Kept) => self.check_ended(id),
            (_, Answer::Done(Err(problem)) | Answer::Campaign(Err(problem)) | Answer::Task(Err(problem))) => {
                let is_right = matches!(
                    problem.code,
                    "unknown_task" | "unknown_campaign" | "exists" | "invalid_duration" | "invalid_time"
                );
                Invariant::AS_THE_MODEL.check(is_right, || format!("refused without a reason: {problem:?}"))
            }
            _ => Ok(()),
        }
    }
}
