//! What `/metrics` shows of the consumer: `fieldpost_amqp_*`.

use std::sync::atomic::AtomicU64;

use base::WayIn;
use lapin::message::Delivery;
use net::metrics::LabelCounter;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::settlement::{AmqpSettlement, Settlement};
use crate::metrics::ReportMetrics;

#[derive(Debug)]
pub(super) struct AmqpMetrics {
    pub(super) reports: ReportMetrics,
    pub(super) connects: LabelCounter,
    pub(super) disconnects: LabelCounter,
    pub(super) connected: Gauge,
    pub(super) attended: Gauge,
    pub(super) unacknowledged: Gauge,
    pub(super) queue_messages: Gauge,
    pub(super) queue_consumers: Gauge,
    pub(super) lag: Gauge<f64, AtomicU64>,
    pub(super) received: Counter,
    pub(super) received_bytes: Counter,
    pub(super) redelivered: Counter,
    pub(super) acknowledged: Counter,
    pub(super) rejected: Counter,
}

impl Default for AmqpMetrics {
    fn default() -> Self {
        Self {
            reports: ReportMetrics::new(WayIn::Amqp),
            connects: LabelCounter::new("result"),
            disconnects: LabelCounter::new("reason"),
            connected: Gauge::default(),
            attended: Gauge::default(),
            unacknowledged: Gauge::default(),
            queue_messages: Gauge::default(),
            queue_consumers: Gauge::default(),
            lag: Gauge::default(),
            received: Counter::default(),
            received_bytes: Counter::default(),
            redelivered: Counter::default(),
            acknowledged: Counter::default(),
            rejected: Counter::default(),
        }
    }
}

impl AmqpMetrics {
    pub(super) fn receive(&self, delivery: &Delivery) {
        self.received.inc();
        self.received_bytes.inc_by(delivery.data.len() as u64);
        self.redelivered.inc_by(delivery.redelivered.into());
    }

    pub(super) fn settle(&self, settlement: Settlement) {
        self.unacknowledged.dec_by(settlement.messages as i64);
        match settlement.verdict {
            AmqpSettlement::Acknowledge => self.acknowledged.inc_by(settlement.messages),
            AmqpSettlement::Reject => self.rejected.inc_by(settlement.messages),
        };
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        self.reports.register(registry);
        self.connects.register(registry, "fieldpost_amqp_connects", "Attempts to connect by result");
        self.disconnects.register(registry, "fieldpost_amqp_disconnects", "Ended connections by reason");
        for (name, help, gauge) in [
            ("fieldpost_amqp_connected", "1 while messages are consumed", &self.connected),
            ("fieldpost_amqp_attended", "1 while silence over AMQP is counted", &self.attended),
            (
                "fieldpost_amqp_unacknowledged_messages",
                "Messages taken in and not settled yet",
                &self.unacknowledged,
            ),
            (
                "fieldpost_amqp_queue_messages",
                "Messages that waited in the queue when it was last looked at",
                &self.queue_messages,
            ),
            (
                "fieldpost_amqp_queue_consumers",
                "Consumers of the queue when it was last looked at",
                &self.queue_consumers,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        let help = "For how long a report may have waited in the queue";
        registry.register_with_unit("fieldpost_amqp_lag", help, Unit::Seconds, self.lag.clone());
        for (name, help, counter) in [
            ("fieldpost_amqp_received_messages", "Messages received", &self.received),
            ("fieldpost_amqp_received_bytes", "Bytes of their bodies", &self.received_bytes),
            (
                "fieldpost_amqp_redelivered_messages",
                "Messages sent to us or others before",
                &self.redelivered,
            ),
            ("fieldpost_amqp_acknowledged_messages", "Messages acknowledged", &self.acknowledged),
            ("fieldpost_amqp_rejected_messages", "Messages rejected without requeue", &self.rejected),
        ] {
            registry.register(name, help, counter.clone());
        }
    }
}
