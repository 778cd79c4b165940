//! Runs of seeds take turns on the processors: more at a time take longer, whatever the number of
//! tests. Whoever asked first goes first, so that no test starves.

use std::sync::{Condvar, LazyLock, Mutex};
use std::thread;

use base::locks::locked;

static COUNT: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(2, usize::from));
static TICKETS: Mutex<Tickets> = Mutex::new(Tickets { taken: 0, over: 0 });
static RUN_OVER: Condvar = Condvar::new();

struct Tickets {
    taken: usize,
    over: usize,
}

/// How many runs may go on at a time.
pub(super) fn count() -> usize {
    *COUNT
}

/// A processor for one run; it is given back when this is dropped.
pub(super) struct Processor(());

impl Processor {
    /// Waits until it is this caller's turn.
    pub(super) fn take() -> Self {
        let mut tickets = locked(&TICKETS);
        let ticket = tickets.taken;
        tickets.taken += 1;
        drop(RUN_OVER.wait_while(tickets, |tickets| ticket >= tickets.over + count()));
        Self(())
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        locked(&TICKETS).over += 1;
        RUN_OVER.notify_all();
    }
}
