//! The ways in: MQTT, HTTP and AMQP reports are decoded, checked, handed in and acknowledged.
//!
//! Knows wire formats, but neither rules nor storage: what a report means is the engine's affair.
//! An acknowledgement leaves here only when the engine says that what it speaks of is durable.

pub mod amqp;
pub mod decode;
pub mod http;
pub mod mqtt;

mod metrics;
