//! The loop of one copy: it tries again after whatever failed, with less where that took too long.

use std::time::Duration;

use base::Problem;
use engine::streams::CopyStatus;
use engine::streams::copying::pause;

use crate::copy_run::{BATCH_MESSAGES_MAX, CopyRun, CopyRunEnd};
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
    let mut batch_messages = BATCH_MESSAGES_MAX;
    loop {
        let ended = match home.row().await {
            Ok(row) => {
                let mut run = CopyRun::new(home, source, sink, row, batch_messages);
                run.status = status;
                let ended = run.go().await;
                (status, batch_messages) = (run.status, run.batch_messages);
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
        batch_messages = match failure.kind {
            CopyFailureKind::Unanswered => (batch_messages / 2).max(1),
            _ => BATCH_MESSAGES_MAX,
        };
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
