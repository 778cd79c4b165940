//! The API from outside: requests into its router, over an engine and a store in memory, and what
//! is answered.

mod bodies;
mod campaigns;
mod commands;
mod commands_refused;
mod conditions;
mod described;
mod desired;
mod details;
mod document;
mod exports;
mod fleet;
mod following;
mod health;
mod history;
mod idempotency;
mod import;
mod lists;
mod notices;
mod overview;
mod quarantine;
mod queues;
mod queues_consumed;
mod queues_refused;
mod refusals;
mod registry;
mod rig;
mod rollouts;
mod stats;
mod streams;
mod tasks;
mod timeline;
