//! Webhooks: what is due is leased, signed, posted, and the result reported.
//!
//! [`lanes`] decides whose notification goes next, a [`breaker`] when that of a client whose
//! receiver fails. [`Webhooks`] carries that out over the network. [`render`] gives the engine a
//! notification's body. Knows no storage and no rule of retries: the engine leases what is due and
//! is told how each attempt ended.

pub mod breaker;
pub mod connection;
pub mod lanes;

mod body;
mod by_client;
mod connector;
mod driver;
mod guard;
mod metrics;
mod notices;
mod open_breakers;
mod outcomes;
mod pool;
mod prepared;
mod pushes;
#[cfg(test)]
mod receiver;
mod resolver;
mod retry_after;
#[cfg(test)]
mod rig;
mod roots;
mod sender;
mod signature;
mod target;
mod task_ends;
mod tester;

pub use body::render;
pub use driver::{WebhookSettings, Webhooks};
pub use lanes::IN_FLIGHT_MAX;
pub use metrics::{WebhookMetrics, register_metrics};
pub use open_breakers::{OpenBreaker, OpenBreakers};
pub use tester::Tester;
