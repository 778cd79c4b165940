//! What every simulated run is made of, whatever runs in it: a machine with clocks, storage and
//! faults, the lives of a process on it, the schedule of steps, rest, seeds, and shrinking.
//!
//! It names no workload. Each implements [`workload::Workload`]; a [`pair::Pair`] of two is one
//! too, and runs them in one process over one store.
//!
//! # To add a workload
//! A folder beside `queues/`, named in `main.rs`:
//! - `plan.rs`: what a seed decides of it, beside the [`machine::MachinePlan`]. Its numbers are
//!   [knobs](shrinking::Knob), which a failing run turns down.
//! - `world.rs`: who uses the server. It shares the [`machine::Machine`], has a [`port::Port`] for
//!   each partition, and [calls](calls::Calls) with the answers that are
//!   [expected](calls::Expectations). `world/workload.rs` implements the trait.
//! - `model.rs`: the naive model, in a [`track::Track`] for each partition, so that it can go back.
//! - `checkers.rs`: what is [stored](workload::Stored) against the model, and what must hold at
//!   rest. `invariants.rs` names its promises, `fault_injection.rs` what may be broken on purpose.
//! - `counts.rs`: what a run saw.
//! - `seeds.rs`: its [runs](seeds::Runs), and the seeds that found something. `fault_tests.rs`
//!   shows that its checkers bite.
//!
//! All chance comes from `machine.random`, all time from `machine.clock`; a run repeats to the last
//! step.

pub(crate) mod calls;
mod clock;
pub(crate) mod counts;
pub(crate) mod fault_injection;
pub(crate) mod feed;
mod lives;
pub(crate) mod machine;
pub(crate) mod node;
pub(crate) mod one_partition;
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
pub(crate) mod trace;
pub(crate) mod track;
pub(crate) mod violation;
pub(crate) mod workload;
