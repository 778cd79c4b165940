//! Followed feeds: a page that would be empty waits for its first item.
//!
//! The engine wakes a waiting caller when a durable batch may concern it, and the caller reads the
//! page again. These reads have a few threads of their own, and each caller has a rate limit, so
//! that many idle callers slow down nobody else.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use base::Problem;
use engine::followers::Follower;
use tokio::select;
use tokio::time::{Instant, sleep_until};

use crate::ApiState;
use crate::held::HeldPage;
use crate::list::{self, List, Read};
use crate::page::{Feed, Form, PageOf};
use crate::problem::Refused;

/// Pause of a caller that was woken and found nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// A list that grows at its end.
pub(crate) trait Followable: List {
    /// From here on it is told what may be for this list.
    fn follow(&self) -> Result<Follower, Problem>;
}

/// Answers the requested page of the feed: once it has an item, or when the wait is over.
///
/// # Errors
/// What reading it says, `busy`, or `too_many_waiting`.
pub(crate) async fn answer<L: Followable>(
    api: &ApiState,
    page: PageOf<L::Key>,
    feed: Feed,
    list: L,
) -> Result<Response, Refused> {
    if page.form != Form::Page || feed.wait.is_zero() {
        return list::answer(api, page, list).await;
    }
    let until = Instant::now() + feed.wait;
    let asked = Arc::new((page, list));
    let (mut held, mut read) = list::read(api, &api.shared.lists, &asked).await?;
    if read.is_empty {
        drop(held);
        // In a box: most callers do not wait.
        (held, read) = Box::pin(first_item(api, &asked, until)).await?;
    }
    Ok(held.until_sent(read.into_response()))
}

async fn first_item<L: Followable>(
    api: &ApiState,
    asked: &Arc<(PageOf<L::Key>, L)>,
    until: Instant,
) -> Result<(HeldPage, Read), Problem> {
    let (reads, following) = (&api.shared.follows, Arc::clone(asked));
    let follower = reads.run(move || following.1.follow()).await?;
    let mut stop = api.shared.stop.get().cloned();
    let stopped = async {
        match &mut stop {
            // Whoever could say so is gone: then it has.
            Some(stop) => drop(stop.wait_for(|stop| *stop).await),
            None => std::future::pending().await,
        }
    };
    let over = async {
        select! {
            () = sleep_until(until) => {}
            () = stopped => {}
        }
    };
    let found = async {
        loop {
            follower.news().await;
            let (held, read) = list::read(api, reads, asked).await?;
            if !read.is_empty {
                break Ok((held, read));
            }
            drop(held);
            sleep_until(Instant::now() + PAUSE).await;
        }
    };
    select! {
        biased;
        found = found => found,
        () = over => list::read(api, reads, asked).await,
    }
}
