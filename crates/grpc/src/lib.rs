//! gRPC, package `fieldpost.v1`: jobs of queues, and reports of devices.
//!
//! It reads messages, asks the engine and writes answers. Who may call what is asked of an [`Access`], and how a report is read of
//! a [`ReadReport`]: both are handed in, as the HTTP API has them already. Which connections there are is not known here either:
//! [`Grpc::speak`] speaks on whatever stream it is given, until the stream ends or the server stops.

mod access;
mod asked;
mod calls;
mod figures;
mod health;
mod jobs;
mod payload;
pub mod proto;
mod publish;
mod receiving;
mod refusal_log;
mod reports;
mod server;
mod shape;
mod shares;
mod status;
mod stopping;
mod time;
mod watches;
mod work;

pub use access::{Access, Asked, Caller, NotAdmitted};
pub use reports::ReadReport;
pub use server::Grpc;

/// Largest message that is taken, in bytes: as large as a JSON body over HTTP.
pub const MESSAGE_BYTES_MAX: usize = base::limits::JSON_BODY_BYTES_MAX;
