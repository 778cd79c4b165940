//! What the pages about the server promise, asked of the built program over its sockets and its
//! command line.
//!
//! Rows of requests and what is to come of them. How the parts inside do it is tested beside them;
//! what is here holds whatever they become.

pub(crate) mod access;
mod breaker;
mod document;
mod fleets;
mod history;
mod ids;
mod intervals;
mod jobs;
pub(crate) mod live;
mod logs;
mod notifications;
mod operations;
mod program;
mod quarantine;
mod registry;
mod reports;
pub(crate) mod rig;
mod routes;
mod silence;
mod symptoms;
