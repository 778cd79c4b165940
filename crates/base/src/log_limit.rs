//! A limit on log lines that outsiders can cause: a few a minute for each key, then a count.
//!
//! A key is a cause, such as an address and the code of a refusal. The number of remembered keys is
//! bounded; further keys share one allowance. Every suppressed line is counted once. When a key is
//! forgotten, its count moves to the shared allowance.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of a key in a window.
pub const LINES_MAX: u64 = 10;
/// How long a window is.
const WINDOW: Duration = Duration::from_secs(60);
/// Keys that are known at the same time.
const KEYS_MAX: usize = 1_024;
/// How often expired keys are searched for while there are too many.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// The lines of a log that have one cause each.
#[derive(Debug)]
pub struct LogLimit<K> {
    state: Mutex<AllowanceTable<K>>,
}

#[derive(Debug)]
struct AllowanceTable<K> {
    known: HashMap<K, LogWindow>,
    others: Option<LogWindow>,
    forgot_at: Option<Instant>,
}

#[derive(Debug)]
struct LogWindow {
    since: Instant,
    lines: u64,
    left_out: u64,
}

impl<K: Eq + Hash> Default for LogLimit<K> {
    fn default() -> Self {
        Self { state: Mutex::new(AllowanceTable { known: HashMap::new(), others: None, forgot_at: None }) }
    }
}

impl<K: Eq + Hash> LogLimit<K> {
    /// Whether a line may be written now, and how many were left out since the last one.
    pub fn take(&self, key: K, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let AllowanceTable { known, others, forgot_at } = &mut *state;
        if known.len() >= KEYS_MAX && !known.contains_key(&key) {
            if forgot_at.is_none_or(|at| now.duration_since(at) >= FORGET_EVERY) {
                *forgot_at = Some(now);
                let others = others.get_or_insert_with(|| LogWindow::at(now));
                known.retain(|_, window| {
                    let lasts = !window.is_over(now);
                    others.left_out += if lasts { 0 } else { window.left_out };
                    lasts
                });
            }
            if known.len() >= KEYS_MAX {
                return others.get_or_insert_with(|| LogWindow::at(now)).take(now);
            }
        }
        known.entry(key).or_insert_with(|| LogWindow::at(now)).take(now)
    }
}

impl LogWindow {
    fn at(since: Instant) -> Self {
        Self { since, lines: 0, left_out: 0 }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= WINDOW
    }

    fn take(&mut self, now: Instant) -> Option<u64> {
        if self.is_over(now) {
            (self.since, self.lines) = (now, 0);
        }
        if self.lines == LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_key_makes_few_lines_that_say_what_is_missing() {
        let (limit, start) = (LogLimit::default(), Instant::now());
        let lines =
            |key: &'static str, times: u64, now| (0..times).filter_map(|_| limit.take(key, now)).count();
        assert_eq!(lines("flood", 1_000, start), LINES_MAX as usize);
        assert_eq!(lines("other", 1, start), 1, "another key has lines of its own");
        assert_eq!(limit.take("flood", start + WINDOW), Some(1_000 - LINES_MAX));
        assert_eq!(limit.take("flood", start + WINDOW), Some(0));
    }

    #[test]
    fn many_keys_share_what_is_left() {
        let (limit, start) = (LogLimit::default(), Instant::now());
        let lines = |keys: std::ops::Range<usize>, now| keys.filter_map(|key| limit.take(key, now)).count();
        assert_eq!(lines(0..KEYS_MAX, start), KEYS_MAX);
        assert_eq!(lines(KEYS_MAX..3 * KEYS_MAX, start), LINES_MAX as usize);
        let later = start + WINDOW;
        assert_eq!(lines(0..KEYS_MAX, later), KEYS_MAX, "windows that are over make room");
        assert!(limit.state.lock().expect("unpoisoned").known.len() <= KEYS_MAX);
    }
}
