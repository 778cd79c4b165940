//! What every partition shares, whatever its machine does: the machine trait, the step, the runner and its driver, clocks, writes
//! that are not durable yet, and answers that are kept for repeats.
//!
//! To add a machine, put a module beside `devices`, `queues` and `registry`, implement [`machine::Machine`] in it, and start it
//! in `handle/start.rs`.

pub mod fetch;
pub mod machine;
pub mod runner;

pub(crate) mod alarm;
pub(crate) mod driver;
pub(crate) mod feed_clock;
pub(crate) mod hashed;
pub(crate) mod idempotency;
pub(crate) mod pending_writes;
