//! What a broken invariant does: it stops the process, before a wrong answer can leave it.
//!
//! Everything acknowledged is durable, so stopping loses nothing; going on without a partition, or without the thread that
//! commits, would.

/// Held while code runs whose panic must stop the process: rules, and the threads of the store.
#[derive(Debug)]
pub struct StopsTheProcess {
    what: &'static str,
}

impl StopsTheProcess {
    /// A panic from now on, until this is dropped, stops the process; `what` names who broke.
    #[must_use]
    pub fn on_panic(what: &'static str) -> Self {
        Self { what }
    }
}

impl Drop for StopsTheProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "an invariant of {} is broken; the process stops, nothing acknowledged is lost",
                self.what
            );
            std::process::abort();
        }
    }
}
