//! The question for jobs: asked on a connection of its own, one at a time, and again after a while
//! when it fails.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::consumer::{Consumer, Want};
use crate::error::Error;
use crate::job::Job;
use crate::retry::Waits;

/// The most jobs that one answer brings.
const JOBS_PER_CALL_MAX: usize = 1_000;

/// Asks for jobs.
pub(super) struct Polling {
    consumer: Consumer,
    want: Want,
    line: Connection,
    hang_up: CancellationToken,
    waits: Waits,
    /// Before the next question.
    pause: Duration,
}

impl Polling {
    pub(super) fn new(consumer: Consumer, want: Want) -> Self {
        let hang_up = CancellationToken::new();
        let line = Connection::new(hang_up.clone());
        Self { consumer, want, line, hang_up, waits: Waits::new(), pause: Duration::ZERO }
    }

    /// What ends a question that is under way; jobs that were already on their way still come.
    pub(super) fn hang_up(&self) -> CancellationToken {
        self.hang_up.clone()
    }

    /// Asks for up to `free` jobs, and gives itself back for the next time.
    pub(super) async fn ask(mut self, free: usize) -> (Self, Result<Vec<Job>, Error>) {
        if self.hang_up.run_until_cancelled(sleep(self.pause)).await.is_none() {
            return (self, Ok(Vec::new()));
        }
        let want = self.want.max(free.min(JOBS_PER_CALL_MAX));
        let answer = self.consumer.consume_on(&mut self.line, want).await;
        if answer.is_ok() {
            self.waits = Waits::new();
            self.pause = Duration::ZERO;
        }
        (self, answer)
    }

    /// Asks later next time; how much later.
    pub(super) fn hold_back(&mut self, error: &Error) -> Duration {
        self.pause = self.waits.next(error);
        self.pause
    }
}
