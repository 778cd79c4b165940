//! `Idempotency-Key`: a request that creates something and is repeated gets the answer of the first
//! one.
//!
//! A key belongs to method, path and token. Its answer, refusals too, is kept in the store for 24
//! hours before it is given: a repeat finds it there after a restart too. The answer to what
//! happens in one partition is kept in the batch of that change as well. So a repeat does nothing
//! again, wherever the server was killed. The answer by key alone is for repeats that name
//! something else. What publishes jobs needs no more than the former: see
//! [`Creation::kept_with_jobs`]. Nor do a command that was sent and messages of a stream: see
//! [`Creation::once_by_row`]. Of a campaign that was begun the id is kept. "Not now" is not kept.
//!
//! A repeat that comes while the first request is under way waits for it. For that, keys are
//! remembered in memory, beyond the limits below the newest only. A metric tells how many were
//! forgotten early.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use access::Caller;
use axum::extract::{FromRequest, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use base::locks::locked;
use base::{Problem, Timestamp};
use engine::queues::{IdempotencyKey, QueueCalls};
use engine::records::AnswerKey;
use net::problem::Refused;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;

const HEADER: &str = "idempotency-key";
/// Who publishes call after call, each under a key.
const SOURCE_HEADER: &str = "idempotency-source";
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
    body: Text,
    /// Of method, path, token and key, if it has a key.
    key: Option<Digest>,
    /// Of method, path, token and source, if it has one.
    source: Option<Digest>,
    /// What it asks for beside the body, if anything.
    query: Option<String>,
    caller: Option<Caller>,
}

/// A request that publishes jobs, as it is kept where they are.
#[derive(Debug)]
pub(crate) struct KeptWithJobs {
    pub body: Text,
    pub idempotency: Option<IdempotencyKey>,
    /// Who makes such requests one after the other.
    pub source: Option<AnswerKey>,
}

impl FromRequest<ApiState> for Creation {
    type Rejection = Refused;

    async fn from_request(request: Request, api: &ApiState) -> Result<Self, Refused> {
        let (key, source) = (digest_of(&request, HEADER)?, digest_of(&request, SOURCE_HEADER)?);
        let caller = request.extensions().get().cloned();
        let query = request.uri().query().and_then(asked_beside);
        let body = Text::from_request(request, api).await?;
        Ok(Self { body, key, source, query, caller })
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
        make: impl FnOnce(ApiState, Text, Option<IdempotencyKey>) -> F,
    ) -> Result<ApiAnswer, Refused>
    where
        F: Future<Output = Result<ApiAnswer, Problem>> + Send + 'static,
    {
        self.answered(api, make, |_, idempotency, made| {
            kept_in_store(api.engine().queues(), idempotency, made)
        })
        .await
    }

    /// [`Creation::once`], where the body is for nothing but the key. Its memory is given back
    /// before anything is waited for, by a repeat too.
    ///
    /// # Errors
    /// `idempotency_key_reused` when the key came with another body before.
    pub(crate) async fn once_without_body<F>(
        self,
        api: &ApiState,
        make: impl FnOnce(ApiState, Option<IdempotencyKey>) -> F,
    ) -> Result<ApiAnswer, Refused>
    where
        F: Future<Output = Result<ApiAnswer, Problem>> + Send + 'static,
    {
        let make = |api: ApiState, body: Text, idempotency: Option<IdempotencyKey>| {
            drop(body);
            make(api, idempotency)
        };
        self.once(api, make).await
    }

    /// [`Creation::once`], where whoever makes it answers a repeat from what was kept beside it.
    /// Nothing is kept here but who is under way.
    ///
    /// # Errors
    /// `idempotency_key_reused` when the key comes with another body meanwhile.
    pub(crate) async fn once_by_row<F>(
        self,
        api: &ApiState,
        make: impl FnOnce(ApiState, Text, Option<IdempotencyKey>) -> F,
    ) -> Result<ApiAnswer, Refused>
    where
        F: Future<Output = Result<ApiAnswer, Problem>> + Send + 'static,
    {
        let remembered = Arc::clone(&api.shared.remembered);
        let forgotten = |(key, kept): (Digest, Arc<RememberedRequest>), _, made: F| async move {
            let made = made.await;
            remembered.forget(key, &kept);
            made
        };
        self.answered(api, make, forgotten).await
    }

    /// [`Creation::once`], where the answer is not to be stored. A repeat after a restart, or after
    /// very many other keys, makes another.
    ///
    /// # Errors
    /// `idempotency_key_reused` when the key came with another body before.
    pub(crate) async fn once_in_memory<F>(
        self,
        api: &ApiState,
        make: impl FnOnce(ApiState, Text) -> F,
    ) -> Result<ApiAnswer, Refused>
    where
        F: Future<Output = Result<ApiAnswer, Problem>> + Send + 'static,
    {
        self.answered(api, |api, body, _| make(api, body), |_, _, made| made).await
    }

