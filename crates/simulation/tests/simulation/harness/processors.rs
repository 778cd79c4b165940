//! Runs of seeds take turns on the processors: more at a time take longer, whatever the number of
//! tests. Whoever asked first goes first, so that no test starves.

use std::sync::{Condvar, LazyLock, Mutex};
use std::thread;

use base::locks::locked;

static COUNT: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(2, usize::from));
static TURNS: Mutex<Turns> = Mutex::new(Turns { taken: 0, over: 0 });
static TURN_OVER: Condvar = Condvar::new();

struct Turns {
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
        let mut turns = locked(&TURNS);
        let turn = turns.taken;
        turns.taken += 1;
        drop(TURN_OVER.wait_while(turns, |turns| turn >= turns.over + count()));
        Self(())
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        locked(&TURNS).over += 1;
        TURN_OVER.notify_all();
    }
}
