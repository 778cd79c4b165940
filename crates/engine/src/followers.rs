//! Followers wait at the end of a feed, and wake when a durable batch may concern them.
//!
//! A partition does not know what a feed shows. So a follower names roughly what it waits for, and
//! reads the feed again when it wakes. Without followers a batch costs one load of a counter.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{PartitionId, Problem, Timestamp};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use records::{Batch, DeviceSlot, Op};
use tokio::sync::Notify;

use crate::Engine;

/// Followers at the same time. Each batch with something for any of them looks at all.
const FOLLOWERS_MAX: usize = 1_024;

/// What a follower waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Of which feed.
    pub feed: FollowedFeed,
    /// Of one device only.
    pub device: Option<(PartitionId, DeviceSlot)>,
}

/// A feed that can be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowedFeed {
    /// Events.
    Events,
    /// Notifications that are made.
    Deliveries,
    /// Notifications that are made, or come to stand elsewhere.
    DeliveriesByStatus,
    /// Readings.
    Readings,
    /// Refused reports.
    Quarantine,
    /// Commands that are given.
    Commands,
    /// Commands that are given, or come to stand elsewhere.
    CommandsByStatus,
    /// The timeline of a device.
    Timeline,
    /// Notices.
    Notices,
}

/// The feeds that a batch adds to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FeedSet(u16);

impl FeedSet {
    const EVENTS: Self = Self(1);
    const DELIVERIES: Self = Self(1 << 1);
    const PROGRESS: Self = Self(1 << 2);
    const READINGS: Self = Self(1 << 3);
    const QUARANTINE: Self = Self(1 << 4);
    const COMMANDS: Self = Self(1 << 5);
    const COMMAND_STATES: Self = Self(1 << 6);
    const TIMELINE: Self = Self(1 << 7);
    const NOTICES: Self = Self(1 << 9);
    /// Whose batches do not say of which device it is.
    const OF_NO_DEVICE: Self = Self(Self::PROGRESS.0 | Self::COMMAND_STATES.0);

    fn of(feed: FollowedFeed) -> Self {
        match feed {
            FollowedFeed::Events => Self::EVENTS,
            FollowedFeed::Deliveries => Self::DELIVERIES,
            FollowedFeed::DeliveriesByStatus => Self(Self::DELIVERIES.0 | Self::PROGRESS.0),
            FollowedFeed::Readings => Self::READINGS,
            FollowedFeed::Quarantine => Self::QUARANTINE,
            FollowedFeed::Commands => Self::COMMANDS,
            FollowedFeed::CommandsByStatus => Self(Self::COMMANDS.0 | Self::COMMAND_STATES.0),
            FollowedFeed::Timeline => Self(Self::EVENTS.0 | Self::TIMELINE.0),
            FollowedFeed::Notices => Self::NOTICES,
        }
    }

    fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What a batch has for followers.
#[derive(Debug)]
pub struct News {
    partition: PartitionId,
    stamp: Timestamp,
    feeds: FeedSet,
    /// In order. A delivery or a command that comes to stand elsewhere does not say whose it is.
    slots: Vec<DeviceSlot>,
}

impl News {
    fn of(partition: PartitionId, batch: &Batch) -> Self {
        let mut news =
            Self { partition, stamp: batch.head.stamp, feeds: FeedSet::default(), slots: Vec::new() };
        for op in &batch.ops {
            let (feeds, slot) = match op {
                Op::Sign(sign) if sign.reading.is_some() => (FeedSet::READINGS, Some(sign.slot)),
                Op::PutEvent(event) => (FeedSet::EVENTS, Some(event.slot)),
                Op::PutDelivery(delivery) => (FeedSet::DELIVERIES, Some(delivery.slot)),
                Op::PutProgress(..) => (FeedSet::PROGRESS, None),
                Op::PutQuarantined(_) => (FeedSet::QUARANTINE, None),
                Op::PutCommand(command) => (FeedSet::COMMANDS, Some(command.slot)),
                Op::PutCommandState(..) => (FeedSet::COMMAND_STATES, None),
                Op::PutTimelineEntry(entry) => (FeedSet::TIMELINE, Some(entry.slot)),
                _ => continue,
            };
            news.feeds.0 |= feeds.0;
            news.slots.extend(slot);
        }
        news.slots.sort_unstable();
        news.slots.dedup();
        news
    }

