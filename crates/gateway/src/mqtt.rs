//! The MQTT listener for devices: 3.1.1 and 5, QoS 0, 1 and 2 in, with or without TLS.
//!
//! Not a broker: a publish is a report and goes to the engine, never straight to another
//! connection. Subscribers receive copies of accepted reports (`mirror.rs`), and devices the
//! commands of the engine (`downlink.rs`), which is told whose sessions live (`presence.rs`). A
//! PUBACK or PUBREC leaves once the report is durable, or is refused and in the quarantine, in the
//! order of arrival. Each connection is one task; the reports of one read go to the engine as one
//! slice, and an idle connection holds no buffer.
//!
//! ```text
//! bytes -> wire (packets) -> session -> decode, rights -> slices under way -> receipts -> bytes
//!                               |                                                              ^
//!                               '-> offline session (while its client is away)     commands --'
//! ```

mod aliases;
mod connect;
mod control;
pub mod dialogue;
mod downlink;
mod ending;
mod fan_out;
mod handshake;
mod in_flight;
mod keep_alive;
mod labels;
mod limits;
mod lingering_close;
mod listener;
mod metrics;
mod mirror;
mod offline_session;
mod presence;
mod protocol;
mod qos2;
mod reach;
mod receive_budget;
mod reply;
mod rights;
mod scratch;
mod session;
mod sessions;
mod subscriptions;
mod topic_rules;
mod will;
mod wire;

pub use limits::MqttLimits;
pub use listener::MqttListener;
pub(crate) use rights::NOT_ALLOWED;

use std::sync::Arc;

use crate::decode::kinds::KindForms;

/// The version that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtocolVersion {
    V311,
    V5,
}

/// What every connection shares.
#[derive(Debug)]
struct MqttShared {
    engine: engine::Engine,
    intake: engine::Intake,
    limits: MqttLimits,
    metrics: metrics::MqttMetrics,
    sessions: Arc<sessions::MqttSessions>,
    absent: offline_session::Room,
    held: receive_budget::ReceiveBudget,
    begun: receive_budget::ReceiveBudget,
    labels: Arc<labels::Labels>,
    /// Shows subscribers what is accepted, while the listener runs.
    mirror: Option<Arc<mirror::ReportMirror>>,
    /// Brings commands to sessions, while the listener runs.
    commands: Option<Arc<downlink::CommandRoutes>>,
    /// The kinds with topics or messages of their own.
    kinds: Arc<KindForms>,
    /// Where it is told who is there.
    presence: engine::Presence,
    /// `None` lets everybody in.
    logins: Option<access::Logins>,
    /// Whoever connects where everybody is let in.
    anybody: Arc<access::Principal>,
}

impl MqttShared {
    /// Open to everybody; nobody is there yet.
    fn new(engine: engine::Engine, limits: MqttLimits) -> Self {
        let metrics = metrics::MqttMetrics::default();
        Self {
            labels: Arc::new(labels::Labels::new(
                Arc::clone(engine.fleet().label_changes()),
                metrics.label_lookups.clone(),
            )),
            mirror: None,
            commands: None,
            kinds: Arc::default(),
            presence: engine.presence(),
            absent: offline_session::Room::new(limits.absent_bytes_max, metrics.absent_bytes.clone()),
            held: receive_budget::ReceiveBudget::new(limits::HELD_BYTES_MAX, metrics.held_bytes.clone()),
            begun: receive_budget::ReceiveBudget::new(limits::BEGUN_BYTES_MAX, metrics.begun_bytes.clone()),
            sessions: Arc::default(),
            anybody: Arc::new(access::Principal::anybody()),
            logins: None,
            intake: engine.intake(base::WayIn::Mqtt),
            engine,
            limits,
            metrics,
        }
    }

    /// What is known of labels, with what was just answered.
    fn known<'a>(&'a self, answers: &'a [(base::DeviceId, bool)]) -> rights::KnownLabels<'a> {
        rights::KnownLabels { labels: &self.labels, kinds: &self.kinds, answers }
    }
}
