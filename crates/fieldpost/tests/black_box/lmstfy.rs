//! lmstfy's API and admin API as its clients meet them: the requests that they send, byte for byte,
//! and what is to come of them.
//!
//! What is expected was read from the real server and its clients in Go, Java, PHP and Rust. How a
//! job lives is tested with the queues; here it is only seen through these doors.

mod access;
mod admin;
mod clients;
mod endpoints;
mod life;
mod page;
mod rig;
