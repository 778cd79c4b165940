//! Followers by status, and how old the commands are that came to stand elsewhere.

use super::*;

#[test]
fn a_follower_learns_how_old_the_commands_are_that_moved() {
    let followed = Followed { feed: FollowedFeed::CommandsByStatus, device: None };
    let followers = Followers::default();
    let (_, signal) = followers.add(followed).expect("room");
    let moved = |signal: &FollowerSignal| Timestamp(signal.moved_from.swap(i64::MAX, Ordering::SeqCst));
    assert_eq!(moved(&signal), Timestamp(i64::MIN), "what came before it is not known");
    let of = |at| News { moved_from: Timestamp(at), ..news(FeedSet::COMMAND_STATES, &[]) };
    for (told, expect) in [
        (vec![Some(of(40)), Some(of(30)), Some(of(50))], Timestamp(30)),
        (vec![Some(of(60)), Some(news(FeedSet::EVENTS, &[7]))], Timestamp(60)),
        (vec![Some(News { looked_for: FeedSet::EVENTS, ..of(60) })], Timestamp(i64::MIN)),
        (vec![Some(of(60)), None], Timestamp(i64::MIN)),
    ] {
        told.iter().for_each(|news| followers.tell(Timestamp(5), news.as_ref()));
        assert_eq!(moved(&signal), expect, "{told:?}");
    }
}