    /// What `make` answers, or what it answered before. What it makes is kept by `keep`.
    async fn answered<F, K>(
        self,
        api: &ApiState,
        make: impl FnOnce(ApiState, Text, Option<IdempotencyKey>) -> F,
        keep: impl FnOnce((Digest, Arc<RememberedRequest>), IdempotencyKey, F) -> K,
    ) -> Result<ApiAnswer, Refused>
    where
        F: Future<Output = Result<ApiAnswer, Problem>> + Send + 'static,
        K: Future<Output = Result<ApiAnswer, Problem>> + Send + 'static,
    {
        let Some(key) = self.key else { return Ok(make(api.clone(), self.body, None).await?) };
        let (kept, idempotency) = self.kept(key, api)?;
        let made =
            keep((key, Arc::clone(&kept)), idempotency, make(api.clone(), self.body, Some(idempotency)));
        Ok(answer_of(Arc::clone(&api.shared.remembered), key, kept, made).await)
    }

    /// Of all that it asks for. Another query under the same key is another body.
    fn body_digest(&self) -> Digest {
        let mut hash = Sha256::new_with_prefix(self.body.as_bytes());
        if let Some(query) = &self.query {
            hash.update(b"\0?");
            hash.update(query);
        }
        hash.finalize().into()
    }

    /// What is remembered of this request.
    fn kept(&self, key: Digest, api: &ApiState) -> Result<(Arc<RememberedRequest>, IdempotencyKey), Problem> {
        let now = api.engine().clock().now();
        let kept = api.shared.remembered.keep(key, self.body_digest(), now)?;
        let idempotency =
            IdempotencyKey { key: AnswerKey::of_digest(&key), body: AnswerKey::of_digest(&kept.body).0 };
        Ok((kept, idempotency))
    }

    /// The body, and the key in the form in which it is kept where the jobs are.
    ///
    /// # Errors
    /// 422 for a source without a key.
    pub(crate) fn kept_with_jobs(self) -> Result<KeptWithJobs, Problem> {
        let idempotency = self.key.map(|key| IdempotencyKey {
            key: AnswerKey::of_digest(&key),
            body: AnswerKey::of_digest(&self.body_digest()).0,
        });
        let source = self.source.map(|source| AnswerKey::of_digest(&source));
        if source.is_some() && idempotency.is_none() {
            let detail = "an Idempotency-Source needs an Idempotency-Key beside it";
            return Err(Problem::not_allowed("invalid_idempotency_key", detail));
        }
        Ok(KeptWithJobs { body: self.body, idempotency, source })
    }
}

/// What a query asks for beside the body. How long the caller waits for the end is no part of that.
fn asked_beside(query: &str) -> Option<String> {
    let parts = query.split('&').filter(|part| !part.is_empty() && !part.starts_with("wait="));
    Some(parts.collect::<Vec<_>>().join("&")).filter(|asked| !asked.is_empty())
}

/// The answer that the store has, or else what `make` answers, which it has from then on.
async fn kept_in_store(
    queues: QueueCalls,
    idempotency: IdempotencyKey,
    make: impl Future<Output = Result<ApiAnswer, Problem>>,
) -> Result<ApiAnswer, Problem> {
    if let Some(answer) = queues.recall(idempotency).await?.as_deref().and_then(ApiAnswer::from_stored) {
        return Ok(answer);
    }
    let answer = match make.await {
        // The key is that of another request.
        Err(problem) if problem.code == REUSED => return Err(problem),
        made => made.unwrap_or_else(|problem| ApiAnswer::refused(&problem)),
    };
    if !is_not_now(answer.status) {
        queues.remember(idempotency, answer.stored()).await?;
    }
    Ok(answer)
}

