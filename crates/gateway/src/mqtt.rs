//! The MQTT listener for devices: 3.1.1 and 5, QoS 0 and 1 in.
//!
//! Not a broker: what is published is a report and goes to the engine, never to another connection. A PUBACK leaves only
//! when the report is durable, in the order in which reports came. Each connection is one task; reports that arrive in one read
//! go to the engine as one slice, and a connection that has nothing to say holds no buffer.
//!
//! ```text
//! bytes -> wire (packets) -> session -> decode -> ring (slices under way) -> receipts -> bytes
//! ```

mod connect;
mod control;
mod ending;
mod figures;
mod greeting;
mod last_words;
mod limits;
mod listener;
mod reply;
mod ring;
mod scratch;
mod session;
mod sessions;
mod subscriptions;
mod talk;
mod topic_rules;
mod wire;

pub use limits::Limits;
pub use listener::MqttListener;

/// The version that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V311,
    V5,
}

/// What every connection shares.
#[derive(Debug)]
struct Shared {
    engine: engine::Engine,
    intake: engine::Intake,
    limits: Limits,
    figures: figures::Figures,
    sessions: std::sync::Arc<sessions::Sessions>,
}
