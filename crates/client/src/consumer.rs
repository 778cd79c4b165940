//! Jobs are taken, and settled: done, given back, or kept for longer.
//!
//! A consumer has one queue or several of a namespace. What it holds names its queue, so that it is
//! settled in the right one.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::client::Client;
use crate::connection::ReusableConnection;
use crate::error::Error;
use crate::job::{Job, JobReservation};
use crate::path::Path;
use crate::queue_control::QueueControl;
use crate::request::Request;
use crate::retry::{AcceptedAnswer, FailedCall, Repeat};
use crate::span::Milliseconds;
use crate::worker::Worker;

/// The most reservations that one call acknowledges.
const ACKS_PER_CALL_MAX: usize = 1_000;
/// The longest that one job can be in an answer: a payload of 1 MiB as base64, and all that stands
/// beside it.
const JOB_BYTES_MAX: usize = 1_536 * 1_024;
/// The status of a thing that is not there.
const NOT_FOUND: u16 = 404;

/// Takes jobs from one queue or several, and settles them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Consumer {
    client: Client,
    namespace: String,
    /// In the order in which they are taken from.
    queues: Vec<String>,
}

/// How many jobs to take, for how long, and how long to wait for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Want {
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttr: Option<Milliseconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Milliseconds>,
}

impl Want {
    /// One job for two minutes, if there is one now.
    #[must_use]
    pub fn one() -> Self {
        Self::default()
    }

    /// At most so many, 1,000 in a call.
    #[must_use]
    pub fn max(self, max: usize) -> Self {
        Self { max: Some(max), ..self }
    }

    /// The time to run: for so long nobody else gets them.
    #[must_use]
    pub fn ttr(self, ttr: Duration) -> Self {
        Self { ttr: Some(Milliseconds(ttr)), ..self }
    }

    /// How long to wait for the first one; it comes at once when there is one.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(Milliseconds(wait)), ..self }
    }
}

/// How a job is given back.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Retry {
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Milliseconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Retry {
    /// For the next consumer, at once.
    #[must_use]
    pub fn now() -> Self {
        Self::default()
    }

    /// For the next consumer, after a while.
    #[must_use]
    pub fn after(delay: Duration) -> Self {
        Self { delay: Some(Milliseconds(delay)), error: None }
    }

    /// Says why; kept with the job if that was its last try.
    #[must_use]
    pub fn because(self, error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..self }
    }
}

/// What became of acknowledgements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acked {
    /// How many jobs are done.
    pub acked: usize,
    /// Reservations that held no longer: what their jobs are for is done, but somebody else may do
    /// it again.
    pub stale: Vec<JobReservation>,
}

/// An answer to acknowledgements in one queue.
pub(crate) struct AckedThere {
    pub(crate) acked: usize,
    pub(crate) stale: Vec<String>,
    /// A reservation may be stale because an earlier try of the same call got through.
    pub(crate) perhaps_twice: bool,
}

/// What was taken, and what workers are told.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TakenJobs {
    pub(crate) jobs: Vec<Job>,
    pub(crate) control: Option<QueueControl>,
}

impl Consumer {
    pub(crate) fn new(client: Client, namespace: String, queues: Vec<String>) -> Self {
        Self { client, namespace, queues }
    }

