//! Simulated devices and receivers: only protocols, nothing of the inside.
//!
//! Everything here stands outside the server, as its users do. Devices publish over MQTT or HTTP
//! and remember what was acknowledged; receivers take webhooks and remember what they were told. An
//! account holds both against what the public API says. The demo, the black-box tests and the
//! benchmarks are made of these parts.
//!
//! - [`traffic`] says what is reported and when, [`fleet`] carries it over a way in, and [`sent`]
//!   is what was sent.
//! - [`commands`] are devices that take commands, and somebody who sends them. [`places`] is where
//!   devices are.
//! - [`receiver`] is the other end of the webhooks.
//! - [`account`] finds what is missing.
//! - [`api_client`], [`address`], [`endpoint`], [`access`] and [`server`] reach the server, start
//!   it and kill it. [`registration`] fills it, and [`spool`] is an agent beside it.

pub mod access;
pub mod account;
pub mod address;
pub mod api_client;
mod client_stream;
pub mod commands;
pub mod endpoint;
pub mod fleet;
pub mod grouped;
mod json_lines;
pub mod latency;
pub mod places;
pub mod random;
pub mod receiver;
pub mod registration;
pub mod sent;
pub mod server;
pub mod spool;
pub mod traffic;
pub mod wire_time;
