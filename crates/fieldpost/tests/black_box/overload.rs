//! More than the server can do, of everything: what it does then, from outside, on the built
//! binary.
//!
//! Asserted is what holds on any machine: memory stays within a bound, and nothing that was
//! acknowledged is lost. Whoever behaves is served, refusals say what they are, and afterwards all
//! is as before. How long things take is for the benchmark of the same name.

mod callers;
mod connections;
mod dead_receiver;
mod log_lines;
mod payloads;
mod raw;
mod rig;
mod ten_times;
mod wrong_requests;
