//! What every edge needs of the network: listening, admission of connections, TLS, and bodies of
//! requests and answers in bounded memory and time.
//!
//! Protocols beyond HTTP/1.1 are not spoken here, and nothing is known of who may do what, nor of
//! what a request is about.

pub mod body;
pub mod body_drain;
pub mod canonical;
pub mod content_encoding;
pub mod detach;
pub mod exposition;
pub mod hand_over;
pub mod http;
pub mod listen;
pub mod memory_budget;
pub mod metrics;
pub mod pace;
pub mod path;
pub mod problem;
pub mod shares;
pub mod transfer;
