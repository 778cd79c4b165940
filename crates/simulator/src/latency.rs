//! Latencies as a histogram: microseconds up to five minutes, three significant digits.
//!
//! Each lane keeps its own and they are added at the end, so measuring costs no lock.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// What is longer counts as this long.
const LONGEST_US: u64 = 5 * 60 * 1_000_000;

/// How long things took.
#[derive(Debug, Clone)]
pub struct Latency {
    micros: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        let micros =
            Histogram::new_with_bounds(1, LONGEST_US, 3).expect("the bounds are constants and valid");
        Self { micros }
    }
}

impl Latency {
    /// Counts one that took `elapsed`.
    pub fn record(&mut self, elapsed: Duration) {
        self.record_many(elapsed, 1);
    }

    /// Counts `count` that took `elapsed` each.
    pub fn record_many(&mut self, elapsed: Duration, count: u64) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(LONGEST_US).min(LONGEST_US);
        self.micros.saturating_record_n(micros, count);
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Self) {
        self.micros.add(&other.micros).expect("all latencies have the same bounds");
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.micros.len()
    }

    /// The time within which `percent` of 100 were done; zero when nothing was counted.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_micros(self.micros.value_at_percentile(percent))
    }
}

/// `p50 1.20 ms, p99 5.01 ms, max 7.94 ms`, or a dash when nothing was counted.
impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.micros.is_empty() {
            return write!(f, "-");
        }
        let ms = |percent| self.percentile(percent).as_secs_f64() * 1e3;
        write!(f, "p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms", ms(50.0), ms(99.0), ms(100.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_from_all_merged_parts() {
        let (mut low, mut high) = (Latency::default(), Latency::default());
        low.record_many(Duration::from_millis(1), 99);
        high.record(Duration::from_secs(1));
        low.merge(&high);
        assert_eq!(low.count(), 100);
        assert!(low.percentile(50.0) < Duration::from_micros(1_010));
        assert!(low.percentile(100.0) > Duration::from_millis(990));
    }

    #[test]
    fn an_endless_wait_is_counted_as_the_longest() {
        let mut latency = Latency::default();
        latency.record(Duration::from_secs(1 << 40));
        assert_eq!(latency.count(), 1);
        assert_eq!(Latency::default().to_string(), "-");
    }
}
