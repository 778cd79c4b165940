//! The steps of the engine: a partition's, the registry's, and outcomes on their way back. The
//! model follows each.

use std::sync::PoisonError;

use base::PartitionId;
use store::StoreError;

use super::World;
use super::calls::{Answer, Call, Polled, Then, Waiting, compare};
use super::server::Outcome;
use crate::devices::counts::Counts;
use crate::devices::meant::Meant;
use crate::devices::model::Expected;
use crate::devices::model::evidence::Evidence;
use crate::harness::store_spy::Ending;
use crate::harness::violation::{Checked, Invariant};

impl World {
    /// One step of a partition over some of its inbox.
    pub(super) fn step_devices(&mut self, partition: PartitionId, count: usize) -> Checked {
        let now = self.now();
        self.withdraw_what_is_uncertain(partition);
        let Some(server) = &mut self.server else { return Ok(()) };
        let (spy, outcomes) = (server.spy.clone(), server.outcomes.clone());
        let port = server.port(partition);
        let stepped = port.step(count, &spy, &outcomes);
        let more = port.more;
        let has_unfinished = port.runner.has_unfinished();
        let inputs = match stepped {
            Ok(inputs) => inputs,
            Err(error) => {
                self.partition_dies(partition, &error);
                return self.take_answers();
            }
        };
        let batch = spy.take_batch();
        let line = batch.as_ref().map(|batch| (batch.head.seq, batch.ops.len()));
        self.machine.trace.note(format_args!(
            "{partition} steps at {} over {}: {line:?}",
            now.0,
            inputs.len()
        ));
        let head = batch.as_ref().map(|batch| batch.head.clone());
        let track = &mut self.model[usize::from(partition.0)];
        let mut evidence = Evidence::of(batch);
        count_events(&mut self.counts, &evidence, &inputs);
        let answers = track.present.step(now, &inputs, &mut evidence, more)?;
        Invariant::Bounded.check(has_unfinished || !track.present.has_unfinished(), || {
            "reports were dropped in silence".to_owned()
        })?;
        track.present.move_kept(head.as_ref().map(|head| head.kept_from), track.latest() == 0)?;
        if let Some(head) = head {
            let model = &track.present;
            Invariant::AsTheModel.same("time of a batch", &head.now, &model.now)?;
            let attended = head.attended;
            let clocks: Vec<i64> =
                attended.ways.iter().chain([&attended.every]).map(|clock| clock.0).collect();
            Invariant::SilenceIsMeasured.same(
                "attended clocks",
                &clocks,
                &model.listening.counted.to_vec(),
            )?;
            track.made(head.seq)?;
            self.counts.batches += 1;
        }
        let seq = track.latest();
        for (call, expected) in answers {
            self.expectations.expect(call, partition, seq, expected);
        }
        self.take_answers()
    }

    /// One step of the registry.
    pub(super) fn step_registry(&mut self, count: usize) -> Checked {
        let now = self.now();
        let Some(server) = &mut self.server else { return Ok(()) };
        let (spy, outcomes) = (server.spy.clone(), server.outcomes.clone());
        let inputs = match server.registry.step(count, &spy, &outcomes) {
            Ok(inputs) => inputs,
            Err(error) => {
                self.partition_dies(PartitionId::REGISTRY, &error);
                return self.take_answers();
            }
        };
        let batch = spy.take_batch();
        let line = batch.as_ref().map(|batch| (batch.head.seq, batch.ops.len()));
        self.machine.trace.note(format_args!("the registry steps over {}: {line:?}", inputs.len()));
        let answers = self.registry.present.step(now, &inputs, batch.as_ref())?;
        self.know_clients();
        if let Some(batch) = batch {
            self.registry.made(batch.head.seq)?;
            self.counts.batches += 1;
        }
        let seq = self.registry.latest();
        for (call, expected) in answers {
            self.expectations.expect(call, PartitionId::REGISTRY, seq, expected);
        }
        self.take_answers()
    }

