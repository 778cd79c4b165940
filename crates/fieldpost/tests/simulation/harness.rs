//! What every simulated run is made of, whatever runs in it: a machine with clocks, storage and
//! faults, the lives of a process on it, the schedule of steps, and the trace.
//!
//! A workload says what its process is ([`lives::Life`]) and what else may happen
//! ([`schedule::Scheduled`]).
//!
//! # To add a workload
//! A folder beside `queues/` with these files, and its name in `main.rs`:
//! - `plan.rs`: what a seed decides, with a `machine()` for the plan of the machine;
//! - `world.rs`: the run, which owns a [`machine::Machine`]; `world/lives.rs` and
//!   `world/schedule.rs` implement the two traits;
//! - `model.rs` and `checkers.rs`: the naive model, and what answers and rows are held against;
//! - `counts.rs` and `seeds.rs`: what a run saw, the seeds of CI, and those that found something.

pub(crate) mod calls;
mod clock;
pub(crate) mod counts;
pub(crate) mod fault_injection;
pub(crate) mod feed;
mod lives;
pub(crate) mod machine;
pub(crate) mod pair;
pub(crate) mod port;
pub(crate) mod process;
mod rest;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod seeds;
pub(crate) mod shrinking;
mod storage;
mod store_spy;
mod trace;
pub(crate) mod track;
pub(crate) mod violation;
pub(crate) mod workload;
