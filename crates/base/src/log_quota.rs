//! How many log lines one cause may write: a flood of what goes wrong must not become a flood of
//! lines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Refusals that may each leave a line at once: single ones all do.
pub const REFUSAL_LINES_AT_ONCE: u32 = 32;
/// How long it takes until one more line may be written.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// So many lines at once, and one more a second. Whoever writes one says how many were left out
/// before it.
#[derive(Debug)]
pub struct LogQuota {
    start: Instant,
    /// Milliseconds from `start` to when all of the quota is there again.
    whole_at_ms: AtomicU64,
    at_once: u32,
    left_out: AtomicU64,
}

impl LogQuota {
    /// So many lines at once, one at least.
    #[must_use]
    pub fn new(at_once: u32) -> Self {
        Self {
            start: Instant::now(),
            whole_at_ms: AtomicU64::new(0),
            at_once: at_once.max(1),
            left_out: AtomicU64::new(0),
        }
    }

    /// For refusals.
    #[must_use]
    pub fn of_refusals() -> Self {
        Self::new(REFUSAL_LINES_AT_ONCE)
    }

    /// Whether a line may be written now, and how many were left out since the last one.
    pub fn take(&self) -> Option<u64> {
        self.take_at(crate::time::millis(self.start.elapsed()).cast_unsigned())
    }

    fn take_at(&self, now_ms: u64) -> Option<u64> {
        let line_ms = LINE_EVERY.as_millis() as u64;
        let used_up = line_ms * u64::from(self.at_once - 1);
        let taken = |whole_at: u64| (whole_at <= now_ms + used_up).then(|| whole_at.max(now_ms) + line_ms);
        if self.whole_at_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok() {
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
        let quota = LogQuota::new(1);
        let taken: Vec<_> = [0, 1, 2, 999, 1_000, 1_500, 5_000].map(|at| quota.take_at(at)).into();
        assert_eq!(taken, [Some(0), None, None, None, Some(3), None, Some(1)]);
    }

    #[test]
    fn single_refusals_all_leave_a_line() {
        let quota = LogQuota::new(3);
        let taken: Vec<_> = [0, 0, 1, 2, 999, 1_000, 1_001, 9_000, 9_000].map(|at| quota.take_at(at)).into();
        assert_eq!(taken, [Some(0), Some(0), Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }
}
