//! Jobs that come again: the next run is made when the present one ends, and missed ones fold into
//! one.

use base::Timestamp;
use records::{JobClock, JobId, Recurrence, RecurrenceRule};

use crate::clocks::ClockTimes;

/// Knows when a job of [`RecurrenceRule::Calendar`] is due again.
pub trait Calendar {
    /// When the run after the one that was due at `after` is due, by the wall clock, which shows
    /// `now`. That is the latest time in (`after`, `now`] if there is one, otherwise the first
    /// after `now`. `None` ends the schedule. Always after `after`.
    fn next(&mut self, job: JobId, after: Timestamp, now: Timestamp) -> Option<Timestamp>;
}

/// The calendar of who has no jobs that go by one: what went by it would end.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCalendar;

impl Calendar for NoCalendar {
    fn next(&mut self, _: JobId, _: Timestamp, _: Timestamp) -> Option<Timestamp> {
        None
    }
}

/// Whether another run follows the present one.
pub(crate) fn comes_again(recurrence: &Recurrence) -> bool {
    recurrence.left.is_none_or(|left| left > 1)
}

/// When the run after the one that was due at `run_at` of a clock is due, and by which clock.
/// `None` ends the schedule.
pub(crate) fn next_run(
    recurrence: &Recurrence,
    (job, run_at, clock): (JobId, Timestamp, JobClock),
    time: ClockTimes,
    calendar: &mut dyn Calendar,
) -> Option<(Timestamp, JobClock)> {
    if !comes_again(recurrence) {
        return None;
    }
    let (next, clock) = match recurrence.rule {
        RecurrenceRule::Every(ms) => (next_of_every(ms, run_at, time.on(clock)), clock),
        RecurrenceRule::Calendar => (calendar.next(job, run_at, time.wall)?, JobClock::Wall),
    };
    debug_assert!(next > run_at, "a schedule goes on");
    Some((next, clock))
}

/// The latest multiple of the interval that has passed, or the next one.
fn next_of_every(interval_ms: u64, run_at: Timestamp, now: Timestamp) -> Timestamp {
    let interval = interval_ms.max(1);
    let passed = u64::try_from(now.0.saturating_sub(run_at.0)).unwrap_or(0);
    let intervals = (passed / interval).max(1);
    Timestamp(run_at.0.saturating_add_unsigned(intervals.saturating_mul(interval)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_times_fold_into_the_latest() {
        // (interval, due at, now, next)
        let rows = [
            (10, 100, 100, 110),
            (10, 100, 109, 110),
            (10, 100, 110, 110),
            (10, 100, 119, 110),
            (10, 100, 120, 120),
            (10, 100, 1_234, 1_230),
            (10, 100, 50, 110),
            (0, 100, 50, 101),
            (u64::MAX, 100, 50, i64::MAX),
        ];
        for (interval, run_at, now, next) in rows {
            let got = next_of_every(interval, Timestamp(run_at), Timestamp(now));
            assert_eq!(got, Timestamp(next), "every {interval} after {run_at} at {now}");
        }
    }
}
