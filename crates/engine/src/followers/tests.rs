//! Who follows, and what concerns them.

use super::*;

mod moved;

fn news(feeds: FeedSet, slots: &[u32]) -> News {
    let slots = slots.iter().copied().map(DeviceSlot).collect();
    let looked_for = FeedSet(u16::MAX);
    let moved_from = Timestamp::MAX;
    News { partition: PartitionId(1), stamp: Timestamp(5), looked_for, feeds, slots, moved_from }
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
fn what_nobody_looked_for_in_a_batch_may_concern_whoever_came_since() {
    let followed = Followed { feed: FollowedFeed::Events, device: None };
    let unseen = News { looked_for: FeedSet::DELIVERIES, ..news(FeedSet::default(), &[]) };
    assert!(unseen.concerns(followed));
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
