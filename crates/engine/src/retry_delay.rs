//! How long to wait after a failed attempt: the same for notifications, notices, and what is posted
//! of campaigns and streams.

use std::time::Duration;

use crate::settings::RetrySettings;

/// Jitter is at most one part in this many of the delay.
const JITTER_DIVISOR: u64 = 10;

/// The delay after failed attempt `n`: base x (1 + log2 n), at most the maximum. Up to a tenth of
/// it comes on top, as `chance` has it. A longer delay that the receiver asks for takes its place,
/// up to the maximum.
pub(crate) fn delay_after(
    retry: &RetrySettings,
    n: u32,
    patience: Option<Duration>,
    chance: u64,
) -> Duration {
    let grown = retry.base.mul_f64(1.0 + f64::from(n.max(1)).log2());
    let ms = u64::try_from(grown.min(retry.max).as_millis()).unwrap_or(u64::MAX);
    let jitter = ((u128::from(ms / JITTER_DIVISOR) * u128::from(chance)) >> 64) as u64;
    Duration::from_millis(ms.saturating_add(jitter)).max(patience.unwrap_or_default().min(retry.max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_with_the_logarithm_up_to_a_cap() {
        let retry =
            RetrySettings { base: Duration::from_secs(30), max: Duration::from_secs(100), attempts_max: 10 };
        let secs = |n, patience: Option<u64>| {
            delay_after(&retry, n, patience.map(Duration::from_secs), 0).as_secs_f64()
        };
        for (n, patience, expect) in [
            (1, None, 30.0),
            (2, None, 60.0),
            (4, None, 90.0),
            (8, None, 100.0),
            (1, Some(45), 45.0),
            (2, Some(45), 60.0),
            (1, Some(3_600), 100.0),
        ] {
            assert!((secs(n, patience) - expect).abs() < 0.001, "attempt {n}: {}", secs(n, patience));
        }
    }

    #[test]
    fn jitter_adds_at_most_a_tenth() {
        let retry =
            RetrySettings { base: Duration::from_secs(30), max: Duration::from_secs(100), attempts_max: 10 };
        assert_eq!(delay_after(&retry, 1, None, 0), Duration::from_secs(30));
        let most = delay_after(&retry, 1, None, u64::MAX);
        assert!(most > Duration::from_millis(32_990) && most <= Duration::from_secs(33), "{most:?}");
    }

    #[test]
    fn ten_attempts_by_the_default_formula_span_fourteen_minutes() {
        let retry = RetrySettings {
            base: Duration::from_secs(30),
            max: Duration::from_secs(3_600),
            attempts_max: 10,
        };
        let total: Duration = (1..10).map(|n| delay_after(&retry, n, None, 0)).sum();
        assert_eq!(total.as_secs() / 60, 13);
    }
}
