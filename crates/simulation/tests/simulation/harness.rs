//! The parts of every simulated run, whatever runs in it. They are a machine with clocks, storage
//! and faults, and the lives of a process on it. They are also the schedule of steps, rest, seeds,
//! and shrinking.
//!
//! It names no workload. Each implements [`workload::Workload`];
//! [`two_workloads::TwoWorkloads`] is one too, and runs both in one process over one store.
//!
//! The section on `simulation` in ARCHITECTURE.md says which files a workload has, and how to add
//! one.
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
pub(crate) mod port;
pub(crate) mod process;
mod processors;
mod rest;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod seeds;
pub(crate) mod shrinking;
mod storage;
mod store_spy;
pub(crate) mod trace;
pub(crate) mod track;
pub(crate) mod two_workloads;
pub(crate) mod violation;
pub(crate) mod workload;
