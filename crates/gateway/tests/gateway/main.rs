//! The ways in from outside: a running engine over a store in memory, a bound listener, and clients
//! that speak the protocols.

mod amqp_broker;
mod amqp_messages;
mod held_store;
mod http_pages;
mod http_reports;
mod http_slow_readers;
mod mqtt_commands;
mod mqtt_endings;
mod mqtt_logins;
mod mqtt_mirror;
mod mqtt_qos_2;
mod mqtt_reports;
mod mqtt_sessions;
mod mqtt_tls;
mod mqtt_wills;
mod raw_client;
mod replays;
mod rig;

/// Nothing on this machine takes longer; a test that waits so long has failed.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
