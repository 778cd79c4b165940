//! Rates, from what was counted a few seconds ago and now.

use std::collections::VecDeque;

use engine::overview::CounterTotals;
use tokio::time::Instant;

/// Samples that are kept: rates are over as many seconds.
const SAMPLES_KEPT: usize = 5;

/// What was counted lately.
#[derive(Debug)]
pub(super) struct RateSamples {
    /// Oldest first; never empty.
    samples: VecDeque<(Instant, CounterTotals)>,
}

/// How often something happened in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PerSecond {
    pub reports: f64,
    pub changes: f64,
    pub losses: f64,
    pub deliveries: f64,
    pub jobs: f64,
    pub commands: f64,
}

impl RateSamples {
    pub(super) fn begin(at: Instant, totals: CounterTotals) -> Self {
        Self { samples: VecDeque::from([(at, totals)]) }
    }

    pub(super) fn add(&mut self, at: Instant, totals: CounterTotals) {
        if self.samples.len() > SAMPLES_KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back((at, totals));
    }

    /// Over the time of the samples that are kept.
    pub(super) fn per_second(&self) -> PerSecond {
        let (Some((began, before)), Some((ended, now))) = (self.samples.front(), self.samples.back()) else {
            return PerSecond::default();
        };
        let seconds = ended.duration_since(*began).as_secs_f64();
        if seconds <= 0.0 {
            return PerSecond::default();
        }
        // With one digit behind the point: more would be noise.
        let rate =
            |before: u64, now: u64| (now.saturating_sub(before) as f64 / seconds * 10.0).round() / 10.0;
        PerSecond {
            reports: rate(before.reports, now.reports),
            changes: rate(before.changes, now.changes),
            losses: rate(before.losses, now.losses),
            deliveries: rate(before.deliveries, now.deliveries),
            jobs: rate(before.jobs, now.jobs),
            commands: rate(before.commands, now.commands),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rate_is_over_the_last_seconds_only() {
        let began = Instant::now();
        let reported = |reports| CounterTotals { reports, ..CounterTotals::default() };
        let mut rates = RateSamples::begin(began, reported(1_000));
        assert_eq!(rates.per_second(), PerSecond::default());
        rates.add(began + Duration::from_millis(100), reported(1_007));
        assert_eq!(rates.per_second().reports, 70.0);
        for second in 1..=20 {
            let more = if second > 15 { 10 * (second - 15) } else { 0 };
            rates.add(began + Duration::from_secs(second), reported(1_007 + more));
        }
        assert_eq!(rates.per_second().reports, 10.0);
        assert_eq!(rates.samples.len(), SAMPLES_KEPT + 1);
    }
}
