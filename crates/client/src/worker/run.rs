//! One run of a worker: asks for as many jobs as it has free slots, and at the end waits for those
//! that run.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::Worker;
use super::acks::Acks;
use super::event::WorkerEvent;
use super::failure::Failure;
use super::job_runner::JobRunner;
use super::polling::{HANG_UP_LIMIT, Polling};
use crate::consumer::{TakenJobs, Want};
use crate::error::Error;
use crate::job::Job;
use crate::queue_control::{ControlState, QueueControl};

/// A worker at work.
pub(super) struct WorkerRun<T, H> {
    runner: Arc<JobRunner<T, H>>,
    concurrency: usize,
    stop_limit: Duration,
    /// What the queue's workers are told.
    control: Option<QueueControl>,
    /// The first question without an answer since the last answer.
    away_since: Option<Instant>,
    /// A task for each job, from taken to settled.
    jobs: JoinSet<()>,
    /// The task that sends acknowledgements.
    acks: JoinSet<()>,
    /// What handlers that still run are dropped by.
    give_up: CancellationToken,
}

impl<T, H, F> WorkerRun<T, H>
where
    T: Send + Sync + 'static,
    H: Fn(Job<T>, CancellationToken) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    pub(super) fn new(worker: Worker<T>, handler: H) -> Self {
        let (concurrency, stop_limit) = (worker.concurrency, worker.stop_limit);
        let (acks, sending) = Acks::new(worker.consumer.clone(), concurrency, worker.ttr);
        let mut sender = JoinSet::new();
        sender.spawn(sending);
        let give_up = CancellationToken::new();
        let runner = Arc::new(JobRunner { worker, handler, acks, give_up: give_up.clone() });
        let (control, away_since, jobs) = (None, None, JoinSet::new());
        Self { runner, concurrency, stop_limit, control, away_since, jobs, acks: sender, give_up }
    }

    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let ended = self.take(stop).await;
        self.runner.tell(&WorkerEvent::Stopping { running: self.jobs.len() });
        if timeout(self.stop_limit, drain(&mut self.jobs)).await.is_err() {
            self.give_up.cancel();
            drain(&mut self.jobs).await;
        }
        // The last of those who hand acknowledgements in.
        drop(self.runner);
        drain(&mut self.acks).await;
        ended
    }

    /// Takes jobs until it is to stop, or can take no more for good.
    async fn take(&mut self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let mut stop = std::pin::pin!(stop);
        let worker = &self.runner.worker;
        let want = Want::one().ttr(worker.ttr).wait(worker.wait);
        let mut idle = Some(Polling::new(worker.consumer.clone(), want));
        let mut asking = None;
        let has_room = Arc::new(Notify::new());
        let (until_empty, mut found_nothing) = (worker.until_empty, false);
        loop {
            let state = self.control.as_ref().map_or(ControlState::Run, |control| control.state);
            let is_over = state == ControlState::Stop || until_empty && state == ControlState::Drain;
            if is_over {
                break;
            }
            // What runs may publish more, so an empty queue is looked at again when something has
            // ended.
            let waits_for_handlers = found_nothing && !self.jobs.is_empty();
            let free = match state {
                ControlState::Run if !waits_for_handlers => {
                    self.concurrency_now().saturating_sub(self.jobs.len())
                }
                _ => 0,
            };
            if let Some(polling) = idle.take() {
                let has_room = Arc::clone(&has_room);
                asking = Some((polling.hang_up(), free, Box::pin(ask(polling, free, has_room))));
            }
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(ended) = self.jobs.join_next() => {
                    settled(ended);
                    found_nothing = false;
                    has_room.notify_one();
                }
                (asked_for, (polling, answer)) = answer_to(asking.as_mut()), if asking.is_some() => {
                    asking = None;
                    if asked_for > 0 {
                        let is_nothing = matches!(&answer, Ok(TakenJobs { jobs, .. }) if jobs.is_empty());
                        found_nothing = until_empty && is_nothing;
                    }
                    if found_nothing && self.jobs.is_empty() {
                        return Ok(());
                    }
                    idle = Some(self.heed(polling, answer)?);
                }
            }
        }
        if let Some((hang_up, _, asking)) = asking {
            hang_up.cancel();
            // What was on its way is here, or the question was taken back: an error tells no more
            // than that.
            if let Ok((_, Ok(consumed))) = timeout(HANG_UP_LIMIT, asking).await {
                self.begin(consumed.jobs);
            }
        }
        Ok(())
    }

    /// The handlers that may run at the same time now.
    fn concurrency_now(&self) -> usize {
        let told = self.control.as_ref().and_then(|control| control.max_in_flight);
        let told = told.and_then(|jobs| usize::try_from(jobs).ok());
        told.map_or(self.concurrency, |told| self.concurrency.min(told))
    }

    fn heed(&mut self, mut polling: Polling, answer: Result<TakenJobs, Error>) -> Result<Polling, Error> {
        match answer {
            Ok(TakenJobs { jobs, control }) => {
                self.away_since = None;
                if self.control != control {
                    self.runner.tell(&WorkerEvent::Control { control: control.clone() });
                    self.control = control;
                }
                self.begin(jobs);
            }
            Err(error) if error.may_pass() && !self.gives_up_waiting() => {
                let again_in = polling.hold_back(&error);
                self.runner.tell(&WorkerEvent::Away { error: Arc::new(error), again_in });
            }
            Err(error) => return Err(error),
        }
        Ok(polling)
    }

    /// The server gave no answer. A worker that is to end once its queue is empty waits for it only
    /// as long as calls are tried. While handlers run, it waits on.
    fn gives_up_waiting(&mut self) -> bool {
        let since = *self.away_since.get_or_insert_with(Instant::now);
        let worker = &self.runner.worker;
        worker.until_empty && self.jobs.is_empty() && since.elapsed() >= worker.consumer.retry_for()
    }

    fn begin(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            let runner = Arc::clone(&self.runner);
            self.jobs.spawn(async move { runner.run(job).await });
        }
    }
}

/// Asks for jobs, or, while none can be taken, only what workers are told.
async fn ask(polling: Polling, free: usize, has_room: Arc<Notify>) -> (Polling, Result<TakenJobs, Error>) {
    match free {
        0 => polling.ask_control(&has_room).await,
        _ => polling.ask(free).await,
    }
}

/// The answer to a question that is under way, and how many jobs it asked for.
async fn answer_to<A: Future + Unpin>(
    asking: Option<&mut (CancellationToken, usize, A)>,
) -> (usize, A::Output) {
    match asking {
        Some((_, asked_for, asking)) => (*asked_for, asking.await),
        None => std::future::pending().await,
    }
}

async fn drain(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        settled(ended);
    }
}

/// What handlers do wrong is caught where they run; a panic here is one of the worker itself.
fn settled(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}
