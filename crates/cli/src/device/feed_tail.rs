//! Following a feed from where it ends now: which items of the next look are new.
//!
//! A feed is ordered by time, and items may still come in shortly before the newest one. A device's
//! clock may be behind that of the server, or ahead of it. So every look begins a little before the
//! end, and what was there is counted by time. Items of one time keep their order, so those beyond
//! the count are the new ones.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Timestamp, time};

/// How far before its end a feed is looked at again.
const LOOK_BACK: Duration = Duration::from_secs(10);
/// So many different times are remembered; of a device with more in [`LOOK_BACK`], late items may
/// be missed.
const TIMES_MAX: usize = 10_000;

/// The end of a feed, as far as it has been followed.
#[derive(Debug, Default)]
pub(super) struct FeedTail {
    /// How many items of a time were there.
    counts: BTreeMap<Timestamp, u32>,
    /// Where the next look begins; `None` while the feed has been empty.
    from: Option<Timestamp>,
}

/// One look at the feed from [`FeedTail::from`] on, its items in order of time.
#[derive(Debug)]
pub(super) struct FeedScan<'a> {
    tail: &'a mut FeedTail,
    at: Option<(Timestamp, u32)>,
}

impl FeedTail {
    /// Begins at the end of a feed whose newest item has this time.
    pub(super) fn behind(newest: Option<Timestamp>) -> Self {
        Self { counts: BTreeMap::new(), from: newest.map(a_little_before) }
    }

    pub(super) fn from(&self) -> Option<Timestamp> {
        self.from
    }

    pub(super) fn look(&mut self) -> FeedScan<'_> {
        FeedScan { tail: self, at: None }
    }

    /// After a look: goes on behind what it gave, but not past `present`, before which new items
    /// may still appear.
    pub(super) fn go_on(&mut self, present: Option<Timestamp>) {
        let newest = self.counts.last_key_value().map(|(time, _)| *time);
        let end = newest.map(|newest| present.map_or(newest, |present| newest.min(present)));
        self.from = end.map(a_little_before).max(self.from);
        if let Some(from) = self.from {
            self.counts = self.counts.split_off(&from);
        }
        while self.counts.len() > TIMES_MAX {
            self.counts.pop_first();
            self.from = self.counts.first_key_value().map(|(time, _)| *time);
        }
    }
}

impl FeedScan<'_> {
    /// Whether the next item, which has this time, was not there before.
    pub(super) fn is_new(&mut self, time: Timestamp) -> bool {
        let nth = match self.at {
            Some((last, nth)) if last == time => nth + 1,
            _ => 1,
        };
        self.at = Some((time, nth));
        let count = self.tail.counts.entry(time).or_default();
        let is_new = nth > *count;
        *count = nth.max(*count);
        is_new
    }
}

fn a_little_before(moment: Timestamp) -> Timestamp {
    Timestamp(moment.0.saturating_sub(time::millis(LOOK_BACK)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000;

    /// Looks at a feed; the places of what is new in it.
    fn look(tail: &mut FeedTail, feed: &[i64], present: i64) -> Vec<usize> {
        let from = tail.from().unwrap_or(Timestamp(i64::MIN));
        let mut look = tail.look();
        let seen = feed.iter().enumerate().filter(|(_, time)| Timestamp(**time) >= from);
        let new = seen.filter(|(_, time)| look.is_new(Timestamp(**time))).map(|(place, _)| place).collect();
        tail.go_on(Some(Timestamp(present)));
        new
    }

    #[test]
    fn each_item_is_new_once() {
        let mut tail = FeedTail::behind(None);
        assert_eq!(look(&mut tail, &[], 0), [0; 0]);
        assert_eq!(look(&mut tail, &[1, 2], 2), [0, 1]);
        assert_eq!(look(&mut tail, &[1, 2], 2), [0; 0]);
        assert_eq!(look(&mut tail, &[1, 2, 2, 2], 2), [2, 3]);
        assert_eq!(look(&mut tail, &[1, 2, 2, 2, 3], 3), [4]);
    }

    #[test]
    fn what_was_there_at_the_beginning_is_known_after_one_look() {
        let feed = [SECOND, 99 * SECOND, 100 * SECOND];
        let mut tail = FeedTail::behind(Some(Timestamp(100 * SECOND)));
        assert_eq!(look(&mut tail, &feed, 100 * SECOND), [1, 2], "the look that makes it known");
        assert_eq!(look(&mut tail, &feed, 100 * SECOND), [0; 0]);
    }

    #[test]
    fn an_item_that_comes_in_a_little_late_is_not_missed() {
        let mut tail = FeedTail::behind(None);
        assert_eq!(look(&mut tail, &[100 * SECOND], 100 * SECOND), [0]);
        assert_eq!(look(&mut tail, &[95 * SECOND, 100 * SECOND], 100 * SECOND), [0]);
        assert_eq!(look(&mut tail, &[95 * SECOND, 100 * SECOND], 100 * SECOND), [0; 0]);
    }

    #[test]
    fn an_item_from_the_future_does_not_hide_those_of_the_present() {
        let mut tail = FeedTail::behind(None);
        assert_eq!(look(&mut tail, &[300 * SECOND], 0), [0]);
        assert_eq!(look(&mut tail, &[SECOND, 300 * SECOND], SECOND), [0]);
        assert_eq!(look(&mut tail, &[SECOND, 60 * SECOND, 300 * SECOND], 60 * SECOND), [1]);
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_new_twice() {
        let mut tail = FeedTail::behind(None);
        let feed: Vec<_> = (0..2 * TIMES_MAX as i64).collect();
        assert_eq!(look(&mut tail, &feed, i64::MAX).len(), feed.len());
        assert_eq!(tail.counts.len(), TIMES_MAX);
        assert_eq!(look(&mut tail, &feed, i64::MAX), [0; 0]);
    }
}
