//! Followers wait at the end of a feed, and wake when a durable batch may concern them.
//!
//! A partition does not know what a feed shows. So a follower names roughly what it waits for, and
//! reads the feed again when it wakes. Without followers a batch costs one load of a counter, with
//! them a look-up of what it names in [`index`]. What follows several things at once is in
//! [`live`].

pub mod campaigns;
mod index;
pub mod live;
pub mod registry;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::{Incarnation, PartitionId, Problem, Timestamp};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use records::{Batch, DeviceSlot, Op};
use tokio::sync::Notify;

use crate::Engine;
use index::FollowerIndex;
use live::{LIVE_MAX, Touched, WatchTarget};
use registry::RegistryUpdate;

/// Callers that follow a single feed, at the same time.
const FOLLOWERS_MAX: usize = 1_024;

/// What a follower waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Of which feed.
    pub feed: FollowedFeed,
    /// Of one device only.
    pub device: Option<(PartitionId, DeviceSlot)>,
}

impl Followed {
    /// What there will never be anything of: who follows it has a place, and waits in vain.
    pub const NOTHING: Self = Self { feed: FollowedFeed::TaskResults(Incarnation(u64::MAX)), device: None };
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
    /// What came of the picks of a task.
    TaskResults(Incarnation),
    /// What came of the picks of a campaign.
    CampaignResults(Incarnation),
}

/// The feeds that a batch adds to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct FeedSet(u16);

impl FeedSet {
    const BITS: usize = u16::BITS as usize;
    const EVENTS: Self = Self(1);
    const DELIVERIES: Self = Self(1 << 1);
    const PROGRESS: Self = Self(1 << 2);
    const READINGS: Self = Self(1 << 3);
    const QUARANTINE: Self = Self(1 << 4);
    const COMMANDS: Self = Self(1 << 5);
    const COMMAND_STATES: Self = Self(1 << 6);
    const TIMELINE: Self = Self(1 << 7);
    /// No feed: devices as they are.
    const DEVICES: Self = Self(1 << 8);
    const NOTICES: Self = Self(1 << 9);
    /// No feed: whoever waits for something of a device is told that it is deleted.
    const GONE: Self = Self(1 << 10);
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
            // Told of by a partition of their own.
            FollowedFeed::TaskResults(_) | FollowedFeed::CampaignResults(_) => Self::default(),
        }
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The feeds in it, each as a set of its own.
    fn each(self) -> impl Iterator<Item = Self> {
        (0..u16::BITS).map(|bit| Self(1 << bit)).filter(move |feed| feed.meets(self))
    }

    /// Of one feed, its number.
    fn bit(self) -> usize {
        self.0.trailing_zeros() as usize
    }
}

/// What a batch has for followers.
#[derive(Debug)]
pub struct FollowerUpdate {
    partition: PartitionId,
    stamp: Timestamp,
    /// Only what somebody followed then was looked for.
    looked_for: FeedSet,
    feeds: FeedSet,
    /// In order. A delivery or a command that comes to stand elsewhere does not say whose it is.
    slots: Vec<DeviceSlot>,
    /// When the oldest of the commands and notifications was made that come to stand elsewhere.
    moved_from: Timestamp,
}

