//! The intake over HTTP: the calls of the server that may wait, and how much waits.
//!
//! A body is read whole. All that are not small have [`BODIES_BYTES_MAX`] of memory together.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base::Problem;
use base::limits::JSON_BODY_BYTES_MAX;
use net::body::{BodyPieces, is_ndjson};
use net::content_encoding::Decoders;
use net::path::PathParameters;
use net::problem::{self, Refused};
use net::shares::Share;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::calls::name_of;
use crate::destination::Destination;
use crate::disk_threads::SpoolIntake;
use crate::items::{self, SpoolBody};
use crate::log::{AppendError, SpoolLog, SpoolSummary};
use crate::state::SpoolTotals;

/// Connections at a time.
pub(crate) const CONNECTIONS_MAX: usize = 256;
/// Bodies of all requests that are being read or made durable, in bytes.
const BODIES_BYTES_MAX: usize = 32 * 1_024 * 1_024;
/// They are counted in these, in bytes.
const BODY_UNIT_BYTES: usize = 1_024;
/// A body up to this size takes no room.
const SMALL_BODY_BYTES: usize = 4 * BODY_UNIT_BYTES;
/// How long a body may take.
const BODY_MAX: Duration = Duration::from_secs(60);

const _: () = assert!(BODIES_BYTES_MAX >= JSON_BODY_BYTES_MAX, "the largest body has room");

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct SpoolHttp {
    intake: SpoolIntake,
    log: Arc<SpoolLog>,
    /// What the spool calls itself.
    own_name: Arc<str>,
    room: Share,
    decoders: Arc<Decoders>,
    registry: Arc<Registry>,
}

impl SpoolHttp {
    pub(crate) fn new(intake: SpoolIntake, log: Arc<SpoolLog>, mut registry: Registry) -> Self {
        let decoders = Decoders::default();
        decoders.register(&mut registry);
        let room = Share::new(BODIES_BYTES_MAX / BODY_UNIT_BYTES);
        let own_name = name_of(log.identity()).into();
        Self { intake, log, own_name, room, decoders: Arc::new(decoders), registry: Arc::new(registry) }
    }

    pub(crate) fn routes(self) -> Router {
        Router::new()
            .route("/v1/reports", post(reports))
            .route("/v1/queues/{ns}/{queue}/jobs", post(jobs))
            .route("/v1/streams/{ns}/{stream}/messages", post(messages))
            .route("/v1/spool", get(spool))
            .route("/metrics", get(metrics))
            .route("/healthz", get(healthy))
            .route("/readyz", get(healthy))
            .fallback(unknown)
            .method_not_allowed_fallback(unknown_method)
            .with_state(self)
    }

    async fn take(&self, to: &Destination, request: Request) -> Result<Response, Problem> {
        let request = match self.decoders.decoded(request) {
            Ok(request) => request,
            Err(refused) => return Ok(*refused),
        };
        let (head, body) = request.into_parts();
        let (bytes, _room) = timeout(BODY_MAX, self.read(body)).await.map_err(|_| too_slow())??;
        let key = key_of(&head.headers)?;
        let is_lines = is_ndjson(&head.headers);
        let body = SpoolBody { bytes: &bytes, is_lines, key, own_name: &self.own_name };
        let made = getrandom::u64().map_err(|error| Problem::unavailable(error.to_string()))?;
        let entries = items::entries(to, &body, || format!("spool-{made:016x}-{}", bytes.len()))?;
        drop(bytes);
        let spooled = if entries.is_empty() {
            0
        } else {
            self.intake.append(entries).await.map_err(|error| refusal(&error))?
        };
        Ok((StatusCode::ACCEPTED, json(format!("{{\"spooled\":{spooled}}}"))).into_response())
    }

    /// The whole body, and the room that it has; a small one needs none.
    async fn read(&self, body: Body) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Problem> {
        if body.size_hint().lower() > JSON_BODY_BYTES_MAX as u64 {
            return Err(too_large());
        }
        let (mut pieces, mut whole, mut room) =
            (BodyPieces::of(body), Vec::new(), None::<OwnedSemaphorePermit>);
        while let Some(piece) = pieces.next().await? {
            let bytes = whole.len() + piece.len();
            if bytes > JSON_BODY_BYTES_MAX {
                return Err(too_large());
            }
            if bytes > SMALL_BODY_BYTES {
                let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
                let taken = self.room.try_take(bytes.div_ceil(BODY_UNIT_BYTES).saturating_sub(held) as u32);
                let taken =
                    taken.ok_or_else(|| Problem::new(503, "busy", "too many large bodies at a time"))?;
                match &mut room {
                    Some(room) => room.merge(taken),
                    None => room = Some(taken),
                }
            }
            whole.extend_from_slice(&piece);
        }
        Ok((whole, room))
    }
}

