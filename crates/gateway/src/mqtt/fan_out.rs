//! What many connections receive: which of them watches what, and what waits for each.

mod queue;
mod watchers;

pub(super) use self::queue::{Queued, Slow, Watcher};
pub(super) use self::watchers::{WatchOutcome, WatchSubject, Watchers};
