//! Followers of several things at once: feeds, the state of some devices, the figures of some
//! queues.
//!
//! Whoever shows all of that to people is woken once for as much as came meanwhile, and says
//! itself how often it looks. Of devices it is told which ones to look at.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::locks::locked;
use base::{PartitionId, Problem, Timestamp};
use records::DeviceSlot;

use super::registry::RegistryRows;
use super::{FeedSet, Followed, FollowerSignal};
use crate::Engine;

/// Followers of several things at the same time.
pub const LIVE_MAX: usize = 1_024;
/// Things that one of them follows.
pub const WATCHED_MAX: usize = 32;

const _: () = assert!(WATCHED_MAX <= u32::BITS as usize, "each has a bit");

/// Where a device's records are.
pub type DevicePlace = (PartitionId, DeviceSlot);

/// One thing to follow.
#[derive(Clone, Debug)]
pub enum WatchTarget {
    /// A feed.
    Feed(Followed),
    /// What these devices are like.
    Devices(WatchedDevices),
    /// How queues stand that are in these partitions.
    Queues(Arc<[PartitionId]>),
    /// Rows of the registry.
    Registry(RegistryRows),
}

impl WatchTarget {
    pub(super) fn feeds(&self) -> FeedSet {
        match self {
            Self::Feed(followed) if followed.device.is_some() => {
                FeedSet::of(followed.feed).and(FeedSet::GONE)
            }
            Self::Feed(followed) => FeedSet::of(followed.feed),
            Self::Devices(_) => FeedSet::DEVICES,
            Self::Queues(_) | Self::Registry(_) => FeedSet::default(),
        }
    }

    pub(super) fn is_whole_feed(&self) -> bool {
        matches!(self, Self::Feed(followed) if followed.device.is_none())
    }
}

/// Some devices, each once.
#[derive(Clone, Debug, Default)]
pub struct WatchedDevices(Arc<[DevicePlace]>);

impl FromIterator<DevicePlace> for WatchedDevices {
    fn from_iter<I: IntoIterator<Item = DevicePlace>>(places: I) -> Self {
        Self(places.into_iter().collect::<BTreeSet<_>>().into_iter().collect())
    }
}

impl WatchedDevices {
    pub(super) fn places(&self) -> impl Iterator<Item = DevicePlace> {
        self.0.iter().copied()
    }
}

/// Which of a follower's devices may have changed. No more than it follows.
#[derive(Debug, Default)]
pub(super) struct Touched(pub(super) BTreeSet<DevicePlace>);

/// A follower of several things, until it is dropped. It wakes once at first for all of them.
#[derive(Debug)]
pub struct LiveFollower {
    engine: Engine,
    number: u64,
    signal: Arc<FollowerSignal>,
}

impl LiveFollower {
    /// Resolves when one of the awaited things may have changed: a bit for each, in the order in
    /// which they were given. Of others it is told later, and is not woken. Nothing is lost if this
    /// is given up.
    pub async fn changed(&self, awaited: u32) -> u32 {
        self.signal.changed(awaited).await
    }

    /// Which of these things may have changed since this was told or took it. Whoever is about to
    /// look at them needs not be told of that.
    #[must_use]
    pub fn take(&self, things: u32) -> u32 {
        self.signal.take(things)
    }

    /// Returns when feeds show what this was told of: they end behind that stamp.
    pub async fn shown(&self) -> Timestamp {
        let stamp = self.engine.followers().stamp_of(&self.signal);
        if stamp > Timestamp(i64::MIN) {
            self.engine.shown(stamp).await;
        }
        stamp
    }

    /// The devices that may have changed since the last time.
    #[must_use]
    pub fn touched(&self) -> Vec<DevicePlace> {
        std::mem::take(&mut locked(&self.signal.touched).0).into_iter().collect()
    }
}

impl Drop for LiveFollower {
    fn drop(&mut self) {
        self.engine.followers().remove_live(self.number);
    }
}