async fn reports(State(http): State<SpoolHttp>, request: Request) -> Result<Response, Refused> {
    Ok(http.take(&Destination::reports(), request).await?)
}

async fn jobs(
    State(http): State<SpoolHttp>,
    PathParameters((namespace, queue)): PathParameters<(String, String)>,
    request: Request,
) -> Result<Response, Refused> {
    let to = Destination::queue(&namespace, &queue).ok_or_else(|| wrong_name("queue"))?;
    Ok(http.take(&to, request).await?)
}

async fn messages(
    State(http): State<SpoolHttp>,
    PathParameters((namespace, stream)): PathParameters<(String, String)>,
    request: Request,
) -> Result<Response, Refused> {
    let to = Destination::stream(&namespace, &stream).ok_or_else(|| wrong_name("stream"))?;
    Ok(http.take(&to, request).await?)
}

/// What `GET /v1/spool` answers.
#[derive(Serialize)]
struct SpoolShape {
    waiting: u64,
    bytes: u64,
    oldest_at: Option<String>,
    forwarded: u64,
    refused: u64,
    dropped: u64,
    damaged: u64,
    conflicts: u64,
    destinations: u64,
    disk_bytes: u64,
    error: Option<String>,
}

async fn spool(State(http): State<SpoolHttp>) -> Response {
    let SpoolSummary { waiting, bytes, disk_bytes, destinations, oldest_at, totals, error } =
        http.log.summary();
    let SpoolTotals { forwarded, refused, dropped, damaged, conflicts } = totals;
    let oldest_at = oldest_at.map(|at| at.to_string());
    let shape = SpoolShape {
        waiting,
        bytes,
        oldest_at,
        forwarded,
        refused,
        dropped,
        damaged,
        conflicts,
        destinations,
        disk_bytes,
        error,
    };
    Json(shape).into_response()
}

async fn metrics(State(http): State<SpoolHttp>) -> Result<Response, Refused> {
    let mut text = String::new();
    let encoded = prometheus_client::encoding::text::encode(&mut text, &http.registry);
    encoded.map_err(|error| Problem::unavailable(error.to_string()))?;
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}

async fn healthy() -> Response {
    json("{\"status\":\"ok\"}".to_owned()).into_response()
}

async fn unknown() -> Response {
    let detail = "the spool takes reports, jobs and messages; ask the server for anything else";
    problem::response(&Problem::unknown("unknown_route", detail))
}

/// The router adds `Allow` on the way out.
async fn unknown_method(method: Method) -> Response {
    let detail = format!("this route does not take {method}; the Allow header lists what it takes");
    problem::response(&Problem::new(405, "method_not_allowed", detail))
}

/// For callers that there is no room for.
pub(crate) fn busy() -> Router {
    let answer =
        || async { problem::response(&Problem::new(503, "too_many_connections", "try again in a moment")) };
    Router::new().fallback(answer)
}

fn json(text: String) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], text)
}

fn key_of(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let wrong = |_| Problem::not_allowed("invalid_idempotency_key", "an Idempotency-Key is printable ASCII");
    key.to_str().map(Some).map_err(wrong)
}

fn refusal(error: &AppendError) -> Problem {
    Problem::new(503, code(error), error.to_string())
}

fn code(error: &AppendError) -> &'static str {
    match error {
        AppendError::Full => "spool_full",
        AppendError::TooManyDestinations => "too_many_destinations",
        AppendError::Disk(_) => "storage_unavailable",
        AppendError::Stopping => "unavailable",
    }
}

fn wrong_name(what: &str) -> Problem {
    let detail = format!("the namespace and the {what} have 1 to 255 visible ASCII characters");
    Problem::not_allowed("invalid_name", detail)
}

fn too_large() -> Problem {
    Problem::new(413, "body_too_large", format!("the body has more than {JSON_BODY_BYTES_MAX} bytes"))
}

fn too_slow() -> Problem {
    Problem::new(408, "body_too_slow", format!("the body took more than {BODY_MAX:?}"))
}