/// Whether the same request may be answered otherwise in a while: such an answer is not kept.
fn is_not_now(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// The key or the source of a request, made one with all that it belongs to.
fn digest_of(request: &Request, header: &'static str) -> Result<Option<Digest>, Problem> {
    let Some(given) = given(request.headers(), header)? else { return Ok(None) };
    let mut hash = Sha256::new();
    // A key and a source with the same text are two.
    let of_source: &[&[u8]] = if header == SOURCE_HEADER { &[b"source"] } else { &[] };
    let parts =
        [request.method().as_str().as_bytes(), request.uri().path().as_bytes(), whose(request), given];
    for part in parts.iter().chain(of_source) {
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

fn given<'a>(headers: &'a HeaderMap, header: &'static str) -> Result<Option<&'a [u8]>, Problem> {
    let mut keys = headers.get_all(header).iter();
    let Some(key) = keys.next().map(|key| key.as_bytes()) else { return Ok(None) };
    let fits =
        (1..=KEY_CHARS_MAX).contains(&key.len()) && key.iter().all(|byte| (b' '..=b'~').contains(byte));
    if !fits || keys.next().is_some() {
        let name = if header == SOURCE_HEADER { "Idempotency-Source" } else { "Idempotency-Key" };
        let detail =
            format!("{name} must be there once, with 1 to {KEY_CHARS_MAX} printable ASCII characters");
        return Err(Problem::not_allowed("invalid_idempotency_key", detail));
    }
    Ok(Some(key))
}

/// The remembered answer, or else what `make` answers. On a task of its own: a caller who goes away
/// changes nothing.
async fn answer_of(
    remembered: Arc<IdempotencyKeys>,
    key: Digest,
    kept: Arc<RememberedRequest>,
    make: impl Future<Output = Result<ApiAnswer, Problem>> + Send + 'static,
) -> ApiAnswer {
    let answering = tokio::spawn(async move {
        let make = async {
            let answer = match make.await {
                Err(problem) if problem.code == REUSED => {
                    // The store knows the key with another body, so it is remembered with the wrong
                    // one.
                    remembered.forget(key, &kept);
                    return Err(ApiAnswer::refused(&problem));
                }
                made => made.unwrap_or_else(|problem| ApiAnswer::refused(&problem)),
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
        Err(_) => ApiAnswer::refused(&Problem::unavailable("the server is stopping")),
    }
}

/// The keys that came, with their answers.
#[derive(Debug, Default)]
pub(crate) struct IdempotencyKeys(Mutex<KeyTable>);

#[derive(Debug, Default)]
struct KeyTable {
    kept: HashMap<Digest, IdempotencyEntry>,
    /// Keys in the order in which they came.
    oldest_first: VecDeque<(Timestamp, Digest)>,
    answers_bytes: usize,
    forgotten_early: u64,
}

#[derive(Debug)]
struct IdempotencyEntry {
    kept: Arc<RememberedRequest>,
    /// What its answer adds to `answers_bytes`; 0 until there is one.
    answer_bytes: usize,
}

/// What is kept of one key.
#[derive(Debug)]
struct RememberedRequest {
    body: Digest,
    /// Set once the first request is answered.
    answer: OnceCell<ApiAnswer>,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdempotencySize {
    pub keys: usize,
    pub bytes: usize,
    pub forgotten_early: u64,
}

impl IdempotencyKeys {
    pub(crate) fn size(&self) -> IdempotencySize {
        let table = locked(&self.0);
        let (keys, bytes) = (table.kept.len(), table.answers_bytes);
        IdempotencySize { keys, bytes, forgotten_early: table.forgotten_early }
    }

    /// What is kept of the key, from now on if it is new.
    fn keep(&self, key: Digest, body: Digest, now: Timestamp) -> Result<Arc<RememberedRequest>, Problem> {
        let mut table = locked(&self.0);
        table.forget_expired(now);
        if let Some(IdempotencyEntry { kept, .. }) = table.kept.get(&key) {
            return if kept.body == body { Ok(Arc::clone(kept)) } else { Err(reused()) };
        }
        table.make_room(KEYS_MAX - 1);
        let kept = Arc::new(RememberedRequest { body, answer: OnceCell::new() });
        table.kept.insert(key, IdempotencyEntry { kept: Arc::clone(&kept), answer_bytes: 0 });
        table.oldest_first.push_back((now, key));
        Ok(kept)
    }

    /// Counts an answer, unless its key was forgotten meanwhile.
    fn add(&self, key: Digest, kept: &Arc<RememberedRequest>, bytes: usize) {
        let mut table = locked(&self.0);
        let Some(entry) = table.kept.get_mut(&key).filter(|entry| Arc::ptr_eq(&entry.kept, kept)) else {
            return;
        };
        entry.answer_bytes = bytes;
        table.answers_bytes += bytes;
        table.make_room(KEYS_MAX);
    }

    /// Forgets a key that has no answer, unless it is another's by now. It is mostly a late one.
    fn forget(&self, key: Digest, kept: &Arc<RememberedRequest>) {
        let mut table = locked(&self.0);
        if table.kept.get(&key).is_some_and(|entry| Arc::ptr_eq(&entry.kept, kept)) {
            table.kept.remove(&key);
            let place = table.oldest_first.iter().rposition(|(_, other)| *other == key);
            table.oldest_first.remove(place.expect("every key is in the order"));
        }
    }
}

impl KeyTable {
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
    let detail = "the Idempotency-Key came with another body or query before; a new request needs a new key";
    Problem::not_allowed(REUSED, detail)
}

#[cfg(test)]
mod tests;
