//! Posts notices to the clients that want them, each a signed post like any notification.
//!
//! Posts are leased whenever there is a place for one. A client has a few places. A client whose
//! receiver does not take what it is sent has one, and all such clients share some. So however many
//! hang, the others get their notices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::ClientId;
use engine::notices::{NoticeDue, NoticeLease, PostOutcome};
use engine::records::NoticeKey;
use engine::{AttemptOutcome, Engine};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use crate::body;
use crate::open_breakers::OpenBreakers;
use crate::sender::Sender;

/// Notices that are posted at a time,
const POSTED_MAX: usize = 32;
/// to one client,
const POSTED_PER_CLIENT: usize = 4;
/// and to all clients that do not take what they are sent, one to each.
const POSTED_TO_FAILING: usize = 8;

const _: () = assert!(POSTED_PER_CLIENT + POSTED_TO_FAILING < POSTED_MAX, "others have places left");

/// Posts notices until `shutdown` says so or its sender is gone. What is under way then is posted
/// again after the next start.
pub(crate) async fn run(
    engine: Engine,
    sender: Arc<Sender>,
    breakers: OpenBreakers,
    mut shutdown: watch::Receiver<bool>,
) {
    tokio::select! {
        _ = shutdown.wait_for(|stop| *stop) => {}
        () = post_all(&engine, &sender, &breakers) => {}
    }
}

/// Returns when the server is not accepting.
async fn post_all(engine: &Engine, sender: &Sender, breakers: &OpenBreakers) {
    let mut places = NoticePlaces::default();
    let mut posts = FuturesUnordered::new();
    loop {
        // At once: some may be left of the process before.
        while let Some(wanted) = places.free(breakers.clients()) {
            let Ok(leased) = engine.lease_notices(wanted).await else { return };
            if leased.is_empty() {
                break;
            }
            for due in leased {
                places.begin(due.client.id.clone());
                posts.push(post(engine, sender, due));
            }
        }
        tokio::select! {
            Some((client, is_taken)) = posts.next() => {
                places.end(&client, is_taken);
                places.failing.retain(|client| engine.directory().by_id(client).is_some());
            }
            () = engine.notices_due() => {}
        }
    }
}

/// Who is posted to at the moment.
#[derive(Debug, Default)]
struct NoticePlaces {
    in_flight: BTreeMap<ClientId, usize>,
    /// Clients that did not take their latest notice.
    failing: BTreeSet<ClientId>,
}

impl NoticePlaces {
    /// What there is a place for, while the breakers of these clients are open.
    fn free(&self, open: impl Iterator<Item = ClientId>) -> Option<NoticeLease> {
        let max = POSTED_MAX - self.in_flight.values().sum::<usize>();
        let failing: BTreeSet<_> = self.failing.iter().cloned().chain(open).collect();
        let is_full =
            |client: &ClientId, posts: usize| posts >= POSTED_PER_CLIENT || failing.contains(client);
        let full = self.in_flight.iter().filter(|(client, posts)| is_full(client, **posts));
        let full = full.map(|(client, _)| client.clone()).collect();
        let to_failing = self.in_flight.iter().filter(|(client, _)| failing.contains(*client));
        let to_failing: usize = to_failing.map(|(_, posts)| posts).sum();
        let failing_max = POSTED_TO_FAILING.saturating_sub(to_failing);
        (max > 0).then_some(NoticeLease { max, full, failing, failing_max })
    }

    fn begin(&mut self, client: ClientId) {
        *self.in_flight.entry(client).or_default() += 1;
    }

    fn end(&mut self, client: &ClientId, is_taken: bool) {
        if let Some(posts) = self.in_flight.get_mut(client) {
            *posts -= 1;
            if *posts == 0 {
                self.in_flight.remove(client);
            }
        }
        if is_taken {
            self.failing.remove(client);
        } else {
            self.failing.insert(client.clone());
        }
    }
}

/// Posts a notice. To whom, and whether it was taken.
async fn post(engine: &Engine, sender: &Sender, due: NoticeDue) -> (ClientId, bool) {
    let NoticeDue { client, notice } = due;
    let body = Arc::from(body::notice(&notice).into_bytes());
    let answer = sender.attempt(&client, notice.id, body).await.answer;
    let outcome = match answer {
        AttemptOutcome::Status { code: 200..=299, .. } => PostOutcome::Took,
        AttemptOutcome::Status { code: 410, .. } => PostOutcome::Gone,
        AttemptOutcome::Status { retry_after, .. } => PostOutcome::Failed(retry_after),
        AttemptOutcome::Error(_) | AttemptOutcome::Withheld => PostOutcome::Failed(None),
    };
    let told = async {
        engine.note_answer(&client, answer).await?;
        engine.notice_tried(client.incarnation, NoticeKey::from(notice.id), outcome).await
    };
    if told.await.is_err() {
        tracing::debug!("not accepting; a notice that was posted is posted again");
    }
    (client.id.clone(), outcome == PostOutcome::Took)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(n: usize) -> ClientId {
        ClientId::new(&format!("c{n}")).expect("an id")
    }

    fn set(clients: impl IntoIterator<Item = usize>) -> BTreeSet<ClientId> {
        clients.into_iter().map(client).collect()
    }

    #[test]
    fn clients_that_fail_leave_places_to_the_others() {
        let mut places = NoticePlaces::default();
        (0..POSTED_PER_CLIENT).for_each(|_| places.begin(client(0)));
        let wanted = places.free(std::iter::empty()).expect("a place");
        assert_eq!((wanted.full, wanted.failing_max), (set([0]), POSTED_TO_FAILING));
        places.end(&client(0), false);
        let wanted = places.free(std::iter::once(client(1))).expect("a place");
        assert_eq!((wanted.full, wanted.failing), (set([0]), set([0, 1])), "one at a time from now on");
        assert_eq!(wanted.failing_max, POSTED_TO_FAILING - (POSTED_PER_CLIENT - 1));
        (0..POSTED_PER_CLIENT - 1).for_each(|_| places.end(&client(0), false));
        (1..=POSTED_TO_FAILING).for_each(|n| places.begin(client(n)));
        let wanted = places.free((0..100).map(client)).expect("a place");
        assert_eq!((wanted.failing_max, wanted.max), (0, POSTED_MAX - POSTED_TO_FAILING));
        places.begin(client(0));
        places.end(&client(0), true);
        assert!(places.failing.is_empty(), "it takes them again");
    }

    #[test]
    fn no_more_than_there_are_places_are_wanted() {
        let mut places = NoticePlaces::default();
        (0..POSTED_MAX).for_each(|n| places.begin(client(n)));
        assert!(places.free(std::iter::empty()).is_none());
        places.end(&client(7), true);
        assert_eq!(places.free(std::iter::empty()).map(|wanted| wanted.max), Some(1));
    }
}
