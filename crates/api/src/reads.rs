//! Reading the store without holding up the workers: reads run on threads of their own, a few at a time.
//!
//! A list that looks at every device of a large fleet takes seconds; while it does, reports and short calls go on. Reads
//! wait for their turn up to a limit, beyond which callers are told to come back.

use std::sync::Arc;

use base::Problem;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Reads that run at the same time: enough to keep a disk busy, and few beside the threads that there may be.
const READS_RUNNING_MAX: usize = 16;
/// Reads that wait for their turn.
const READS_WAITING_MAX: usize = 1_024;

/// The places for reads.
#[derive(Debug)]
pub(crate) struct Reads {
    /// For everyone who runs or waits.
    places: Semaphore,
    /// For those who run.
    running: Arc<Semaphore>,
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            places: Semaphore::new(READS_RUNNING_MAX + READS_WAITING_MAX),
            running: Arc::new(Semaphore::new(READS_RUNNING_MAX)),
        }
    }
}

impl Reads {
    /// Runs `read` in its turn.
    ///
    /// # Errors
    /// What `read` says, or `busy`.
    ///
    /// # Panics
    /// When `read` does.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let _place = self.places.try_acquire().map_err(|_| busy())?;
        let turn = Arc::clone(&self.running).acquire_owned().await.expect("the turns are never closed");
        // The turn lasts as long as the read, also when the caller has gone.
        let reading = spawn_blocking(move || {
            let _turn = turn;
            read()
        });
        match reading.await {
            Ok(read) => read,
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            Err(_) => Err(Problem::unavailable("the server is stopping")),
        }
    }

    /// Reads that run or wait.
    pub(crate) fn in_flight(&self) -> usize {
        READS_RUNNING_MAX + READS_WAITING_MAX - self.places.available_permits()
    }
}

fn busy() -> Problem {
    Problem::new(503, "busy", "too many reads are waiting for their turn; try again in a moment")
}