    fn concerns(&self, followed: Followed) -> bool {
        let feeds = FeedSet::of(followed.feed);
        let is_of = |(partition, slot)| {
            let shared = FeedSet(feeds.0 & self.feeds.0);
            let of_any = shared.meets(FeedSet::OF_NO_DEVICE);
            partition == self.partition && (of_any || self.slots.binary_search(&slot).is_ok())
        };
        self.feeds.meets(feeds) && followed.device.is_none_or(is_of)
    }
}

/// All who follow.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    count: AtomicUsize,
    table: Mutex<FollowerTable>,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct FollowerTable {
    followers: HashMap<u64, (Followed, Arc<Ear>)>,
    came: u64,
}

/// Where a follower is told.
#[derive(Debug)]
struct Ear {
    notify: Notify,
    /// The latest stamp among what it was told of.
    stamp: AtomicI64,
}

impl Ear {
    fn tell(&self, stamp: Timestamp) {
        self.stamp.fetch_max(stamp.0, Ordering::Relaxed);
        self.notify.notify_one();
    }
}

impl Followers {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Callers that wait at the end of a feed";
        registry.register("fieldpost_engine_followers", help, self.gauge.clone());
    }

    /// What a batch will have for followers; `None` while there are none, when nobody looks.
    pub(crate) fn news(&self, partition: PartitionId, batch: &Batch) -> Option<News> {
        (self.count.load(Ordering::SeqCst) > 0).then(|| News::of(partition, batch))
    }

    /// A batch with that stamp is durable. Without `news` it may concern every follower.
    pub(crate) fn tell(&self, stamp: Timestamp, news: Option<&News>) {
        if self.count.load(Ordering::SeqCst) == 0 || news.is_some_and(|news| news.feeds == FeedSet::default())
        {
            return;
        }
        let table = self.table();
        for (followed, ear) in table.followers.values() {
            if news.is_none_or(|news| news.concerns(*followed)) {
                ear.tell(news.map_or(stamp, |news| news.stamp));
            }
        }
    }

    /// There is a notice, and it is durable. It has no stamp that other feeds know.
    pub(crate) fn tell_of_notices(&self) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let follows = |followed: &Followed| FeedSet::of(followed.feed).meets(FeedSet::NOTICES);
        let table = self.table();
        table.followers.values().filter(|(followed, _)| follows(followed)).for_each(|(_, ear)| {
            ear.notify.notify_one();
        });
    }

    fn add(&self, followed: Followed) -> Option<(u64, Arc<Ear>)> {
        let mut table = self.table();
        if table.followers.len() >= FOLLOWERS_MAX {
            return None;
        }
        table.came += 1;
        let number = table.came;
        let ear = Arc::new(Ear { notify: Notify::new(), stamp: AtomicI64::new(i64::MIN) });
        table.followers.insert(number, (followed, Arc::clone(&ear)));
        self.note(&table);
        Some((number, ear))
    }

    fn remove(&self, number: u64) {
        let mut table = self.table();
        table.followers.remove(&number);
        self.note(&table);
    }

    fn note(&self, table: &FollowerTable) {
        self.count.store(table.followers.len(), Ordering::SeqCst);
        self.gauge.set(table.followers.len() as i64);
    }

    fn table(&self) -> MutexGuard<'_, FollowerTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered follower, until it is dropped. It wakes once at first, for earlier batches.
#[derive(Debug)]
pub struct Follower {
    engine: Engine,
    number: u64,
    ear: Arc<Ear>,
}

