//! Followed feeds: a page that would be empty waits for its first item.
//!
//! The engine wakes a waiting caller when a durable batch may concern it, and the caller reads the
//! page again. These reads have a few threads of their own, and each caller has a rate limit, so
//! that many idle callers slow down nobody else.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use base::{DeviceId, Problem, Timestamp};
use engine::Engine;
use engine::followers::{Followed, FollowedFeed, Follower};
use net::memory_budget::MemoryReservation;
use net::problem::Refused;
use net::shares::SenderKey;
use tokio::select;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use crate::ApiState;
use crate::list::{self, List, Read};
use crate::page::{FeedQuery, ListForm, PageOf};
use crate::reads::Reads;

/// Pause of a caller that was woken and found nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// Callers of one token that wait, of the 1,024 of all.
pub(crate) const FOLLOWERS_SHARE: usize = 256;

/// A list that grows at its end.
pub(crate) trait Followable: List {
    /// Whether it ends before what is still being written. A page that comes to the end then waits
    /// until it shows all that callers were answered about, for a while at most.
    const ENDS_EARLY: bool = false;

    /// From here on it is told what may be for this list.
    fn follow(&self) -> Result<Follower, Problem>;

    /// There is nothing before that time, now or later: it is not looked through again.
    fn looked_until(&mut self, _: Timestamp) {}

    /// What was given from that time on may have come to belong to this list.
    fn moved_from(&mut self, _: Timestamp) {}
}

/// Follows a feed, of one device or of all. An unknown device takes a place like a known one: what
/// is answered does not tell which devices there are.
///
/// # Errors
/// `too_many_waiting`, and what the store says.
pub(crate) fn follow(
    engine: &Engine,
    feed: FollowedFeed,
    device: Option<&DeviceId>,
) -> Result<Follower, Problem> {
    let followed = match device {
        None => Followed { feed, device: None },
        Some(id) => match engine.queries().place(id)? {
            None => Followed::NOTHING,
            place => Followed { feed, device: place },
        },
    };
    engine.follow(followed)
}

/// Answers the requested page of the feed: once it has an item, or when the wait is over.
///
/// # Errors
/// What reading it says, `busy`, or `too_many_waiting`.
pub(crate) async fn answer<L: Followable>(
    api: &ApiState,
    page: PageOf<L::Key>,
    feed: FeedQuery,
    list: L,
) -> Result<Response, Refused> {
    if L::ENDS_EARLY {
        let after = page.after.as_ref().map(|_| &());
        api.engine().feed_caught_up(&feed.page(after, page.items())).await;
    }
    if page.form != ListForm::Page || feed.wait.is_zero() {
        return list::answer(api, page, list).await;
    }
    let rights = page.rights.clone();
    let left = rights.as_ref().and_then(|rights| rights.left(api.engine().clock().now()));
    let until = Instant::now() + left.map_or(feed.wait, |left| left.min(feed.wait));
    let mut asked = Arc::new((page, list));
    let (mut held, mut read) = look(api, &api.shared.lists, &mut asked).await?;
    if read.is_empty {
        drop(held);
        // In a box: most callers do not wait.
        (held, read) = Box::pin(first_item(api, asked, until)).await?;
        if let Some(rights) = rights {
            rights.check(api).await?;
        }
    }
    Ok(held.until_sent(read.into_response()))
}

/// Reads the page. What was looked through in vain is left out the next time.
async fn look<L: Followable>(
    api: &ApiState,
    reads: &Reads,
    asked: &mut Arc<(PageOf<L::Key>, L)>,
) -> Result<(MemoryReservation, Read), Problem> {
    let end = api.engine().feed_end();
    let (held, read) = list::read(api, reads, asked).await?;
    if read.is_empty
        && let Some((_, list)) = Arc::get_mut(asked)
    {
        list.looked_until(end);
    }
    Ok((held, read))
}

