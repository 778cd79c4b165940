//! Followers by what they wait for: a batch finds those that it may concern without a look at the
//! others.
//!
//! Whoever follows a whole feed is found by the feed, and whoever follows a device by the device.
//! The locks are parted by partition: a batch waits for no other partition, and only for a moment
//! for followers that come and go.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};

use base::locks::{locked, read_locked, write_locked};
use base::{Incarnation, PartitionId, Timestamp};

use super::campaigns::results_followed;
use super::live::{DevicePlace, WatchTarget};
use super::registry::RegistryRows;
use super::{FeedSet, FollowerSignal, FollowerUpdate};

/// Locks for what partitions name: enough for a usual number of partitions to have one each.
const SHARDS: usize = 64;

/// What followers are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FollowKey {
    /// A whole feed: one bit of a set.
    Feed(FeedSet),
    /// A device.
    Device(DevicePlace),
    /// A partition of queues, or one of devices for what does not say of which device it is.
    Partition(PartitionId),
    /// The registry, and rows of other partitions that are like its rows.
    Registry,
    /// What came of the picks of a task or a campaign.
    Results(Incarnation),
}

/// A follower at one of its keys.
#[derive(Debug)]
pub(super) struct KeyFollower {
    pub(super) signal: Arc<FollowerSignal>,
    /// Which of the things it is that the follower follows.
    thing: usize,
    awaits: Awaits,
}

/// What a follower waits for at its key.
#[derive(Clone, Copy, Debug)]
enum Awaits {
    WholeFeed,
    /// Feeds of a device.
    Feeds(FeedSet),
    DeviceState,
    Queues,
    Rows(RegistryRows),
}

type FollowersByKey = HashMap<FollowKey, Vec<KeyFollower>>;

/// All followers, by what they wait for.
#[derive(Debug)]
pub(super) struct FollowerIndex {
    /// Those of whole feeds and of the registry.
    anywhere: RwLock<FollowersByKey>,
    by_partition: [RwLock<FollowersByKey>; SHARDS],
    /// The latest stamp that each feed was told of. Whoever follows a whole feed reads it here.
    stamps: [AtomicI64; FeedSet::BITS],
}

impl Default for FollowerIndex {
    fn default() -> Self {
        Self {
            anywhere: RwLock::default(),
            by_partition: std::array::from_fn(|_| RwLock::default()),
            stamps: std::array::from_fn(|_| AtomicI64::new(i64::MIN)),
        }
    }
}

impl FollowerIndex {
    /// From now on the follower is told of the thing that has this number among those it follows.
    pub(super) fn add(&self, thing: usize, watched: &WatchTarget, signal: &Arc<FollowerSignal>) {
        let awaits = Awaits::of(watched);
        for key in keys_of(watched) {
            let mut followers = write_locked(self.lock_of(key));
            let follower = KeyFollower { signal: Arc::clone(signal), thing, awaits };
            followers.entry(key).or_default().push(follower);
        }
    }

    /// The follower is not told of it any more.
    pub(super) fn remove(&self, watched: &WatchTarget, signal: &Arc<FollowerSignal>) {
        for key in keys_of(watched) {
            let mut followers = write_locked(self.lock_of(key));
            if let Entry::Occupied(mut at) = followers.entry(key) {
                at.get_mut().retain(|follower| !Arc::ptr_eq(&follower.signal, signal));
                if at.get().is_empty() {
                    at.remove();
                }
            }
        }
    }

    /// Tells all whom the batch concerns, as far as somebody looked for it.
    pub(super) fn tell(&self, update: &FollowerUpdate) {
        for feed in update.feeds.each() {
            self.stamps[feed.bit()].fetch_max(update.stamp.0, Ordering::SeqCst);
        }
        self.each_concerned(update, |follower, place| follower.tell(update, place));
    }

    /// All whom the batch concerns; of a device, with its place.
    pub(super) fn each_concerned(
        &self,
        update: &FollowerUpdate,
        mut each: impl FnMut(&KeyFollower, Option<DevicePlace>),
    ) {
        {
            let anywhere = read(&self.anywhere);
            let keys = update.feeds.each().map(FollowKey::Feed);
            keys.filter_map(|key| anywhere.get(&key)).flatten().for_each(|follower| each(follower, None));
        }
        let here = read(self.lock_of(FollowKey::Partition(update.partition)));
        if here.is_empty() {
            return;
        }
        let mut at = |key: FollowKey, place: Option<DevicePlace>| {
            let concerned = here.get(&key).into_iter().flatten();
            concerned.filter(|follower| follower.awaits.meets(update.feeds)).for_each(|to| each(to, place));
        };
        for slot in &update.slots {
            let place = (update.partition, *slot);
            at(FollowKey::Device(place), Some(place));
        }
        if update.feeds.meets(FeedSet::OF_NO_DEVICE) {
            at(FollowKey::Partition(update.partition), None);
        }
    }

