//! What a broken invariant does: it stops the process, before a wrong answer can leave it.
//!
//! Everything acknowledged is durable, so stopping loses nothing; going on without a partition, or
//! without the thread that commits, would.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Stops the process; `what` names who broke.
pub fn stop_the_process(what: &str) -> ! {
    eprintln!("an invariant of {what} is broken; the process stops, nothing acknowledged is lost");
    std::process::abort()
}

/// Runs what must not panic: rules, and the threads of the store.
pub fn or_stop_the_process<T>(what: &str, run: impl FnOnce() -> T) -> T {
    // Nothing that was touched is looked at again.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| stop_the_process(what))
}
