//! What gRPC tells of itself in `/metrics`. Labels are words of the protocol's description, never
//! what callers send.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tonic::Code;

use crate::refusal_log::GrpcRefusalLog;

/// Upper ends of the buckets, in seconds; those of the HTTP API.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// Calls, streams and what they carry.
#[derive(Clone, Debug)]
pub(crate) struct GrpcMetrics {
    calls: Family<CallEndLabels, Counter>,
    duration: Family<MethodLabels, Histogram>,
    pub(crate) work_streams: Gauge,
    pub(crate) work_jobs: Counter,
    pub(crate) work_acks: Counter,
    pub(crate) large_messages: Gauge,
    pub(crate) medium_messages: Gauge,
    pub(crate) begun_bytes: Gauge,
    pub(crate) health_calls: Gauge,
    pub(crate) rollout_watches: Gauge,
    /// Tasks that are told of.
    pub(crate) task_runs: Gauge,
    /// Reads of streams.
    pub(crate) stream_readers: Gauge,
    pub(crate) pipelines: Gauge,
    pub(crate) pipelined_calls: Counter,
    pub(crate) page_held_bytes: Gauge,
    pub(crate) answer_held_bytes: Gauge,
    pub(crate) slow_readers: Counter,
    pub(crate) refusals: GrpcRefusalLog,
    reports: Family<ReportResultLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallEndLabels {
    method: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabels {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReportResultLabels {
    result: &'static str,
}

impl Default for GrpcMetrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            work_streams: Gauge::default(),
            work_jobs: Counter::default(),
            work_acks: Counter::default(),
            large_messages: Gauge::default(),
            medium_messages: Gauge::default(),
            begun_bytes: Gauge::default(),
            health_calls: Gauge::default(),
            rollout_watches: Gauge::default(),
            task_runs: Gauge::default(),
            stream_readers: Gauge::default(),
            pipelines: Gauge::default(),
            pipelined_calls: Counter::default(),
            page_held_bytes: Gauge::default(),
            answer_held_bytes: Gauge::default(),
            slow_readers: Counter::default(),
            refusals: GrpcRefusalLog::default(),
            reports: Family::default(),
        }
    }
}

impl GrpcMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Calls that ended, by method and status code";
        registry.register("fieldpost_grpc_calls", help, self.calls.clone());
        registry.register_with_unit(
            "fieldpost_grpc_call_duration",
            "How long calls took that are no streams, by method",
            Unit::Seconds,
            self.duration.clone(),
        );
        registry.register("fieldpost_grpc_work_streams", "Work streams now", self.work_streams.clone());
        registry.register("fieldpost_grpc_work_jobs", "Jobs sent over Work streams", self.work_jobs.clone());
        let help = "Acknowledgements over Work streams that held";
        registry.register("fieldpost_grpc_work_acks", help, self.work_acks.clone());
        let help = "Large messages that are being received, or wait for a place";
        registry.register("fieldpost_grpc_large_messages", help, self.large_messages.clone());
        let help = "Messages of up to 256 KiB that have a place or wait for one";
        registry.register("fieldpost_grpc_medium_messages", help, self.medium_messages.clone());
        let help = "Memory of messages that are not all there and have no place";
        registry.register("fieldpost_grpc_begun_bytes", help, self.begun_bytes.clone());
        let help = "Checks and watches of the health service under way";
        registry.register("fieldpost_grpc_health_calls", help, self.health_calls.clone());
        let help = "Tasks whose results are streamed";
        registry.register("fieldpost_grpc_task_runs", help, self.task_runs.clone());
        let help = "Reads of streams that are under way";
        registry.register("fieldpost_grpc_stream_readers", help, self.stream_readers.clone());
        let help = "Watches of rollouts under way";
        registry.register("fieldpost_grpc_rollout_watches", help, self.rollout_watches.clone());
        self.register_pages(registry);
        self.register_pipelines(registry);
        let help = "Reports by result: accepted, or the code of the refusal";
        registry.register("fieldpost_grpc_reports", help, self.reports.clone());
    }

    fn register_pipelines(&self, registry: &mut Registry) {
        let help = "Pipelines of coordination now";
        registry.register("fieldpost_grpc_pipelines", help, self.pipelines.clone());
        let help = "Calls over pipelines of coordination";
        registry.register("fieldpost_grpc_pipelined_calls", help, self.pipelined_calls.clone());
    }

    fn register_pages(&self, registry: &mut Registry) {
        let help = "Memory set aside for pages that are made or on their way over gRPC";
        registry.register("fieldpost_grpc_page_held_bytes", help, self.page_held_bytes.clone());
        let help = "Memory of answers over 64 KiB with jobs or a command that are on their way over gRPC";
        registry.register("fieldpost_grpc_answer_held_bytes", help, self.answer_held_bytes.clone());
        let help = "Calls that were ended because little or nothing of their answer was taken";
        registry.register("fieldpost_grpc_slow_readers", help, self.slow_readers.clone());
    }

    pub(crate) fn ended(&self, method: &'static str, code: Code) {
        self.calls.get_or_create(&CallEndLabels { method, code: name(code) }).inc();
    }

    pub(crate) fn took(&self, method: &'static str, took: Duration) {
        self.duration.get_or_create(&MethodLabels { method }).observe(took.as_secs_f64());
    }

    pub(crate) fn reports(&self, result: &'static str, count: u64) {
        self.reports.get_or_create(&ReportResultLabels { result }).inc_by(count);
    }
}

/// The name of a status code in the protocol.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
