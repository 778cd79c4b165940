//! Reports over HTTP: `POST /v1/reports` with one object, or with any number of them as NDJSON.
//! Also the replay of refused ones, and what devices answer to commands.
//!
//! The answer comes when everything that is accepted is durable. A body that has begun is never
//! answered "too busy": when the engine is behind, the body is read more slowly. Whoever serves
//! these routes tells the engine that this way in is attended.

use std::fmt::Display;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base::{DeviceId, Problem, WayIn};
use engine::intake::{Received, Slice};
use engine::{Engine, Intake, SliceOutcome};
use net::body::{WholeBody, is_ndjson};
use net::memory_budget::{MemoryBudget, MemoryPart, Purpose};
use net::metrics::LabelCounter;
use net::problem;
use net::transfer::NODE_HEADER;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use self::refusals::{HttpSender, Refusals};
use crate::decode::kinds::KindForms;
use crate::decode::{self, DecodeRules};
use crate::metrics::ReportMetrics;

mod ack;
mod answer;
mod body;
mod lines;
mod ndjson;
mod refusals;
mod replay;

pub use replay::Replayer;

/// The routes, for the router that serves the API. A replay reads the topics of these kinds as the
/// MQTT listener does. Bodies take their memory of `memory`. Its metrics go into `registry`.
pub fn routes(
    engine: &Engine,
    kinds: &Arc<KindForms>,
    memory: &MemoryBudget,
    registry: &mut Registry,
) -> Router {
    routes_and_replayer(engine, kinds, memory, registry).0
}

/// The same, and what hands refused reports in again without a request.
pub fn routes_and_replayer(
    engine: &Engine,
    kinds: &Arc<KindForms>,
    memory: &MemoryBudget,
    registry: &mut Registry,
) -> (Router, Replayer) {
    let metrics = HttpMetrics::default();
    metrics.register(registry);
    let intake = engine.intake(WayIn::Http);
    let refusals = Refusals::default();
    let [memory, memory_of_lines] = [Purpose::Bodies, Purpose::Lines].map(|purpose| memory.part(purpose));
    let (engine, kinds) = (engine.clone(), Arc::clone(kinds));
    let shared = Arc::new(HttpShared { engine, kinds, intake, metrics, refusals, memory, memory_of_lines });
    let router = Router::new()
        .route("/v1/reports", post(take).fallback(wrong_method))
        .route("/v1/devices/{id}/ack", post(ack::ack).fallback(wrong_method))
        .route("/v1/quarantine/{id}/replay", post(replay::replay).fallback(wrong_method))
        .with_state(Arc::clone(&shared));
    (router, Replayer(shared))
}

/// What every request needs.
#[derive(Debug)]
struct HttpShared {
    engine: Engine,
    kinds: Arc<KindForms>,
    intake: Intake,
    metrics: HttpMetrics,
    refusals: Refusals,
    memory: MemoryPart,
    memory_of_lines: MemoryPart,
}

impl HttpShared {
    /// Counts and logs a refused report.
    fn refused(&self, sender: &HttpSender, device: Option<&DeviceId>, problem: &Problem, from: impl Display) {
        self.metrics.reports.count_refused(problem);
        self.refusals.log(sender, device, problem, from);
    }
}

#[derive(Debug)]
struct HttpMetrics {
    reports: ReportMetrics,
    bodies: LabelCounter,
    received_bytes: Counter,
    slices_in_flight: Gauge,
    held_bytes: Gauge,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        Self {
            reports: ReportMetrics::new(WayIn::Http),
            bodies: LabelCounter::new("result"),
            received_bytes: Counter::default(),
            slices_in_flight: Gauge::default(),
            held_bytes: Gauge::default(),
        }
    }
}

