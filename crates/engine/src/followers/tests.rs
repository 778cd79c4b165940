//! Who follows, and what concerns them.

use super::*;

mod moved;

fn update(feeds: FeedSet, slots: &[u32]) -> FollowerUpdate {
    let slots = slots.iter().copied().map(DeviceSlot).collect();
    let looked_for = FeedSet(u16::MAX);
    let moved_from = Timestamp::MAX;
    FollowerUpdate { partition: PartitionId(1), stamp: Timestamp(5), looked_for, feeds, slots, moved_from }
}

#[test]
fn a_batch_concerns_who_waits_for_what_is_in_it() {
    let followed = |feed, device: Option<(u16, u32)>| Followed {
        feed,
        device: device.map(|(partition, slot)| (PartitionId(partition), DeviceSlot(slot))),
    };
    for (feed, device, update, expect) in [
        (FollowedFeed::Events, None, update(FeedSet::EVENTS, &[7]), true),
        (FollowedFeed::Events, Some((1, 7)), update(FeedSet::EVENTS, &[3, 7]), true),
        (FollowedFeed::Events, Some((1, 8)), update(FeedSet::EVENTS, &[3, 7]), false),
        (FollowedFeed::Events, Some((2, 7)), update(FeedSet::EVENTS, &[7]), false),
        (FollowedFeed::Events, None, update(FeedSet::DELIVERIES, &[7]), false),
        (FollowedFeed::Deliveries, None, update(FeedSet::PROGRESS, &[]), false),
        (FollowedFeed::DeliveriesByStatus, None, update(FeedSet::PROGRESS, &[]), true),
        (FollowedFeed::DeliveriesByStatus, Some((1, 7)), update(FeedSet::PROGRESS, &[]), true),
        (FollowedFeed::Readings, Some((1, 7)), update(FeedSet::READINGS, &[7]), true),
        (FollowedFeed::Quarantine, None, update(FeedSet::QUARANTINE, &[]), true),
        (FollowedFeed::Commands, Some((1, 7)), update(FeedSet::COMMANDS, &[7]), true),
        (FollowedFeed::Commands, Some((1, 7)), update(FeedSet::COMMAND_STATES, &[]), false),
        (FollowedFeed::CommandsByStatus, Some((1, 7)), update(FeedSet::COMMAND_STATES, &[]), true),
        (FollowedFeed::Timeline, Some((1, 7)), update(FeedSet::TIMELINE, &[7]), true),
        (FollowedFeed::Timeline, Some((1, 7)), update(FeedSet::EVENTS, &[7]), true),
        (FollowedFeed::Timeline, Some((1, 7)), update(FeedSet::TIMELINE, &[8]), false),
        (FollowedFeed::Timeline, Some((1, 7)), update(FeedSet::GONE, &[7]), true),
        (FollowedFeed::Timeline, Some((1, 7)), update(FeedSet::GONE, &[8]), false),
        (FollowedFeed::Commands, None, update(FeedSet::GONE, &[7]), false),
    ] {
        let followers = Followers::default();
        let (_, signal) = followers.add(followed(feed, device)).expect("room");
        followers.tell(Timestamp(5), Some(&update));
        let is_told = signal.told.load(Ordering::SeqCst) != 0;
        assert_eq!(is_told, expect, "{feed:?} {device:?} {update:?}");
        let stamp = if expect { Timestamp(5) } else { Timestamp(i64::MIN) };
        assert_eq!(followers.stamp_of(&signal), stamp, "{feed:?} {device:?}");
    }
}

#[test]
fn whoever_follows_something_else_keeps_its_place() {
    let (followers, feed) = (Followers::default(), FollowedFeed::Events);
    let (number, _) = followers.add(Followed { feed: FollowedFeed::Quarantine, device: None }).expect("room");
    let (_, signal) = followers.replace(number, Followed { feed, device: None });
    assert_eq!(locked(&followers.table).followers.len(), 1);
    followers.tell(Timestamp(5), Some(&update(FeedSet::EVENTS, &[7])));
    assert_ne!(signal.told.load(Ordering::SeqCst), 0);
}

/// Consoles: some follow the events of the fleet, as many a page of devices each.
fn consoles(followers: &Followers, each: u32) -> Vec<Arc<FollowerSignal>> {
    let events = WatchTarget::Feed(Followed { feed: FollowedFeed::Events, device: None });
    let page = |console: u32| {
        let places = (0..50).map(|row| (PartitionId((row % 16) as u16), DeviceSlot(console * 50 + row)));
        WatchTarget::Devices(places.collect())
    };
    let watched = (0..each).flat_map(|console| [events.clone(), page(console)]);
    watched.map(|watched| followers.add_live(Box::new([watched])).expect("room").1).collect()
}

#[test]
fn a_batch_looks_at_those_only_whom_it_concerns() {
    let followers = Followers::default();
    let signals = consoles(&followers, 25);
    for (feeds, slots, expect) in [
        // Every console that follows events, and no page.
        (FeedSet::EVENTS, &[][..], 25),
        // A sign of life of one device that one page shows, of one of another partition, of none.
        (FeedSet::DEVICES, &[1], 1),
        (FeedSet::DEVICES, &[2], 0),
        (FeedSet::DEVICES, &[90_000], 0),
        (FeedSet::EVENTS.and(FeedSet::DEVICES), &[1, 51 + 16], 27),
    ] {
        let (update, mut looked_at) = (update(feeds, slots), 0);
        followers.index.each_concerned(&update, |_, _| looked_at += 1);
        assert_eq!(looked_at, expect, "{update:?}");
    }
    assert_eq!(signals.len(), 50);
}

#[test]
fn between_two_looks_a_follower_is_woken_once_however_many_batches_there_are() {
    let followers = Followers::default();
    let signals = consoles(&followers, 25);
    let update = update(FeedSet::EVENTS.and(FeedSet::DEVICES), &[1, 2, 17, 33]);
    let (mut woken, looks) = (0, 10);
    for _ in 0..looks {
        for _ in 0..1_000 {
            let before: u32 = signals.iter().map(|signal| signal.told.load(Ordering::SeqCst)).sum();
            followers.tell(Timestamp(5), Some(&update));
            let after: u32 = signals.iter().map(|signal| signal.told.load(Ordering::SeqCst)).sum();
            woken += after - before;
        }
        signals.iter().for_each(|signal| assert!(signal.take(u32::MAX) <= 1));
    }
    // Those of the events, and the one page that shows these devices.
    assert_eq!(woken, looks * 26);
}

#[test]
fn what_nobody_looked_for_in_a_batch_may_concern_whoever_came_since() {
    let followed = Followed { feed: FollowedFeed::Events, device: None };
    let unseen = FollowerUpdate { looked_for: FeedSet::DELIVERIES, ..update(FeedSet::default(), &[]) };
    let followers = Followers::default();
    let (_, signal) = followers.add(followed).expect("room");
    followers.tell(Timestamp(5), Some(&unseen));
    assert_eq!(signal.told.load(Ordering::SeqCst), 1);
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
