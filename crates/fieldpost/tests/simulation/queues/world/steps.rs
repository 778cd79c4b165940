//! The steps of the partitions, and outcomes and answers on their way back. The model follows each.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use base::{Clock, PartitionId};
use store::StoreError;

use super::World;
use super::calls::{Answer, Call, Parking, Polled, Then, compare};
use crate::devices::meant::CallId;
use crate::devices::world::server::Outcome;
use crate::harness::store_spy::Ending;
use crate::harness::violation::{Checked, Invariant};
use crate::queues::meant::Meant;
use crate::queues::model::evidence::Evidence;
use crate::queues::model::expected::Expected;
use crate::queues::model::{Moment, Step};

impl World {
    /// One step of a partition over some of its inbox.
    pub(super) fn step_queues(&mut self, partition: PartitionId, count: usize) -> Checked {
        let moment = Moment { now: self.machine.clock.now(), wall: self.machine.clock.wall() };
        let gone = self.gone();
        let Some(server) = &mut self.server else { return Ok(()) };
        let (spy, outcomes) = (server.spy.clone(), server.outcomes.clone());
        let port = server.port(partition);
        let stepped = port.step(count, &spy, &outcomes);
        let more = port.more;
        let inputs = match stepped {
            Ok(inputs) => inputs,
            Err(error) => {
                self.partition_dies(partition, &error);
                return self.take_answers();
            }
        };
        let (resident, reserved) = port.runner.machine().resident();
        let batch = spy.take_batch();
        let line = batch.as_ref().map(|batch| (batch.head.seq, batch.ops.len()));
        self.machine.trace.note(format_args!(
            "{partition} steps at {} over {}: {line:?}",
            moment.now.0,
            inputs.len()
        ));
        let head = batch.as_ref().map(|batch| batch.head.clone());
        let mut evidence = Evidence::of(batch);
        self.counts.parked += evidence.parked;
        let step = Step { moment, inputs: &inputs, gone: &gone, more, closing: self.closing };
        let track = &mut self.model[usize::from(partition.queues_index().unwrap_or_default())];
        let answers = track.present.step(&step, &mut evidence)?;
        if !more {
            let most = track.present.resident_most(self.plan.resident_max);
            Invariant::Bounded.check(resident - reserved <= most, || {
                format!(
                    "{resident} jobs are resident, {reserved} of them reserved, and {most} should be at most"
                )
            })?;
        }
        if let Some(head) = head {
            Invariant::AsTheModel.same("time of a batch", &head.now, &track.present.now)?;
            track.made(head.seq)?;
            self.counts.batches += 1;
        }
        let seq = track.latest();
        for (call, expected) in answers {
            self.expectations.expect(call, partition, seq, expected);
        }
        self.collect_returns();
        self.take_answers()
    }

    /// Consumers that have hung up.
    fn gone(&self) -> BTreeSet<CallId> {
        self.hung_up.iter().map(|(call, _)| *call).collect()
    }

    fn partition_dies(&mut self, partition: PartitionId, error: &StoreError) {
        self.machine.trace.note(format_args!("{partition} stops: {error}"));
        if let Some(server) = &mut self.server {
            server.port(partition).die();
        }
    }

    /// Tells a partition the outcome at `index`; those of one partition keep their order.
    pub(super) fn tell_of_batch(&mut self, index: usize) -> Checked {
        let Some(server) = &mut self.server else { return Ok(()) };
        let mut outcomes = server.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(chosen) = outcomes.get(index).map(|outcome| outcome.partition) else { return Ok(()) };
        let first = outcomes.iter().position(|outcome| outcome.partition == chosen);
        let Some(outcome) = first.and_then(|first| outcomes.remove(first)) else { return Ok(()) };
        drop(outcomes);
        let Outcome { partition, seq, ending, told } = outcome;
        let result = server.port(partition).runner.outcome(told);
        self.machine.trace.note(format_args!("{partition} is told of batch {seq}: {ending:?}"));
        if let Err(error) = result {
            self.partition_dies(partition, &error);
        } else if ending == Ending::Durable {
            self.shown(partition, seq);
        } else {
            server.port(partition).life += 1;
        }
        self.follow_reload()?;
        self.collect_returns();
        self.take_answers()
    }

    /// A partition that was loaded again in this process goes back to what the store has.
    fn follow_reload(&mut self) -> Checked {
        let now = self.now();
        let Some(server) = &self.server else { return Ok(()) };
        for (partition, head) in server.spy.take_loaded() {
            self.counts.reloads += 1;
            self.machine.trace.note(format_args!("{partition} is loaded again at batch {}", head.seq));
            self.expectations.forget_after(partition, head.seq);
            // What was on its way to who has hung up is lost with what held it, though its lease
            // may be durable.
            let expectations = &self.expectations;
            self.hung_up.retain(|(call, of)| *of != partition || expectations.of(*call).is_none());
            self.load_model(partition, head.seq, now)?;
        }
        Ok(())
    }

