//! Followers by status, and how old the commands and notifications are that came to stand
//! elsewhere.

use records::{DeliveryKey, DeliveryProgress, DeliveryStatus};

use super::*;

#[test]
fn a_follower_learns_how_old_the_commands_are_that_moved() {
    let followed = Followed { feed: FollowedFeed::CommandsByStatus, device: None };
    let followers = Followers::default();
    let (_, signal) = followers.add(followed).expect("room");
    let moved = |signal: &FollowerSignal| Timestamp(signal.moved_from.swap(i64::MAX, Ordering::SeqCst));
    assert_eq!(moved(&signal), Timestamp(i64::MIN), "what came before it is not known");
    let of = |at| FollowerUpdate { moved_from: Timestamp(at), ..update(FeedSet::COMMAND_STATES, &[]) };
    for (told, expect) in [
        (vec![Some(of(40)), Some(of(30)), Some(of(50))], Timestamp(30)),
        (vec![Some(of(60)), Some(update(FeedSet::EVENTS, &[7]))], Timestamp(60)),
        (vec![Some(FollowerUpdate { looked_for: FeedSet::EVENTS, ..of(60) })], Timestamp(i64::MIN)),
        (vec![Some(of(60)), None], Timestamp(i64::MIN)),
    ] {
        told.iter().for_each(|update| followers.tell(Timestamp(5), update.as_ref()));
        assert_eq!(moved(&signal), expect, "{told:?}");
    }
}

#[test]
fn a_batch_says_how_old_the_oldest_notification_is_that_moved() {
    let progress = DeliveryProgress { status: DeliveryStatus::Failed, attempts: 1, next_attempt_at: None };
    let moved = |at| Op::PutProgress(DeliveryKey { at: Timestamp(at), number: 1 }, progress);
    for (ops, expect) in [(vec![], Timestamp::MAX), (vec![moved(40), moved(30), moved(50)], Timestamp(30))] {
        let batch = Batch { ops, ..Batch::new(PartitionId(1)) };
        let update =
            FollowerUpdate::of(PartitionId(1), &batch, FeedSet::of(FollowedFeed::DeliveriesByStatus));
        assert_eq!(
            (update.moved_from, update.feeds.meets(FeedSet::PROGRESS)),
            (expect, !batch.ops.is_empty())
        );
    }
}
