//! One job from taken to settled: its handler runs, its reservation is kept, and the server is told
//! how it ended.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Worker;
use super::acks::{Ack, Acks};
use super::event::WorkerEvent;
use super::failure::Failure;
use crate::consumer::Retry;
use crate::job::{Job, JobReservation};

/// So long a handler may take to be dropped: until it waits for something.
const DROP_LIMIT: Duration = Duration::from_secs(1);
/// What a job is given back with when its worker could wait no longer.
const STOPPED: &str = "the worker stopped before the job was done";

/// What all jobs of a run have in common.
pub(super) struct JobRunner<T, H> {
    pub(super) worker: Worker<T>,
    pub(super) handler: H,
    pub(super) acks: Acks,
    pub(super) give_up: CancellationToken,
}

/// What is to be told of a job: that it is done, or that it failed and when it is tried again.
type Verdict = Result<(), (String, Duration)>;

/// How a reservation came to hold no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The server says so.
    Refused,
    /// It could not be kept in time.
    Expired,
}

/// How telling the server ended.
enum SettlementOutcome {
    /// So it is.
    Surely(WorkerEvent),
    /// The reservation was stale at a second try. It was the first that ended it, if nothing else
    /// did.
    Probably(WorkerEvent),
}

impl<T, H, F> JobRunner<T, H>
where
    T: Send + Sync + 'static,
    H: Fn(Job<T>, CancellationToken) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    pub(super) fn tell(&self, event: &WorkerEvent) {
        (self.worker.observer)(event);
    }

    pub(super) async fn run(&self, job: Job) {
        let (reservation, attempt, is_last_try) = (job.reservation.clone(), job.attempt, job.is_last_try());
        let mut keeping = std::pin::pin!(self.keep(&reservation));
        self.tell(&WorkerEvent::Begun { job: reservation.clone(), attempt });
        let ended = match job.read(self.worker.decode) {
            Err((_, error)) => Some(Err(Failure::new(format!("the payload has another shape: {error}")))),
            Ok(job) => self.handle(job, &reservation, keeping.as_mut()).await,
        };
        let Some(ended) = ended else { return };
        let verdict = ended.map_err(|failure| {
            let delay = failure.delay.unwrap_or_else(|| (self.worker.retry_delay)(attempt));
            (failure.error, delay)
        });
        let mut settling = std::pin::pin!(self.settle(&reservation, verdict));
        let mut loss = None;
        let settled = loop {
            tokio::select! {
                settled = &mut settling => break settled,
                // It may be this very settling that ended the reservation: its own answer says
                // more.
                why = &mut keeping, if loss.is_none() => loss = Some(why),
            }
        };
        self.tell(&match settled {
            SettlementOutcome::Probably(_) if loss == Some(Loss::Expired) => {
                WorkerEvent::Lost { job: reservation.clone() }
            }
            SettlementOutcome::Surely(WorkerEvent::Failed { job, error, .. })
            | SettlementOutcome::Probably(WorkerEvent::Failed { job, error, .. })
                if is_last_try =>
            {
                WorkerEvent::Failed { job, error, again_in: None }
            }
            SettlementOutcome::Surely(event) | SettlementOutcome::Probably(event) => event,
        });
    }

    /// Runs the handler; `None` when the job was lost meanwhile.
    async fn handle(
        &self,
        job: Job<T>,
        reservation: &JobReservation,
        keeping: impl Future<Output = Loss>,
    ) -> Option<Result<(), Failure>> {
        let lost = CancellationToken::new();
        let mut handler = JoinSet::new();
        handler.spawn((self.handler)(job, lost.clone()));
        tokio::select! {
            Some(ended) = handler.join_next() => Some(ended.unwrap_or_else(|error| Err(panicked(error)))),
            _ = keeping => {
                lost.cancel();
                self.tell(&WorkerEvent::Lost { job: reservation.clone() });
                self.wait_in_vain(handler).await;
                None
            }
            () = self.give_up.cancelled() => {
                lost.cancel();
                Some(drop_handler(handler).await)
            }
        }
    }

    /// A handler whose job is lost keeps its slot until it has ended: what it does it does still.
    async fn wait_in_vain(&self, mut handler: Handler) {
        tokio::select! {
            _ = handler.join_next() => {}
            () = self.give_up.cancelled() => handler.abort_all(),
        }
    }

    /// Keeps a reservation for as long as it is polled; returns when it is lost.
    async fn keep(&self, reservation: &JobReservation) -> Loss {
        let ttr = self.worker.ttr;
        // At the latest: the server began to count before the answer was here.
        let mut until = Instant::now() + ttr;
        loop {
            sleep(ttr / 3).await;
            let asked_at = Instant::now();
            let extended = self.worker.consumer.extend_until(reservation, ttr, ttr / 3, until);
            match timeout_at(until, extended).await {
                Ok(Ok(())) => until = asked_at + ttr,
                Ok(Err(error)) if error.is_stale() => return Loss::Refused,
                // It may be that only the answers do not get through; until then the job is still
                // here.
                Ok(Err(_)) => {
                    sleep_until(until).await;
                    return Loss::Expired;
                }
                Err(_) => return Loss::Expired,
            }
        }
    }

    async fn settle(&self, reservation: &JobReservation, verdict: Verdict) -> SettlementOutcome {
        let job = reservation.clone();
        match verdict {
            Ok(()) => match self.acks.ack(reservation.clone()).await {
                Some(Ok(Ack::Done)) => SettlementOutcome::Surely(WorkerEvent::Done { job }),
                Some(Ok(Ack::Repeated)) => SettlementOutcome::Probably(WorkerEvent::Done { job }),
                Some(Err(error)) => SettlementOutcome::Surely(WorkerEvent::Untold { job, error }),
                Some(Ok(Ack::Stale)) | None => SettlementOutcome::Surely(WorkerEvent::Lost { job }),
            },
            Err((error, delay)) => self.release(job, error, delay).await,
        }
    }

    async fn release(&self, job: JobReservation, error: String, delay: Duration) -> SettlementOutcome {
        let retry = Retry::after(delay).because(error.clone());
        let until = Instant::now() + self.worker.ttr;
        match self.worker.consumer.release_until(&job, &retry, until).await {
            Ok(()) => SettlementOutcome::Surely(WorkerEvent::Failed { job, error, again_in: Some(delay) }),
            Err(failed) if failed.error.is_stale() && failed.perhaps_done => {
                SettlementOutcome::Probably(WorkerEvent::Failed { job, error, again_in: Some(delay) })
            }
            Err(failed) if failed.error.is_stale() => SettlementOutcome::Surely(WorkerEvent::Lost { job }),
            Err(failed) => {
                SettlementOutcome::Surely(WorkerEvent::Untold { job, error: Arc::new(failed.error) })
            }
        }
    }
}

async fn drop_handler(mut handler: Handler) -> Result<(), Failure> {
    handler.abort_all();
    match timeout(DROP_LIMIT, handler.join_next()).await {
        // It ended by itself in that moment.
        Ok(Some(Ok(ended))) => ended,
        _ => Err(Failure::new(STOPPED)),
    }
}

/// A handler that runs, and is dropped with this.
type Handler = JoinSet<Result<(), Failure>>;

fn panicked(error: JoinError) -> Failure {
    let says = error.try_into_panic().ok().and_then(|panic| said(&*panic).map(str::to_owned));
    Failure::new(
        says.map_or_else(
            || "the handler panicked".to_owned(),
            |says| format!("the handler panicked: {says}"),
        ),
    )
}

fn said(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