    /// Leases that reached nobody go back to their partitions.
    pub(super) fn collect_returns(&mut self) {
        let Some(server) = &mut self.server else { return };
        if self.closing {
            // Nobody takes them any more: they end with their time.
            server.doors.iter_mut().for_each(|door| drop(door.returned()));
            return;
        }
        let mut returned = Vec::new();
        for door in &mut server.doors {
            let id = door.port.runner.id();
            returned.extend(door.returned().into_iter().map(|held| (id, held)));
        }
        for (partition, held) in returned {
            let leases = self.leases_of(&held);
            self.machine.trace.note(format_args!("{partition} gets {} leases back", leases.len()));
            self.counts.given_back += leases.len() as u64;
            let input = engine::queues::QueueInput::GiveBack(held);
            let _not_accepting = self.hand_in(partition, input, Meant::GiveBack { leases });
        }
    }

    /// Takes every answer that has come.
    pub(super) fn take_answers(&mut self) -> Checked {
        loop {
            let mut answered = Vec::new();
            let mut waiting = Vec::new();
            for mut call in std::mem::take(&mut self.calls) {
                match call.waiting.poll() {
                    Polled::NotYet => waiting.push(call),
                    Polled::Answered(answer) => answered.push((call, Some(answer))),
                    Polled::Dropped => answered.push((call, None)),
                }
            }
            self.calls = waiting;
            if answered.is_empty() {
                return Ok(());
            }
            for (call, answer) in answered {
                match answer {
                    Some(answer) => self.answered(call, answer)?,
                    None => self.dropped(call)?,
                }
            }
        }
    }

    fn answered(&mut self, call: Call, answer: Answer) -> Checked {
        self.machine.trace.note(format_args!("call {} is answered", call.id));
        if let (Then::Told(consumer, queue), Answer::Told) = (&call.then, &answer) {
            self.told_of(*consumer, queue);
            return Ok(());
        }
        let (seq, expected) = self.expectations.take(call.id)?;
        // What was answered is held first against what was answered before: a checker that knows no
        // rules but the promises.
        self.history.note(&*self.machine.clock, (call.partition, seq), &call, &answer)?;
        compare(call.id, &answer, &expected, self.parking())?;
        self.shown(call.partition, seq);
        self.count_answer(&expected);
        match (call.then, answer) {
            (Then::Published(publishing), Answer::Published(outcome)) => {
                self.published(*publishing, &outcome);
            }
            (Then::Consumed(consuming), Answer::Leased(jobs, hand_over)) => {
                self.consumed((call.id, (call.partition, seq)), &consuming, &jobs, hand_over);
            }
            (Then::Acked(leases), Answer::Acked(_)) => self.let_go(&leases),
            (Then::Released(lease), Answer::Done(_)) => self.let_go(&[lease]),
            _ => {}
        }
        self.collect_returns();
        Ok(())
    }

    /// Nobody will answer: allowed only where the partition that was asked has lost its memory
    /// meanwhile. A signal is also dropped when its time is over.
    fn dropped(&mut self, call: Call) -> Checked {
        if let Then::Told(consumer, _) = call.then {
            self.told_nothing(consumer);
            return Ok(());
        }
        let life = self.server.as_mut().and_then(|server| server.life(call.partition));
        self.machine.trace.note(format_args!("call {} is dropped", call.id));
        Invariant::Bounded.check(call.life.is_none() || life != call.life, || {
            format!("call {} was dropped in silence", call.id)
        })?;
        self.expectations.forget(call.id);
        self.unanswered(call.then);
        Ok(())
    }

    /// What becomes of a call that nobody answers.
    pub(super) fn unanswered(&mut self, then: Then) {
        match then {
            Then::Published(publishing) => self.publish_again_later(*publishing),
            Then::Consumed(consuming) => {
                self.history.losing_leases(&consuming.queue);
                self.several_done(consuming.several);
            }
            _ => {}
        }
    }

    fn parking(&self) -> Parking {
        match (self.plan.is_parking(), self.is_quiet) {
            (false, _) => Parking::Nothing,
            (true, false) => Parking::MayLag,
            (true, true) => Parking::Settled,
        }
    }

    fn count_answer(&mut self, expected: &Expected) {
        let counts = &mut self.counts;
        match expected {
            Expected::Leased(leases) => counts.leased += leases.len() as u64,
            Expected::Acked(stale) => counts.stale += stale.len() as u64,
            Expected::Extended(Err(_)) => counts.stale += 1,
            Expected::Published(Err("queue_full")) => counts.full += 1,
            Expected::Published(Err("alias_taken")) => counts.conflicts += 1,
            _ => {}
        }
    }
}