impl FollowerUpdate {
    fn of(partition: PartitionId, batch: &Batch, looked_for: FeedSet) -> Self {
        let stamp = batch.head.stamp;
        let (feeds, slots, moved_from) = (FeedSet::default(), Vec::new(), Timestamp::MAX);
        let mut update = Self { partition, stamp, looked_for, feeds, slots, moved_from };
        for op in &batch.ops {
            let (feeds, slot) = match op {
                Op::Sign(sign) if sign.reading.is_some() => {
                    (FeedSet::READINGS.and(FeedSet::DEVICES), Some(sign.slot))
                }
                Op::Sign(sign) => (FeedSet::DEVICES, Some(sign.slot)),
                Op::PutState(slot, _) => (FeedSet::DEVICES, Some(*slot)),
                Op::DeleteDevice(_, slot) => (FeedSet::DEVICES.and(FeedSet::GONE), Some(*slot)),
                Op::PutDevice(device) => (FeedSet::DEVICES, Some(device.slot)),
                Op::PutDeviceSession(session) => (FeedSet::DEVICES, Some(session.slot)),
                Op::DeleteDeviceSession(slot) => (FeedSet::DEVICES, Some(*slot)),
                Op::PutEvent(event) => (FeedSet::EVENTS, Some(event.slot)),
                Op::PutDelivery(delivery) => (FeedSet::DELIVERIES, Some(delivery.slot)),
                Op::PutProgress(key, _) => {
                    update.moved_from = update.moved_from.min(key.at);
                    (FeedSet::PROGRESS, None)
                }
                Op::PutQuarantined(_) => (FeedSet::QUARANTINE, None),
                Op::PutCommand(command) => (FeedSet::COMMANDS, Some(command.slot)),
                Op::PutCommandState(key, _) => {
                    update.moved_from = update.moved_from.min(key.at);
                    (FeedSet::COMMAND_STATES, None)
                }
                Op::PutTimelineEntry(entry) => (FeedSet::TIMELINE, Some(entry.slot)),
                _ => continue,
            };
            if feeds.meets(looked_for) {
                update.feeds = update.feeds.and(feeds);
                update.slots.extend(slot);
            }
        }
        update.slots.sort_unstable();
        update.slots.dedup();
        update
    }
}

/// All who follow.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    count: AtomicUsize,
    /// Of them those who watch queues.
    watch_queues: AtomicUsize,
    /// Of them those who watch rows of the registry.
    watch_registry: AtomicUsize,
    /// The feeds that any of them follows.
    looked_for: AtomicU16,
    /// Whom a batch concerns.
    index: FollowerIndex,
    /// Locked when a follower comes or goes, and for a batch that was not looked through for it.
    table: Mutex<FollowerTable>,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct FollowerTable {
    followers: HashMap<u64, (Box<[WatchTarget]>, Arc<FollowerSignal>)>,
    came: u64,
    /// Of them those who follow several things.
    live: usize,
}

/// Where a follower is told.
#[derive(Debug)]
struct FollowerSignal {
    notify: Notify,
    /// Which of the things that it follows it was told of, a bit each.
    told: AtomicU32,
    /// The latest stamp among what it was told of, but for feeds that it follows as a whole.
    stamp: AtomicI64,
    /// Those. Their stamps are in the index, once for all who follow them.
    whole_feeds: FeedSet,
    /// When the oldest of the commands and notifications was made that came to stand elsewhere
    /// since it was last asked; of all at first.
    moved_from: AtomicI64,
    /// Which of its devices may have changed.
    touched: Mutex<Touched>,
}

impl FollowerSignal {
    fn new(watched: &[WatchTarget]) -> Self {
        let whole_feeds = watched.iter().filter(|watched| watched.is_whole_feed());
        Self {
            notify: Notify::new(),
            told: AtomicU32::new(0),
            stamp: AtomicI64::new(i64::MIN),
            whole_feeds: whole_feeds.fold(FeedSet::default(), |feeds, watched| feeds.and(watched.feeds())),
            moved_from: AtomicI64::new(i64::MIN),
            touched: Mutex::default(),
        }
    }

    /// What it is told of next has that stamp, or an earlier one.
    fn stamped(&self, stamp: Timestamp) {
        self.stamp.fetch_max(stamp.0, Ordering::SeqCst);
    }

    /// A command or a notification that was made then came to stand elsewhere. Said before the rest
    /// is told.
    fn moved(&self, from: Timestamp) {
        if from < Timestamp::MAX {
            self.moved_from.fetch_min(from.0, Ordering::SeqCst);
        }
    }

    /// Tells of the thing with that number. Who was told and has not looked yet is not woken again,
    /// and costs no more than a look. It takes what it was told of before it reads.
    fn tell(&self, number: usize) {
        let bit = 1 << number;
        let is_told = |told: u32| told & bit != 0;
        if !is_told(self.told.load(Ordering::SeqCst)) && !is_told(self.told.fetch_or(bit, Ordering::SeqCst)) {
            self.notify.notify_one();
        }
    }

    /// Resolves with what it was told of since the last time, among these things. Nothing is lost
    /// if this is given up.
    async fn changed(&self, awaited: u32) -> u32 {
        loop {
            match self.take(awaited) {
                0 => self.notify.notified().await,
                told => return told,
            }
        }
    }

