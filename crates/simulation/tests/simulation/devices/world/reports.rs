//! What the ways in hand in: slices of reports, some of them again.

use std::collections::BTreeMap;

use base::{Clock, Kind, PartitionId, Problem, Timestamp, Value, WayIn, hash};
use engine::devices::input::{Addressed, DeviceInput};
use engine::intake::{ReportId, SlicePart};
use engine::{Report, ReportContent};

use super::World;
use super::calls::{Answer, Then, Waiting};
use super::server::Server;
use crate::devices::fault_injection::{REPEATS_TAKEN_FOR_NEW, SILENT_CLOSE, SWAPPED_REPORTS};
use crate::devices::meant::Meant;
use crate::harness::port::Port;

/// Reports of a slice at most.
const SLICE_REPORTS: u64 = 8;
/// Reports of a long one.
const LONG_SLICE_REPORTS: u64 = base::limits::SLICE_REPORTS_MAX as u64;
/// Characters of a large value: with its quotes it is just allowed.
const LARGE_VALUE_CHARS: usize = base::limits::VALUE_BYTES_MAX - 2;
/// Slices that wait to be handed in again at most.
const REPEATS_MAX: usize = 8;
/// Different ids that reports have: more than a device remembers, and few enough to come back.
const REPORT_IDS: u64 = 20;

impl World {
    /// A way in hands in what it read together.
    pub(super) fn hand_in_reports(&mut self) {
        if !self.repeats.is_empty() && self.machine.random.chance(1, 3) {
            let again = self.machine.random.below(self.repeats.len() as u64) as usize;
            let (way, reports) = self.repeats.swap_remove(again);
            self.counts.slices_again += 1;
            return self.submit(way, reports);
        }
        let way = self.any_way();
        let long = self.plan.long_reports && self.machine.random.chance(1, 8);
        let count = 1 + self.machine.random.below(if long { LONG_SLICE_REPORTS } else { SLICE_REPORTS });
        let mut reports: Vec<Report> = (0..count).map(|_| self.any_report()).collect();
        if self.machine.random.chance(1, 6) {
            // Whoever is not sure says the last one twice.
            reports.extend(reports.last().cloned());
        }
        self.submit(way, reports);
    }

    /// A way in opens or closes.
    pub(super) fn attend(&mut self, way: WayIn, attended: bool) {
        self.machine.trace.note(format_args!("{} attended: {attended}", way.as_str()));
        let told = attended || self.machine.injects(SILENT_CLOSE);
        if let Some(server) = &self.server {
            server.attended[way.index()].store(told, std::sync::atomic::Ordering::SeqCst);
        }
        for partition in self.partitions_of_devices() {
            let input = DeviceInput::Attend { way, attended: told };
            let _not_accepting = self.hand_in(partition, input, Meant::Attend { way, attended });
        }
    }

    /// Whoever handed in a slice and was not answered does so again, sooner or later, or gives up.
    pub(super) fn repeat_later(&mut self, then: Then) {
        if let Then::Repeat(way, reports) = then
            && self.repeats.len() < REPEATS_MAX
        {
            self.repeats.push((way, reports));
        }
    }

    /// Splits a slice by partition, as the intake does.
    fn submit(&mut self, way: WayIn, reports: Vec<Report>) {
        let room = |server: &Server| server.partitions.iter().all(Port::has_room);
        if !self.server.as_ref().is_some_and(room) {
            // The way in waits for room.
            return;
        }
        let count = reports.len() as u32;
        let again = reports.clone();
        let mut split: BTreeMap<PartitionId, Vec<Addressed>> = BTreeMap::new();
        for (index, report) in (0..).zip(reports) {
            let hash = hash::device_hash(report.device.as_str());
            let partition = hash::partition_of(hash::routing_hash(hash), self.machine.plan.partitions);
            split.entry(partition).or_default().push(Addressed { index, hash, report });
        }
        let call = self.next_call();
        self.machine.trace.note(format_args!("call {call}: {count} reports by {}", way.as_str()));
        let (pending, parts) = SlicePart::split(count, split.len());
        let asked = split.keys().copied().collect();
        for ((partition, mut reports), part) in split.into_iter().zip(parts) {
            let meant = reports.iter().map(|addressed| (addressed.index, addressed.report.clone())).collect();
            if self.machine.injects(SWAPPED_REPORTS) {
                reports.reverse();
            }
            if self.machine.injects(REPEATS_TAKEN_FOR_NEW) {
                reports
                    .iter_mut()
                    .for_each(|addressed| self.forget_known_id(partition, &mut addressed.report));
            }
            let input = DeviceInput::Reports { way, reports, part };
            let _has_room = self.hand_in(partition, input, Meant::Reports { call, way, reports: meant });
        }
        let waiting = Waiting::on_slice(pending, Answer::Slice);
        self.await_answer(asked, (waiting, Then::Repeat(way, again)));
    }

    fn any_report(&mut self) -> Report {
        let (device, kind) = self.any_device();
        let claimed = match self.machine.random.below(12) {
            0 => Kind::new(if kind == "lock" { "meter" } else { "lock" }),
            1..=5 => Kind::new(&kind),
            _ => None,
        };
        let content = match self.machine.random.below(20) {
            0..=1 => ReportContent::Alive,
            2 => {
                ReportContent::Refused(Box::new(Problem::not_allowed("ts_ahead", "the ts is too far ahead")))
            }
            _ => ReportContent::Value { value: self.any_value(&kind), ts: self.any_ts() },
        };
        let id = self.machine.random.chance(1, 3).then(|| self.any_report_id());
        Report { device, kind: claimed, content, id }
    }

    /// One of few, so that some come back while they are known, and some later.
    fn any_report_id(&mut self) -> ReportId {
        ReportId::of(&format!("r{}", self.machine.random.below(REPORT_IDS)))
    }

    /// A broken way in: what its device said before comes without the id by which that could be
    /// known.
    fn forget_known_id(&self, partition: PartitionId, report: &mut Report) {
        let model = &self.model[usize::from(partition.0)].present;
        let known = model.devices.get(&report.device).zip(report.id);
        if known.is_some_and(|(device, ReportId(id))| device.report_ids.iter().any(|known| known.id == id)) {
            report.id = None;
        }
    }

    fn any_value(&mut self, kind: &str) -> Value {
        let number = |number: u64| Value::number(number as f64).expect("finite");
        if kind == "lock" {
            return number(if self.machine.random.chance(1, 30) { 2 } else { self.machine.random.below(2) });
        }
        if self.plan.long_reports {
            let letter = (b'a' + self.machine.random.below(26) as u8) as char;
            return Value::from_canonical(&format!("\"{}\"", letter.to_string().repeat(LARGE_VALUE_CHARS)));
        }
        match self.machine.random.below(5) {
            0 => Value::from_canonical(r#"{"open":true,"why":"\"\u0001"}"#),
            1 => Value::from_canonical("null"),
            n => number(n),
        }
    }

    /// Most reports say nothing of the time; those that do may be late, or a little ahead.
    fn any_ts(&mut self) -> Option<Timestamp> {
        if self.machine.random.chance(2, 3) {
            return None;
        }
        let offset = self.machine.random.below(300_000) as i64 - 240_000;
        Some(Timestamp(self.machine.clock.wall().0 + offset))
    }
}
