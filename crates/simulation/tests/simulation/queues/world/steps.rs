//! The steps of the partitions, and answers on their way back. The model follows each.

use std::collections::BTreeSet;

use base::{Clock, PartitionId};

use super::calls::{Answer, Call, Parking, Then, compare};
use super::limits::{StepDone, weighed};
use super::rest::Phase;
use super::{World, index_of};
use crate::harness::calls::CallId;
use crate::harness::port::{AnyPort, Stepped};
use crate::harness::violation::{Checked, Invariant};
use crate::harness::workload::Workload;
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
        let port = &mut server.partition(partition).port;
        let Some(Stepped { inputs, batch, more }) = port.step(count, &self.machine) else {
            return self.take_answers();
        };
        let ((resident, reserved), spent) = (port.runner.machine().resident(), port.runner.machine().spent());
        let (weight, brought) = batch.as_ref().map(weighed).unwrap_or_default();
        let life = (self.machine.processes(), port.life());
        let done = StepDone { spent, weight, brought, resident: resident - reserved, life, more };
        let head = batch.as_ref().map(|batch| batch.head.clone());
        let mut evidence = Evidence::of(batch, (spent.leased_before, spent.leased_behind));
        self.counts.parked += evidence.parked;
        let step = Step { moment, inputs: &inputs, gone: &gone, more, closing: self.closing };
        let track = &mut self.model[index_of(partition)];
        let answers = track.present.step(&step, &mut evidence)?;
        if let Some(head) = head {
            Invariant::AS_THE_MODEL.same("time of a batch", &head.now, &track.present.now)?;
            track.made(head.seq)?;
        }
        let seq = track.latest();
        self.check_step(partition, &done)?;
        for (call, expected) in answers.into_iter().filter(|(call, _)| !self.left.contains(call)) {
            self.expectations.expect(call, partition, seq, expected);
        }
        self.collect_returns();
        self.take_answers()
    }

    /// Consumers that have hung up.
    fn gone(&self) -> BTreeSet<CallId> {
        self.hung_up.iter().map(|(call, _)| *call).collect()
    }

    /// Leases that reached nobody go back to their partitions.
    pub(super) fn collect_returns(&mut self) {
        let Some(server) = &mut self.server else { return };
        if self.closing {
            // Nobody takes them any more: they end with their time.
            server.partitions.iter_mut().for_each(|partition| drop(partition.returned()));
            return;
        }
        let mut returned = Vec::new();
        for partition in &mut server.partitions {
            let id = partition.port.runner.id();
            returned.extend(partition.returned().into_iter().map(|held| (id, held)));
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
            let ended = self.calls.take_ended();
            if ended.is_empty() {
                return Ok(());
            }
            ended.deliver(self, Self::answered, Self::dropped)?;
        }
    }

    fn answered(&mut self, call: Call, answer: Answer) -> Checked {
        self.machine.trace.note(format_args!("call {} is answered", call.id));
        if let (Then::Told(consumer, queue), Answer::Told) = (&call.then, &answer) {
            self.told_of(*consumer, queue);
            return Ok(());
        }
        let mut expected = self.expectations.take(&call)?;
        let (batch, expected) = expected.remove(0);
        // What was answered is held first against what was answered before: a checker that knows no
        // rules but the promises.
        self.history.note(&*self.machine.clock, batch, &call, &answer)?;
        if let Then::Locked(locking) = &call.then {
            self.history.locks.ended(&locking.name, &locking.owner);
            if let Answer::Locked(Ok(grant)) = &answer {
                let told = (batch, call.id, self.calls.last_id());
                self.history.locks.note(told, &locking.name, locking.ttl_ms, grant)?;
                self.counts.locked += 1;
            }
        }
        compare(call.id, &answer, &expected, self.parking())?;
        self.track(batch.0).shown(batch.1);
        self.count_answer(&expected);
        match (call.then, answer) {
            (Then::Published(publishing), Answer::Published(outcome)) => {
                self.published(*publishing, &outcome);
            }
            (Then::Consumed(consuming), Answer::Leased(jobs, hand_over)) => {
                self.consumed((call.id, batch), &consuming, &jobs, hand_over);
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
        self.machine.trace.note(format_args!("call {} is dropped", call.id));
        // A stop sends those who wait for a lock away without one.
        let is_sent_away = self.closing && matches!(call.then, Then::Locked(_));
        if !is_sent_away {
            call.check_dropped(|partition| self.port(partition).and_then(AnyPort::life))?;
        }
        self.expectations.forget(call.id);
        self.unanswered(call.then);
        Ok(())
    }

    /// What becomes of a call that nobody answers.
    pub(super) fn unanswered(&mut self, then: Then) {
        match then {
            Then::Published(publishing) => self.publish_again_later(*publishing),
            Then::Locked(locking) => self.history.locks.ended(&locking.name, &locking.owner),
            Then::Consumed(consuming) => {
                self.history.losing_leases(&consuming.queue);
                self.several_done(consuming.several);
            }
            _ => {}
        }
    }

    fn parking(&self) -> Parking {
        match (self.plan.is_parking(), self.phase) {
            (false, _) => Parking::Nothing,
            (true, Phase::Busy) => Parking::MayLag,
            (true, _) => Parking::Settled,
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