impl HttpMetrics {
    fn register(&self, registry: &mut Registry) {
        self.reports.register(registry);
        self.bodies.register(
            registry,
            "fieldpost_http_report_bodies",
            "Bodies of POST /v1/reports by result: answered, broken_off, too_large, too_slow, busy, \
             not_accepting",
        );
        let help = "Bytes of bodies of POST /v1/reports";
        registry.register("fieldpost_http_reports_received_bytes", help, self.received_bytes.clone());
        let help = "Slices of reports handed in over HTTP whose durability is awaited";
        registry.register("fieldpost_http_report_slices_in_flight", help, self.slices_in_flight.clone());
        let help = "Memory set aside for NDJSON reports that are not durable yet";
        registry.register("fieldpost_http_report_held_bytes", help, self.held_bytes.clone());
    }
}

async fn take(State(shared): State<Arc<HttpShared>>, request: Request) -> Response {
    let (many, sender) = (is_ndjson(request.headers()), HttpSender::of(&request));
    let is_of_node = request.headers().contains_key(NODE_HEADER);
    let body = request.into_body();
    let taken = if many {
        ndjson::take(&shared, &sender, body).await
    } else {
        take_one(&shared, &sender, body).await
    };
    let (result, mut response) = match taken {
        Ok(tally) => ("answered", answer::tally(&tally)),
        Err(RequestRefused::NotTaken(result, problem)) => (result, problem::response(&problem)),
        Err(RequestRefused::Report(problem)) => ("answered", problem::response(&problem)),
    };
    shared.metrics.bodies.count(result);
    if is_of_node && let Ok(name) = HeaderValue::from_str(&shared.engine.streams().node_name()) {
        response.headers_mut().insert(HeaderName::from_static(NODE_HEADER), name);
    }
    response
}

/// `Allow` is all that OPTIONS asks for.
async fn wrong_method(method: Method) -> Response {
    if method == Method::OPTIONS {
        return (StatusCode::NO_CONTENT, [(ALLOW, "POST")]).into_response();
    }
    let problem = Problem::new(405, "method_not_allowed", "this route takes POST only");
    ([(ALLOW, "POST")], problem::response(&problem)).into_response()
}

/// Several reports in a body that was sent as one: the refusal says how they are sent.
fn with_content_type(problem: Problem, bytes: &[u8]) -> Problem {
    if problem.code != "unreadable" || !decode::is_followed(bytes) {
        return problem;
    }
    let how = "several reports are NDJSON: send Content-Type: application/x-ndjson";
    Problem { detail: format!("{}; {how}", problem.detail), ..problem }
}

/// Why a request gets a problem and not a tally.
#[derive(Debug)]
enum RequestRefused {
    /// The body could not be taken; the word is the label it is counted under.
    NotTaken(&'static str, Problem),
    /// The single report was refused.
    Report(Problem),
}

impl From<engine::intake::NotAccepting> for RequestRefused {
    fn from(not: engine::intake::NotAccepting) -> Self {
        Self::NotTaken("not_accepting", not.into())
    }
}

async fn take_one(
    shared: &HttpShared,
    sender: &HttpSender,
    body: Body,
) -> Result<answer::BodyOutcome, RequestRefused> {
    let WholeBody { bytes, held: _held } = body::whole(body, &shared.memory, &sender.key).await?;
    shared.metrics.received_bytes.inc_by(bytes.len() as u64);
    let mut slice = Slice::new();
    let received = Received { payload: &bytes, topic: None };
    let decoded = decode::object(&bytes, None, DecodeRules::of(&shared.engine));
    let decoded = decoded.map_err(|problem| with_content_type(problem, &bytes));
    let device = decoded.as_ref().ok().map(|report| report.device.clone());
    match decoded {
        Ok(report) => slice.push(report, received),
        Err(problem) => slice.push_refused(problem, received),
    }
    let SliceOutcome { accepted, rejected } = shared.intake.submit(slice).await?.durable().await?;
    if let Some(rejection) = rejected.into_iter().next() {
        shared.refused(sender, device.as_ref(), &rejection.problem, "a single report");
        return Err(RequestRefused::Report(rejection.problem));
    }
    shared.metrics.reports.accepted(accepted.into());
    let mut tally = answer::BodyOutcome::default();
    tally.accept(accepted.into());
    Ok(tally)
}
