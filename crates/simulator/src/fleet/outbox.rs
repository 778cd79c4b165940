//! The reports of one lane between going out and being answered.
//!
//! Answers come in the order of sending, so a queue is enough. The front is the oldest unanswered
//! report, and the first `written` reports are on the present connection. When that breaks, all are
//! unwritten again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{FleetProgress, ReportRecording};
use crate::sent::{ReportAnswer, Sent};
use crate::traffic::{DeviceIds, SimulatedReport};

/// Timers come up to so much late. A report that goes out no later after its time was not kept
/// waiting by anybody, and its latency counts from when it went out.
const TIMER_PRECISION: Duration = Duration::from_millis(2);

/// A report without an answer.
#[derive(Debug)]
struct UnansweredReport {
    report: SimulatedReport,
    /// When it first went out, and its place in the record.
    first: Option<(Instant, usize)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Outbox {
    lane: u64,
    pending: VecDeque<UnansweredReport>,
    written: usize,
    answered: u64,
    /// Whether the present connection has brought an acknowledgement.
    is_confirmed: bool,
    keep: ReportRecording,
    sent: Sent,
    progress: Arc<FleetProgress>,
}

impl Outbox {
    pub(super) fn new(
        lane: u64,
        devices: DeviceIds,
        keep: ReportRecording,
        progress: Arc<FleetProgress>,
    ) -> Self {
        let sent = Sent::nothing(devices);
        let pending = VecDeque::new();
        Self { lane, pending, written: 0, answered: 0, is_confirmed: false, keep, sent, progress }
    }

    pub(super) fn push(&mut self, report: SimulatedReport) {
        self.pending.push_back(UnansweredReport { report, first: None });
    }

    /// Reports without an answer, written or not.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Reports on the present connection.
    pub(super) const fn written(&self) -> usize {
        self.written
    }

    /// Reports answered so far.
    pub(super) const fn answered(&self) -> u64 {
        self.answered
    }

    /// The next report to write to the present connection; it counts as written.
    pub(super) fn next_to_write(&mut self, now: Instant) -> Option<SimulatedReport> {
        let pending = self.pending.get_mut(self.written)?;
        self.written += 1;
        let report = pending.report;
        match (pending.first, self.keep) {
            (None, keep) => {
                let position =
                    if keep == ReportRecording::EveryReport { self.sent.add(report, now) } else { 0 };
                pending.first = Some((now, position));
                self.progress.sent.fetch_add(1, Ordering::Relaxed);
                if report.flaw.is_some() {
                    self.progress.flawed.fetch_add(1, Ordering::Relaxed);
                }
            }
            (Some((_, position)), keep) => {
                if keep == ReportRecording::EveryReport {
                    self.sent.sent_again(report.device, position);
                }
                self.progress.repeated.fetch_add(1, Ordering::Relaxed);
            }
        }
        Some(report)
    }

