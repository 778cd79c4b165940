//! An engine with a few devices and everything in front of it, in one thread, without a socket and
//! on a clock of its own.
//!
//! Each input has a server of its own, so that what an input finds does not depend on those before
//! it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use access::Access;
use api::{ApiState, router_with};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request};
use base::{Clock, Lineage, Timestamp, WayIn};
use engine::{Engine, EngineSettings, NewClient, NewDevice};
use futures_util::stream;
use http_body_util::BodyExt;
use net::memory_budget::MemoryBudget;
use prometheus_client::registry::Registry;
use serde_json::Value as Json;
use store::MemoryStore;
use tokio::time::Instant;
use tower_service::Service;

/// When every input begins: 2026-11-21T00:00:00Z.
pub(crate) const BEGIN: Timestamp = Timestamp(1_795_219_200_000);
/// A lock and a device of another kind.
pub(crate) const LOCK: &str = "0xA";
pub(crate) const METER: &str = "m1";

/// The runtime's virtual time, and a millisecond more whenever it is read: so feeds are never late
/// for long.
#[derive(Debug)]
struct SteppingClock {
    start: Instant,
    reads: AtomicI64,
}

impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        let reads = self.reads.fetch_add(1, Ordering::SeqCst);
        Timestamp(BEGIN.after(self.start.elapsed()).0 + reads)
    }

    fn wall(&self) -> Timestamp {
        BEGIN.after(self.start.elapsed())
    }
}

/// The server.
pub(crate) struct FuzzedServer {
    pub(crate) engine: Engine,
    router: Router,
}

/// What was answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) body: Json,
}

impl HttpAnswer {
    pub(crate) fn refused_as(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// A count in the body.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.body[name].as_u64().unwrap_or_else(|| panic!("{name} is a number in {}", self.body))
    }

    /// Line and code of what was rejected, in the order of the answer.
    pub(crate) fn rejected(&self) -> Vec<(u64, String)> {
        let of = |item: &Json| (item["line"].as_u64(), item["code"].as_str().map(str::to_owned));
        let items = self.body["rejected"].as_array().into_iter().flatten().map(of);
        items.map(|(line, code)| (line.expect("a line"), code.expect("a code"))).collect()
    }
}

/// A refusal repeats a piece of what was sent, and no more; in bytes.
const DETAIL_BYTES_MAX: usize = 1_200;

/// A detail is short and has one line, whatever was sent.
pub(crate) fn check_detail(detail: &str) {
    assert!(!detail.contains(['\n', '\r', '\0']), "a detail has one line: {detail:?}");
    assert!(detail.len() <= DETAIL_BYTES_MAX, "a detail is short: {} bytes, {detail:.200?}", detail.len());
}

/// Runs with a server, whose time passes only when everything waits for it.
pub(crate) fn with_server<T>(partitions: u16, body: impl AsyncFnOnce(&FuzzedServer) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without a socket needs only memory").block_on(async {
        let server = FuzzedServer::start(partitions).await;
        let told = body(&server).await;
        server.engine.stop().await;
        told
    })
}

impl FuzzedServer {
    async fn start(partitions: u16) -> Self {
        let store = Arc::new(MemoryStore::new(Lineage(1), partitions));
        let clock = Arc::new(SteppingClock { start: Instant::now(), reads: AtomicI64::new(0) });
        let settings = EngineSettings { ways_configured: [true, true, false], ..EngineSettings::for_tests() };
        let engine = Engine::start(settings, store, clock).await.expect("an empty store loads");
        engine.intake(WayIn::Http).attend(true).await;
        for (id, kind) in [(LOCK, "lock"), (METER, "meter")] {
            let device = NewDevice { id: id.into(), kind: Some(kind.into()), ..NewDevice::default() };
            engine.create_device(device).await.expect("a new device");
        }
        let client = NewClient {
            id: Some("acme".into()),
            name: "Acme".into(),
            url: "https://acme.example/hook".into(),
            secret: Some(vec![7; 24]),
            notices: false,
        };
        engine.create_client(client).await.expect("a new client");
        let metrics = Arc::new(Mutex::new(Registry::default()));
        let memory = MemoryBudget::default();
        let reports = gateway::http::routes(&engine, &Arc::default(), &memory, &mut Registry::default());
        let router = router_with(&ApiState::new(engine.clone(), Access::Open, &memory, metrics), reports);
        Self { engine, router }
    }

    /// A request whose body comes in these pieces.
    pub(crate) async fn post(&self, path: &str, content_type: &str, pieces: &[&[u8]]) -> HttpAnswer {
        let pieces: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
        let request = Request::builder().method(Method::POST).uri(path).header(CONTENT_TYPE, content_type);
        self.answer(request.body(Body::from_stream(stream::iter(pieces))).expect("a request")).await
    }

    pub(crate) async fn get(&self, path: &str) -> HttpAnswer {
        self.answer(Request::builder().uri(path).body(Body::empty()).expect("a request")).await
    }

    async fn answer(&self, request: Request<Body>) -> HttpAnswer {
        let response = self.router.clone().call(request).await.expect("a router never fails");
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a whole body").to_bytes();
        let body = serde_json::from_slice(&body).expect("every answer is JSON");
        let answer = HttpAnswer { status, body };
        assert!(status < 500, "bad input is never our failure: {answer:?}");
        assert_eq!(status >= 400, !answer.refused_as().is_empty(), "a refusal has a code: {answer:?}");
        let rejected = answer.body["rejected"].as_array().into_iter().flatten();
        for detail in rejected.chain([&answer.body]).filter_map(|problem| problem["detail"].as_str()) {
            check_detail(detail);
        }
        answer
    }
}
