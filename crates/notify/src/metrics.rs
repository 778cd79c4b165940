//! What the sender tells `/metrics`: attempts by result, their duration, what is in flight, what
//! waits.

use std::time::Duration;

use engine::AttemptOutcome;
use engine::records::AttemptError;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The sender's figures. Clones are the same figures.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    attempts: Family<AttemptLabels, Counter>,
    pushes: Family<PushLabels, Counter>,
    duration: Histogram,
    pub(crate) in_flight: Gauge,
    pub(crate) lanes_due: Gauge,
    pub(crate) breakers_open: Gauge,
    pub(crate) breakers_opened: Counter,
    pub(crate) idle_connections: Gauge,
}

/// Makes the sender's figures and names them in `registry`.
#[must_use]
pub fn register_metrics(registry: &mut Registry) -> WebhookMetrics {
    let metrics = WebhookMetrics::new();
    let help = "Attempts to deliver a notification, by what came of them";
    registry.register("fieldpost_notify_attempts", help, metrics.attempts.clone());
    let help = "Posts of messages of subscriptions, by whether they were taken";
    registry.register("fieldpost_streams_pushes", help, metrics.pushes.clone());
    registry.register_with_unit(
        "fieldpost_notify_attempt_duration",
        "How long attempts took, connecting included",
        Unit::Seconds,
        metrics.duration.clone(),
    );
    let help = "Notifications being leased or sent";
    registry.register("fieldpost_notify_in_flight", help, metrics.in_flight.clone());
    let help = "Lanes (a client in a partition) with due notifications that wait for their turn";
    registry.register("fieldpost_notify_lanes_due", help, metrics.lanes_due.clone());
    let help = "Clients whose receiver keeps failing: one notification at a time is tried";
    registry.register("fieldpost_notify_breakers_open", help, metrics.breakers_open.clone());
    let help = "How often that began";
    registry.register("fieldpost_notify_breakers_opened", help, metrics.breakers_opened.clone());
    let help = "Connections kept open for the next notification";
    registry.register("fieldpost_notify_idle_connections", help, metrics.idle_connections.clone());
    metrics
}

impl WebhookMetrics {
    pub(crate) fn new() -> Self {
        // 1 ms to 32 s, then the rest: timeouts of minutes are possible but rare.
        let buckets = std::iter::successors(Some(0.001), |bound| Some(bound * 2.0)).take(16);
        Self {
            attempts: Family::default(),
            pushes: Family::default(),
            duration: Histogram::new(buckets),
            in_flight: Gauge::default(),
            lanes_due: Gauge::default(),
            breakers_open: Gauge::default(),
            breakers_opened: Counter::default(),
            idle_connections: Gauge::default(),
        }
    }

    pub(crate) fn attempt(&self, answer: AttemptOutcome, took: Duration) {
        let result = AttemptResult::from(answer);
        self.attempts.get_or_create(&AttemptLabels { result }).inc();
        self.duration.observe(took.as_secs_f64());
    }

    /// Messages of a subscription were posted, and taken or not.
    pub(crate) fn pushed(&self, is_taken: bool) {
        let result = if is_taken { "taken" } else { "failed" };
        self.pushes.get_or_create(&PushLabels { result }).inc();
    }

    #[cfg(test)]
    pub(crate) fn attempts(&self, result: AttemptResult) -> u64 {
        self.attempts.get_or_create(&AttemptLabels { result }).get()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    result: AttemptResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PushLabels {
    result: &'static str,
}

/// What came of an attempt, in few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AttemptResult {
    Delivered,
    Redirect,
    ClientError,
    ServerError,
    OtherStatus,
    NoAnswer(AttemptError),
    Withheld,
}

impl From<AttemptOutcome> for AttemptResult {
    fn from(answer: AttemptOutcome) -> Self {
        match answer {
            AttemptOutcome::Status { code: 200..=299, .. } => Self::Delivered,
            AttemptOutcome::Status { code: 300..=399, .. } => Self::Redirect,
            AttemptOutcome::Status { code: 400..=499, .. } => Self::ClientError,
            AttemptOutcome::Status { code: 500..=599, .. } => Self::ServerError,
            AttemptOutcome::Status { .. } => Self::OtherStatus,
            AttemptOutcome::Error(error) => Self::NoAnswer(error),
            AttemptOutcome::Withheld => Self::Withheld,
        }
    }
}

impl AttemptResult {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Redirect => "redirect",
            Self::ClientError => "client_error",
            Self::ServerError => "server_error",
            Self::OtherStatus => "other_status",
            Self::NoAnswer(error) => error.as_str(),
            Self::Withheld => "withheld",
        }
    }
}

impl EncodeLabelValue for AttemptResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.as_str().encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_have_the_names_that_operators_use() {
        let mut registry = Registry::default();
        let metrics = register_metrics(&mut registry);
        let took = Duration::from_millis(3);
        metrics.attempt(AttemptOutcome::Status { code: 204, retry_after: None }, took);
        metrics.attempt(AttemptOutcome::Error(AttemptError::TlsFailed), took);
        metrics.pushed(true);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("written");
        for line in [
            "fieldpost_notify_attempts_total{result=\"delivered\"} 1",
            "fieldpost_notify_attempts_total{result=\"tls_failed\"} 1",
            "fieldpost_streams_pushes_total{result=\"taken\"} 1",
            "fieldpost_notify_attempt_duration_seconds_bucket{le=\"0.004\"} 2",
            "fieldpost_notify_in_flight 0",
            "fieldpost_notify_lanes_due 0",
            "fieldpost_notify_breakers_open 0",
            "fieldpost_notify_breakers_opened_total 0",
            "fieldpost_notify_idle_connections 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn every_status_has_a_result() {
        use AttemptResult as R;
        for (code, expect) in [
            (199, R::OtherStatus),
            (200, R::Delivered),
            (299, R::Delivered),
            (302, R::Redirect),
            (410, R::ClientError),
            (503, R::ServerError),
            (600, R::OtherStatus),
        ] {
            assert_eq!(R::from(AttemptOutcome::Status { code, retry_after: None }), expect, "{code}");
        }
    }
}
