//! What every partition shares, whatever its machine does: the machine trait, the step, the runner
//! and its driver, and clocks. Writes that are not durable yet and answers that are kept for
//! repeats are here too. It has no word for what a machine is about.
//!
//! The section on `engine` in ARCHITECTURE.md says how to add a machine.

pub mod context;
pub mod fetch;
pub mod machine;
pub mod reply;
pub mod runner;

pub(crate) mod alarm;
pub(crate) mod driver;
pub(crate) mod feed_clock;
pub(crate) mod hashed;
pub(crate) mod idempotency;
pub(crate) mod loaded_changes;
pub(crate) mod partition_handle;
pub(crate) mod pending_writes;
pub(crate) mod step_context;