    /// Tells those who watch queues of this partition.
    pub(super) fn tell_of_queues(&self, partition: PartitionId) {
        let key = FollowKey::Partition(partition);
        for follower in read(self.lock_of(key)).get(&key).into_iter().flatten() {
            follower.signal.tell(follower.thing);
        }
    }

    /// Tells those who watch rows of the registry that `has` them.
    pub(super) fn tell_of_rows(&self, has: impl Fn(RegistryRows) -> bool) {
        for follower in read(&self.anywhere).get(&FollowKey::Registry).into_iter().flatten() {
            if matches!(follower.awaits, Awaits::Rows(rows) if has(rows)) {
                follower.signal.tell(follower.thing);
            }
        }
    }

    /// Tells those who follow the whole of a feed whose items have no stamp.
    pub(super) fn tell_of_feed(&self, feed: FeedSet) {
        for follower in read(&self.anywhere).get(&FollowKey::Feed(feed)).into_iter().flatten() {
            follower.signal.tell(follower.thing);
        }
    }

    /// Tells those who wait for results of these tasks and campaigns.
    pub(super) fn tell_of_results(&self, of: &[Incarnation]) {
        if of.is_empty() {
            return;
        }
        let anywhere = read(&self.anywhere);
        let followed = of.iter().filter_map(|of| anywhere.get(&FollowKey::Results(*of)));
        followed.flatten().for_each(|follower| follower.signal.tell(follower.thing));
    }

    /// The latest stamp that any of these feeds was told of.
    pub(super) fn stamp_of(&self, feeds: FeedSet) -> Timestamp {
        let stamps = feeds.each().map(|feed| self.stamps[feed.bit()].load(Ordering::SeqCst));
        Timestamp(stamps.max().unwrap_or(i64::MIN))
    }

    fn lock_of(&self, key: FollowKey) -> &RwLock<FollowersByKey> {
        match key {
            FollowKey::Feed(_) | FollowKey::Registry | FollowKey::Results(_) => &self.anywhere,
            FollowKey::Device((partition, _)) | FollowKey::Partition(partition) => {
                &self.by_partition[usize::from(partition.0) % SHARDS]
            }
        }
    }
}

impl KeyFollower {
    fn tell(&self, update: &FollowerUpdate, place: Option<DevicePlace>) {
        if let Awaits::DeviceState = self.awaits {
            locked(&self.signal.touched).0.extend(place);
        }
        // A whole feed has the stamp itself.
        if !matches!(self.awaits, Awaits::WholeFeed) {
            self.signal.stamped(update.stamp);
        }
        self.signal.moved(update.moved_from);
        self.signal.tell(self.thing);
    }
}

impl Awaits {
    fn of(watched: &WatchTarget) -> Self {
        match watched {
            WatchTarget::Feed(followed) if followed.device.is_none() => Self::WholeFeed,
            WatchTarget::Feed(_) => Self::Feeds(watched.feeds()),
            WatchTarget::Devices(_) => Self::DeviceState,
            WatchTarget::Queues(_) => Self::Queues,
            WatchTarget::Registry(rows) => Self::Rows(*rows),
        }
    }

    /// Whether a batch that adds to these feeds concerns it, at a device or a partition.
    fn meets(self, feeds: FeedSet) -> bool {
        match self {
            Self::Feeds(awaited) => awaited.meets(feeds),
            Self::DeviceState => feeds.meets(FeedSet::DEVICES),
            Self::WholeFeed | Self::Queues | Self::Rows(_) => false,
        }
    }
}

/// Whatever a batch may name that concerns such a follower.
fn keys_of(watched: &WatchTarget) -> Vec<FollowKey> {
    if let Some(of) = results_followed(watched) {
        return vec![FollowKey::Results(of)];
    }
    match watched {
        WatchTarget::Feed(followed) => {
            let feeds = FeedSet::of(followed.feed);
            let Some(place) = followed.device else { return feeds.each().map(FollowKey::Feed).collect() };
            let of_no_device = feeds.meets(FeedSet::OF_NO_DEVICE).then_some(FollowKey::Partition(place.0));
            [FollowKey::Device(place)].into_iter().chain(of_no_device).collect()
        }
        WatchTarget::Devices(devices) => devices.places().map(FollowKey::Device).collect(),
        WatchTarget::Queues(partitions) => {
            let partitions: BTreeSet<_> = partitions.iter().copied().collect();
            partitions.into_iter().map(FollowKey::Partition).collect()
        }
        WatchTarget::Registry(_) => vec![FollowKey::Registry],
    }
}

fn read(followers: &RwLock<FollowersByKey>) -> RwLockReadGuard<'_, FollowersByKey> {
    read_locked(followers)
}
