//! Reads of the store, in their turn: so many at a time for all services together.

use std::sync::Arc;

use base::Problem;
use base::limits::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX};
use tokio::sync::Semaphore;

/// Reads that run at the same time, and those that wait for their turn.
const READS_RUNNING_MAX: usize = 2;
const READS_WAITING_MAX: usize = 256;

/// Where reads have their turn. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StoreReads {
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl Default for StoreReads {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(READS_RUNNING_MAX + READS_WAITING_MAX)),
            turns: Arc::new(Semaphore::new(READS_RUNNING_MAX)),
        }
    }
}

impl StoreReads {
    /// Reads the store in its turn.
    ///
    /// # Errors
    /// 503 `busy`, or what the read says.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = |_| Problem::new(503, "busy", "too many reads wait for their turn; try again in a moment");
        let _place = self.places.try_acquire().map_err(busy)?;
        let turn = Arc::clone(&self.turns).acquire_owned().await.expect("the turns are never closed");
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            read()
        });
        match reading.await {
            Ok(read) => read,
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            Err(_) => Err(Problem::unavailable("the server is stopping")),
        }
    }
}

/// How many items a page may have.
///
/// # Errors
/// `invalid_number`.
pub(crate) fn page_limit(limit: Option<u32>) -> Result<usize, Problem> {
    let limit = limit.map_or(PAGE_ITEMS_DEFAULT, |limit| limit as usize);
    if (1..=PAGE_ITEMS_MAX).contains(&limit) {
        return Ok(limit);
    }
    let detail = format!("limit must be 1 to {PAGE_ITEMS_MAX}, not {limit}");
    Err(Problem::not_allowed("invalid_number", detail))
}

/// The refusal of a page that no call gave.
pub(crate) fn foreign_page() -> Problem {
    Problem::new(400, "invalid_cursor", "page is not one that this call gave")
}
