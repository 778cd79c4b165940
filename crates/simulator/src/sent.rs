//! What devices have sent, and what of it was acknowledged.
//!
//! This is the devices' side of every account. The senders themselves keep it, in the order of
//! sending, and it owes nothing to the server. A report that was acknowledged is a promise made by
//! the server; one that was sent but not acknowledged may or may not have arrived.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::traffic::{DeviceIds, SimulatedReport};

/// How the server took a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportAnswer {
    /// None so far.
    None,
    /// Acknowledged, this long after it was first sent.
    Acknowledged(Duration),
    /// Refused with a reason.
    Refused,
}

/// A report, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentReport {
    /// The device's own time, milliseconds since 1970; unique for the device.
    pub ts_ms: i64,
    /// What it said.
    pub value: u8,
    /// How many times it went out: more than once after a broken connection.
    pub times_sent: u32,
    /// When it first went out.
    pub first_sent: Instant,
    /// What the server said to it.
    pub answer: ReportAnswer,
}

impl SentReport {
    /// Whether the server has vouched for it.
    #[must_use]
    pub const fn is_acknowledged(&self) -> bool {
        matches!(self.answer, ReportAnswer::Acknowledged(_))
    }
}

/// Everything sent by the devices of a run, per device in order of sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    devices: DeviceIds,
    reports: BTreeMap<u32, Vec<SentReport>>,
}

impl Sent {
    /// Nothing sent yet by `devices`.
    #[must_use]
    pub const fn nothing(devices: DeviceIds) -> Self {
        Self { devices, reports: BTreeMap::new() }
    }

    /// The devices of the run, silent ones too.
    #[must_use]
    pub const fn devices(&self) -> &DeviceIds {
        &self.devices
    }

    /// What `device` has sent, in order.
    #[must_use]
    pub fn of(&self, device: u32) -> &[SentReport] {
        self.reports.get(&device).map_or(&[], Vec::as_slice)
    }

    /// What `device` said at `ts_ms`.
    #[must_use]
    pub fn find(&self, device: u32, ts_ms: i64) -> Option<&SentReport> {
        let reports = self.of(device);
        reports.binary_search_by_key(&ts_ms, |report| report.ts_ms).ok().map(|position| &reports[position])
    }

    /// Notes that `report` goes out for the first time at `now`; the result names it for
    /// [`Sent::sent_again`] and [`Sent::answered`].
    pub fn add(&mut self, report: SimulatedReport, now: Instant) -> usize {
        let reports = self.reports.entry(report.device).or_default();
        let SimulatedReport { ts_ms, value, .. } = report;
        reports.push(SentReport { ts_ms, value, times_sent: 1, first_sent: now, answer: ReportAnswer::None });
        reports.len() - 1
    }

    /// Notes that the `position`th report of `device` goes out once more.
    pub fn sent_again(&mut self, device: u32, position: usize) {
        if let Some(report) = self.at(device, position) {
            report.times_sent += 1;
        }
    }

    /// Notes the server's answer to the `position`th report of `device`.
    pub fn answered(&mut self, device: u32, position: usize, answer: ReportAnswer) {
        if let Some(report) = self.at(device, position) {
            report.answer = answer;
        }
    }

    /// Adds what another lane's devices have sent; lanes share no devices.
    pub fn merge(&mut self, lane: Self) {
        self.reports.extend(lane.reports);
    }

    fn at(&mut self, device: u32, position: usize) -> Option<&mut SentReport> {
        self.reports.get_mut(&device)?.get_mut(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_by_its_time_with_its_answer() {
        let mut sent = Sent::nothing(DeviceIds::new("d", 2));
        let now = Instant::now();
        for (ts_ms, value) in [(10, 0), (20, 1), (30, 0)] {
            sent.add(SimulatedReport::plain(1, ts_ms, value), now);
        }
        sent.sent_again(1, 1);
        sent.answered(1, 1, ReportAnswer::Acknowledged(Duration::from_millis(5)));
        let found = sent.find(1, 20).copied();
        assert_eq!(found.map(|report| (report.times_sent, report.is_acknowledged())), Some((2, true)));
        assert_eq!(sent.find(1, 25), None);
        assert_eq!(sent.of(0), &[]);
    }

    #[test]
    fn lanes_add_up() {
        let devices = DeviceIds::new("d", 2);
        let (mut all, mut lane) = (Sent::nothing(devices.clone()), Sent::nothing(devices));
        lane.add(SimulatedReport::plain(1, 1, 1), Instant::now());
        all.merge(lane);
        assert_eq!((all.of(0).len(), all.of(1).len()), (0, 1));
    }
}
