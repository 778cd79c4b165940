//! `Idempotency-Key`: a request that creates something and is repeated gets the answer of the first
//! one.
//!
//! A key belongs to method, path and token. Its answer, refusals too, is kept in the store for 24
//! hours before it is given: a repeat finds it there after a restart too. What happens in one
//! partition is kept in the batch of what was done as well, so that a repeat does nothing again
//! wherever the server was killed; the answer by key alone is for repeats that name something else.
//! What publishes jobs needs no more than the former: see [`Creation::kept_with_jobs`]. Nor does a
//! command that was sent: see [`Creation::once_by_row`]. Of a campaign that was begun the id is
//! kept. "Not now" is not kept.
//!
//! A repeat that comes while the first request is under way waits for it: for that, keys are
//! remembered in memory, beyond the limits below the newest only, and a metric tells how many were
//! forgotten early.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use access::Caller;
use axum::extract::{FromRequest, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use base::{Problem, Timestamp};
use engine::queues::{IdempotencyKey, Queues};
use engine::records::AnswerKey;
use net::problem::Refused;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use crate::ApiState;
use crate::answer::Answer;
use crate::body::Text;

const HEADER: &str = "idempotency-key";
/// The code of a refusal: the key is that of another request.
const REUSED: &str = "idempotency_key_reused";
/// Longest key, in characters: four times a UUID with room to spare.
pub(crate) const KEY_CHARS_MAX: usize = 255;
/// How long an answer is remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Keys remembered at the same time.
const KEYS_MAX: usize = 65_536;
/// Bytes of all remembered answers. An answer is a few hundred bytes, so this and the limit on keys
/// are met together.
const ANSWERS_BYTES_MAX: usize = 32 * 1_024 * 1_024;

type Digest = [u8; 32];

/// A request that creates something, with its body read.
#[derive(Debug)]
pub(crate) struct Creation {
    body: String,
    /// Of method, path, token and key, if it has a key.
    key: Option<Digest>,
    caller: Option<Caller>,
}

impl FromRequest<ApiState> for Creation {
    type Rejection = Refused;

    async fn from_request(request: Request, api: &ApiState) -> Result<Self, Refused> {
        let key = key(&request)?;
        let caller = request.extensions().get().cloned();
        let Text(body) = Text::from_request(request, api).await?;
        Ok(Self { body, key, caller })
    }
}

impl Creation {
    /// Who asks for it, where tokens are asked for.
    pub(crate) fn caller(&self) -> Option<Caller> {
        self.caller.clone()
    }

    /// Makes what the body asks for, or gives the answer that was given before. Whoever makes it
    /// keeps its answer with it, under the key that it is given, where it can.
    ///
    /// # Errors
    /// `idempotency_key_reused` when the key came with another body before.
    pub(crate) async fn once<F>(
        self,
        api: &ApiState,
        make: impl FnOnce(ApiState, String, Option<IdempotencyKey>) -> F,
    ) -> Result<Answer, Refused>
    where
        F: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        self.answered(api, make, |_, once, made| kept_in_store(api.engine().queues(), once, made)).await
    }

    /// [`Creation::once`], where whoever makes it answers a repeat from the row of what was made.
    /// Nothing is kept here but who is under way.
    ///
    /// # Errors
    /// `idempotency_key_reused` when the key comes with another body meanwhile.
    pub(crate) async fn once_by_row<F>(
        self,
        api: &ApiState,
        make: impl FnOnce(ApiState, String, Option<IdempotencyKey>) -> F,
    ) -> Result<Answer, Refused>
    where
        F: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        let remembered = Arc::clone(&api.shared.remembered);
        let forgotten = |(key, kept): (Digest, Arc<Kept>), _, made: F| async move {
            let made = made.await;
            remembered.forget(key, &kept);
            made
        };
        self.answered(api, make, forgotten).await
    }

    /// What `make` answers, or what it answered before. What it makes is kept by `keep`.
    async fn answered<F, K>(
        self,
        api: &ApiState,
        make: impl FnOnce(ApiState, String, Option<IdempotencyKey>) -> F,
        keep: impl FnOnce((Digest, Arc<Kept>), IdempotencyKey, F) -> K,
    ) -> Result<Answer, Refused>
    where
        F: Future<Output = Result<Answer, Problem>> + Send + 'static,
        K: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        let Some(key) = self.key else { return Ok(make(api.clone(), self.body, None).await?) };
        let (kept, once) = self.kept(key, api)?;
        let made = keep((key, Arc::clone(&kept)), once, make(api.clone(), self.body, Some(once)));
        Ok(answer_of(Arc::clone(&api.shared.remembered), key, kept, made).await)
    }

    /// What is remembered of this request.
    fn kept(&self, key: Digest, api: &ApiState) -> Result<(Arc<Kept>, IdempotencyKey), Problem> {
        let now = api.engine().clock().now();
        let kept = api.shared.remembered.keep(key, Sha256::digest(&self.body).into(), now)?;
        let once = IdempotencyKey { key: AnswerKey(front(&key)), body: front(&kept.body) };
        Ok((kept, once))
    }

    /// The body, and the key in the form in which it is kept where the jobs are.
    pub(crate) fn kept_with_jobs(self) -> (String, Option<IdempotencyKey>) {
        let once = self.key.map(|key| IdempotencyKey {
            key: AnswerKey(front(&key)),
            body: front(&Sha256::digest(&self.body).into()),
        });
        (self.body, once)
    }
}

