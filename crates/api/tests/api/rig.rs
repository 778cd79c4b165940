//! A server without a socket, and `check`: one request and what is expected of its answer.

use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use access::Access;
use api::{ApiState, router_with};
use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request};
use base::id::DELIVERY_ID_PREFIX;
use base::{Clock, DeviceId, Lineage, Timestamp, Value, WayIn};
use engine::records::AttemptDetail;
use engine::settings::RetrySettings;
use engine::{AttemptDue, AttemptEnd, AttemptOutcome, Engine, EngineSettings, Report, ReportContent};
use futures_util::future::poll_immediate;
use http_body_util::BodyExt;
use net::memory_budget::MemoryBudget;
use serde_json::Value as Json;
use store::MemoryStore;
use tokio::sync::watch;
use tokio::task::yield_now;
use tower_service::Service;

use crate::described::Described;

/// When every test begins: 2026-11-21T00:00:00Z.
const BEGIN: i64 = 1_795_219_200_000;

/// A clock that goes on by a millisecond whenever it is read, and by more when a test says so.
#[derive(Debug)]
pub(crate) struct TickingClock(AtomicI64);

impl TickingClock {
    pub(crate) fn advance(&self, span: Duration) {
        self.0.fetch_add(base::time::millis(span), Ordering::SeqCst);
    }
}

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1, Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A running engine with the API in front.
pub(crate) struct Server {
    router: Router,
    pub engine: Engine,
    pub store: Arc<MemoryStore>,
    pub clock: Arc<TickingClock>,
    pub memory: MemoryBudget,
    described: Described,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    /// The body as JSON; null when it is empty.
    pub(crate) fn json(&self) -> Json {
        if self.text.is_empty() {
            return Json::Null;
        }
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("ASCII"))
    }
}

