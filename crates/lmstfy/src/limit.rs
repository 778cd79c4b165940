//! What a token may do in an interval: so many calls that consume, so many that publish. Only those
//! that succeed count, and a bulk counts as one.
//!
//! An interval begins with the first call after the one before has ended, as with the real server.

use std::sync::{Arc, Mutex};

use base::Timestamp;
use base::locks::locked;
use serde::{Deserialize, Serialize};

use crate::route::Action;

/// The limits of a token; 0 or less is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Calls that consume.
    #[serde(default)]
    pub read: i64,
    /// Calls that publish.
    #[serde(default)]
    pub write: i64,
    /// In so many seconds.
    #[serde(default)]
    pub interval: i64,
}

/// A limit, and what is used up of it.
#[derive(Debug)]
pub(crate) struct Throttle {
    pub(crate) limit: Limit,
    reads: Mutex<LimitInterval>,
    writes: Mutex<LimitInterval>,
}

/// The interval that runs.
#[derive(Debug)]
struct LimitInterval {
    ends: Timestamp,
    calls: i64,
}

/// A call that is under way. It counts when it has succeeded.
#[derive(Debug)]
pub(crate) struct CountedCall {
    throttle: Arc<Throttle>,
    action: Action,
    /// The end of the interval it was taken of.
    ends: Timestamp,
    counts: bool,
}

/// As many calls were made as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached;

impl Throttle {
    pub(crate) fn new(limit: Limit) -> Self {
        let window = || Mutex::new(LimitInterval { ends: Timestamp(i64::MIN), calls: 0 });
        Self { limit, reads: window(), writes: window() }
    }

    /// One call more; `None` where there is no limit.
    ///
    /// # Errors
    /// When there may be none before the interval ends.
    pub(crate) fn take(
        self: &Arc<Self>,
        action: Action,
        now: Timestamp,
    ) -> Result<Option<CountedCall>, Reached> {
        let (calls_max, window) = self.of(action);
        if calls_max <= 0 {
            return Ok(None);
        }
        let mut window = locked(window);
        if now >= window.ends {
            let length = self.limit.interval.saturating_mul(1_000);
            *window = LimitInterval { ends: Timestamp(now.0.saturating_add(length)), calls: 0 };
        }
        if window.calls >= calls_max {
            return Err(Reached);
        }
        window.calls += 1;
        Ok(Some(CountedCall { throttle: Arc::clone(self), action, ends: window.ends, counts: false }))
    }

    fn of(&self, action: Action) -> (i64, &Mutex<LimitInterval>) {
        match action {
            Action::Consume => (self.limit.read, &self.reads),
            Action::Produce => (self.limit.write, &self.writes),
        }
    }
}

impl CountedCall {
    /// It has succeeded.
    pub(crate) fn counts(mut self) {
        self.counts = true;
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        if self.counts {
            return;
        }
        let mut window = locked(self.throttle.of(self.action).1);
        if window.ends == self.ends {
            window.calls -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle() -> Arc<Throttle> {
        Arc::new(Throttle::new(Limit { read: 0, write: 2, interval: 10 }))
    }

    /// Publishes, successfully.
    fn publish(throttle: &Arc<Throttle>, now: i64) -> Result<(), Reached> {
        let taken = throttle.take(Action::Produce, Timestamp(now))?;
        taken.expect("there is a limit").counts();
        Ok(())
    }

    #[test]
    fn an_interval_begins_with_its_first_call() {
        let throttle = throttle();
        for (now, expect) in
            [(5_000, Ok(())), (14_000, Ok(())), (14_999, Err(Reached)), (15_000, Ok(())), (20_000, Ok(()))]
        {
            assert_eq!(publish(&throttle, now), expect, "at {now}");
        }
        assert_eq!(publish(&throttle, 24_999), Err(Reached));
    }

    #[test]
    fn only_what_succeeds_counts() {
        let throttle = throttle();
        for _ in 0..5 {
            drop(throttle.take(Action::Produce, Timestamp(0)));
        }
        assert_eq!([publish(&throttle, 1), publish(&throttle, 1)], [Ok(()), Ok(())]);
        let under_way = throttle.take(Action::Produce, Timestamp(10_000));
        assert!(matches!(under_way, Ok(Some(_))));
        assert_eq!([publish(&throttle, 10_001), publish(&throttle, 10_001)], [Ok(()), Err(Reached)]);
        drop(under_way);
        assert_eq!(publish(&throttle, 10_002), Ok(()));
    }

    #[test]
    fn a_failure_does_not_count_against_the_next_interval() {
        let throttle = throttle();
        let under_way = throttle.take(Action::Produce, Timestamp(0));
        assert_eq!([publish(&throttle, 10_000), publish(&throttle, 10_000)], [Ok(()), Ok(())]);
        drop(under_way);
        assert_eq!(publish(&throttle, 10_001), Err(Reached));
    }

    #[test]
    fn zero_is_no_limit() {
        let throttle = throttle();
        for _ in 0..5 {
            assert!(matches!(throttle.take(Action::Consume, Timestamp(0)), Ok(None)));
        }
    }
}