/// The answer that the store has, or else what `make` answers, which it has from then on.
async fn kept_in_store(
    queues: Queues,
    once: IdempotencyKey,
    make: impl Future<Output = Result<Answer, Problem>>,
) -> Result<Answer, Problem> {
    if let Some(answer) = queues.recall(once).await?.as_deref().and_then(Answer::from_stored) {
        return Ok(answer);
    }
    let answer = match make.await {
        // The key is that of another request.
        Err(problem) if problem.code == REUSED => return Err(problem),
        made => made.unwrap_or_else(|problem| Answer::refused(&problem)),
    };
    if !is_not_now(answer.status) {
        queues.remember(once, answer.stored()).await?;
    }
    Ok(answer)
}

/// Whether the same request may be answered otherwise in a while: such an answer is not kept.
fn is_not_now(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// Half of a digest is enough to tell any two apart that are not made up to be alike.
fn front(digest: &Digest) -> u128 {
    digest[..16].iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// The key of a request, made one with all that it belongs to.
fn key(request: &Request) -> Result<Option<Digest>, Problem> {
    let Some(key) = given_key(request.headers())? else { return Ok(None) };
    let mut hash = Sha256::new();
    for part in [request.method().as_str().as_bytes(), request.uri().path().as_bytes(), whose(request), key] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    Ok(Some(hash.finalize().into()))
}

/// The token by its name; where none is asked for, what was given for one.
fn whose(request: &Request) -> &[u8] {
    let caller = request.extensions().get::<Caller>().map(|caller| caller.name().as_bytes());
    let given = || request.headers().get(AUTHORIZATION).map(|token| token.as_bytes());
    caller.or_else(given).unwrap_or_default()
}

/// Refuses a key where a repeat would not be known by it.
///
/// # Errors
/// 422 `invalid_idempotency_key` with that detail where there is one.
pub(crate) fn refuse_key(headers: &HeaderMap, detail: &'static str) -> Result<(), Problem> {
    match headers.contains_key(HEADER) {
        true => Err(Problem::not_allowed("invalid_idempotency_key", detail)),
        false => Ok(()),
    }
}

fn given_key(headers: &HeaderMap) -> Result<Option<&[u8]>, Problem> {
    let mut keys = headers.get_all(HEADER).iter();
    let Some(key) = keys.next().map(|key| key.as_bytes()) else { return Ok(None) };
    let fits =
        (1..=KEY_CHARS_MAX).contains(&key.len()) && key.iter().all(|byte| (b' '..=b'~').contains(byte));
    if !fits || keys.next().is_some() {
        let detail = format!(
            "Idempotency-Key must be there once, with 1 to {KEY_CHARS_MAX} printable ASCII characters"
        );
        return Err(Problem::not_allowed("invalid_idempotency_key", detail));
    }
    Ok(Some(key))
}

/// The remembered answer, or else what `make` answers. On a task of its own: a caller who goes away
/// changes nothing.
async fn answer_of(
    remembered: Arc<Remembered>,
    key: Digest,
    kept: Arc<Kept>,
    make: impl Future<Output = Result<Answer, Problem>> + Send + 'static,
) -> Answer {
    let answering = tokio::spawn(async move {
        let make = async {
            let answer = match make.await {
                Err(problem) if problem.code == REUSED => {
                    // The store knows the key with another body, so it is remembered with the wrong
                    // one.
                    remembered.forget(key, &kept);
                    return Err(Answer::refused(&problem));
                }
                made => made.unwrap_or_else(|problem| Answer::refused(&problem)),
            };
            if is_not_now(answer.status) {
                return Err(answer);
            }
            remembered.add(key, &kept, answer.body.len());
            Ok(answer)
        };
        kept.answer.get_or_try_init(|| make).await.cloned().unwrap_or_else(|not_now| not_now)
    });
    match answering.await {
        Ok(answer) => answer,
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Answer::refused(&Problem::unavailable("the server is stopping")),
    }
}

/// The keys that came, with their answers.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    kept: HashMap<Digest, Entry>,
    /// Keys in the order in which they came.
    oldest_first: VecDeque<(Timestamp, Digest)>,
    answers_bytes: usize,
    forgotten_early: u64,
}

#[derive(Debug)]
struct Entry {
    kept: Arc<Kept>,
    /// What its answer adds to `answers_bytes`; 0 until there is one.
    answer_bytes: usize,
}

/// What is kept of one key.
#[derive(Debug)]
struct Kept {
    body: Digest,
    /// Set once the first request is answered.
    answer: OnceCell<Answer>,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub keys: usize,
    pub bytes: usize,
    pub forgotten_early: u64,
}

impl Remembered {
    pub(crate) fn size(&self) -> Size {
        let table = self.table();
        let (keys, bytes) = (table.kept.len(), table.answers_bytes);
        Size { keys, bytes, forgotten_early: table.forgotten_early }
    }

    /// What is kept of the key, from now on if it is new.
    fn keep(&self, key: Digest, body: Digest, now: Timestamp) -> Result<Arc<Kept>, Problem> {
        let mut table = self.table();
        table.forget_expired(now);
        if let Some(Entry { kept, .. }) = table.kept.get(&key) {
            return if kept.body == body { Ok(Arc::clone(kept)) } else { Err(reused()) };
        }
        table.make_room(KEYS_MAX - 1);
        let kept = Arc::new(Kept { body, answer: OnceCell::new() });
        table.kept.insert(key, Entry { kept: Arc::clone(&kept), answer_bytes: 0 });
        table.oldest_first.push_back((now, key));
        Ok(kept)
    }

    /// Counts an answer, unless its key was forgotten meanwhile.
    fn add(&self, key: Digest, kept: &Arc<Kept>, bytes: usize) {
        let mut table = self.table();
        let Some(entry) = table.kept.get_mut(&key).filter(|entry| Arc::ptr_eq(&entry.kept, kept)) else {
            return;
        };
        entry.answer_bytes = bytes;
        table.answers_bytes += bytes;
        table.make_room(KEYS_MAX);
    }

    /// Forgets a key that has no answer, unless it is another's by now. It is mostly a late one.
    fn forget(&self, key: Digest, kept: &Arc<Kept>) {
        let mut table = self.table();
        if table.kept.get(&key).is_some_and(|entry| Arc::ptr_eq(&entry.kept, kept)) {
            table.kept.remove(&key);
            let place = table.oldest_first.iter().rposition(|(_, other)| *other == key);
            table.oldest_first.remove(place.expect("every key is in the order"));
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn forget_expired(&mut self, now: Timestamp) {
        while self.oldest_first.front().is_some_and(|(since, _)| now.since(*since) >= REMEMBERED_FOR) {
            self.forget_oldest();
        }
    }

    /// Forgets the oldest until at most `keys` are left, and their answers fit.
    fn make_room(&mut self, keys: usize) {
        while self.kept.len() > keys || self.answers_bytes > ANSWERS_BYTES_MAX {
            self.forget_oldest();
            self.forgotten_early += 1;
        }
    }

    fn forget_oldest(&mut self) {
        let (_, key) = self.oldest_first.pop_front().expect("every key is in the order");
        let entry = self.kept.remove(&key).expect("every key in the order is kept");
        self.answers_bytes -= entry.answer_bytes;
    }
}

fn reused() -> Problem {
    let detail = "the Idempotency-Key came with another body before; a new request needs a new key";
    Problem::not_allowed(REUSED, detail)
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use axum::http::StatusCode;

    use super::*;

    const BODY: Digest = [0; 32];

    fn digest(n: usize) -> Digest {
        Sha256::digest(n.to_be_bytes()).into()
    }

    async fn answered(remembered: &Arc<Remembered>, n: usize, bytes: usize) -> Answer {
        let kept = remembered.keep(digest(n), BODY, Timestamp(0)).expect("the same body");
        let body = Bytes::from(vec![b' '; bytes]);
        let make = async { Ok(Answer { status: StatusCode::CREATED, body }) };
        answer_of(Arc::clone(remembered), digest(n), kept, make).await
    }

    #[test]
    fn the_oldest_keys_make_room_for_new_ones() {
        let remembered = Remembered::default();
        for n in 0..KEYS_MAX + 10 {
            remembered.keep(digest(n), BODY, Timestamp(0)).expect("new");
        }
        assert_eq!(remembered.size(), Size { keys: KEYS_MAX, bytes: 0, forgotten_early: 10 });
        assert!(remembered.keep(digest(9), [1; 32], Timestamp(0)).is_ok(), "forgotten, so new again");
        assert!(remembered.keep(digest(KEYS_MAX), [1; 32], Timestamp(0)).is_err(), "still there");
    }

    #[tokio::test]
    async fn the_oldest_answers_make_room_for_new_ones() {
        let remembered = Arc::new(Remembered::default());
        for n in 0..3 {
            answered(&remembered, n, ANSWERS_BYTES_MAX / 2).await;
        }
        let expect = Size { keys: 2, bytes: ANSWERS_BYTES_MAX, forgotten_early: 1 };
        assert_eq!(remembered.size(), expect);
        assert_eq!(answered(&remembered, 2, 5).await.body.len(), ANSWERS_BYTES_MAX / 2, "remembered");
        assert_eq!(answered(&remembered, 0, 5).await.body.len(), 5, "made again");
    }

    #[tokio::test]
    async fn an_answer_whose_key_was_forgotten_meanwhile_is_not_counted() {
        let remembered = Arc::new(Remembered::default());
        let kept = remembered.keep(digest(0), BODY, Timestamp(0)).expect("new");
        let later = Timestamp(0).after(REMEMBERED_FOR);
        remembered.keep(digest(1), BODY, later).expect("new");
        let make = async { Ok(Answer::nothing()) };
        answer_of(Arc::clone(&remembered), digest(0), kept, make).await;
        assert_eq!(remembered.size(), Size { keys: 1, bytes: 0, forgotten_early: 0 });
    }

    #[tokio::test]
    async fn a_panic_is_the_callers_and_the_next_one_tries_again() {
        let remembered = Arc::new(Remembered::default());
        let kept = remembered.keep(digest(0), BODY, Timestamp(0)).expect("new");
        let make = async { panic!("on purpose") };
        let ended = tokio::spawn(answer_of(Arc::clone(&remembered), digest(0), kept, make)).await;
        assert!(ended.is_err_and(|error| error.is_panic()));
        assert_eq!(answered(&remembered, 0, 5).await.status, StatusCode::CREATED);
    }

    /// What a router answers to a POST with a key, or to a DELETE of a device.
    async fn called(router: &axum::Router, call: &str, body: &str) -> (u16, serde_json::Value) {
        let (method, path) = call.split_once(' ').expect("a method and a path");
        let request = Request::builder().method(method).uri(path).header(HEADER, "k1");
        let request = request.body(axum::body::Body::from(body.to_owned())).expect("a request");
        let response = tower_service::Service::call(&mut router.clone(), request).await.expect("no failure");
        let status = response.status().as_u16();
        let bytes = http_body_util::BodyExt::collect(response.into_body()).await.expect("whole").to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// A server without tokens, with what it shares.
    async fn served() -> (ApiState, axum::Router) {
        let store = Arc::new(store::MemoryStore::new(base::Lineage(1), 2));
        let clock = Arc::new(base::SystemClock::start(Timestamp(0)));
        let settings = engine::Settings::for_tests();
        let engine = engine::Engine::start(settings, store, clock).await.expect("an empty store loads");
        let budget = net::memory_budget::MemoryBudget::default();
        let api = ApiState::new(engine, access::Access::Open, &budget, Arc::default());
        let router = crate::router_with(&api, axum::Router::new());
        (api, router)
    }

    #[tokio::test]
    async fn of_a_campaign_that_was_begun_the_id_alone_is_kept() {
        let (api, router) = served().await;
        let begin = "POST /v1/campaigns";
        let body = format!(r#"{{"id":"c","count":1,"every":"1h","payload":"{}"}}"#, "x".repeat(100_000));
        let first = called(&router, begin, &body).await;
        assert_eq!(first.0, 201, "{}", first.1);
        let kept = api.shared.remembered.size().bytes;
        assert!((1..200).contains(&kept), "{kept} bytes are remembered");
        assert_eq!(called(&router, begin, &body).await, first);
        let (status, other) = called(&router, begin, r#"{"payload":1,"count":1,"every":"1h"}"#).await;
        assert_eq!((status, other["code"].as_str()), (422, Some(REUSED)));
        let (status, changed) = called(&router, "PATCH /v1/campaigns/c", r#"{"count":3}"#).await;
        assert_eq!(status, 200, "{changed}");
        assert_eq!(called(&router, begin, &body).await, (201, changed));
        assert_eq!(called(&router, "DELETE /v1/campaigns/c", "").await.0, 204);
        let (status, gone) = called(&router, begin, &body).await;
        assert_eq!((status, gone["code"].as_str()), (404, Some("unknown_campaign")));
        let other = r#"{"payload":1,"count":2,"every":"1h"}"#;
        assert_eq!(called(&router, "PUT /v1/campaigns/c", other).await.0, 201);
        assert_eq!(called(&router, begin, &body).await.0, 404, "another one has its id");
    }

    #[tokio::test]
    async fn a_repeat_of_a_sent_command_is_answered_from_the_command() {
        let (api, router) = served().await;
        let send = "POST /v1/devices/0xA/commands";
        assert_eq!(called(&router, "POST /v1/devices", r#"{"id":"0xA"}"#).await.0, 201);
        let before = api.shared.remembered.size().bytes;
        let body = format!(r#"{{"payload":"{}"}}"#, "x".repeat(100_000));
        let first = called(&router, send, &body).await;
        assert_eq!(first.0, 201, "{}", first.1);
        assert_eq!(called(&router, send, &body).await, first);
        let (status, other) = called(&router, send, r#"{"payload":2}"#).await;
        assert_eq!((status, other["code"].as_str()), (422, Some(REUSED)));
        assert_eq!(called(&router, send, "7").await.0, 422);
        assert_eq!(called(&router, send, &body).await, first, "a wrong body takes no key away");
        assert_eq!(api.shared.remembered.size().bytes, before, "nothing of it is kept besides");
        assert_eq!(called(&router, "DELETE /v1/devices/0xA", "").await.0, 204);
        let (status, gone) = called(&router, send, &body).await;
        assert_eq!((status, gone["code"].as_str()), (404, Some("unknown_command")));
    }
}
