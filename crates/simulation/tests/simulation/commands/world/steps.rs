//! The steps of partitions, and answers on their way back. The model follows each.

use base::{EntityId, PartitionId};
use engine::TrackedCommand;
use records::CommandKey;

use super::World;
use super::calls::{Answer, Call, Then};
use super::fleet::Saying;
use crate::commands::meant::{Meant, Word};
use crate::commands::model::{Known, Stepped};
use crate::harness::calls::BatchRef;
use crate::harness::port::AnyPort;
use crate::harness::violation::{Checked, Invariant};
use crate::harness::workload::Workload;

impl World {
    /// One step of a partition over some of its inbox.
    pub(super) fn step_commands(&mut self, partition: PartitionId, count: usize) -> Checked {
        let (now, polling) = (self.now(), self.polling());
        let Some(server) = &mut self.server else { return Ok(()) };
        let Some(stepped) = server.port(partition).step(count, &self.machine) else {
            return self.take_answers();
        };
        let (inputs, batch) = (&stepped.inputs, stepped.batch.as_ref());
        let settings = &self.plan.settings;
        let track = &mut self.model[usize::from(partition.0)];
        track.present.step(&Stepped { now, inputs, batch, settings, polling: &polling })?;
        if let Some(batch) = batch {
            track.made(batch.head.seq)?;
        }
        let seq = track.latest();
        if let Some(batch) = batch {
            self.check_silence(partition, batch)?;
        }
        for call in inputs.iter().filter_map(Meant::call) {
            self.expectations.expect(call, partition, seq, ());
        }
        self.take_answers()
    }

    /// Takes what goes out to sessions, then every answer that has come, polls first. What went out
    /// with an answer may have gone out before it.
    pub(super) fn take_answers(&mut self) -> Checked {
        loop {
            self.take_published()?;
            let ended = self.calls.take_ended();
            if ended.is_empty() {
                return Ok(());
            }
            let polls_first = ended.with_first(|then| matches!(then, Then::Polled { .. }));
            polls_first.deliver(self, Self::answered, Self::dropped)?;
        }
    }

    fn answered(&mut self, call: Call, answer: Answer) -> Checked {
        self.machine.trace.note(format_args!("call {} is answered", call.id));
        let expected = self.expectations.take(&call)?;
        let Some((batch, ())) = expected.first().copied() else { return Ok(()) };
        self.track(batch.0).shown(batch.1);
        match (call.then, answer) {
            (Then::Nothing, Answer::Created(Some(problem))) => self.check_refusal(false, &problem)?,
            (Then::Given(number, device), Answer::Command(answer)) => match answer {
                Ok(given) => {
                    self.counts.sent += 1;
                    self.history.accepted(number, given.command.id, batch)?;
                    self.given.push(given.command.id);
                    let known = self.known(given.command.id)?;
                    Invariant::AS_THE_MODEL.same("a command as given", &given.command, &known.command)?;
                }
                Err(problem) => {
                    let is_right = problem.code == "unknown_device" && !self.is_registered(&device);
                    self.check_refusal(is_right, &problem)?;
                }
            },
            (Then::Cancelled(id, retries), Answer::Done(done)) => {
                self.check_cancelled((id, retries), batch, done)?;
            }
            (Then::Retried(id), Answer::Done(Err(problem))) => {
                let is_right = problem.code != "unknown_command" || !self.has(id);
                self.check_refusal(is_right, &problem)?;
            }
            (Then::Awaited(id), Answer::Command(answer)) => match answer {
                Ok(tracked) => self.told_end(&tracked)?,
                Err(problem) => self.check_refusal(!self.has(id), &problem)?,
            },
            (Then::Polled { device, .. }, Answer::Polled(Ok(Some(command)))) => {
                self.machine.trace.note(format_args!("{device} polls, and gets {:?}", command.id));
                self.history.shown(&device, &command)?;
                // Half of the answers are lost on their way.
                if self.is_quiet || self.machine.random.chance(1, 2) {
                    self.counts.polled += 1;
                    self.receive(&command);
                }
            }
            (Then::Said(saying, retries), Answer::Slice(outcome)) => {
                if let Some(rejected) = outcome.rejected.first() {
                    // The power may have taken that it went out; it goes out again.
                    let is_sure = self.machine.plan.sync_interval().is_none();
                    let was_sent =
                        self.found(saying.id).is_some_and(|known| known.state.published_at.is_some());
                    self.check_refusal(!(was_sent && is_sure), &rejected.problem)?;
                } else if matches!(saying.said, Word::Answer(_)) {
                    self.history.ended(saying.id, retries, batch);
                }
            }
            (Then::RolloutBegun(id), Answer::Begun(begun)) => self.rollout_begun(id, begun)?,
            (Then::RolloutCalled(id, call, resumed), Answer::Done(done)) => {
                self.rollout_called((id, call, resumed), done)?;
            }
            (Then::Carried(_), Answer::Reports(reports)) => self.reported(reports),
            _ => {}
        }
        Ok(())
    }

