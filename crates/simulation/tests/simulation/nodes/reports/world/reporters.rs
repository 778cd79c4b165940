//! Devices that report to the edge, and what it answers.

use std::collections::BTreeSet;

use base::{Clock, DeviceId, Kind, Timestamp, Value, WayIn, hash};
use engine::devices::input::{Addressed, DeviceInput};
use engine::intake::{ReportId, SlicePart};
use engine::{PendingSlice, Report, ReportContent, SliceOutcome};

use super::World;
use crate::harness::calls::{Polled, poll_slice};
use crate::nodes::reports::EDGE;
use crate::streams::world::as_node::StreamsNode;

/// Each device, what it is at the edge, and what it is at the centre.
const FLEET: [(&str, &str, &str); 3] =
    [("door", "lock", "lock"), ("meter", "meter", "meter"), ("other", "meter", "lock")];
/// Reports of a slice with ids at most: the edge knows them all when the slice comes again.
const REPORTS_WITH_IDS: u64 = 6;
/// Reports of another slice at most: more than a call to the centre may have.
const REPORTS: u64 = 20;
/// How late a report is at most, in milliseconds.
const LATE_MS: u64 = 60_000;

/// A device. It has one slice under way at a time.
pub(super) struct Reporter {
    pub(super) device: DeviceId,
    pub(super) kind: Kind,
    pub(super) kind_there: Kind,
    /// What the edge acknowledged, in order.
    pub(super) accepted: Vec<Value>,
    under_way: Option<(GivenSlice, Option<PendingSlice>)>,
    /// What it hands in next, once more.
    again: Option<GivenSlice>,
    last_number: u64,
}

/// A slice.
struct GivenSlice {
    reports: Vec<Report>,
    with_ids: bool,
    /// It was answered before.
    is_known: bool,
}

/// Reports as one partition takes them, and what becomes of them.
pub(super) fn slice_of(reports: Vec<Report>) -> Option<(DeviceInput, PendingSlice)> {
    let (pending, mut parts) = SlicePart::split(reports.len() as u32, 1);
    let part = parts.next()?;
    let addressed = |(index, report): (u32, Report)| {
        let hash = hash::device_hash(report.device.as_str());
        Addressed { index, hash, report }
    };
    let reports = (0..).zip(reports).map(addressed).collect();
    Some((DeviceInput::Reports { way: WayIn::Http, reports, part }, pending))
}

impl Reporter {
    pub(super) fn all() -> Vec<Self> {
        let kind_of = |text| Kind::new(text).expect("a kind");
        let reporter = |(device, kind, kind_there)| Self {
            device: DeviceId::new(device).expect("an id"),
            kind: kind_of(kind),
            kind_there: kind_of(kind_there),
            accepted: Vec::new(),
            under_way: None,
            again: None,
            last_number: 0,
        };
        FLEET.into_iter().map(reporter).collect()
    }

    /// The edge answered.
    fn answered(&mut self, slice: &GivenSlice, outcome: &SliceOutcome) {
        if slice.is_known {
            return;
        }
        let rejected: BTreeSet<u32> = outcome.rejected.iter().map(|rejection| rejection.index).collect();
        for (index, report) in (0..).zip(&slice.reports) {
            if let ReportContent::Value { value, .. } = &report.content
                && !rejected.contains(&index)
            {
                self.accepted.push(value.clone());
            }
        }
    }
}

impl World {
    /// A device hands in a slice, if the one before is answered.
    pub(super) fn report(&mut self) {
        let index = self.machine.random.below(self.reporters.len() as u64) as usize;
        if self.reporters[index].under_way.is_some() || !self.nodes[EDGE].users().takes_input() {
            return;
        }
        let slice = match self.reporters[index].again.take() {
            Some(again) => {
                self.counts.slices_again += 1;
                again
            }
            None => self.any_slice(index),
        };
        let reporter = &mut self.reporters[index];
        self.machine.trace.note(format_args!("{} reports {:?}", reporter.device, slice.reports));
        if let Some((input, pending)) = slice_of(slice.reports.clone()) {
            reporter.under_way = Some((slice, Some(pending)));
            let _takes = self.nodes[EDGE].users_mut().tell_devices(input);
        }
    }

    fn any_slice(&mut self, index: usize) -> GivenSlice {
        let random = &self.machine.random;
        let with_ids = random.chance(1, 2);
        let most = if with_ids { REPORTS_WITH_IDS } else { REPORTS };
        let count = if random.chance(2, 3) { 1 } else { 1 + random.below(most) };
        let reports = (0..count).map(|_| self.any_report(index, with_ids)).collect();
        GivenSlice { reports, with_ids, is_known: false }
    }

    fn any_report(&mut self, index: usize, with_id: bool) -> Report {
        let random = &self.machine.random;
        let reporter = &mut self.reporters[index];
        reporter.last_number += 1;
        let number = match FLEET[index].0 {
            // Nothing that a lock says, sometimes.
            "door" => random.below(2) + 2 * u64::from(random.chance(1, 6)),
            "meter" => reporter.last_number,
            _ => random.below(3),
        };
        let claimed = random.chance(1, 10).then(|| Kind::new("face")).flatten();
        let late_ms = random.chance(1, 4).then(|| 1 + random.below(LATE_MS));
        let ts = late_ms.map(|ms| Timestamp(self.machine.clock.wall().0 - ms as i64));
        let value = Value::number(number as f64).expect("finite");
        Report {
            device: reporter.device.clone(),
            kind: claimed,
            content: ReportContent::Value { value, ts },
            id: with_id.then(|| ReportId::of(&format!("r{}", reporter.last_number))),
        }
    }

    /// Takes what the edge has answered.
    pub(super) fn take_answers_of_edge(&mut self) {
        for reporter in &mut self.reporters {
            let Some((slice, mut pending)) = reporter.under_way.take() else { continue };
            match poll_slice(&mut pending) {
                Polled::NotYet => reporter.under_way = Some((slice, pending)),
                Polled::Answered(outcome) => {
                    self.counts.accepted += u64::from(outcome.accepted);
                    self.counts.refused += outcome.rejected.len() as u64;
                    reporter.answered(&slice, &outcome);
                    let comes_again = slice.with_ids && self.machine.random.chance(1, 6);
                    reporter.again = comes_again.then_some(GivenSlice { is_known: true, ..slice });
                }
                // Nobody knows whether it was taken. Without ids it is not said twice.
                Polled::Dropped => reporter.again = Some(slice).filter(|slice| slice.with_ids),
            }
        }
    }
}
