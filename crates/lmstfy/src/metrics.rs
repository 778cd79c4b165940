//! The metrics of lmstfy's API: what was asked, how long it took, and who reached a limit.

use std::time::Instant;

use axum::http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::route::Action;

/// Upper ends of the buckets, in seconds: a synced write is in the first ones, a consumer that
/// waited at the end.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Clone, Debug)]
pub(crate) struct LmstfyMetrics {
    requests: Family<CallStatusLabels, Counter>,
    duration: Family<CallLabels, Histogram>,
    jobs: Family<MovedLabels, Counter>,
    limited: Family<LimitedLabels, Counter>,
    unauthorized: Family<UnauthorizedLabels, Counter>,
    /// Consumers that wait for a job.
    pub(crate) waiting: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallStatusLabels {
    call: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    call: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MovedLabels {
    how: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitedLabels {
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UnauthorizedLabels {
    reason: &'static str,
}

impl Default for LmstfyMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            jobs: Family::default(),
            limited: Family::default(),
            unauthorized: Family::default(),
            waiting: Gauge::default(),
        }
    }
}

impl LmstfyMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Requests to lmstfy's API, by call and status";
        registry.register("fieldpost_lmstfy_requests", help, self.requests.clone());
        registry.register_with_unit(
            "fieldpost_lmstfy_request_duration",
            "How long requests to lmstfy's API took until their answer was there, by call; a consumer's waiting included",
            Unit::Seconds,
            self.duration.clone(),
        );
        let help = "Jobs over lmstfy's API, by how: published, consumed";
        registry.register("fieldpost_lmstfy_jobs", help, self.jobs.clone());
        let help = "Requests to lmstfy's API refused because a token had reached its limit, by action";
        registry.register("fieldpost_lmstfy_limited", help, self.limited.clone());
        let help = "Requests to lmstfy's API and admin API refused for want of a token that suffices, by reason: missing, malformed, unknown, forbidden, too_many";
        registry.register("fieldpost_lmstfy_unauthorized", help, self.unauthorized.clone());
        let help = "Consumers that wait for a job over lmstfy's API";
        registry.register("fieldpost_lmstfy_consumers_waiting", help, self.waiting.clone());
    }

    pub(crate) fn answered(&self, call: &'static str, status: StatusCode, began: Instant) {
        self.duration.get_or_create(&CallLabels { call }).observe(began.elapsed().as_secs_f64());
        self.requests.get_or_create(&CallStatusLabels { call, status: status.as_u16() }).inc();
    }

    pub(crate) fn moved(&self, how: &'static str, jobs: usize) {
        self.jobs.get_or_create(&MovedLabels { how }).inc_by(jobs as u64);
    }

    pub(crate) fn unauthorized(&self, reason: &'static str) {
        self.unauthorized.get_or_create(&UnauthorizedLabels { reason }).inc();
    }

    pub(crate) fn limited(&self, action: Action) {
        self.limited.get_or_create(&LimitedLabels { action: action.as_str() }).inc();
    }
}