/// A token's share of those who follow.
fn share_of_followers(api: &ApiState, whose: &SenderKey) -> Result<Option<OwnedSemaphorePermit>, Problem> {
    let SenderKey::Token(_) = whose else { return Ok(None) };
    let full = || {
        let detail = format!(
            "{FOLLOWERS_SHARE} callers with this token wait at the ends of feeds already; ask without wait"
        );
        Problem::new(503, "too_many_waiting", detail)
    };
    api.shared.followers.of(whose).try_take(1).map(Some).ok_or_else(full)
}

async fn first_item<L: Followable>(
    api: &ApiState,
    mut asked: Arc<(PageOf<L::Key>, L)>,
    until: Instant,
) -> Result<(MemoryReservation, Read), Problem> {
    let _share = share_of_followers(api, &asked.0.whose)?;
    let (reads, following) = (&api.shared.follows, Arc::clone(&asked));
    let follower = reads.run(move || following.1.follow()).await?;
    let over = async {
        select! {
            () = sleep_until(until) => {}
            () = api.stopped() => {}
        }
    };
    let found = async {
        loop {
            let moved_from = follower.changed().await;
            if let Some((_, list)) = Arc::get_mut(&mut asked) {
                list.moved_from(moved_from);
            }
            let (held, read) = look(api, reads, &mut asked).await?;
            if !read.is_empty {
                break Ok((held, read));
            }
            drop(held);
            sleep_until(Instant::now() + PAUSE).await;
        }
    };
    select! {
        biased;
        found = found => return found,
        () = over => {}
    }
    list::read(api, reads, &asked).await
}

#[cfg(test)]
mod tests {
    use access::Access;
    use net::memory_budget::MemoryBudget;
    use std::sync::Mutex;

    use base::{Lineage, SystemClock};
    use engine::queries::FeedKey;
    use engine::records::{Event, EventKey};
    use store::MemoryStore;

    use super::*;
    use engine::queries::BoundedPage;

    use crate::list::PageOfList;
    use crate::page::TimeOrder;
    use crate::shape::EventShape;

    /// A feed without items, which notes from when on it is looked through.
    struct Nothing(FeedQuery, Mutex<Vec<Timestamp>>);

    impl List for Nothing {
        type Key = FeedKey<EventKey>;
        type Found = (FeedKey<EventKey>, Event);
        type Shown<'a> = EventShape;

        fn look(&self, after: Option<&Self::Key>, limit: usize, _: usize) -> PageOfList<Self> {
            self.1.lock().expect("unpoisoned").push(self.0.page(after, limit).from);
            Ok(BoundedPage::indexed(Vec::new()))
        }

        fn key((key, _): &Self::Found) -> Self::Key {
            *key
        }

        fn show((_, event): &Self::Found) -> EventShape {
            event.into()
        }
    }

    impl Followable for Nothing {
        fn follow(&self) -> Result<Follower, Problem> {
            Err(Problem::unavailable("nobody follows it"))
        }

        fn looked_until(&mut self, at: Timestamp) {
            self.0.skip_to(at);
        }
    }

    async fn api() -> ApiState {
        let (store, clock) = (MemoryStore::new(Lineage(1), 2), SystemClock::start(Timestamp(0)));
        let settings = engine::EngineSettings::for_tests();
        let engine = Engine::start(settings, Arc::new(store), Arc::new(clock)).await.expect("it loads");
        ApiState::new(engine, Access::of(Vec::new()), &MemoryBudget::default(), Arc::default())
    }