    fn check_refusal(&self, is_right: bool, problem: &base::Problem) -> Checked {
        Invariant::AS_THE_MODEL.check(is_right, || format!("refused without a reason: {problem:?}"))
    }

    fn check_cancelled(
        &mut self,
        (id, retries): (EntityId, u32),
        batch: BatchRef,
        done: Result<(), base::Problem>,
    ) -> Checked {
        match done {
            Ok(()) => {
                let known = self.known(id)?;
                Invariant::AS_THE_MODEL.check(known.was_cancelled, || {
                    format!("a cancel is answered, and not done: {known:?}")
                })?;
                self.history.ended(id, retries, batch);
                Ok(())
            }
            Err(problem) if problem.code == "unknown_command" => self.check_refusal(!self.has(id), &problem),
            Err(problem) => {
                let known = self.known(id)?;
                let has_ended = known.state.status.has_ended() || known.was_retried;
                self.check_refusal(has_ended, &problem)
            }
        }
    }

    /// A caller is told how a command ended: as readers are.
    fn told_end(&mut self, tracked: &TrackedCommand) -> Checked {
        self.counts.awaited += 1;
        let (known, state) = (self.known(tracked.command.id)?, &tracked.state);
        Invariant::AS_THE_MODEL
            .check(state.status.has_ended(), || format!("told of an end, and there is none: {state:?}"))?;
        if known.was_retried {
            // It may have ended since once more, even at the same moment.
            return Ok(());
        }
        let end = |state: &records::CommandState| {
            (state.status, state.tries, state.finished_at, state.result.clone())
        };
        Invariant::AS_THE_MODEL.same("the end of a command", &end(state), &end(&known.state))
    }

    pub(super) fn found(&self, id: EntityId) -> Option<&Known> {
        let model = &self.model[usize::from(self.partition_of_command(id).0)].present;
        let known = model.commands.get(&CommandKey::from(id))?;
        Some(&**known).filter(|known| known.command.id == id)
    }

    fn has(&self, id: EntityId) -> bool {
        self.found(id).is_some()
    }

    pub(super) fn known(&self, id: EntityId) -> Checked<&Known> {
        self.found(id).ok_or_else(|| {
            Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken(format!("there is no command {id:?} any more"))
        })
    }

    /// Nobody will answer: allowed only where the partition that was asked has lost its memory
    /// meanwhile.
    fn dropped(&mut self, call: Call) -> Checked {
        self.machine.trace.note(format_args!("call {} is dropped", call.id));
        call.check_dropped(|partition| self.port(partition).and_then(AnyPort::life))?;
        self.expectations.forget(call.id);
        self.unanswered(call.then);
        Ok(())
    }

    /// What a device said and nobody took in, it says again.
    pub(super) fn unanswered(&mut self, then: Then) {
        match then {
            Then::Said(saying, _) => {
                let at = self.now().after(std::time::Duration::from_secs(1));
                self.fleet.sayings.push(Saying { at, ..saying });
            }
            Then::Carried(orders) => self.not_reported(orders),
            _ => {}
        }
    }
}
