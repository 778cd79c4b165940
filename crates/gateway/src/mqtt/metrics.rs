//! What `/metrics` shows of the listener: `fieldpost_mqtt_*`.

use base::WayIn;
use std::net::IpAddr;
use std::sync::Arc;

use base::LogLimit;
use net::metrics::LabelCounter;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::metrics::ReportMetrics;

/// What is shown of copies for those who watch.
#[derive(Clone, Debug)]
pub(super) struct MirrorMetrics {
    pub(super) watched: Gauge,
    pub(super) copies: Counter,
    pub(super) dropped: LabelCounter,
}

/// What is shown of commands on their way to devices.
#[derive(Clone, Debug)]
pub(super) struct CommandMetrics {
    pub(super) sent: Counter,
    pub(super) dropped: LabelCounter,
    pub(super) waiting_bytes: Gauge,
    pub(super) unacknowledged: Gauge,
}

impl Default for CommandMetrics {
    fn default() -> Self {
        Self {
            sent: Counter::default(),
            dropped: LabelCounter::new("reason"),
            waiting_bytes: Gauge::default(),
            unacknowledged: Gauge::default(),
        }
    }
}

impl CommandMetrics {
    fn register(&self, registry: &mut Registry) {
        let help = "Commands that were not sent, by reason: nobody, slow, too_large, not_allowed, no_place";
        self.dropped.register(registry, "fieldpost_mqtt_commands_dropped", help);
        let help = "Commands sent, counted for each connection";
        registry.register("fieldpost_mqtt_commands_sent", help, self.sent.clone());
        let help = "Memory of commands that connections have not taken, counted for each connection";
        registry.register("fieldpost_mqtt_commands_waiting_bytes", help, self.waiting_bytes.clone());
        let help = "Commands of QoS 1 that wait for PUBACK";
        registry.register("fieldpost_mqtt_commands_unacknowledged", help, self.unacknowledged.clone());
    }
}

#[derive(Debug)]
pub(super) struct MqttMetrics {
    pub(super) mirror: MirrorMetrics,
    pub(super) commands: CommandMetrics,
    pub(super) reports: ReportMetrics,
    pub(super) connections: Gauge,
    pub(super) connects: LabelCounter,
    pub(super) disconnects: LabelCounter,
    pub(super) subscriptions: Gauge,
    pub(super) unacknowledged: Gauge,
    pub(super) unreleased: Gauge,
    pub(super) absent_sessions: Gauge,
    pub(super) absent_bytes: Gauge,
    pub(super) held_bytes: Gauge,
    pub(super) begun_bytes: Gauge,
    pub(super) sessions_resumed: Counter,
    pub(super) sessions_not_kept: Counter,
    pub(super) wills: LabelCounter,
    pub(super) label_lookups: Counter,
    pub(super) refused_logins: LogLimit<(Option<IpAddr>, &'static str)>,
    pub(super) full_logins: LogLimit<Arc<str>>,
    pub(super) acks: Counter,
    pub(super) received_bytes: Counter,
    pub(super) sent_bytes: Counter,
    pub(super) accept_errors: Counter,
}

impl Default for MqttMetrics {
    fn default() -> Self {
        Self {
            mirror: MirrorMetrics {
                watched: Gauge::default(),
                copies: Counter::default(),
                dropped: LabelCounter::new("reason"),
            },
            commands: CommandMetrics::default(),
            reports: ReportMetrics::new(WayIn::Mqtt),
            connections: Gauge::default(),
            connects: LabelCounter::new("result"),
            disconnects: LabelCounter::new("reason"),
            subscriptions: Gauge::default(),
            unacknowledged: Gauge::default(),
            unreleased: Gauge::default(),
            absent_sessions: Gauge::default(),
            absent_bytes: Gauge::default(),
            held_bytes: Gauge::default(),
            begun_bytes: Gauge::default(),
            sessions_resumed: Counter::default(),
            sessions_not_kept: Counter::default(),
            wills: LabelCounter::new("result"),
            label_lookups: Counter::default(),
            refused_logins: LogLimit::default(),
            full_logins: LogLimit::default(),
            acks: Counter::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            accept_errors: Counter::default(),
        }
    }
}

impl MqttMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        self.reports.register(registry);
        self.connects.register(registry, "fieldpost_mqtt_connects", "Connections by what came of them");
        self.disconnects.register(registry, "fieldpost_mqtt_disconnects", "Ended connections by reason");
        self.wills.register(registry, "fieldpost_mqtt_wills", "Wills that were applied, by result");
        let help = "Copies of reports that were not sent, by reason: slow, behind";
        self.mirror.dropped.register(registry, "fieldpost_mqtt_mirror_dropped", help);
        self.commands.register(registry);
        for (name, help, gauge) in [
            (
                "fieldpost_mqtt_mirror_watched",
                "Devices that connections subscribe to, by connection; all devices count as one",
                &self.mirror.watched,
            ),
            ("fieldpost_mqtt_connections", "Connections now", &self.connections),
            ("fieldpost_mqtt_subscriptions", "Subscriptions of connections now", &self.subscriptions),
            (
                "fieldpost_mqtt_unacknowledged_reports",
                "Reports handed in and not durable yet",
                &self.unacknowledged,
            ),
            (
                "fieldpost_mqtt_unreleased_publishes",
                "QoS 2 publishes of connections that wait for PUBREL",
                &self.unreleased,
            ),
            ("fieldpost_mqtt_absent_sessions_bytes", "Memory of absent sessions", &self.absent_bytes),
            ("fieldpost_mqtt_held_bytes", "Memory of reports that are not durable yet", &self.held_bytes),
            (
                "fieldpost_mqtt_begun_packets_bytes",
                "Memory of packets that are not all there",
                &self.begun_bytes,
            ),
            ("fieldpost_mqtt_absent_sessions", "Sessions that wait for their clients", &self.absent_sessions),
        ] {
            registry.register(name, help, gauge.clone());
        }
        for (name, help, counter) in [
            ("fieldpost_mqtt_mirrored", "Copies of reports sent", &self.mirror.copies),
            ("fieldpost_mqtt_acks", "PUBACKs and PUBRECs", &self.acks),
            ("fieldpost_mqtt_sessions_resumed", "CONNECTs that found their session", &self.sessions_resumed),
            ("fieldpost_mqtt_sessions_not_kept", "Sessions there was no room for", &self.sessions_not_kept),
            ("fieldpost_mqtt_label_lookups", "Devices looked up for logins of a label", &self.label_lookups),
            ("fieldpost_mqtt_received_bytes", "Bytes received", &self.received_bytes),
            ("fieldpost_mqtt_sent_bytes", "Bytes sent", &self.sent_bytes),
            ("fieldpost_mqtt_accept_errors", "Connections that could not be accepted", &self.accept_errors),
        ] {
            registry.register(name, help, counter.clone());
        }
    }
}