impl Server {
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) async fn start() -> Self {
        Self::start_with(4, Router::new()).await
    }

    /// With that many partitions, and routes beside those of the API.
    pub(crate) async fn start_with(partitions: u16, more: Router) -> Self {
        let store = Arc::new(MemoryStore::new(Lineage(1), partitions));
        Self::over(store, Arc::new(TickingClock(AtomicI64::new(BEGIN))), more).await
    }

    /// Whose commits wait until [`Server::while_commits_pass`] lets them through.
    pub(crate) async fn start_manual() -> Self {
        let store = Arc::new(MemoryStore::manual(Lineage(1), 4));
        Self::over(store, Arc::new(TickingClock(AtomicI64::new(BEGIN))), Router::new()).await
    }

    /// The outcome of a future, during which commits are let through.
    pub(crate) async fn while_commits_pass<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            if let Some(outcome) = poll_immediate(&mut future).await {
                return outcome;
            }
            if !self.store.step() {
                yield_now().await;
            }
        }
    }

    /// The same data, served anew.
    pub(crate) async fn restart(self) -> Self {
        self.engine.stop().await;
        Self::over(self.store, self.clock, Router::new()).await
    }

    async fn over(store: Arc<MemoryStore>, clock: Arc<TickingClock>, more: Router) -> Self {
        let (port, engine_clock) = (Arc::clone(&store), Arc::clone(&clock));
        let engine = Engine::start(settings(), port, engine_clock).await.expect("the store loads");
        engine.intake(WayIn::Http).attend(true).await;
        let memory = MemoryBudget::default();
        let state = ApiState::new(engine.clone(), Access::Open, &memory, Arc::new(Mutex::default()));
        let ended = AttemptEnd {
            at: Timestamp(BEGIN),
            took: Duration::from_millis(12),
            answer: AttemptOutcome::Status { code: 204, retry_after: None },
            detail: AttemptDetail::default(),
        };
        let state = state.testing_with(move |_| {
            let ended = ended.clone();
            Box::pin(async move { Ok(ended) })
        });
        let router = router_with(&state, more);
        let document =
            sent(&router, request("GET /openapi.json", "").body(Body::empty()).expect("a request"));
        let described = Described::new(document.await.json());
        Self { router, engine, store, clock, memory, described }
    }

    /// The same engine behind an API that is told of syncs at intervals.
    pub(crate) fn synced_within(self, interval: Duration) -> Self {
        let state = ApiState::new(
            self.engine.clone(),
            Access::Open,
            &MemoryBudget::default(),
            Arc::new(Mutex::default()),
        );
        Self { router: router_with(&state.synced_within(interval), Router::new()), ..self }
    }

    /// The same engine behind an API whose callers wait no longer than until `stop` is true.
    pub(crate) fn ended_by(self, stop: watch::Receiver<bool>) -> Self {
        let state = ApiState::new(
            self.engine.clone(),
            Access::Open,
            &MemoryBudget::default(),
            Arc::new(Mutex::default()),
        );
        Self { router: router_with(&state.ended_by(stop), Router::new()), ..self }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let call = format!("{} {}", request.method(), request.uri());
        let answer = sent(&self.router, request).await;
        self.described.check(&call, &answer);
        answer
    }

    /// An answer whose body nobody has read.
    pub(crate) async fn answer(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().call(request).await.expect("a router never fails")
    }

    /// `call` is a method and a path.
    pub(crate) async fn call(&self, call: &str, body: &str) -> Answer {
        self.send(request(call, body).body(Body::from(body.to_owned())).expect("a request")).await
    }

    /// The answer to a GET that succeeds.
    pub(crate) async fn get(&self, path: &str) -> Json {
        let answer = self.call(&format!("GET {path}"), "").await;
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.text);
        answer.json()
    }

    /// Makes a call; the answer has that status, and covers `expect`. Of a problem `expect` is the
    /// code.
    pub(crate) async fn check(&self, call: &str, body: &str, status: u16, expect: &str) -> Json {
        let answer = self.call(call, body).await;
        check_form(call, &answer);
        assert_eq!(answer.status, status, "{call} {body}: {}", answer.text);
        let json = answer.json();
        if status >= 400 {
            assert_eq!(json["code"], expect, "{call} {body}: {}", answer.text);
        } else if expect.is_empty() {
            assert_eq!(answer.text, "", "{call} {body}");
        } else {
            let expect = serde_json::from_str(expect).unwrap_or_else(|error| panic!("{error}: {expect}"));
            assert!(covers(&expect, &json), "{call} {body}: {json} does not cover {expect}");
        }
        json
    }

    pub(crate) async fn check_all(&self, rows: &[(&str, &str, u16, &str)]) {
        for (call, body, status, expect) in rows {
            self.check(call, body, *status, expect).await;
        }
    }

    pub(crate) async fn add_device(&self, id: &str) {
        self.check("POST /v1/devices", &format!(r#"{{"id":"{id}"}}"#), 201, "{}").await;
    }

    pub(crate) async fn add_client(&self, id: &str) {
        let body = format!(r#"{{"id":"{id}","name":"{id}","url":"https://{id}.example/hook"}}"#);
        self.check("POST /v1/clients", &body, 201, "{}").await;
    }

    pub(crate) async fn link(&self, device: &str, client: &str) {
        self.check(&format!("PUT /v1/devices/{device}/clients/{client}"), "", 204, "").await;
    }

    /// A report of a lock, durable.
    pub(crate) async fn report(&self, device: &str, number: i32) {
        self.report_at(device, number, None).await;
    }

    pub(crate) async fn report_at(&self, device: &str, number: i32, ts: Option<Timestamp>) {
        let value = Value::number(number.into()).expect("finite");
        let report = Report {
            device: DeviceId::new(device).expect("an id"),
            kind: None,
            content: ReportContent::Value { value, ts },
            id: None,
        };
        let pending = self.engine.intake(WayIn::Http).submit(vec![report]).await.expect("accepting");
        let outcome = pending.durable().await.expect("durable");
        assert_eq!(outcome.accepted, 1, "{outcome:?}");
    }

    /// The attempts that are due now, leased.
    pub(crate) async fn lease_all(&self) -> Vec<AttemptDue> {
        let mut due = Vec::new();
        for (partition, client) in self.engine.due_lanes().take_now() {
            due.extend(self.engine.exchange(partition, Vec::new(), vec![(client, 1_000)]).await.concat());
        }
        due
    }

    /// Ends an attempt with that answer, and waits until that can be read.
    pub(crate) async fn end(&self, due: &AttemptDue, answer: AttemptOutcome) {
        self.end_seeing(due, answer, AttemptDetail::default()).await;
    }

    /// Ends an attempt that saw that of its receiver.
    pub(crate) async fn end_seeing(&self, due: &AttemptDue, answer: AttemptOutcome, detail: AttemptDetail) {
        let end = AttemptEnd { at: self.clock.now(), took: Duration::from_millis(12), answer, detail };
        let to = self.engine.directory().get(due.client);
        if let Some(to) = to {
            self.engine.note_answer(&to, answer).await.expect("accepting");
        }
        self.engine.exchange(due.partition, vec![(due.reservation, end)], Vec::new()).await;
        let path = format!("/v1/deliveries/{}", due.delivery.to_text(DELIVERY_ID_PREFIX));
        while self.get(&path).await["attempts"].as_array().is_none_or(|all| all.len() < due.attempt as usize)
        {
            yield_now().await;
        }
    }
}

async fn sent(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().call(request).await.expect("a router never fails");
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    let text = String::from_utf8(body.to_vec()).expect("UTF-8");
    Answer { status: parts.status.as_u16(), headers: parts.headers, text }
}

/// The beginning of a request.
pub(crate) fn request(call: &str, body: &str) -> axum::http::request::Builder {
    let (method, path) = call.split_once(' ').expect("a method and a path");
    let request = Request::builder().method(method).uri(path);
    if body.is_empty() { request } else { request.header(CONTENT_TYPE, "application/json") }
}

/// What holds for every answer: JSON in the right type, and a problem where it refuses.
pub(crate) fn check_form(call: &str, answer: &Answer) {
    let content_type = answer.header("content-type");
    if answer.status < 400 {
        let expect = if answer.text.is_empty() { None } else { Some("application/json") };
        assert_eq!(content_type, expect, "{call}");
        return;
    }
    let problem = answer.json();
    assert_eq!(content_type, Some("application/problem+json"), "{call}");
    assert_eq!(problem["status"], answer.status, "{call}");
    for member in ["type", "title", "detail", "code"] {
        assert!(
            problem[member].as_str().is_some_and(|text| !text.is_empty()),
            "{call}: {member} of {problem}"
        );
    }
    assert_eq!(answer.header("retry-after").is_some(), answer.status == 503, "{call}");
}

/// Whether `actual` has all that `expect` has; `"*"` stands for anything that is not null.
fn covers(expect: &Json, actual: &Json) -> bool {
    match (expect, actual) {
        (Json::String(any), actual) if any == "*" => !actual.is_null(),
        (Json::Object(expect), Json::Object(actual)) => {
            expect.iter().all(|(name, expect)| actual.get(name).is_some_and(|actual| covers(expect, actual)))
        }
        (Json::Array(expect), Json::Array(actual)) => {
            expect.len() == actual.len() && expect.iter().zip(actual).all(|(e, a)| covers(e, a))
        }
        _ => expect == actual,
    }
}

/// The names of an object's members, in order.
pub(crate) fn names(object: &Json) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn settings() -> EngineSettings {
    let usual = EngineSettings::for_tests();
    EngineSettings { retry: RetrySettings { attempts_max: 2, ..usual.retry }, ..usual }
}
