//! A worker: takes jobs as long as it has room, runs a handler for each, and settles them.
//!
//! A job's life here: taken, with its handler, settled. It takes up one of the worker's slots from
//! the first to the last, and its reservation is kept for all of that time. What is told of it on
//! the way are [`WorkerEvent`]s.

mod acks;
mod event;
mod failure;
mod job_runner;
mod polling;
mod run;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::consumer::Consumer;
use crate::error::Error;
use crate::job::{Job, Payload};
use crate::retry::chance;
pub use event::WorkerEvent;
pub use failure::Failure;
use run::WorkerRun;

/// How many handlers run at the same time, unless it is said otherwise.
const CONCURRENCY: u16 = 8;
/// How long a reservation holds without being kept, unless it is said otherwise.
const TTR: Duration = Duration::from_secs(30);
/// How long handlers are waited for at the end, unless it is said otherwise.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// How long one question for jobs waits for an answer. What lies between may close what is silent
/// for longer.
const WAIT: Duration = Duration::from_secs(30);
/// The delay after a first attempt that failed, and the longest one.
const RETRY_BASE: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(600);

type Decode<T> = fn(&Payload) -> Result<T, serde_json::Error>;
type Delay = Arc<dyn Fn(u32) -> Duration + Send + Sync>;
type Observer = Arc<dyn Fn(&WorkerEvent) + Send + Sync>;

/// What a worker does and how; [`Worker::run`] sets it to work.
pub struct Worker<T = Payload> {
    consumer: Consumer,
    decode: Decode<T>,
    concurrency: usize,
    ttr: Duration,
    wait: Duration,
    stop_limit: Duration,
    until_empty: bool,
    retry_delay: Delay,
    observer: Observer,
}

impl<T> fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("consumer", &self.consumer)
            .field("concurrency", &self.concurrency)
            .field("ttr", &self.ttr)
            .field("stop_limit", &self.stop_limit)
            .finish_non_exhaustive()
    }
}

impl<T> Worker<T> {
    pub(crate) fn new(consumer: Consumer, decode: Decode<T>) -> Self {
        Self {
            consumer,
            decode,
            concurrency: usize::from(CONCURRENCY),
            ttr: TTR,
            wait: WAIT,
            stop_limit: STOP_LIMIT,
            until_empty: false,
            retry_delay: Arc::new(doubling),
            observer: Arc::new(|_| {}),
        }
    }

    /// So many handlers run at the same time, at least one: 8 unless it is said here. No more jobs
    /// than that are taken.
    #[must_use]
    pub fn concurrency(self, handlers: u16) -> Self {
        Self { concurrency: usize::from(handlers.max(1)), ..self }
    }

    /// How long a job stays with a worker that is not heard of again: 30 seconds unless it is said
    /// here. A worker that lives keeps it for as long as its handler runs.
    #[must_use]
    pub fn ttr(self, ttr: Duration) -> Self {
        Self { ttr, ..self }
    }

    /// How long handlers are waited for once the worker is to stop: 30 seconds unless it is said
    /// here.
    #[must_use]
    pub fn stop_limit(self, limit: Duration) -> Self {
        Self { stop_limit: limit, ..self }
    }

    /// Works only as long as there is something to do: ends when no job is ready and no handler
    /// runs. Jobs whose time has not come, failed ones included, are left for another worker. If
    /// the server gives no answer for as long as calls are tried again, and no handler runs, it
    /// ends with the error.
    #[must_use]
    pub fn until_empty(self) -> Self {
        Self { until_empty: true, wait: Duration::ZERO, ..self }
    }

    /// After how long a job is tried again whose attempt with this number failed. Unless it is said
    /// here: a second, doubled with each attempt up to ten minutes, and up to a tenth more by
    /// chance.
    #[must_use]
    pub fn retry_delay(self, delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self { retry_delay: Arc::new(delay), ..self }
    }

    /// Is told what happens, as it happens: for logs, metrics and tests. It must not block.
    #[must_use]
    pub fn observe(self, observer: impl Fn(&WorkerEvent) + Send + Sync + 'static) -> Self {
        Self { observer: Arc::new(observer), ..self }
    }
}

impl<T: Send + Sync + 'static> Worker<T> {
    /// [`Worker::run_until`], without a `stop` of its own.
    ///
    /// # Errors
    /// See [`Worker::run_until`].
    pub async fn run<H, F>(self, handler: H) -> Result<(), Error>
    where
        H: Fn(Job<T>, CancellationToken) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.run_until(std::future::pending(), handler).await
    }

    /// Works until `stop` comes, or the control of its first queue says `Stop`. With
    /// [`Worker::until_empty`] also until there is nothing to do, or the control says `Drain`.
    ///
    /// A job whose handler ends well is acknowledged. One whose handler fails or panics, or whose
    /// payload cannot be read, is given back with the error, to be tried again after a delay. The
    /// token that a handler gets is cancelled when its job is lost: the reservation could not be
    /// kept, or somebody cancelled the job. What the handler then says does not count.
    ///
    /// At the end no more jobs are taken. Handlers that run are waited for up to the stop
    /// limit; then they are dropped, and their jobs given back, which uses up their try. If the
    /// future itself is dropped, so are its handlers, and their jobs come back when their ttr is
    /// over.
    ///
    /// # Errors
    /// A refusal that does not pass by itself, such as a wrong token or a wrong name. Handlers that
    /// run then end as above. A server that is away is waited for, however long; with
    /// [`Worker::until_empty`] only as long as that says.
    pub async fn run_until<H, F>(self, stop: impl Future<Output = ()>, handler: H) -> Result<(), Error>
    where
        H: Fn(Job<T>, CancellationToken) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        WorkerRun::new(self, handler).run(stop).await
    }
}

/// The delay after an attempt, doubled with each.
fn doubling(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(16);
    let delay = (RETRY_BASE * 2_u32.pow(doublings)).min(RETRY_MAX);
    delay + delay.mul_f64(chance() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_with_each_attempt_up_to_a_limit() {
        for (attempt, seconds) in [(1, 1), (2, 2), (5, 16), (10, 512), (11, 600), (u32::MAX, 600)] {
            let (least, delay) = (Duration::from_secs(seconds), doubling(attempt));
            assert!(delay >= least && delay <= least.mul_f64(1.1), "{attempt}: {delay:?}");
        }
    }
}
