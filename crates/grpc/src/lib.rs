//! gRPC, package `fieldpost.v1`: jobs of queues, streams of messages, reports of devices, commands
//! to them, rollouts, tasks, and coordination.
//!
//! It reads messages, asks the engine and writes answers. Tokens are those of the HTTP API, handed
//! in as [`access::Access`], and so is the reading of a report, as a [`ReadReport`]. [`Grpc`]
//! speaks on whatever stream it is given, until the stream ends or the server stops.

mod answer_memory;
mod answers_in_flight;
mod asked;
mod callers;
mod calls;
mod changes;
mod commands;
mod coordination;
mod health;
mod items;
mod jobs;
mod metrics;
mod page_answer;
mod payload;
pub mod proto;
mod publish;
mod receiving;
mod refusal_log;
mod reports;
mod rollouts;
mod sent_ahead;
mod server;
mod shape;
mod status;
mod stopping;
mod store_reads;
mod streams;
mod tasks;
mod time;
mod watches;
mod work;

pub use reports::ReadReport;
pub use server::Grpc;

/// Largest message that is taken, in bytes: as large as a JSON body over HTTP.
pub const MESSAGE_BYTES_MAX: usize = base::limits::JSON_BODY_BYTES_MAX;
