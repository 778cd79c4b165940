//! Runs take turns on the processors: more at a time take longer, whatever the number of tests.

use std::sync::{Condvar, Mutex};
use std::thread;

static TAKEN: Mutex<usize> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

/// How many runs may go on at a time.
pub(super) fn count() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}

/// A processor for one run; it is given back when this is dropped.
pub(super) struct Processor(());

impl Processor {
    /// Waits until one is free.
    pub(super) fn take() -> Self {
        let taken = TAKEN.lock().expect("nobody panics with it");
        let mut taken = GIVEN_BACK.wait_while(taken, |taken| *taken >= count()).expect("nor here");
        *taken += 1;
        Self(())
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        *TAKEN.lock().expect("nobody panics with it") -= 1;
        GIVEN_BACK.notify_one();
    }
}
