//! What became of the reports of one way in: counted by result, and the refused ones logged.
//!
//! A flood of bad reports must not become a flood of log lines: at most one a second is written, and it says how many were
//! left out. The counters miss none.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::{Problem, WayIn};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// At most one line about refused reports in this time.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// Counts things by a word of a fixed set: every one is written in this crate or is a [`Problem::code`].
#[derive(Clone, Debug)]
pub(crate) struct ByWord {
    label: &'static str,
    family: Family<[(&'static str, &'static str); 1], Counter>,
}

impl ByWord {
    /// Counted under the label `label`.
    pub(crate) fn new(label: &'static str) -> Self {
        Self { label, family: Family::default() }
    }

    pub(crate) fn count(&self, word: &'static str) {
        self.family.get_or_create(&[(self.label, word)]).inc();
    }

    pub(crate) fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.family.clone());
    }

    /// The counter of one word, for what is counted often.
    fn counter(&self, word: &'static str) -> Counter {
        self.family.get_or_create_owned(&[(self.label, word)])
    }
}

/// Counts something while it lives.
pub(crate) struct Counted(Gauge);

impl Counted {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What became of the reports of one way in.
#[derive(Debug)]
pub(crate) struct ReportFigures {
    way: WayIn,
    results: ByWord,
    accepted: Counter,
    log: Quota,
}

impl ReportFigures {
    pub(crate) fn new(way: WayIn) -> Self {
        let results = ByWord::new("result");
        let accepted = results.counter("accepted");
        Self { way, results, accepted, log: Quota::new() }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let name = format!("fieldpost_{}_reports", self.way.as_str());
        self.results.register(registry, &name, "Reports by result: accepted, or the code of the refusal");
    }

    pub(crate) fn accepted(&self, reports: u64) {
        self.accepted.inc_by(reports);
    }

    /// Counts a refused report that is logged by its way in.
    pub(crate) fn count_refused(&self, problem: &Problem) {
        self.results.count(problem.code);
    }

    /// Counts a refused report; `from` says for the log where it came from.
    pub(crate) fn refused(&self, problem: &Problem, from: impl Display) {
        self.results.count(problem.code);
        if let Some(left_out) = self.log.take() {
            tracing::info!(
                way = self.way.as_str(),
                code = problem.code,
                detail = problem.detail,
                %from,
                left_out,
                "refused a report"
            );
        }
    }
}

/// One log line in a while.
#[derive(Debug)]
pub(crate) struct Quota {
    start: Instant,
    /// Milliseconds after `start` from which the next line may be written.
    next_ms: AtomicU64,
    left_out: AtomicU64,
}

impl Quota {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), next_ms: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Whether a line may be written now, and how many were left out since the last one.
    pub(crate) fn take(&self) -> Option<u64> {
        let elapsed = self.start.elapsed();
        self.take_at(base::time::millis(elapsed).cast_unsigned())
    }

    fn take_at(&self, now_ms: u64) -> Option<u64> {
        let next = self.next_ms.load(Ordering::Relaxed);
        let later = now_ms + base::time::millis(LOG_EVERY).cast_unsigned();
        let due = now_ms >= next
            && self.next_ms.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if due {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_makes_one_line_a_second_that_says_what_is_missing() {
        let quota = Quota::new();
        let taken: Vec<_> = [0, 1, 2, 999, 1_000, 1_500, 5_000].map(|at| quota.take_at(at)).into();
        assert_eq!(taken, [Some(0), None, None, None, Some(3), None, Some(1)]);
    }

    #[test]
    fn every_refusal_is_counted() {
        let figures = ReportFigures::new(WayIn::Mqtt);
        for _ in 0..3 {
            figures.refused(&Problem::unreadable("x"), "a test");
        }
        figures.accepted(2);
        let count = |word| figures.results.counter(word).get();
        assert_eq!((count("unreadable"), count("accepted")), (3, 2));
    }
}