    /// What it was told of since the last time, among these things.
    fn take(&self, things: u32) -> u32 {
        self.told.fetch_and(!things, Ordering::SeqCst) & things
    }
}

impl Followers {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Callers that wait at the end of a feed";
        registry.register("fieldpost_engine_followers", help, self.gauge.clone());
    }

    /// What a batch will have for followers; `None` while there are none, when nobody looks.
    pub(crate) fn update_of(&self, partition: PartitionId, batch: &Batch) -> Option<FollowerUpdate> {
        let looked_for = FeedSet(self.looked_for.load(Ordering::SeqCst));
        (self.count.load(Ordering::SeqCst) > 0).then(|| FollowerUpdate::of(partition, batch, looked_for))
    }

    /// A batch with that stamp is durable. Without `update` it may concern every follower.
    pub(crate) fn tell(&self, stamp: Timestamp, update: Option<&FollowerUpdate>) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let looked_for = FeedSet(self.looked_for.load(Ordering::SeqCst));
        if !update.is_some_and(|update| looked_for.is_within(update.looked_for)) {
            self.tell_of_unseen(update.map_or(stamp, |update| update.stamp), update);
        }
        if let Some(update) = update {
            self.index.tell(update);
        }
    }

    /// A batch was made before somebody followed what it may hold, and so was not looked through
    /// for that.
    fn tell_of_unseen(&self, stamp: Timestamp, update: Option<&FollowerUpdate>) {
        let looked_for = update.map_or(FeedSet::default(), |update| update.looked_for);
        for (watched, signal) in locked(&self.table).followers.values() {
            for (number, watched) in watched.iter().enumerate() {
                if watched.feeds().is_within(looked_for) {
                    continue;
                }
                if let WatchTarget::Devices(devices) = watched {
                    locked(&signal.touched).0.extend(devices.places());
                }
                signal.stamped(stamp);
                signal.moved(Timestamp(i64::MIN));
                signal.tell(number);
            }
        }
    }

    /// Queues of a partition may stand otherwise; without one, any.
    pub(crate) fn queues_changed(&self, partition: Option<PartitionId>) {
        if self.watch_queues.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(partition) = partition {
            return self.index.tell_of_queues(partition);
        }
        for (watched, signal) in locked(&self.table).followers.values() {
            for (number, watched) in watched.iter().enumerate() {
                if matches!(watched, WatchTarget::Queues(_)) {
                    signal.tell(number);
                }
            }
        }
    }

    /// What a batch of the registry will have for followers; `None` while nobody watches it.
    pub(crate) fn registry_update(&self, batch: &Batch) -> Option<RegistryUpdate> {
        (self.watch_registry.load(Ordering::SeqCst) > 0).then(|| RegistryUpdate::of(batch))
    }

    /// Rows of the registry have changed, and that is durable.
    pub(crate) fn registry_changed(&self, update: RegistryUpdate) {
        if !update.is_empty() && self.watch_registry.load(Ordering::SeqCst) > 0 {
            self.index.tell_of_rows(|rows| update.has(rows));
        }
    }

    /// There is a notice, and it is durable. It has no stamp that other feeds know.
    pub(crate) fn tell_of_notices(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.index.tell_of_feed(FeedSet::NOTICES);
        }
    }

    fn add(&self, followed: Followed) -> Option<(u64, Arc<FollowerSignal>)> {
        let mut table = locked(&self.table);
        if table.followers.len() - table.live >= FOLLOWERS_MAX {
            return None;
        }
        Some(self.enter(&mut table, Box::new([WatchTarget::Feed(followed)])))
    }

    fn add_live(&self, watched: Box<[WatchTarget]>) -> Option<(u64, Arc<FollowerSignal>)> {
        let mut table = locked(&self.table);
        if table.live >= LIVE_MAX {
            return None;
        }
        table.live += 1;
        Some(self.enter(&mut table, watched))
    }

    fn enter(&self, table: &mut FollowerTable, watched: Box<[WatchTarget]>) -> (u64, Arc<FollowerSignal>) {
        table.came += 1;
        let (number, signal) = (table.came, Arc::new(FollowerSignal::new(&watched)));
        for (thing, watched) in watched.iter().enumerate() {
            self.index.add(thing, watched, &signal);
        }
        table.followers.insert(number, (watched, Arc::clone(&signal)));
        self.note(table);
        (number, signal)
    }

    /// The follower follows this instead, and keeps its place.
    fn replace(&self, number: u64, followed: Followed) -> (u64, Arc<FollowerSignal>) {
        let mut table = locked(&self.table);
        self.leave(&mut table, number);
        self.enter(&mut table, Box::new([WatchTarget::Feed(followed)]))
    }

    fn remove(&self, number: u64) {
        self.leave(&mut locked(&self.table), number);
    }

    fn remove_live(&self, number: u64) {
        let mut table = locked(&self.table);
        table.live -= usize::from(table.followers.contains_key(&number));
        self.leave(&mut table, number);
    }

    fn leave(&self, table: &mut FollowerTable, number: u64) {
        if let Some((watched, signal)) = table.followers.remove(&number) {
            watched.iter().for_each(|watched| self.index.remove(watched, &signal));
        }
        self.note(table);
    }

    /// The latest stamp of what a follower was told of.
    fn stamp_of(&self, signal: &FollowerSignal) -> Timestamp {
        let own = Timestamp(signal.stamp.load(Ordering::SeqCst));
        own.max(self.index.stamp_of(signal.whole_feeds))
    }

    fn note(&self, table: &FollowerTable) {
        let watched = || table.followers.values().flat_map(|(watched, _)| watched);
        let feeds = watched().fold(FeedSet::default(), |feeds, watched| feeds.and(watched.feeds()));
        let queues = watched().filter(|watched| matches!(watched, WatchTarget::Queues(_))).count();
        let registry = watched().filter(|watched| matches!(watched, WatchTarget::Registry(_))).count();
        self.looked_for.store(feeds.0, Ordering::SeqCst);
        self.watch_queues.store(queues, Ordering::SeqCst);
        self.watch_registry.store(registry, Ordering::SeqCst);
        self.count.store(table.followers.len(), Ordering::SeqCst);
        self.gauge.set((table.followers.len() - table.live) as i64);
    }
}

