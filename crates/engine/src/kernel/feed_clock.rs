//! The order of feeds that span partitions: what a reader has passed by, nothing is added to any more.
//!
//! An event is stamped with the engine clock when it is made and shown when it is durable, so two partitions may show theirs in
//! another order than that of their stamps. Therefore a feed ends before the oldest stamp that is still being written,
//! and a reader pushes all later stamps behind what it has read. Stamps run ahead of the clock by at most
//! [`AHEAD_MS_MAX`]; nothing but the keys of events and deliveries uses them.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use base::Timestamp;

/// How far stamps may run ahead of the clock, in milliseconds: so many reads of fresh writes in a millisecond are served.
const AHEAD_MS_MAX: i64 = 5;

/// How far of that writes alone push stamps; the rest is left to readers.
const WRITES_AHEAD_MS_MAX: i64 = 2;

/// The stamps of events and deliveries, over all partitions.
#[derive(Debug, Default)]
pub(crate) struct FeedClock {
    /// The latest stamp given.
    latest: AtomicI64,
    /// No stamp is earlier than this from now on.
    floor: AtomicI64,
}

/// A partition's own place in the order: from when on it may still be writing.
#[derive(Debug)]
pub(crate) struct WritingSince(AtomicI64);

impl WritingSince {
    pub(crate) fn nothing() -> Self {
        Self(AtomicI64::new(i64::MAX))
    }

    pub(crate) fn set(&self, since: Timestamp) {
        self.0.store(since.0, SeqCst);
    }

    pub(crate) fn get(&self) -> Timestamp {
        Timestamp(self.0.load(SeqCst))
    }
}

impl FeedClock {
    /// The stamp of a step at `now`, behind the partition's last one, so that what it wrote before is shown while it writes on.
    /// The partition must have said since when it is writing, before.
    pub(crate) fn stamp(&self, now: Timestamp, last: Timestamp) -> Timestamp {
        let behind_last = (last.0 + 1).min(now.0 + WRITES_AHEAD_MS_MAX);
        let stamp = now.0.max(self.floor.load(SeqCst)).max(behind_last);
        self.latest.fetch_max(stamp, SeqCst);
        Timestamp(stamp)
    }

    /// A partition stamped with this: over stored data it may be ahead of what it was given.
    pub(crate) fn note(&self, stamp: Timestamp) {
        self.latest.fetch_max(stamp.0, SeqCst);
    }

    /// The latest stamp that was given.
    pub(crate) fn latest(&self) -> Timestamp {
        Timestamp(self.latest.load(SeqCst))
    }

    /// Where a feed that is read at `now` ends, exclusive. Whatever is stamped from here on is not before it.
    pub(crate) fn horizon<'a>(
        &self,
        now: Timestamp,
        partitions: impl Iterator<Item = &'a WritingSince>,
    ) -> Timestamp {
        let wanted = self.latest.load(SeqCst).max(now.0) + 1;
        let end = wanted.min(now.0 + AHEAD_MS_MAX);
        self.floor.fetch_max(end, SeqCst);
        partitions.map(WritingSince::get).fold(Timestamp(end), Timestamp::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_written_is_shown_and_nothing_comes_before_it_later() {
        let (clock, idle) = (FeedClock::default(), WritingSince::nothing());
        let mut last_end = Timestamp(0);
        for _ in 0..AHEAD_MS_MAX {
            let stamp = clock.stamp(Timestamp(100), Timestamp(0));
            assert!(stamp >= last_end, "it would be missed by a reader who has passed");
            last_end = clock.horizon(Timestamp(100), [&idle].into_iter());
            assert!(stamp < last_end, "it is not shown");
        }
        assert_eq!(last_end, Timestamp(100 + AHEAD_MS_MAX));
    }

    #[test]
    fn stamps_do_not_run_away_from_the_clock() {
        let (clock, idle) = (FeedClock::default(), WritingSince::nothing());
        for _ in 0..1_000 {
            clock.stamp(Timestamp(100), Timestamp(0));
            clock.horizon(Timestamp(100), [&idle].into_iter());
        }
        assert!(clock.stamp(Timestamp(100), Timestamp(0)).0 <= 100 + AHEAD_MS_MAX);
    }

    #[test]
    fn what_a_partition_wrote_is_shown_while_it_writes_on() {
        let (clock, busy) = (FeedClock::default(), WritingSince::nothing());
        let first = clock.stamp(Timestamp(100), Timestamp(0));
        busy.set(clock.stamp(Timestamp(100), first));
        assert!(first < clock.horizon(Timestamp(100), [&busy].into_iter()));
    }

    #[test]
    fn a_feed_ends_where_a_partition_is_still_writing() {
        let (clock, busy, idle) = (FeedClock::default(), WritingSince::nothing(), WritingSince::nothing());
        busy.set(Timestamp(90));
        assert_eq!(clock.horizon(Timestamp(100), [&idle, &busy].into_iter()), Timestamp(90));
    }
}