    /// Takes jobs, of earlier queues first; none when none came in time.
    ///
    /// It is not asked again where an answer may have been lost: those jobs come back when their
    /// ttr is over.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn consume(&self, want: Want) -> Result<Vec<Job>, Error> {
        let AcceptedAnswer { body, .. } = self.client.ask(&self.consuming(want)?, Repeat::Harmful).await?;
        Ok(self.client.read::<TakenJobs>(&body)?.jobs)
    }

    /// The same on a connection of one's own, with what workers are told.
    pub(crate) async fn consume_on(
        &self,
        line: &mut ReusableConnection,
        want: Want,
    ) -> Result<TakenJobs, Error> {
        let body = self.client.ask_on(line, &self.consuming(want)?).await?;
        self.client.read(&body)
    }

    /// What workers of the first queue were told to do, if anything: of several queues it counts.
    /// Not tried again after `until`.
    pub(crate) async fn control(&self, until: Instant) -> Result<Option<QueueControl>, Error> {
        let first = self.queues.first().map_or("", String::as_str);
        let request = Request::new(Method::GET, Path::of(&["queues", &self.namespace, first, "control"]));
        match self.client.ask_until(&request, Repeat::Harmless, until).await {
            Ok(answered) => self.client.read(&answered.body).map(Some),
            // A server of before there was such a thing has no such route.
            Err(failed) if failed.error.status() == Some(NOT_FOUND) => Ok(None),
            Err(failed) => Err(failed.error),
        }
    }

    /// For how long a call is tried.
    pub(crate) fn retry_for(&self) -> Duration {
        self.client.retry_for()
    }

    fn consuming(&self, want: Want) -> Result<Request, Error> {
        let path = Path::of(&["queues", &self.namespace]).and_any_of(&self.queues).and(&["consume"]);
        let request = Request::document(Method::POST, path, &want)?;
        let wait = want.wait.map_or(Duration::ZERO, |wait| wait.0);
        let answer_bytes_max = want.max.unwrap_or(1).saturating_mul(JOB_BYTES_MAX);
        let timeout = self.client.timeout_of(&request) + wait;
        Ok(request.timeout(timeout).answer_bytes_max(answer_bytes_max))
    }

    /// A job is done.
    ///
    /// # Errors
    /// [`Error::is_stale`] when the reservation holds no longer. Where a first answer was lost and
    /// the call was made again, that may also mean that the first one got through.
    pub async fn ack(&self, reservation: &JobReservation) -> Result<(), Error> {
        self.settle(reservation, "ack", &Showing::of(reservation)).await
    }

    /// Jobs are done, however many.
    ///
    /// # Errors
    /// See [`Error`]. Jobs before the failure may be done.
    pub async fn ack_many<'a>(
        &self,
        reservations: impl IntoIterator<Item = &'a JobReservation>,
    ) -> Result<Acked, Error> {
        let mut by_queue: BTreeMap<&str, Vec<&JobReservation>> = BTreeMap::new();
        for one in reservations {
            by_queue.entry(&one.queue).or_default().push(one);
        }
        let mut sum = Acked::default();
        let until = Instant::now() + self.client.retry_for();
        for (queue, of_queue) in by_queue {
            for part in of_queue.chunks(ACKS_PER_CALL_MAX) {
                let tokens: Vec<_> = part.iter().map(|reservation| reservation.token.as_str()).collect();
                let there = self.ack_there(queue, &tokens, until).await?;
                sum.acked += there.acked;
                let is_stale = |reservation: &&&JobReservation| there.stale.contains(&reservation.token);
                sum.stale.extend(part.iter().filter(is_stale).map(|reservation| (*reservation).clone()));
            }
        }
        Ok(sum)
    }

    /// Acknowledges up to [`ACKS_PER_CALL_MAX`] reservations of one queue.
    pub(crate) async fn ack_there(
        &self,
        queue: &str,
        reservations: &[&str],
        until: Instant,
    ) -> Result<AckedThere, Error> {
        #[derive(Serialize)]
        struct Reservations<'a> {
            reservations: &'a [&'a str],
        }
        #[derive(Deserialize)]
        struct Answer {
            acked: usize,
            stale: Vec<String>,
        }
        let path = Path::of(&["queues", &self.namespace, queue, "ack"]);
        let request = Request::document(Method::POST, path, &Reservations { reservations })?;
        let answered = self.client.ask_until(&request, Repeat::Harmless, until).await?;
        let Answer { acked, stale } = self.client.read(&answered.body)?;
        Ok(AckedThere { acked, stale, perhaps_twice: answered.perhaps_twice })
    }

    /// Has a reservation hold for `ttr` from now.
    ///
    /// # Errors
    /// [`Error::is_stale`] when it holds no longer.
    pub async fn extend(&self, reservation: &JobReservation, ttr: Duration) -> Result<(), Error> {
        self.settle(
            reservation,
            "extend",
            &Showing { ttr: Some(Milliseconds(ttr)), ..Showing::of(reservation) },
        )
        .await
    }

    /// The same, with an answer within `limit` and no second try after `until`.
    pub(crate) async fn extend_until(
        &self,
        reservation: &JobReservation,
        ttr: Duration,
        limit: Duration,
        until: Instant,
    ) -> Result<(), Error> {
        let showing = Showing { ttr: Some(Milliseconds(ttr)), ..Showing::of(reservation) };
        let request = self.settling(reservation, "extend", &showing)?;
        let limit = self.client.timeout_of(&request).min(limit);
        let request = request.timeout(limit);
        self.client.ask_until(&request, Repeat::Harmless, until).await?;
        Ok(())
    }

    /// A job is given back. That uses up the try: the last one makes the job dead.
    ///
    /// # Errors
    /// [`Error::is_stale`] when the reservation holds no longer; see [`Consumer::ack`].
    pub async fn release(&self, reservation: &JobReservation, retry: &Retry) -> Result<(), Error> {
        self.settle(reservation, "release", &Showing { retry: Some(retry), ..Showing::of(reservation) }).await
    }

    /// The same with no second try after `until`; whether an earlier try may have been the one that
    /// counted.
    pub(crate) async fn release_until(
        &self,
        reservation: &JobReservation,
        retry: &Retry,
        until: Instant,
    ) -> Result<(), FailedCall> {
        let showing = Showing { retry: Some(retry), ..Showing::of(reservation) };
        let request = self.settling(reservation, "release", &showing);
        let request = request.map_err(|error| FailedCall { error, perhaps_done: false })?;
        self.client.ask_until(&request, Repeat::Harmless, until).await?;
        Ok(())
    }

    async fn settle(
        &self,
        reservation: &JobReservation,
        how: &str,
        showing: &Showing<'_>,
    ) -> Result<(), Error> {
        self.client.order(&self.settling(reservation, how, showing)?, Repeat::Harmless).await
    }

    fn settling(
        &self,
        reservation: &JobReservation,
        how: &str,
        showing: &Showing<'_>,
    ) -> Result<Request, Error> {
        let path =
            Path::of(&["queues", &self.namespace, &reservation.queue, "jobs", reservation.id.as_str(), how]);
        Request::document(Method::POST, path, showing)
    }

    /// A worker whose jobs carry JSON of this shape.
    #[must_use]
    pub fn worker<T: DeserializeOwned>(&self) -> Worker<T> {
        Worker::new(self.clone(), |payload| payload.json())
    }

    /// A worker that takes payloads as they are.
    #[must_use]
    pub fn raw_worker(&self) -> Worker {
        Worker::new(self.clone(), |payload| Ok(payload.clone()))
    }
}

/// What a consumer shows to settle a job, and what it wants.
#[derive(Serialize)]
struct Showing<'a> {
    reservation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttr: Option<Milliseconds>,
    #[serde(flatten)]
    retry: Option<&'a Retry>,
}

impl<'a> Showing<'a> {
    fn of(reservation: &'a JobReservation) -> Self {
        Self { reservation: &reservation.token, ttr: None, retry: None }
    }
}
