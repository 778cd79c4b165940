//! A calendar for engine and model: every seventieth second of the wall clock, or millisecond, as
//! the test's time goes. Now and then it ends.

use base::Timestamp;
use jobs::Calendar;
use records::JobId;

/// The calendar.
pub(crate) struct Sevens;

const PERIOD_MS: i64 = 70;

impl Calendar for Sevens {
    fn next(&mut self, _: JobId, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let latest = now.0.div_euclid(PERIOD_MS) * PERIOD_MS;
        let is_missed = latest > after.0;
        let first = (after.0.max(now.0).div_euclid(PERIOD_MS) + 1) * PERIOD_MS;
        let next = if is_missed { latest } else { first };
        (next.div_euclid(PERIOD_MS) % 11 != 0).then_some(Timestamp(next))
    }
}
