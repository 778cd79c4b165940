//! How long to wait before connecting again: twice as long each time, up to a limit, never quite
//! the same.

use std::time::Duration;

use base::random::Random;

use super::AmqpLimits;

/// The pauses between attempts to connect.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    max: Duration,
    next: Duration,
    random: Random,
}

impl Backoff {
    pub(super) fn new(limits: &AmqpLimits, random: Random) -> Self {
        Self { first: limits.retry_first, max: limits.retry_max, next: limits.retry_first, random }
    }

    /// The pause to make now: between half and all of its full length. So servers that lost one
    /// RabbitMQ do not come back to it all at once.
    pub(super) fn pause(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.max);
        let half = full / 2;
        half + half.mul_f64(self.random.below(1_000) as f64 / 1_000.0)
    }

    /// After a connection that was good for this long: one that kept breaking at once is not come
    /// back to at once.
    pub(super) fn connection_lasted(&mut self, lasted: Duration) {
        if lasted >= self.max {
            self.next = self.first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_limit_and_begin_again_after_a_good_connection() {
        let mut backoff = Backoff::new(&AmqpLimits::default(), Random::new(7));
        let within = |pause: Duration, full_ms: u64| {
            let full = Duration::from_millis(full_ms);
            assert!(full / 2 <= pause && pause < full, "{pause:?} of {full:?}");
        };
        for full in [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            within(backoff.pause(), full);
        }
        backoff.connection_lasted(Duration::from_secs(29));
        within(backoff.pause(), 30_000);
        backoff.connection_lasted(Duration::from_secs(30));
        within(backoff.pause(), 250);
    }
}