impl Engine {
    /// Follows all of these from here on, [`WATCHED_MAX`] at most.
    ///
    /// # Errors
    /// 503 `too_many_live`.
    pub fn follow_live(&self, watched: Vec<WatchTarget>) -> Result<LiveFollower, Problem> {
        assert!(watched.len() <= WATCHED_MAX, "whoever follows knows how much that is");
        let count = watched.len();
        let all: Vec<DevicePlace> = watched
            .iter()
            .filter_map(|watched| if let WatchTarget::Devices(set) = watched { Some(set) } else { None })
            .flat_map(WatchedDevices::places)
            .collect();
        let Some((number, signal)) = self.followers().add_live(watched.into_boxed_slice()) else {
            let detail = format!("{LIVE_MAX} live streams are open already; close one");
            return Err(Problem::new(503, "too_many_live", detail));
        };
        // What is durable already may not be shown yet.
        locked(&signal.touched).0.extend(all);
        signal.stamped(self.latest_stamp());
        (0..count).for_each(|thing| signal.tell(thing));
        Ok(LiveFollower { engine: self.clone(), number, signal })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use base::{ClientId, EntityId};
    use records::{Batch, Op};

    use super::*;
    use crate::followers::registry::RegistryUpdate;
    use crate::followers::{FollowedFeed, FollowerUpdate, Followers};

    fn place(partition: u16, slot: u32) -> DevicePlace {
        (PartitionId(partition), DeviceSlot(slot))
    }

    fn batch(ops: &[Op]) -> Batch {
        Batch { ops: ops.to_vec(), ..Batch::new(PartitionId::REGISTRY) }
    }

    fn update(slots: &[u32], looked_for: FeedSet) -> FollowerUpdate {
        let slots = slots.iter().copied().map(DeviceSlot).collect();
        let (feeds, moved_from) = (FeedSet(FeedSet::DEVICES.0 & looked_for.0), Timestamp::MAX);
        FollowerUpdate {
            partition: PartitionId(1),
            stamp: Timestamp(5),
            looked_for,
            feeds,
            slots,
            moved_from,
        }
    }

    #[test]
    fn only_devices_that_are_watched_and_may_have_changed_are_touched() {
        let devices: WatchedDevices =
            [place(1, 7), place(0, 7), place(1, 9), place(1, 7)].into_iter().collect();
        let followers = Followers::default();
        let watched = Box::new([WatchTarget::Devices(devices)]);
        let (number, signal) = followers.add_live(watched).expect("room");
        let all = &[place(0, 7), place(1, 7), place(1, 9)][..];
        for (update, expect) in [
            (Some(update(&[7, 8], FeedSet::DEVICES)), &[place(1, 7)][..]),
            (Some(update(&[8], FeedSet::DEVICES)), &[]),
            (Some(update(&[], FeedSet::EVENTS)), all),
            (None, all),
        ] {
            followers.tell(Timestamp(5), update.as_ref());
            let touched = std::mem::take(&mut locked(&signal.touched).0);
            assert_eq!(touched.into_iter().collect::<Vec<_>>(), expect, "{update:?}");
            let is_told = signal.told.swap(0, Ordering::SeqCst) != 0;
            assert_eq!(is_told, !expect.is_empty(), "{update:?}");
        }
        followers.remove_live(number);
        followers.tell(Timestamp(5), Some(&update(&[7], FeedSet::DEVICES)));
        assert!(locked(&signal.touched).0.is_empty());
    }

    #[tokio::test]
    async fn whoever_was_told_and_has_not_looked_is_told_once() {
        let followers = Followers::default();
        let events = Followed { feed: FollowedFeed::Events, device: None };
        let queues = WatchTarget::Queues([PartitionId::of_queues(3)].into());
        let watched = vec![WatchTarget::Feed(events), queues].into_boxed_slice();
        let (number, signal) = followers.add_live(watched).expect("room");
        for _ in 0..3 {
            followers.tell(Timestamp(1), None);
        }
        assert_eq!(signal.changed(u32::MAX).await, 0b01);
        followers.queues_changed(Some(PartitionId::of_queues(2)));
        followers.queues_changed(Some(PartitionId::of_queues(3)));
        followers.tell(Timestamp(2), None);
        // What is not awaited yet stays.
        assert_eq!(signal.changed(0b10).await, 0b10);
        assert_eq!(signal.changed(u32::MAX).await, 0b01);
        followers.remove_live(number);
        followers.queues_changed(None);
        assert_eq!(signal.told.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn whoever_watches_rows_of_the_registry_is_told_of_these() {
        let followers = Followers::default();
        assert_eq!(followers.registry_update(&batch(&[])), None, "nobody watches");
        let watched = [RegistryRows::Rollouts, RegistryRows::Operations].map(WatchTarget::Registry);
        let (_, signal) = followers.add_live(Box::new(watched)).expect("room");
        let operation = Op::DeleteOperation(EntityId::from_bytes(&[0; EntityId::BYTES]));
        for (ops, expect) in [
            (&[][..], 0),
            (&[Op::DeleteClient(ClientId::new("acme").expect("an id"))], 0),
            (&[Op::DeleteRollout("r".into())], 0b01),
            (&[operation.clone(), operation], 0b10),
        ] {
            let update = followers.registry_update(&batch(ops)).expect("somebody watches");
            followers.registry_changed(update);
            assert_eq!(signal.told.swap(0, Ordering::SeqCst), expect, "{ops:?}");
        }
        followers.registry_changed(RegistryUpdate::ANY);
        assert_eq!(signal.changed(u32::MAX).await, 0b11);
    }

    #[test]
    fn those_who_follow_several_things_take_no_place_of_those_who_wait_for_a_page() {
        let followers = Followers::default();
        let numbers: Vec<_> = (0..LIVE_MAX).filter_map(|_| followers.add_live(Box::new([]))).collect();
        assert_eq!((numbers.len(), followers.gauge.get()), (LIVE_MAX, 0));
        assert!(followers.add_live(Box::new([])).is_none());
        let followed = Followed { feed: FollowedFeed::Events, device: None };
        assert!(followers.add(followed).is_some());
    }
}
