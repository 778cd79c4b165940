//! The API's own figures for `/metrics`. Labels are routes as they are written in the code, never
//! paths as they are called.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use engine::records::OperationAction;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::idempotency::IdempotencyKeys;
use crate::reads::Reads;

/// Upper ends of the buckets, in seconds: a point read is in the first ones, a synced write behind,
/// a scan at the end.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// Requests, counted and timed.
#[derive(Clone, Debug)]
pub(crate) struct RequestMetrics {
    requests: Family<AnswerLabels, Counter>,
    duration: Family<RouteLabels, Histogram>,
    operation_rows: Family<OperationRowLabels, Counter>,
    /// Operations that are worked on.
    pub(crate) operations_running: Gauge,
    /// Memory that pages of lists have.
    pub(crate) page_held_bytes: Gauge,
    /// Readers that wait for messages of streams.
    pub(crate) stream_readers: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationRowLabels {
    action: &'static str,
    result: &'static str,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            operation_rows: Family::default(),
            operations_running: Gauge::default(),
            page_held_bytes: Gauge::default(),
            stream_readers: Gauge::default(),
        }
    }
}

impl RequestMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Requests answered, by method, route and status";
        registry.register("fieldpost_http_requests", help, self.requests.clone());
        registry.register_with_unit(
            "fieldpost_http_request_duration",
            "How long requests took until their answer began, by method and route",
            Unit::Seconds,
            self.duration.clone(),
        );
        let help = "Rows that operations have gone through, by action and result: done, refused, skipped";
        registry.register("fieldpost_operation_rows", help, self.operation_rows.clone());
        let help = "Operations that go on";
        registry.register("fieldpost_operations_running", help, self.operations_running.clone());
        let help = "Memory set aside for pages of lists that are made or on their way";
        registry.register("fieldpost_http_page_held_bytes", help, self.page_held_bytes.clone());
        let help = "Readers that wait for messages of streams";
        registry.register("fieldpost_http_stream_readers", help, self.stream_readers.clone());
    }

    pub(crate) fn operation_row(&self, action: OperationAction, result: &'static str) {
        self.operation_rows.get_or_create(&OperationRowLabels { action: action.as_str(), result }).inc();
    }

    pub(crate) fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let (method, route) = (name(method), route.to_owned());
        self.duration
            .get_or_create(&RouteLabels { method, route: route.clone() })
            .observe(took.as_secs_f64());
        self.requests.get_or_create(&AnswerLabels { method, route, status: status.as_u16() }).inc();
    }
}

/// The method as a label: callers may make up methods, and labels must not grow with that.
pub(crate) fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Sorts of reads.
const SORTS: [&str; 5] = ["export", "follow", "list", "lookup", "message"];

/// Registers what is read off when `/metrics` is asked for.
pub(crate) fn register_gauges(
    registry: &mut Registry,
    reads: [&Arc<Reads>; 5],
    remembered: &Arc<IdempotencyKeys>,
) {
    registry.register_collector(Box::new(Gauges {
        reads: reads.map(Arc::clone),
        remembered: Arc::clone(remembered),
    }));
}

#[derive(Debug)]
struct Gauges {
    /// In order of [`SORTS`].
    reads: [Arc<Reads>; 5],
    remembered: Arc<IdempotencyKeys>,
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (name, help) = ("fieldpost_http_reads_in_flight", "Reads of the store that run or wait, by sort");
        let mut reads = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (sort, of_it) in SORTS.into_iter().zip(&self.reads) {
            gauge(of_it.in_flight()).encode(reads.encode_family(&[("sort", sort)])?)?;
        }
        let size = self.remembered.size();
        for (name, help, value) in [
            ("fieldpost_http_idempotency_keys", "Idempotency keys that are remembered", size.keys),
            ("fieldpost_http_idempotency_bytes", "Memory that their answers take, in bytes", size.bytes),
        ] {
            gauge(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let forgotten = ConstCounter::new(size.forgotten_early);
        let help = "Idempotency keys forgotten before their time, because there were too many";
        let name = "fieldpost_http_idempotency_forgotten";
        forgotten.encode(encoder.encode_descriptor(name, help, None, forgotten.metric_type())?)
    }
}

fn gauge(value: usize) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
