//! Lines of an import: a device is registered, or brought to what its line says. What the line
//! leaves out stays.

use base::Incarnation;
use engine::ImportDevice;
use engine::devices::input::ImportOutcome;
use records::Connection;

use super::evidence::Evidence;
use super::listening::{EVERY, Mark};
use super::partition::Partition;
use crate::devices::meant::ImportLine;
use crate::harness::violation::Checked;

impl Partition {
    /// What becomes of each line.
    pub(super) fn import(
        &mut self,
        lines: &[ImportLine],
        evidence: &Evidence,
    ) -> Checked<Vec<(u32, Result<ImportOutcome, &'static str>)>> {
        let mut outcomes = Vec::new();
        for line in lines {
            outcomes.push((line.index, self.import_line(line, evidence)?));
        }
        Ok(outcomes)
    }

    fn import_line(
        &mut self,
        line: &ImportLine,
        evidence: &Evidence,
    ) -> Checked<Result<ImportOutcome, &'static str>> {
        if self.devices.contains_key(&line.id) {
            return Ok(self.import_known(line));
        }
        self.register(&line.asked.device, evidence)?;
        let expected = self.expected_from(&line.asked);
        let device = self.devices.get_mut(&line.id).expect("it was registered just now");
        device.links = line.clients.clone().unwrap_or_default();
        if let Some(expected) = expected {
            device.expect_from(expected);
        }
        self.counts.imports_new += 1;
        Ok(Ok(ImportOutcome::Created))
    }

    fn import_known(&mut self, line: &ImportLine) -> Result<ImportOutcome, &'static str> {
        let expected = self.expected_from(&line.asked);
        let asked = &line.asked.device;
        let device = self.devices.get_mut(&line.id).expect("it is there");
        if asked.kind.as_ref().is_some_and(|kind| *kind != device.kind) {
            self.counts.imports_refused += 1;
            return Err("cannot_change");
        }
        if asked.address.is_some() {
            device.address.clone_from(&asked.address);
        }
        if let Some(labels) = &asked.labels {
            let labels = labels.iter().cloned().collect();
            self.counts.relabelled += u64::from(device.labels != labels);
            device.labels = labels;
        }
        if let Some(interval) = asked.report_interval {
            device.interval_ms = Some(interval.as_millis() as u64);
        }
        if let Some(expected) = expected {
            device.expect_from(expected);
        }
        if let Some(clients) = &line.clients {
            let cut: Vec<Incarnation> =
                device.links.iter().filter(|client| !clients.contains(client)).copied().collect();
            device.links.clone_from(clients);
            self.counts.imports_unlinked += cut.len() as u64;
            cut.into_iter().for_each(|client| self.cancel(&line.id, client));
        }
        self.counts.imports_known += 1;
        Ok(ImportOutcome::Updated)
    }

    /// From where on the clock of devices never heard of one is missed, as if somebody had listened
    /// all the time between.
    fn expected_from(&mut self, asked: &ImportDevice) -> Option<Mark> {
        let from = asked.expect_from?;
        let ahead = from.0 - self.now.0;
        if ahead > 0 {
            self.counts.expected_from_future += 1;
        } else {
            self.counts.expected_from_past += 1;
        }
        let now = self.listening.mark(EVERY);
        Some(Mark { counted: now.counted + ahead, listened: now.listened + ahead, ..now })
    }
}

impl super::device::Device {
    /// It is missed from there, unless it was heard of; one that is lost stays so.
    fn expect_from(&mut self, from: Mark) {
        self.expected_from = from.counted;
        if self.seen.is_none() {
            self.silent_from = from;
            self.is_named_time = self.connection == Connection::NeverSeen;
        }
    }
}
