//! The reports of one lane between going out and being answered.
//!
//! Answers come in the order of sending, so a queue is enough: the front is the oldest unanswered report, the first
//! `written` of them are on the present connection. When that breaks, all are unwritten again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Keep, Progress};
use crate::latency::Latency;
use crate::sent::{Answer, Sent};
use crate::traffic::{DeviceIds, Report};

/// A report without an answer.
#[derive(Debug)]
struct Pending {
    report: Report,
    /// When it first went out, and its place in the record.
    first: Option<(Instant, usize)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Outbox {
    pending: VecDeque<Pending>,
    written: usize,
    keep: Keep,
    sent: Sent,
    latency: Latency,
    progress: Arc<Progress>,
}

impl Outbox {
    pub(super) fn new(devices: DeviceIds, keep: Keep, progress: Arc<Progress>) -> Self {
        Self {
            pending: VecDeque::new(),
            written: 0,
            keep,
            sent: Sent::nothing(devices),
            latency: Latency::default(),
            progress,
        }
    }

    pub(super) fn push(&mut self, report: Report) {
        self.pending.push_back(Pending { report, first: None });
    }

    /// Reports without an answer, written or not.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Reports on the present connection.
    pub(super) const fn written(&self) -> usize {
        self.written
    }

    /// The next report to write to the present connection; it counts as written.
    pub(super) fn next_to_write(&mut self, now: Instant) -> Option<Report> {
        let pending = self.pending.get_mut(self.written)?;
        self.written += 1;
        let report = pending.report;
        match (pending.first, self.keep) {
            (None, keep) => {
                let position = if keep == Keep::EveryReport { self.sent.add(report, now) } else { 0 };
                pending.first = Some((now, position));
                self.progress.sent.fetch_add(1, Ordering::Relaxed);
            }
            (Some((_, position)), keep) => {
                if keep == Keep::EveryReport {
                    self.sent.sent_again(report.device, position);
                }
                self.progress.repeated.fetch_add(1, Ordering::Relaxed);
            }
        }
        Some(report)
    }

    /// The `count` oldest written reports are acknowledged at `now`.
    pub(super) fn acknowledge(&mut self, count: usize, now: Instant) {
        for _ in 0..count {
            self.settle(|first_sent| Answer::Acknowledged(now.saturating_duration_since(first_sent)));
        }
        self.progress.acknowledged.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The oldest written report is refused.
    pub(super) fn refuse_oldest(&mut self) {
        self.settle(|_| Answer::Refused);
        self.progress.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// An answer came that was not the next one's turn.
    pub(super) fn disorder(&self) {
        self.progress.disordered.fetch_add(1, Ordering::Relaxed);
    }

    /// The connection broke: what has no answer is to be written again.
    pub(super) fn connection_broke(&mut self) {
        self.written = 0;
        self.progress.broken.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn into_parts(self) -> (u64, Latency, Sent) {
        let unanswered = self.pending.iter().filter(|pending| pending.first.is_some()).count();
        (unanswered as u64, self.latency, self.sent)
    }

    fn settle(&mut self, answer: impl FnOnce(Instant) -> Answer) {
        let oldest = self.pending.pop_front().filter(|_| self.written > 0);
        let Some(Pending { report, first: Some((first_sent, position)) }) = oldest else {
            unreachable!("only written reports are settled, and a lane checks that first");
        };
        self.written -= 1;
        let answer = answer(first_sent);
        if let Answer::Acknowledged(elapsed) = answer {
            self.latency.record(elapsed);
        }
        if self.keep == Keep::EveryReport {
            self.sent.answered(report.device, position, answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox_with(reports: i64) -> Outbox {
        let mut outbox = Outbox::new(DeviceIds::new("d", 1), Keep::EveryReport, Arc::default());
        (0..reports).for_each(|ts_ms| outbox.push(Report { device: 0, ts_ms, value: 1 }));
        outbox
    }

    #[test]
    fn what_was_not_acknowledged_goes_out_again_in_order() {
        let mut outbox = outbox_with(3);
        let now = Instant::now();
        while outbox.next_to_write(now).is_some() {}
        outbox.acknowledge(1, now);
        outbox.connection_broke();
        let again: Vec<_> =
            std::iter::from_fn(|| outbox.next_to_write(now)).map(|report| report.ts_ms).collect();
        assert_eq!(again, [1, 2]);
        outbox.acknowledge(1, now);
        let figures = outbox.progress.figures();
        assert_eq!((figures.sent, figures.repeated, figures.acknowledged, figures.broken), (3, 2, 2, 1));
        let (unanswered, latency, sent) = outbox.into_parts();
        assert_eq!((unanswered, latency.count()), (1, 2));
        let times: Vec<_> =
            sent.of(0).iter().map(|report| (report.times_sent, report.is_acknowledged())).collect();
        assert_eq!(times, [(1, true), (2, true), (2, false)]);
    }

    #[test]
    fn a_refused_report_is_answered_but_not_acknowledged() {
        let mut outbox = outbox_with(1);
        outbox.next_to_write(Instant::now());
        outbox.refuse_oldest();
        assert_eq!((outbox.len(), outbox.progress.figures().refused), (0, 1));
        assert_eq!(outbox.into_parts().2.of(0)[0].answer, Answer::Refused);
    }
}
