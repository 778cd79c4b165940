//! Both listeners from outside, as far as who is let in: guesses, and the limits of tokens of the
//! REST API. And the memory of large bodies.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use access::{Access, Token};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use base::limits::JOB_PAYLOAD_BYTES_MAX;
use base::{Lineage, SystemClock, Timestamp};
use engine::{Engine, EngineSettings};
use futures_util::future::{FutureExt, join_all, poll_immediate};
use net::memory_budget::MemoryBudget;
use store::MemoryStore;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, pause};
use tower_service::Service;

use crate::{Lmstfy, StoredToken, StoredTokens, Tokens};

/// More wrong tokens than are answered at once, and than may wait for their answer.
const GUESSES: usize = 420;

struct Rig {
    api: Router,
    admin: Router,
    memory: MemoryBudget,
    _stop: watch::Sender<bool>,
}

impl Rig {
    /// With a token `secret` of the namespace `ns`, and these of the REST API.
    async fn start(tokens: Vec<Token>) -> Self {
        Self::over(Arc::new(MemoryStore::new(Lineage(1), 2)), tokens).await
    }

    async fn over(store: Arc<MemoryStore>, tokens: Vec<Token>) -> Self {
        let clock = Arc::new(SystemClock::start(Timestamp(0)));
        let engine =
            Engine::start(EngineSettings::for_tests(), store, clock).await.expect("an empty store loads");
        let access = Arc::new(Access::of(tokens));
        let text = |text: &str| text.to_owned();
        let own = StoredToken { namespace: text("ns"), token: text("secret"), description: text("") };
        let kept = StoredTokens { tokens: vec![own], limits: Vec::new() };
        let own = Tokens::new(kept, |_| Ok(())).expect("not too many");
        let (stop, stopped) = watch::channel(false);
        let memory = MemoryBudget::default();
        let lmstfy = Lmstfy::new(engine, access, &memory, own, Arc::default(), stopped);
        Self { api: lmstfy.api(), admin: lmstfy.admin(), memory, _stop: stop }
    }

    async fn peek(&self, token: &str) -> u16 {
        self.status(&self.api, "/api/ns/q/peek", "x-token", token).await
    }

    async fn version(&self, token: &str) -> u16 {
        self.status(&self.admin, "/version", "authorization", &format!("Bearer {token}")).await
    }

    async fn status(&self, router: &Router, path: &str, header: &str, value: &str) -> u16 {
        let request = Request::builder().uri(path).header(header, value).body(Body::empty());
        let answering = router.clone().call(request.expect("a request"));
        answering.await.expect("a router never fails").status().as_u16()
    }
}

fn limited(name: &str, scope: &str, per_second: u32) -> Token {
    Token { requests_per_second: NonZeroU32::new(per_second), ..Token::for_tests(name, &[scope]) }
}

#[tokio::test]
async fn who_guesses_waits_and_who_knows_does_not() {
    let rig = Rig::start(vec![Token::for_tests("ops", &["admin"])]).await;
    pause();
    let start = Instant::now();
    // Together, because both listeners share what may be guessed.
    let api = join_all((0..GUESSES / 2).map(|n| rig.peek(["wrong", "guess"][n % 2])));
    let admin = join_all((0..GUESSES / 2).map(|_| rig.version("wrong")));
    let (api, admin) = tokio::join!(api, admin);
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    let all: Vec<u16> = api.into_iter().chain(admin).collect();
    let [refused, too_many] = [401, 429].map(|status| all.iter().filter(|one| **one == status).count());
    assert_eq!(refused + too_many, GUESSES, "{all:?}");
    assert!((1..=GUESSES - 356).contains(&too_many), "{too_many}");
    let start = Instant::now();
    assert_eq!([rig.peek("secret").await, rig.peek("ops").await, rig.version("ops").await], [404, 404, 200]);
    assert!(start.elapsed().is_zero());
}

#[tokio::test]
async fn a_token_that_may_not_do_this_is_no_guess() {
    let rig = Rig::start(vec![Token::for_tests("reads", &["read"])]).await;
    pause();
    let start = Instant::now();
    let all = join_all((0..GUESSES).map(|_| rig.peek("reads"))).await;
    assert_eq!((all, start.elapsed().is_zero()), (vec![401; GUESSES], true));
}

#[tokio::test]
async fn the_limits_of_a_token_hold_over_all_ways() {
    let rig = Rig::start(vec![limited("jobs", "jobs:ns", 2), limited("ops", "admin", 1)]).await;
    assert_eq!([rig.peek("jobs").await, rig.peek("jobs").await], [404, 404]);
    // While this is slow a token may be used again.
    while rig.peek("jobs").await != 429 {}
    assert_eq!(rig.version("ops").await, 200);
    while rig.peek("ops").await != 429 {
        rig.version("ops").await;
    }
    assert_eq!(rig.peek("secret").await, 404, "a namespace's own token has none of these");
}

#[tokio::test]
async fn a_request_is_under_way_until_it_is_answered() {
    let token = Token { requests_in_flight: NonZeroU32::new(1), ..Token::for_tests("jobs", &["jobs:ns"]) };
    let rig = Rig::start(vec![token]).await;
    let request = Request::builder().uri("/api/ns/q?timeout=600").header("x-token", "jobs");
    let mut waiting = Box::pin(rig.api.clone().call(request.body(Body::empty()).expect("a request")));
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(rig.peek("jobs").await, 429);
    drop(waiting);
    assert_eq!(rig.peek("jobs").await, 404);
}

#[tokio::test]
async fn what_is_published_has_its_memory_until_it_is_answered() {
    let store = Arc::new(MemoryStore::manual(Lineage(1), 2));
    let rig = Rig::over(Arc::clone(&store), vec![Token::for_tests("ops", &["admin"])]).await;
    let large = "x".repeat(JOB_PAYLOAD_BYTES_MAX);
    for (path, body) in [
        ("/api/ns/q", large.clone()),
        ("/api/ns/q/bulk", format!("[{:?},1]", &large[JOB_PAYLOAD_BYTES_MAX / 2..])),
    ] {
        let request = Request::put(path).header("x-token", "secret").body(Body::from(body.clone()));
        let mut publishing = Box::pin(rig.api.clone().call(request.expect("a request")));
        assert!(poll_immediate(&mut publishing).await.is_none(), "no commit is answered");
        assert_eq!(rig.memory.held_bytes(), body.len().next_multiple_of(1_024), "{path}");
        let answered = loop {
            if let Some(answered) = poll_immediate(&mut publishing).await {
                break answered.expect("a router never fails");
            }
            if !store.step() {
                yield_now().await;
            }
        };
        assert_eq!((answered.status().as_u16(), rig.memory.held_bytes()), (201, 0), "{path}");
    }
}