impl Follower {
    /// Resolves when the feed may show something that it did not show before.
    pub async fn news(&self) {
        self.ear.notify.notified().await;
        // Feeds end before what other partitions are still writing: once they have written it, this
        // is shown.
        let stamp = Timestamp(self.ear.stamp.load(Ordering::Relaxed));
        self.engine.shown(stamp).await;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.engine.followers().remove(self.number);
    }
}

impl Engine {
    /// Follows a feed from here on.
    ///
    /// # Errors
    /// 503 `too_many_waiting`.
    pub fn follow(&self, followed: Followed) -> Result<Follower, Problem> {
        let Some((number, ear)) = self.followers().add(followed) else {
            let detail =
                format!("{FOLLOWERS_MAX} callers wait at the ends of feeds already; ask without wait");
            return Err(Problem::new(503, "too_many_waiting", detail));
        };
        // What is durable already may not be shown yet.
        ear.tell(self.latest_stamp());
        Ok(Follower { engine: self.clone(), number, ear })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(feeds: FeedSet, slots: &[u32]) -> News {
        let slots = slots.iter().copied().map(DeviceSlot).collect();
        News { partition: PartitionId(1), stamp: Timestamp(5), feeds, slots }
    }

    #[test]
    fn a_batch_concerns_who_waits_for_what_is_in_it() {
        let followed = |feed, device: Option<(u16, u32)>| Followed {
            feed,
            device: device.map(|(partition, slot)| (PartitionId(partition), DeviceSlot(slot))),
        };
        for (feed, device, news, expect) in [
            (FollowedFeed::Events, None, news(FeedSet::EVENTS, &[7]), true),
            (FollowedFeed::Events, Some((1, 7)), news(FeedSet::EVENTS, &[3, 7]), true),
            (FollowedFeed::Events, Some((1, 8)), news(FeedSet::EVENTS, &[3, 7]), false),
            (FollowedFeed::Events, Some((2, 7)), news(FeedSet::EVENTS, &[7]), false),
            (FollowedFeed::Events, None, news(FeedSet::DELIVERIES, &[7]), false),
            (FollowedFeed::Deliveries, None, news(FeedSet::PROGRESS, &[]), false),
            (FollowedFeed::DeliveriesByStatus, None, news(FeedSet::PROGRESS, &[]), true),
            (FollowedFeed::DeliveriesByStatus, Some((1, 7)), news(FeedSet::PROGRESS, &[]), true),
            (FollowedFeed::Readings, Some((1, 7)), news(FeedSet::READINGS, &[7]), true),
            (FollowedFeed::Quarantine, None, news(FeedSet::QUARANTINE, &[]), true),
            (FollowedFeed::Commands, Some((1, 7)), news(FeedSet::COMMANDS, &[7]), true),
            (FollowedFeed::Commands, Some((1, 7)), news(FeedSet::COMMAND_STATES, &[]), false),
            (FollowedFeed::CommandsByStatus, Some((1, 7)), news(FeedSet::COMMAND_STATES, &[]), true),
            (FollowedFeed::Timeline, Some((1, 7)), news(FeedSet::TIMELINE, &[7]), true),
            (FollowedFeed::Timeline, Some((1, 7)), news(FeedSet::EVENTS, &[7]), true),
            (FollowedFeed::Timeline, Some((1, 7)), news(FeedSet::TIMELINE, &[8]), false),
        ] {
            assert_eq!(news.concerns(followed(feed, device)), expect, "{feed:?} {device:?} {news:?}");
        }
    }

    #[test]
    fn there_are_so_many_followers_at_most() {
        let followers = Followers::default();
        let followed = Followed { feed: FollowedFeed::Events, device: None };
        let numbers: Vec<_> = (0..FOLLOWERS_MAX).filter_map(|_| followers.add(followed)).collect();
        assert_eq!((numbers.len(), followers.gauge.get()), (FOLLOWERS_MAX, FOLLOWERS_MAX as i64));
        assert!(followers.add(followed).is_none());
        numbers.iter().for_each(|(number, _)| followers.remove(*number));
        assert_eq!((followers.gauge.get(), followers.count.load(Ordering::SeqCst)), (0, 0));
    }
}
