//! lmstfy's HTTP API and its admin API, for programs that were written for that server: each on a
//! listener of its own.
//!
//! Paths, parameters, statuses and JSON members are those of the real server, also where its
//! document says otherwise. This is because its clients were written against what it does. Behind
//! them are the queues of the REST API: a job that was published here can be consumed there. Where
//! this differs on purpose, `docs/lmstfy.md` says so. Nothing here knows how a job is kept; tokens
//! are kept by whoever hands in [`Tokens`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::any;
use base::Timestamp;
use base::locks::locked;
use engine::Engine;
use engine::queues::QueueCalls;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use governor::clock::DefaultClock;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tracing::info;

mod admin;
mod answer;
mod attributes;
mod calls;
mod consume;
mod dead;
mod decoding;
mod guard;
mod job;
mod limit;
mod look;
mod metrics;
mod publish;
mod query;
mod refusals;
mod request_id;
mod route;
mod sizes;
#[cfg(test)]
mod tests;
mod tokens;

pub use limit::Limit;
pub use tokens::{Keep, StoredLimit, StoredToken, StoredTokens, Tokens, TooManyTokens};

use access::{Access, FailedAuth};
use answer::LmstfyAnswer;
use calls::TakenIn;
use metrics::LmstfyMetrics;
use net::body_drain::BodyDrain;
use net::memory_budget::{MemoryBudget, MemoryPart, Purpose};
use refusals::RefusalLog;
use request_id::RequestIds;

/// The one pool that there is: the real server spreads namespaces over several of them.
const POOL: &str = "default";

/// Both APIs. Cheap to clone.
#[derive(Clone)]
pub struct Lmstfy {
    shared: Arc<LmstfyState>,
}

struct LmstfyState {
    engine: Engine,
    queues: QueueCalls,
    tokens: Tokens,
    /// The tokens of the REST API are good here too.
    access: Arc<Access>,
    /// Tokens that nobody knows.
    failed: FailedAuth,
    refusals: RefusalLog,
    registry: Arc<Mutex<Registry>>,
    metrics: LmstfyMetrics,
    memory: MemoryPart,
    body_drain: BodyDrain,
    request_ids: RequestIds,
    access_log: AtomicBool,
    stop: watch::Receiver<bool>,
}

impl Lmstfy {
    /// Both APIs over `engine`, for whoever has one of `tokens`, or one of the REST API's, which
    /// `access` knows. Its own metrics go into `metrics`, and the admin API shows all that are
    /// there. Consumers stop waiting when `stop` is true.
    #[must_use]
    pub fn new(
        engine: Engine,
        access: Arc<Access>,
        memory: &MemoryBudget,
        tokens: Tokens,
        registry: Arc<Mutex<Registry>>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let metrics = LmstfyMetrics::default();
        metrics.register(&mut locked(&registry));
        let shared = LmstfyState {
            queues: engine.queues(),
            engine,
            tokens,
            access,
            failed: FailedAuth::new(DefaultClock::default()),
            refusals: RefusalLog::default(),
            registry,
            metrics,
            memory: memory.part(Purpose::Bodies),
            body_drain: BodyDrain::default(),
            request_ids: RequestIds::default(),
            access_log: AtomicBool::new(false),
            stop,
        };
        Self { shared: Arc::new(shared) }
    }

    /// What programs ask: `/api/...`.
    pub fn api(&self) -> Router {
        Router::new().fallback(any(ApiHandler)).with_state(Arc::clone(&self.shared))
    }

    /// What operators ask: `/token/...`, `/limits`, `/info` and the like.
    pub fn admin(&self) -> Router {
        Router::new().fallback(any(admin)).with_state(Arc::clone(&self.shared))
    }

    /// What those are answered that there is no room for.
    pub fn busy() -> Router {
        let full = || LmstfyAnswer::error(StatusCode::SERVICE_UNAVAILABLE, "too many connections");
        Router::new().fallback(any(async move || full().into_response(None)))
    }
}

base::debug_as_name!(Lmstfy);

/// The API, as a handler of its own: who waits for a job keeps nothing of the request but what is
/// asked for.
#[derive(Clone)]
struct ApiHandler;

impl Handler<(), Arc<LmstfyState>> for ApiHandler {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, shared: Arc<LmstfyState>) -> Self::Future {
        let began = Instant::now();
        let (parts, body) = shared.body_drain.watching(request).into_parts();
        let noted = shared.note(&parts, str::to_owned);
        let taken_in = calls::take_in(Arc::clone(&shared), parts, body).boxed();
        async move {
            let (taken_in, under_way) = taken_in.await;
            let (call, answer) = match taken_in {
                TakenIn::Answered(call, answer) => (call, answer),
                TakenIn::Consumes(consumer) => ("consume", consumer.answer(&shared).await),
            };
            shared.metrics.answered(call, answer.status, began);
            shared.finish(noted, answer.during(under_way), began)
        }
        .boxed()
    }
}

async fn admin(State(shared): State<Arc<LmstfyState>>, request: Request) -> Response {
    let began = Instant::now();
    let (parts, body) = shared.body_drain.watching(request).into_parts();
    let noted = shared.note(&parts, admin::without_token);
    let answer = admin::answer(&shared, &parts, body).await;
    shared.finish(noted, answer, began)
}

/// What the log is to say of a request.
type Noted = Option<Box<(Method, String)>>;

impl LmstfyState {
    fn now(&self) -> Timestamp {
        self.engine.clock().now()
    }

    /// What the log is to say, if it is to say anything. Tokens are not logged: neither the query,
    /// where one may be, nor those in paths, which `path` leaves out.
    fn note(&self, parts: &Parts, path: fn(&str) -> String) -> Noted {
        let is_logged = self.access_log.load(Ordering::Relaxed);
        is_logged.then(|| Box::new((parts.method.clone(), path(parts.uri.path()))))
    }

    fn finish(&self, noted: Noted, answer: LmstfyAnswer, began: Instant) -> Response {
        let id = self.request_ids.next(self.now());
        if let Some(noted) = noted {
            let ((method, path), code) = (&*noted, answer.status.as_u16());
            info!(%method, ?path, code, latency = ?began.elapsed(), req_id = id, "lmstfy request");
        }
        answer.into_response(Some(id))
    }
}