    #[tokio::test]
    async fn what_was_looked_through_in_vain_is_not_looked_through_again() {
        let api = api().await;
        let feed = FeedQuery { from: None, to: None, order: TimeOrder::Ascending, wait: Duration::ZERO };
        let whose = SenderKey::Unknown;
        let page = PageOf {
            limit: None,
            after: None,
            fingerprint: 0,
            form: ListForm::Page,
            tail: true,
            gzip: false,
            whose,
            rights: None,
        };
        let mut asked = Arc::new((page, Nothing(feed, Mutex::default())));
        let end = api.engine().feed_end();
        for _ in 0..2 {
            let (_, read) = look(&api, &api.shared.follows, &mut asked).await.expect("readable");
            assert!(read.is_empty);
        }
        let began = asked.1.1.lock().expect("unpoisoned").clone();
        assert_eq!(began[0], Timestamp(i64::MIN));
        assert!(began[1] >= end, "{began:?}");
    }

    #[tokio::test]
    async fn a_token_has_a_share_of_those_who_wait() {
        let api = api().await;
        let [own, other] = ["a", "b"].map(|name| SenderKey::Token(name.into()));
        let held: Vec<_> =
            (0..FOLLOWERS_SHARE).map(|_| share_of_followers(&api, &own).expect("of its share")).collect();
        let refused = share_of_followers(&api, &own).expect_err("there is no more");
        assert_eq!((refused.status, refused.code), (503, "too_many_waiting"));
        assert!(share_of_followers(&api, &other).is_ok());
        drop(held);
        assert!(share_of_followers(&api, &own).is_ok());
    }

    #[tokio::test]
    async fn an_unknown_device_takes_a_place_and_is_refused_where_there_is_none() {
        let api = api().await;
        let unknown = DeviceId::new("unknown").expect("an id");
        let follow = |device| follow(api.engine(), FollowedFeed::Events, device);
        let (_, room) = api.engine().following();
        let mut places: Vec<_> = (0..room).map(|_| follow(Some(&unknown)).expect("room")).collect();
        for device in [None, Some(&unknown)] {
            let refused = follow(device).expect_err("there is no room");
            assert_eq!((refused.status, refused.code), (503, "too_many_waiting"));
        }
        places.pop();
        assert!(follow(None).is_ok());
    }

    /// From when on a list is looked through that was looked through, has rows that moved, was
    /// looked through again, and has none that moved.
    fn looked_through_from<L: Followable>(
        mut list: L,
        from: fn(&L) -> Option<Timestamp>,
    ) -> [Option<Timestamp>; 4] {
        list.moved_from(Timestamp(i64::MIN));
        let at_first = from(&list);
        list.looked_until(Timestamp(50));
        let looked = from(&list);
        list.moved_from(Timestamp(20));
        let moved = from(&list);
        list.looked_until(Timestamp(60));
        list.moved_from(Timestamp::MAX);
        [at_first, looked, moved, from(&list)]
    }

    #[tokio::test]
    async fn rows_of_a_status_are_looked_for_from_the_oldest_that_moved() {
        use engine::queries::{CommandFilter, DeliveryFilter};
        use engine::records::{CommandStatus, DeliveryStatus};

        use crate::authorization::Visibility;
        use crate::routes::commands::CommandListing;
        use crate::routes::deliveries::Deliveries;

        let api = api().await;
        let feed = FeedQuery { from: None, to: None, order: TimeOrder::Ascending, wait: Duration::ZERO };
        for (by_status, expect) in [(true, [50, 20, 60]), (false, [50, 50, 60])] {
            let [looked, moved, again] = expect.map(|at| Some(Timestamp(at)));
            let expect = [None, looked, moved, again];
            let filter = CommandFilter {
                status: by_status.then_some(CommandStatus::Failed),
                ..CommandFilter::default()
            };
            let commands = CommandListing { engine: api.engine().clone(), filter, feed };
            assert_eq!(looked_through_from(commands, |list| list.filter.given_from), expect, "{by_status}");
            let filter = DeliveryFilter {
                status: by_status.then_some(DeliveryStatus::Failed),
                ..DeliveryFilter::default()
            };
            let deliveries = Deliveries::new(api.engine().clone(), filter, feed, Visibility::Everything);
            assert_eq!(looked_through_from(deliveries, |list| list.filter.made_from), expect, "{by_status}");
        }
    }
}
