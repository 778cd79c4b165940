//! What every partition shares, whatever its machine does: the machine trait, the step, the runner
//! and its driver, clocks, writes that are not durable yet, and answers that are kept for repeats.
//! It names no device and no queue.
//!
//! To add a machine: put a module beside `devices`, `queues` and `registry` with its inputs, its
//! effects and its context; implement [`machine::Machine`] and [`machine::MachineContext`]; start
//! it in `handle/start.rs`.

pub mod context;
pub mod fetch;
pub mod machine;
pub mod reply;
pub mod runner;

pub(crate) mod alarm;
pub(crate) mod driver;
pub(crate) mod ended_job;
pub(crate) mod feed_clock;
pub(crate) mod hashed;
pub(crate) mod idempotency;
pub(crate) mod partition_handle;
pub(crate) mod pending_writes;
pub(crate) mod step_context;
