//! Jobs that come again: the next run is made when the present one ends, and missed ones fold into one.

use base::Timestamp;
use records::{JobClock, JobId, Recurrence, Rule};

use crate::entry::Entry;
use crate::jobs::Jobs;
use crate::slab::Handle;
use crate::step::StepContext;

/// Knows when a job of [`Rule::Calendar`] is due again.
pub trait Calendar {
    /// When the run after the one that was due at `after` is due, by the wall clock, which shows `now`: the latest time in
    /// (`after`, `now`] if there is one, otherwise the first after `now`. `None` ends the schedule. Always after `after`.
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

impl Jobs {
    /// Ends a run of a recurring job and has the next one wait; answers when that is due. `None`, and nothing is changed, if
    /// the job does not come again.
    pub(crate) fn recur(&mut self, job: Handle<Entry>, step: &mut StepContext<'_>) -> Option<Timestamp> {
        let recurrence = self.table.recurrence(job)?;
        if recurrence.left.is_some_and(|left| left <= 1) {
            return None;
        }
        let Entry { id, run_at, clock, .. } = self.table[job];
        let (clock, next) = match recurrence.rule {
            Rule::Every(ms) => (clock, next_of_every(ms, run_at, step.time.on(clock))),
            Rule::Calendar => (JobClock::Wall, step.calendar.next(id, run_at, step.time.wall)?),
        };
        debug_assert!(next > run_at, "a schedule goes on");
        let (number, on_engine) = (self.numbers.take_job(), step.time.convert(next, clock, JobClock::Engine));
        self.update(job, step, |table| {
            let entry = &mut table[job];
            (entry.clock, entry.run_at, entry.visible_at) = (clock, next, next);
            (entry.number, entry.attempt) = (number, 0);
            let left = recurrence.left.map(|left| left - 1);
            table.set_recurrence(job, Recurrence { left, run: recurrence.run + 1, ..recurrence });
            table.set_ttl_from(job, on_engine);
        });
        Some(next)
    }
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
