//! The steps of the engine: a partition's and the registry's, and answers on their way back. The
//! model follows each.

use base::{PartitionId, Timestamp};

use super::World;
use super::calls::{Answer, Call, Then, compare};
use crate::devices::counts::Counts;
use crate::devices::meant::Meant;
use crate::devices::model::Expected;
use crate::devices::model::evidence::Evidence;
use crate::devices::model::partition::Partition;
use crate::harness::port::{AnyPort, Stepped};
use crate::harness::violation::{Checked, Invariant};
use crate::harness::workload::Workload;

impl World {
    /// One step of a partition over some of its inbox.
    pub(super) fn step_devices(&mut self, partition: PartitionId, count: usize) -> Checked {
        let now = self.now();
        self.withdraw_what_is_uncertain(partition);
        let Some(server) = &mut self.server else { return Ok(()) };
        let port = server.port(partition);
        let Some(Stepped { inputs, batch, more }) = port.step(count, &self.machine) else {
            return self.take_answers();
        };
        let has_unfinished = port.runner.has_unfinished();
        let head = batch.as_ref().map(|batch| batch.head.clone());
        let elsewhere = self.quarantined_elsewhere(partition);
        let track = &mut self.model[usize::from(partition.0)];
        track.present.quarantine.elsewhere = elsewhere;
        let mut evidence = Evidence::of(batch);
        count_events(&mut self.counts, &evidence, &inputs);
        let answers = track.present.step(now, &inputs, &mut evidence, more)?;
        Invariant::BOUNDED.check(has_unfinished || !track.present.has_unfinished(), || {
            "reports were dropped in silence".to_owned()
        })?;
        track.present.move_kept(head.as_ref().map(|head| head.kept_from), track.latest() == 0)?;
        if let Some(head) = head {
            let model = &track.present;
            Invariant::AS_THE_MODEL.same("time of a batch", &head.now, &model.now)?;
            let attended = head.attended;
            let clocks: Vec<i64> =
                attended.ways.iter().chain([&attended.every]).map(|clock| clock.0).collect();
            Invariant::SILENCE_IS_MEASURED.same(
                "attended clocks",
                &clocks,
                &model.listening.counted.to_vec(),
            )?;
            track.made(head.seq)?;
        }
        let seq = track.latest();
        for (call, expected) in answers {
            self.expectations.expect(call, partition, seq, expected);
        }
        self.take_answers()
    }

    /// The refused reports of the other partitions.
    fn quarantined_elsewhere(&self, partition: PartitionId) -> Vec<(Timestamp, PartitionId, u64)> {
        let others = self.model.iter().map(|track| &track.present).filter(|other| other.id != partition);
        others.flat_map(Partition::quarantined).collect()
    }

    /// One step of the registry.
    pub(super) fn step_registry(&mut self, count: usize) -> Checked {
        let now = self.now();
        let Some(server) = &mut self.server else { return Ok(()) };
        let Some(Stepped { inputs, batch, .. }) = server.registry.step(count, &self.machine) else {
            return self.take_answers();
        };
        let answers = self.registry.present.step(now, &inputs, batch.as_ref())?;
        self.know_clients();
        if let Some(batch) = batch {
            self.registry.made(batch.head.seq)?;
        }
        let seq = self.registry.latest();
        for (call, expected) in answers {
            self.expectations.expect(call, PartitionId::REGISTRY, seq, expected);
        }
        self.take_answers()
    }

    /// Takes every answer that has come, leases first: their attempts begin at the moment they are
    /// known.
    pub(super) fn take_answers(&mut self) -> Checked {
        loop {
            let ended = self.calls.take_ended();
            if ended.is_empty() {
                return Ok(());
            }
            let leases_first = ended.with_first(|then| matches!(then, Then::Send(_)));
            leases_first.deliver(self, Self::answered, Self::dropped)?;
        }
    }

    fn answered(&mut self, call: Call, answer: Answer) -> Checked {
        self.machine.trace.note(format_args!("call {} is answered", call.id));
        let expected = self.expectations.take(&call)?;
        compare(call.id, &answer, &expected)?;
        for ((partition, seq), _) in &expected {
            self.track(*partition).shown(*seq);
        }
        let batch = expected.first().map_or((PartitionId::REGISTRY, 0), |(batch, _)| *batch);
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
                let attempts = expected.into_iter().find_map(|((_, seq), expected)| match expected {
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
        self.machine.trace.note(format_args!("call {} is dropped", call.id));
        call.check_dropped(|partition| self.life(partition))?;
        self.expectations.forget(call.id);
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
    pub(super) fn check_directory(&self) -> Checked {
        let Some(server) = self.server.as_ref().filter(|server| !server.registry.is_dead()) else {
            return Ok(());
        };
        if !server.registry.runner.is_settled() {
            return Ok(());
        }
        let page = server.context.directory().page(None, 1_000);
        let found: Vec<_> =
            page.iter().map(|client| crate::devices::model::registry::KnownClient::of(client)).collect();
        let expected: Vec<_> = self.registry.present.clients.values().cloned().collect();
        Invariant::LOOKED_UP_AT_THE_LAST_MOMENT.same("directory", &found, &expected)
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
