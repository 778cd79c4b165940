//! From when on history is kept: whole UTC days, so that a partition moves its head once a day and
//! no more.

use std::time::Duration;

use base::Timestamp;
use records::{CountsKey, KeptFrom};

use crate::settings::RetentionLimits;

/// The start of the UTC day that lies `keep` before `now`.
fn start_of_kept(now: Timestamp, keep: Duration) -> Timestamp {
    let (day, _) = CountsKey::day_and_hour(now.before(keep));
    CountsKey::start_of(day)
}

/// From when on things are kept at `now`; never earlier than before.
pub(super) fn kept_from(now: Timestamp, keep: &RetentionLimits, before: KeptFrom) -> KeptFrom {
    KeptFrom {
        readings: start_of_kept(now, keep.readings).max(before.readings),
        events: start_of_kept(now, keep.events).max(before.events),
        deliveries: start_of_kept(now, keep.deliveries).max(before.deliveries),
    }
}

/// When a batch should move what is kept: now, where it lags behind, or when the next day is over.
pub(super) fn next_move(now: Timestamp, keep: &RetentionLimits, present: KeptFrom) -> Option<Timestamp> {
    if kept_from(now, keep, present) == present { next_change(now, keep) } else { Some(now) }
}

fn next_change(now: Timestamp, keep: &RetentionLimits) -> Option<Timestamp> {
    let next = |keep: Duration| {
        let (day, _) = CountsKey::day_and_hour(now.before(keep));
        CountsKey::start_of(day.saturating_add(1)).after(keep)
    };
    [keep.readings, keep.events, keep.deliveries].into_iter().map(next).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn whole_days_are_kept_and_none_comes_back() {
        let keep =
            RetentionLimits { readings: Duration::from_secs(2 * 86_400), ..RetentionLimits::default() };
        let now = Timestamp(1_000 * DAY_MS + 5);
        let kept = kept_from(now, &keep, KeptFrom::default());
        assert_eq!(kept.readings, Timestamp(998 * DAY_MS));
        assert_eq!(kept.events, Timestamp(600 * DAY_MS));
        assert_eq!(next_move(now, &keep, kept), Some(Timestamp(1_001 * DAY_MS)));
        let longer = RetentionLimits::default();
        assert_eq!(
            next_move(now, &keep, KeptFrom::default()),
            Some(now),
            "whoever missed the end of a day is late"
        );
        assert_eq!(kept_from(now, &longer, kept).readings, kept.readings, "what is gone does not come back");
    }
}