    /// The `count` oldest written reports are acknowledged at `now`.
    pub(super) fn acknowledge(&mut self, count: usize, now: Instant) {
        if count == 0 {
            return;
        }
        let progress = Arc::clone(&self.progress);
        let mut latencies = progress.latencies_of(self.lane);
        for _ in 0..count {
            let since_first = |first_sent| now.saturating_duration_since(first_sent);
            let (report, first_sent) = self.settle(|first| ReportAnswer::Acknowledged(since_first(first)));
            latencies.since_sent.record(since_first(first_sent));
            latencies.since_due.record(since_first(counted_from(report, first_sent)));
            if report.flaw.is_some() {
                progress.flawed_acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        }
        progress.acknowledged.fetch_add(count as u64, Ordering::Relaxed);
        if !std::mem::replace(&mut self.is_confirmed, true) {
            progress.confirmed_lanes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The oldest written report is refused.
    pub(super) fn refuse_oldest(&mut self, reason: &str) {
        let (report, _) = self.settle(|_| ReportAnswer::Refused);
        self.progress.refused_for(reason);
        if report.flaw.is_some() {
            self.progress.flawed_refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All written reports are gone, and no answer will come.
    pub(super) fn forget_written(&mut self) {
        while self.written > 0 {
            self.settle(|_| ReportAnswer::None);
        }
    }

    /// An answer came that was not the next one's turn.
    pub(super) fn disorder(&self) {
        self.progress.disordered.fetch_add(1, Ordering::Relaxed);
    }

    /// The connection broke: what has no answer is to be written again.
    pub(super) fn connection_broke(&mut self, reason: &str) {
        self.disconnected();
        self.progress.broke_for(reason);
    }

    /// The device broke the connection: what has no answer is to be written again.
    pub(super) fn connection_was_cut(&mut self) {
        self.disconnected();
        self.progress.cut.fetch_add(1, Ordering::Relaxed);
    }

    fn disconnected(&mut self) {
        self.written = 0;
        if std::mem::take(&mut self.is_confirmed) {
            self.progress.confirmed_lanes.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn into_parts(self) -> (u64, Sent) {
        let unanswered = self.pending.iter().filter(|pending| pending.first.is_some()).count();
        (unanswered as u64, self.sent)
    }

    /// Takes the oldest written report off; the result says also when it first went out.
    fn settle(&mut self, answer: impl FnOnce(Instant) -> ReportAnswer) -> (SimulatedReport, Instant) {
        let oldest = self.pending.pop_front().filter(|_| self.written > 0);
        let Some(UnansweredReport { report, first: Some((first_sent, position)) }) = oldest else {
            unreachable!("only written reports are settled, and a lane checks that first");
        };
        self.written -= 1;
        self.answered += 1;
        if self.keep == ReportRecording::EveryReport {
            self.sent.answered(report.device, position, answer(first_sent));
        }
        (report, first_sent)
    }
}

fn counted_from(report: SimulatedReport, first_sent: Instant) -> Instant {
    let due = report.due.unwrap_or(first_sent);
    if first_sent.saturating_duration_since(due) > TIMER_PRECISION { due } else { first_sent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;
    use crate::traffic::Flaw;

    fn outbox_with(reports: i64) -> Outbox {
        let mut outbox = Outbox::new(0, DeviceIds::new("d", 1), ReportRecording::EveryReport, Arc::default());
        (0..reports).for_each(|ts_ms| outbox.push(SimulatedReport::plain(0, ts_ms, 1)));
        outbox
    }

    #[test]
    fn what_was_not_acknowledged_goes_out_again_in_order() {
        let mut outbox = outbox_with(3);
        let now = Instant::now();
        while outbox.next_to_write(now).is_some() {}
        outbox.acknowledge(1, now);
        assert_eq!(outbox.progress.confirmed_lanes(), 1);
        outbox.connection_broke("reset");
        assert_eq!(outbox.progress.confirmed_lanes(), 0);
        let again: Vec<_> =
            std::iter::from_fn(|| outbox.next_to_write(now)).map(|report| report.ts_ms).collect();
        assert_eq!(again, [1, 2]);
        outbox.acknowledge(1, now);
        let stats = outbox.progress.stats();
        assert_eq!((stats.sent, stats.repeated, stats.acknowledged, stats.broken), (3, 2, 2, 1));
        assert_eq!(outbox.progress.latencies().since_sent.count(), 2);
        assert_eq!(outbox.progress.troubles()["reset"], 1);
        let (unanswered, sent) = outbox.into_parts();
        assert_eq!(unanswered, 1);
        let times: Vec<_> =
            sent.of(0).iter().map(|report| (report.times_sent, report.is_acknowledged())).collect();
        assert_eq!(times, [(1, true), (2, true), (2, false)]);
    }

    #[test]
    fn a_refused_report_is_answered_but_not_acknowledged() {
        let mut outbox = outbox_with(1);
        outbox.next_to_write(Instant::now());
        outbox.refuse_oldest("unknown_device");
        assert_eq!((outbox.len(), outbox.progress.stats().refused), (0, 1));
        assert_eq!(outbox.progress.refusals()["unknown_device"], 1);
        assert_eq!(outbox.into_parts().1.of(0)[0].answer, ReportAnswer::Refused);
    }

    #[test]
    fn latency_counts_from_when_a_report_was_due_but_not_the_precision_of_timers() {
        let due = Instant::now();
        for (behind_ms, since_due_ms) in [(1, 10), (500, 510)] {
            let mut outbox = outbox_with(0);
            outbox.push(SimulatedReport { due: Some(due), ..SimulatedReport::plain(0, 0, 1) });
            let sent = due + Duration::from_millis(behind_ms);
            outbox.next_to_write(sent);
            outbox.acknowledge(1, sent + Duration::from_millis(10));
            let latencies = outbox.progress.latencies();
            let rounded = |latency: &Latency| (latency.percentile(100.0).as_secs_f64() * 1e3).round() as u64;
            assert_eq!((rounded(&latencies.since_sent), rounded(&latencies.since_due)), (10, since_due_ms));
        }
    }

    #[test]
    fn flawed_reports_are_counted_by_how_they_were_taken() {
        let mut outbox = outbox_with(0);
        for _ in 0..3 {
            outbox.push(SimulatedReport { flaw: Some(Flaw::CutShort), ..SimulatedReport::plain(0, 0, 1) });
        }
        let now = Instant::now();
        while outbox.next_to_write(now).is_some() {}
        outbox.acknowledge(1, now);
        outbox.refuse_oldest("unreadable");
        let stats = outbox.progress.stats();
        assert_eq!((stats.flawed, stats.flawed_acknowledged, stats.flawed_refused), (3, 1, 1));
        outbox.forget_written();
        assert_eq!((outbox.len(), outbox.progress.stats().acknowledged), (0, 1));
    }
}