    fn partition_dies(&mut self, partition: PartitionId, error: &StoreError) {
        self.machine.trace.note(format_args!("{partition} stops: {error}"));
        let Some(server) = &mut self.server else { return };
        if partition == PartitionId::REGISTRY {
            server.registry.die();
        } else {
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
        let result = if partition == PartitionId::REGISTRY {
            server.registry.runner.outcome(told)
        } else {
            server.port(partition).runner.outcome(told)
        };
        self.machine.trace.note(format_args!("{partition} is told of batch {seq}: {ending:?}"));
        if let Err(error) = result {
            self.partition_dies(partition, &error);
        } else if ending == Ending::Durable {
            self.shown(partition, seq);
        } else {
            server.loses_its_memory(partition);
        }
        self.follow_reload()?;
        self.take_answers()?;
        self.check_directory()
    }

    /// A partition that was loaded again in this process goes back to what the store has.
    fn follow_reload(&mut self) -> Checked {
        let now = self.now();
        let Some(server) = &mut self.server else { return Ok(()) };
        let attended = server.attended_now();
        for (partition, head) in server.spy.take_loaded() {
            self.counts.reloads += 1;
            self.machine.trace.note(format_args!("{partition} is loaded again at batch {}", head.seq));
            self.expectations.forget_after(partition, head.seq);
            if partition == PartitionId::REGISTRY {
                self.registry.back_to(head.seq)?;
            } else {
                let track = &mut self.model[usize::from(partition.0)];
                track.load(head.seq, now, (self.machine.processes, &self.settings), attended)?;
            }
        }
        Ok(())
    }

    /// Takes every answer that has come, leases first: their attempts begin at the moment they are
    /// known.
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
            answered.sort_by_key(|(call, _)| (!matches!(call.waiting, Waiting::Leased(_)), call.id));
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
        let expected = self.expectations.take(&call)?;
        compare(call.id, &answer, &expected)?;
        for (partition, seq, _) in &expected {
            self.shown(*partition, *seq);
        }
        let batch =
            expected.first().map_or((PartitionId::REGISTRY, 0), |(partition, seq, _)| (*partition, *seq));
        match (call.then, answer) {
            (Then::Repeat(way, reports), Answer::Slice(outcome)) => {
                self.keep_refused(way, &reports, outcome.rejected);
            }
            (Then::Imported(lines), Answer::Imported(outcomes)) => {
                self.imported(call.id, batch, &lines, &outcomes);
            }
            (Then::Nothing | Then::Repeat(..) | Then::Imported(_), _) => {}
            (Then::Cut(device, client), Answer::Done(Ok(()))) => {
                self.sending.cut(&device, client, call.id, batch);
            }
            (Then::Gone, Answer::Client(Ok(client))) => self.sweep(client.incarnation, PartitionId(0)),
            (Then::SweepOn(client, partition), Answer::Swept(more)) => {
                let next = if more { partition } else { PartitionId(partition.0 + 1) };
                self.sweep(client, next);
            }
            (Then::ResendOn(client, partition), Answer::Resent(next)) => match next {
                Some(_) => self.resend(client, partition, next),
                None => self.resend(client, PartitionId(partition.0 + 1), None),
            },
            (Then::Send(lease), Answer::Leased(due)) => {
                let attempts = expected.into_iter().find_map(|(_, seq, expected)| match expected {
                    Expected::Leased(attempts) => Some((seq, attempts)),
                    _ => None,
                });
                self.leased(lease, due, attempts.unwrap_or_default())?;
            }
            (Then::Record(ended), _) => self.record(*ended),
            (Then::Cut(..) | Then::Gone | Then::SweepOn(..) | Then::ResendOn(..) | Then::Send(_), _) => {}
        }
        Ok(())
    }

    /// Nobody will answer: allowed only where a partition that was asked has lost its memory
    /// meanwhile.
    fn dropped(&mut self, call: Call) -> Checked {
        let server = self.server.as_ref();
        let lost = call.asked.iter().any(|(partition, life)| {
            life.is_none() || server.and_then(|server| server.life(*partition)) != *life
        });
        self.machine.trace.note(format_args!("call {} is dropped", call.id));
        Invariant::Bounded.check(lost, || format!("call {} was dropped in silence", call.id))?;
        self.expectations.forget(&call);
        match call.then {
            Then::Send(lease) => {
                if let Some(server) = &mut self.server {
                    server.lanes.leased(lease, 0);
                }
            }
            Then::Record(ended) => self.finished(ended.client(), ended.tried()),
            then => self.repeat_later(then),
        }
        Ok(())
    }

    /// The directory shows what is durable of the registry, and nothing else.
    fn check_directory(&self) -> Checked {
        let Some(server) = self.server.as_ref().filter(|server| !server.registry.dead) else { return Ok(()) };
        if !server.registry.runner.is_settled() {
            return Ok(());
        }
        let page = server.context.directory().page(None, 1_000);
        let found: Vec<_> =
            page.iter().map(|client| crate::devices::model::registry::KnownClient::of(client)).collect();
        let expected: Vec<_> = self.registry.present.clients.values().cloned().collect();
        Invariant::LookedUpAtTheLastMoment.same("directory", &found, &expected)
    }
}

fn count_events(counts: &mut Counts, evidence: &Evidence, inputs: &[Meant]) {
    counts.events += evidence.events.len() as u64;
    let lost = |event: &&records::Event| event.kind == records::EventKind::Lost;
    counts.losses += evidence.events.iter().filter(lost).count() as u64;
    for input in inputs {
        if let Meant::Reports { reports, .. } = input {
            counts.reports += reports.len() as u64;
        }
    }
}
