//! The order of feeds that span partitions: nothing is added before a place that a reader has read.
//!
//! An entry is stamped with the engine clock when it is made, and shown when it is durable. So two
//! partitions may show theirs in another order than that of their stamps. Therefore a feed ends
//! before the oldest stamp that is still being written. A reader pushes all later stamps behind
//! what it has read. Stamps run ahead of the clock by at most [`AHEAD_MS_MAX`]; nothing but the
//! keys of entries uses them.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};

use base::Timestamp;
use tokio::sync::Notify;

/// How far stamps may run ahead of the clock, in milliseconds: so many reads of fresh writes in a
/// millisecond are served.
const AHEAD_MS_MAX: i64 = 5;

/// How far of that writes alone push stamps; the rest is left to readers.
const WRITES_AHEAD_MS_MAX: i64 = 2;

/// The stamps of the entries of feeds, over all partitions.
#[derive(Debug, Default)]
pub(crate) struct FeedClock {
    /// The latest stamp given.
    latest: AtomicI64,
    /// The latest stamp of what is durable: whoever made it may have been answered.
    durable: AtomicI64,
    /// No stamp is earlier than this from now on.
    floor: AtomicI64,
    /// The latest end of a feed that was given. Nothing that is not shown is stamped before it.
    shown: AtomicI64,
    /// Readers that wait for a partition to have written.
    waiting: AtomicUsize,
    written: Notify,
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
    /// The stamp of a step at `now`, behind the partition's last one, so that what it wrote before
    /// is shown while it writes on. The partition must have said since when it is writing, before.
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

    /// A batch with this stamp is durable. To be called before anybody is answered.
    pub(crate) fn note_durable(&self, stamp: Timestamp) {
        self.durable.fetch_max(stamp.0, SeqCst);
    }

    /// The latest stamp of what is durable.
    pub(crate) fn durable(&self) -> Timestamp {
        Timestamp(self.durable.load(SeqCst))
    }

    /// A partition is no longer writing what it was: feeds may end later. It has said so in its
    /// place, before.
    pub(crate) fn has_written(&self) {
        if self.waiting.load(SeqCst) > 0 {
            self.written.notify_waiters();
        }
    }

    /// Returns when `is_shown`, which is asked at first and whenever a partition has written.
    pub(crate) async fn wait_for(&self, is_shown: impl Fn() -> bool) {
        // Counted before it asks: whoever writes after that sees it waiting.
        let _waiting = WaitingReader::among(&self.waiting);
        loop {
            let written = self.written.notified();
            tokio::pin!(written);
            written.as_mut().enable();
            if is_shown() {
                return;
            }
            written.await;
        }
    }

    /// The time of the clock from which on a feed may show what has this stamp.
    pub(crate) fn shown_from(stamp: Timestamp) -> Timestamp {
        Timestamp(stamp.0.saturating_add(1 - AHEAD_MS_MAX))
    }

    /// Where a feed that is read at `now` ends, exclusive. Whatever is stamped from here on is not
    /// before it.
    pub(crate) fn horizon<'a>(
        &self,
        now: Timestamp,
        partitions: impl Iterator<Item = &'a WritingSince>,
    ) -> Timestamp {
        let wanted = self.latest.load(SeqCst).max(now.0) + 1;
        let end = wanted.min(now.0 + AHEAD_MS_MAX);
        self.floor.fetch_max(end, SeqCst);
        // A partition that begins a step says that it writes since now, before it has its stamp.
        let end = partitions.map(WritingSince::get).fold(Timestamp(end), Timestamp::min);
        Timestamp(self.shown.fetch_max(end.0, SeqCst)).max(end)
    }
}

/// One reader that waits, until it is dropped.
struct WaitingReader<'a>(&'a AtomicUsize);

impl<'a> WaitingReader<'a> {
    fn among(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count)
    }
}

impl Drop for WaitingReader<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

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

    #[tokio::test]
    async fn whoever_waits_for_a_stamp_wakes_when_the_partition_has_written_it() {
        let (clock, busy) = (Arc::new(FeedClock::default()), Arc::new(WritingSince::nothing()));
        let stamp = clock.stamp(Timestamp(100), Timestamp(0));
        busy.set(stamp);
        let waiting = tokio::spawn({
            let (clock, busy) = (Arc::clone(&clock), Arc::clone(&busy));
            let shown = {
                let clock = Arc::clone(&clock);
                move || clock.horizon(Timestamp(100), [&*busy].into_iter()) > stamp
            };
            async move { clock.wait_for(shown).await }
        });
        while clock.waiting.load(SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        clock.has_written();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "it is still being written");
        busy.set(Timestamp::MAX);
        clock.has_written();
        let woken = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        assert!(woken.is_ok_and(|ended| ended.is_ok()), "it waits on");
        assert_eq!(clock.waiting.load(SeqCst), 0);
    }

    #[test]
    fn a_stamp_is_shown_from_the_time_on_that_is_told() {
        let (clock, idle) = (FeedClock::default(), WritingSince::nothing());
        clock.note(Timestamp(200));
        let from = FeedClock::shown_from(Timestamp(200));
        let end = |now: i64| clock.horizon(Timestamp(now), [&idle].into_iter());
        assert!(end(from.0 - 1) <= Timestamp(200) && end(from.0) > Timestamp(200));
    }

    #[test]
    fn a_feed_ends_where_a_partition_is_still_writing() {
        let (clock, busy, idle) = (FeedClock::default(), WritingSince::nothing(), WritingSince::nothing());
        busy.set(Timestamp(90));
        assert_eq!(clock.horizon(Timestamp(100), [&idle, &busy].into_iter()), Timestamp(90));
    }
}
