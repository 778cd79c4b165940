//! The loop of one copy: it tries again after whatever failed, with less where that took too long
//! or had no room.

use std::time::Duration;

use base::Problem;
use engine::streams::CopyStatus;
use engine::streams::copying::pause;

use crate::batch_size::BatchSize;
use crate::copy_run::{CopyRun, CopyRunEnd};
use crate::ends::{CopyFailure, CopyFailureKind, CopyHome, StreamEnd};

/// A peer that asks for more patience gets this much: it is to be found soon once it can again.
const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// Runs a copy until it is not there any more, and says so. `seed` spreads the tries of many.
pub async fn run_copy<H: CopyHome, S: StreamEnd, T: StreamEnd>(
    home: &H,
    source: &S,
    sink: &T,
    seed: u64,
) -> Problem {
    let mut status = CopyStatus::default();
    let mut size = BatchSize::default();
    loop {
        let ended = match home.row().await {
            Ok(row) => {
                let mut run = CopyRun::new(home, source, sink, row, size);
                run.status = status;
                let ended = run.go().await;
                (status, size) = (run.status, run.size);
                ended
            }
            Err(problem) => CopyRunEnd::Home(problem),
        };
        let failure = match ended {
            CopyRunEnd::Again => continue,
            CopyRunEnd::Home(problem) if problem.status == 404 => return problem,
            CopyRunEnd::Home(problem) => CopyFailure::from(problem),
            CopyRunEnd::Failed(failure) => failure,
        };
        // What takes too long is tried with less.
        if failure.kind == CopyFailureKind::Unanswered {
            size.shrink();
        }
        status.failures = status.failures.saturating_add(1);
        status.at = home.now();
        if failure.kind != CopyFailureKind::OutOfOrder || status.failures > 1 {
            status.error = Some(failure.error);
        }
        let wait = match failure.kind {
            // The other end forgot the run: nothing is wrong with it.
            CopyFailureKind::OutOfOrder if status.failures == 1 => Duration::ZERO,
            _ => {
                let wait = pause(status.failures, seed);
                failure.patience.map_or(wait, |patience| patience.min(PATIENCE_MAX).max(wait))
            }
        };
        home.note(status.clone());
        if !wait.is_zero() {
            home.until(home.now().after(wait)).await;
        }
    }
}

#[cfg(test)]
mod tests;
