//! What `/metrics` shows of the listener: `fieldpost_mqtt_*`.

use base::WayIn;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::figures::{ByWord, ReportFigures};

#[derive(Debug)]
pub(super) struct Figures {
    pub(super) reports: ReportFigures,
    pub(super) connections: Gauge,
    pub(super) connects: ByWord,
    pub(super) disconnects: ByWord,
    pub(super) subscriptions: Gauge,
    pub(super) unacknowledged: Gauge,
    pub(super) acks: Counter,
    pub(super) received_bytes: Counter,
    pub(super) sent_bytes: Counter,
    pub(super) accept_errors: Counter,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            reports: ReportFigures::new(WayIn::Mqtt),
            connections: Gauge::default(),
            connects: ByWord::new("result"),
            disconnects: ByWord::new("reason"),
            subscriptions: Gauge::default(),
            unacknowledged: Gauge::default(),
            acks: Counter::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            accept_errors: Counter::default(),
        }
    }
}

impl Figures {
    pub(super) fn register(&self, registry: &mut Registry) {
        self.reports.register(registry);
        self.connects.register(registry, "fieldpost_mqtt_connects", "CONNECTs by result");
        self.disconnects.register(registry, "fieldpost_mqtt_disconnects", "Ended connections by reason");
        for (name, help, gauge) in [
            ("fieldpost_mqtt_connections", "Connections now", &self.connections),
            ("fieldpost_mqtt_subscriptions", "Subscriptions of connections now", &self.subscriptions),
            (
                "fieldpost_mqtt_unacknowledged_reports",
                "Reports handed in and not durable yet",
                &self.unacknowledged,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        for (name, help, counter) in [
            ("fieldpost_mqtt_acks", "PUBACKs", &self.acks),
            ("fieldpost_mqtt_received_bytes", "Bytes received", &self.received_bytes),
            ("fieldpost_mqtt_sent_bytes", "Bytes sent", &self.sent_bytes),
            ("fieldpost_mqtt_accept_errors", "Connections that could not be accepted", &self.accept_errors),
        ] {
            registry.register(name, help, counter.clone());
        }
    }
}
