//! The agent for weak machines: takes reports, jobs and messages, keeps them on its disk, and
//! forwards them in order, each once in effect.
//!
//! What was accepted is durable. Nothing that is on disk is held in memory; memory grows with the
//! number of destinations and connections, which are bounded. The server is known by its API only.

mod agent;
mod calls;
mod destination;
mod disk_threads;
mod follow;
mod forwarder;
mod http;
mod index;
mod items;
mod log;
mod metrics;
mod mqtt;
mod record;
mod refused;
mod segment_reader;
mod state;
mod verdict;

pub use agent::{KeepFree, ReleaseMemory, SpoolConfig, SpoolError, run};
pub use destination::{Destination, DestinationKind};
pub use log::SpoolFullChoice;
