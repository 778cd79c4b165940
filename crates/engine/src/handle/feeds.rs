//! Where feeds that span partitions end.

use std::time::Duration;

use base::Timestamp;
use store::Page;
use tokio::time::timeout;

use super::Engine;
use crate::kernel::feed_clock::FeedClock;

/// How long a page of a feed waits for what is still being written.
const FEED_WAIT_MAX: Duration = Duration::from_millis(100);
/// Pages that do so at a time; each is woken by every batch.
pub(super) const FEED_WAITERS_MAX: usize = 256;

impl Engine {
    /// Where a feed that is read now ends, exclusive: nothing comes to be shown before that time.
    #[must_use]
    pub fn feed_end(&self) -> Timestamp {
        let writing = self.shared.partitions.iter().map(|partition| &*partition.writing_since);
        self.shared.context.kernel.feed_clock().horizon(self.clock().now(), writing)
    }

    /// Returns when feeds show what has this stamp.
    pub(crate) async fn shown(&self, stamp: Timestamp) {
        let from = FeedClock::shown_from(stamp);
        if self.clock().now() < from {
            self.until(from).await;
        }
        self.shared.context.kernel.feed_clock().wait_for(|| self.feed_end() > stamp).await;
    }

    /// Waits until feeds show all that is durable by now: callers were answered about that. Only a
    /// page that comes to the end waits. It waits for an older batch of another partition, or for
    /// the clock to reach the stamps. It waits for [`FEED_WAIT_MAX`] at most, and not at all where
    /// [`FEED_WAITERS_MAX`] do.
    pub async fn feed_caught_up<K>(&self, page: &Page<K>) {
        let goes_on_backwards = !page.ascending && page.after.is_some();
        let (durable, end) = (self.shared.context.kernel.feed_clock().durable(), self.feed_end());
        if goes_on_backwards || page.to <= end || durable < end {
            return;
        }
        let Ok(_place) = self.shared.feed_waiters.try_acquire() else { return };
        let _slow_disk = timeout(FEED_WAIT_MAX, self.shown(durable)).await;
    }

    /// Behind everything that is durable.
    pub(crate) fn latest_stamp(&self) -> Timestamp {
        self.shared.context.kernel.feed_clock().latest()
    }
}
