//! How fast jobs go through a queue: counts of the present minute and of the one before.
//!
//! They are in memory only, of queues that something happened to. A rate is that of the last minute
//! as if the minute before had been even.

use base::Timestamp;

const MINUTE_MS: i64 = 60_000;
const MINUTE_S: f64 = 60.0;

/// Jobs of a queue in a second, over about the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueRates {
    /// Published; those that only kept another counted too.
    pub published: f64,
    /// Given to consumers.
    pub consumed: f64,
    /// Acknowledged.
    pub acked: f64,
}

impl QueueRates {
    /// Whether anything happens.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens to a job of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum JobFlow {
    Published,
    Consumed,
    Acked,
}

/// What happened to the jobs of a queue lately.
#[derive(Debug, Default)]
pub(super) struct RecentJobs {
    /// The present one, counted from the begin of the clock.
    minute: i64,
    present: [u32; 3],
    before: [u32; 3],
}

impl RecentJobs {
    /// It happened to so many jobs now.
    pub(super) fn add(&mut self, flow: JobFlow, jobs: usize, now: Timestamp) {
        let minute = now.0.div_euclid(MINUTE_MS);
        if minute != self.minute {
            self.before = if minute == self.minute + 1 { self.present } else { [0; 3] };
            self.present = [0; 3];
            self.minute = minute;
        }
        let count = &mut self.present[flow as usize];
        *count = count.saturating_add(u32::try_from(jobs).unwrap_or(u32::MAX));
    }

    /// How fast it goes now.
    pub(super) fn rates(&self, now: Timestamp) -> QueueRates {
        let (present, before) = match now.0.div_euclid(MINUTE_MS) - self.minute {
            0 => (self.present, self.before),
            1 => ([0; 3], self.present),
            _ => return QueueRates::default(),
        };
        let left = 1.0 - now.0.rem_euclid(MINUTE_MS) as f64 / MINUTE_MS as f64;
        let rate = |flow: JobFlow| {
            (f64::from(present[flow as usize]) + left * f64::from(before[flow as usize])) / MINUTE_S
        };
        QueueRates {
            published: rate(JobFlow::Published),
            consumed: rate(JobFlow::Consumed),
            acked: rate(JobFlow::Acked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_minute() {
        let mut recent = RecentJobs::default();
        let at = |second: i64| Timestamp(1_000_000 * MINUTE_MS + second * 1_000);
        for second in 0..60 {
            recent.add(JobFlow::Published, 2, at(second));
        }
        recent.add(JobFlow::Acked, 30, at(75));
        for (second, published, acked) in [
            (75, 1.5, 0.5),
            (90, 1.0, 0.5),
            (119, 2.0 / 60.0, 0.5),
            (120, 0.0, 0.5),
            (150, 0.0, 0.25),
            (180, 0.0, 0.0),
            (100_000, 0.0, 0.0),
        ] {
            let rates = recent.rates(at(second));
            let is_near = |found: f64, expect: f64| (found - expect).abs() < 0.001;
            assert!(
                is_near(rates.published, published) && is_near(rates.acked, acked),
                "{second}: {rates:?}"
            );
            assert_eq!((rates.consumed, rates.is_zero()), (0.0, second >= 180), "{second}");
        }
    }

    #[test]
    fn what_was_longer_ago_than_a_minute_does_not_count() {
        let mut recent = RecentJobs::default();
        recent.add(JobFlow::Consumed, 600, Timestamp(0));
        recent.add(JobFlow::Consumed, 60, Timestamp(3 * MINUTE_MS));
        assert_eq!(recent.rates(Timestamp(3 * MINUTE_MS)).consumed, 1.0);
    }
}
