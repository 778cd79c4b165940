//! The AMQP consumer: reports from a queue of RabbitMQ.
//!
//! One connection with one channel and one consumer. Messages that arrive together go to the engine
//! as one slice. They are acknowledged in the order in which they came, up to the last one before
//! which everything is durable. A refused one is durably in the quarantine before it is rejected
//! without requeue. What was not acknowledged when a connection ends, RabbitMQ sends again.
//!
//! ```text
//! broker -> session -> decode -> slices under way -> settlements -> broker
//!              '-> looks at the queue -> attendance -> the engine's attended clock
//! ```

mod attendance;
mod backoff;
mod broker;
mod consumer;
mod ending;
mod in_flight;
mod limits;
mod metrics;
mod session;
mod settlement;
mod url;

use std::num::NonZeroU16;

pub use consumer::AmqpConsumer;
pub use limits::AmqpLimits;
pub use url::{AmqpUrl, BadAmqpUrl};

/// What is consumed, and from where.
#[derive(Clone, Debug)]
pub struct AmqpSource {
    /// The RabbitMQ server.
    pub url: AmqpUrl,
    /// The queue: it is declared passively, and made (durable) only if it is not there.
    pub queue: AmqpQueueName,
    /// How many messages RabbitMQ may send ahead of their acknowledgement.
    pub prefetch: NonZeroU16,
}

/// The name of a queue: 1 to [`AmqpQueueName::BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpQueueName(String);

impl AmqpQueueName {
    /// The longest name that the protocol carries.
    pub const BYTES_MAX: usize = 255;

    /// `None` when it is empty or too long.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        (1..=Self::BYTES_MAX).contains(&name.len()).then(|| Self(name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