/// A registered follower, until it is dropped. It wakes once at first, for earlier batches.
#[derive(Debug)]
pub struct Follower {
    engine: Engine,
    number: u64,
    signal: Arc<FollowerSignal>,
}

impl Follower {
    /// Follows another feed from here on, in the same place.
    pub fn follow_instead(&mut self, followed: Followed) {
        (self.number, self.signal) = self.engine.followers().replace(self.number, followed);
        self.look_again();
    }

    /// What is durable already may not be shown yet.
    fn look_again(&mut self) {
        self.signal.stamped(self.engine.latest_stamp());
        self.signal.tell(0);
    }

    /// Resolves when the feed may show something that it did not show before, and answers a time.
    /// Of the commands and notifications that were there, none made before that time has moved
    /// since the last call.
    pub async fn changed(&self) -> Timestamp {
        self.signal.changed(u32::MAX).await;
        let moved_from = Timestamp(self.signal.moved_from.swap(i64::MAX, Ordering::SeqCst));
        // Feeds show it once other partitions have written what they are still writing.
        self.engine.shown(self.engine.followers().stamp_of(&self.signal)).await;
        moved_from
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.engine.followers().remove(self.number);
    }
}

impl Engine {
    /// How many callers wait at the ends of feeds, and how many may.
    #[must_use]
    pub fn following(&self) -> (usize, usize) {
        (usize::try_from(self.followers().gauge.get()).unwrap_or(0), FOLLOWERS_MAX)
    }

    /// Follows a feed from here on.
    ///
    /// # Errors
    /// 503 `too_many_waiting`.
    pub fn follow(&self, followed: Followed) -> Result<Follower, Problem> {
        let Some((number, signal)) = self.followers().add(followed) else {
            let detail =
                format!("{FOLLOWERS_MAX} callers wait at the ends of feeds already; ask without wait");
            return Err(Problem::new(503, "too_many_waiting", detail));
        };
        let mut follower = Follower { engine: self.clone(), number, signal };
        follower.look_again();
        Ok(follower)
    }
}

#[cfg(test)]
mod tests;
