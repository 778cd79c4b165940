//! The question for jobs: asked on a connection of its own, one at a time, and again after a while
//! when it fails.
//!
//! What workers are told comes with each answer, and a change of it ends a question that waits. Two
//! looks close the gap that is left. One is before a question, if nothing was heard for a while.
//! The other is while it waits, for a change that came just before it.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::connection::ReusableConnection;
use crate::consumer::{Consumer, TakenJobs, Want};
use crate::error::Error;
use crate::queue_control::QueueControl;
use crate::retry::RetryWaits;

/// The most jobs that one answer brings.
const JOBS_PER_CALL_MAX: usize = 1_000;
/// How old what workers are told may be: a worker that rests looks so often.
const CONTROL_EVERY: Duration = Duration::from_secs(1);
/// A server that is there takes a question back at once.
pub(super) const HANG_UP_LIMIT: Duration = Duration::from_secs(5);

/// Asks for jobs.
pub(super) struct Polling {
    consumer: Consumer,
    want: Want,
    line: ReusableConnection,
    /// What ends the question on the line.
    line_ends: CancellationToken,
    hang_up: CancellationToken,
    waits: RetryWaits,
    /// Before the next question.
    pause: Duration,
    control: Option<QueueControl>,
    /// When that was told.
    told_at: Option<Instant>,
}

impl Polling {
    pub(super) fn new(consumer: Consumer, want: Want) -> Self {
        let hang_up = CancellationToken::new();
        let (line, line_ends) = new_line(&hang_up);
        let (waits, pause) = (RetryWaits::new(), Duration::ZERO);
        Self { consumer, want, line, line_ends, hang_up, waits, pause, control: None, told_at: None }
    }

    /// What ends a question that is under way; jobs that were already on their way still come.
    pub(super) fn hang_up(&self) -> CancellationToken {
        self.hang_up.clone()
    }

    /// Asks for up to `free` jobs, and gives itself back for the next time. Where something else is
    /// told than before, that alone may be the answer.
    pub(super) async fn ask(mut self, free: usize) -> (Self, Result<TakenJobs, Error>) {
        if !self.rest(self.pause).await {
            return (self, Ok(TakenJobs::default()));
        }
        if self.told_at.is_none_or(|at| at.elapsed() >= CONTROL_EVERY) {
            let known = self.control.clone();
            let answer = self.look().await;
            if !matches!(&answer, Ok(TakenJobs { control, .. }) if *control == known) {
                return (self, answer);
            }
        }
        let answer = self.consume(self.want.max(free.min(JOBS_PER_CALL_MAX))).await;
        self.note(&answer);
        (self, answer)
    }

    /// Asks, once that is due, only what workers are told. A worker that is to take no jobs, or has
    /// no room for any, cannot ask for them. Ends as soon as there is room.
    pub(super) async fn ask_control(mut self, has_room: &Notify) -> (Self, Result<TakenJobs, Error>) {
        let age = self.told_at.map_or(CONTROL_EVERY, |at| at.elapsed());
        let due = self.pause.max(CONTROL_EVERY.saturating_sub(age));
        let known = TakenJobs { jobs: Vec::new(), control: self.control.clone() };
        let hang_up = self.hang_up.clone();
        let looked = async {
            sleep(due).await;
            self.look().await
        };
        let answer = tokio::select! {
            biased;
            () = hang_up.cancelled() => Ok(known),
            () = has_room.notified() => Ok(known),
            answer = looked => answer,
        };
        (self, answer)
    }

    /// Whether it was not hung up meanwhile.
    async fn rest(&self, pause: Duration) -> bool {
        self.hang_up.run_until_cancelled(sleep(pause)).await.is_some()
    }

    async fn look(&mut self) -> Result<TakenJobs, Error> {
        let answer = self.consumer.control(Instant::now()).await;
        let answer = answer.map(|control| TakenJobs { jobs: Vec::new(), control });
        self.note(&answer);
        answer
    }

    async fn consume(&mut self, want: Want) -> Result<TakenJobs, Error> {
        let Self { consumer, line, line_ends, control: known, .. } = self;
        let told = {
            let mut consuming = std::pin::pin!(consumer.consume_on(line, want));
            let change = async {
                sleep(CONTROL_EVERY).await;
                match consumer.control(Instant::now()).await {
                    Ok(control) if control != *known => control,
                    // A change from here on ends the question; an error is told by its answer.
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = &mut consuming => return answer,
                control = change => {
                    line_ends.cancel();
                    let answer = timeout(HANG_UP_LIMIT, consuming).await;
                    let jobs = answer.ok().and_then(Result::ok).unwrap_or_default().jobs;
                    TakenJobs { jobs, control }
                }
            }
        };
        (self.line, self.line_ends) = new_line(&self.hang_up);
        Ok(told)
    }

    fn note(&mut self, answer: &Result<TakenJobs, Error>) {
        if let Ok(TakenJobs { control, .. }) = answer {
            self.waits = RetryWaits::new();
            self.pause = Duration::ZERO;
            self.control.clone_from(control);
            self.told_at = Some(Instant::now());
        }
    }

    /// Asks later next time; how much later.
    pub(super) fn hold_back(&mut self, error: &Error) -> Duration {
        self.pause = self.waits.next(error);
        self.pause
    }
}

fn new_line(hang_up: &CancellationToken) -> (ReusableConnection, CancellationToken) {
    let line_ends = hang_up.child_token();
    (ReusableConnection::new(line_ends.clone()), line_ends)
}
