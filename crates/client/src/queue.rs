//! One queue: jobs go in, are looked at, changed and cancelled, and the queue itself is set, paused
//! and emptied.
//!
//! What takes jobs out is the queue's [`Consumer`]; its calls can be made here too.

use std::time::Duration;

use hyper::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::client::Client;
use crate::consumer::{Acked, Consumer, Retry, Want};
use crate::error::Error;
use crate::job::{DeadJob, Job, JobId, JobReservation, JobState, JobView};
use crate::path::Path;
use crate::publish::{JobChange, NewJob, Published};
use crate::queue_control::QueueControl;
use crate::queue_stats::{Cursor, Page, QueueOverview, QueueSettings};
use crate::request::Request;
use crate::retry::{Repeat, idempotency_key};
use crate::worker::Worker;

/// The status of a thing that is not there.
const NOT_FOUND: u16 = 404;

/// A queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Queue {
    client: Client,
    namespace: String,
    name: String,
    consumer: Consumer,
}

/// A job's alias, where it stands for the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias<'a>(pub &'a str);

/// Which job is meant: `&JobId` or [`Alias`] turn into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// The one with this id.
    Id(&'a JobId),
    /// The one with this alias; where a successor follows it, the successor.
    Alias(&'a str),
}

impl<'a> From<&'a JobId> for Which<'a> {
    fn from(id: &'a JobId) -> Self {
        Self::Id(id)
    }
}

impl<'a> From<Alias<'a>> for Which<'a> {
    fn from(Alias(alias): Alias<'a>) -> Self {
        Self::Alias(alias)
    }
}

#[derive(Deserialize)]
struct PublishedJobs {
    jobs: Vec<Published>,
}

impl Queue {
    pub(crate) fn new(client: Client, namespace: String, name: String) -> Self {
        let consumer = Consumer::new(client.clone(), namespace.clone(), vec![name.clone()]);
        Self { client, namespace, name, consumer }
    }

    /// Publishes a job. When this returns, the job is durable.
    ///
    /// Where an answer is lost it is asked again under the same idempotency key, and there is still
    /// one job.
    ///
    /// # Errors
    /// 409 `alias_taken` or `queue_full`, 422 for what is not allowed; see [`Error`].
    pub async fn publish(&self, job: NewJob) -> Result<Published, Error> {
        let jobs: PublishedJobs = self.publish_body(&job).await?;
        jobs.jobs.into_iter().next().ok_or_else(|| self.client.foreign("it published nothing"))
    }

    /// Publishes up to 1,000 jobs, all or none; what it answers is in their order.
    ///
    /// # Errors
    /// See [`Queue::publish`]; 409 `alias_repeated` too.
    pub async fn publish_many(&self, jobs: &[NewJob]) -> Result<Vec<Published>, Error> {
        #[derive(Serialize)]
        struct Many<'a> {
            jobs: &'a [NewJob],
        }
        let answer: PublishedJobs = self.publish_body(&Many { jobs }).await?;
        Ok(answer.jobs)
    }

    async fn publish_body(&self, body: &impl Serialize) -> Result<PublishedJobs, Error> {
        let request = Request::document(Method::POST, self.path(&["jobs"]), body)?;
        let idempotency_key = idempotency_key();
        // Without a key a second try might publish a second job.
        let repeat = if idempotency_key.is_some() { Repeat::Harmless } else { Repeat::Harmful };
        self.client.fetch(&Request { idempotency_key, ..request }, repeat).await
    }

    /// A job, without taking it.
    ///
    /// # Errors
    /// 404 `unknown_job`; see [`Error`].
    pub async fn get<'a>(&self, job: impl Into<Which<'a>>) -> Result<JobView, Error> {
        self.client.fetch(&Request::new(Method::GET, self.of(job.into())), Repeat::Harmless).await
    }

    /// Gives a waiting job another payload or time.
    ///
    /// # Errors
    /// 404 `unknown_job`, 409 `job_reserved` when it is with a consumer; see [`Error`].
    pub async fn change<'a>(&self, job: impl Into<Which<'a>>, change: &JobChange) -> Result<JobView, Error> {
        let request = Request::document(Method::PATCH, self.of(job.into()), change)?;
        self.client.fetch(&request, Repeat::Harmful).await
    }

    /// Cancels a job, wherever it stands; a consumer that has it finds its reservation stale.
    ///
    /// # Errors
    /// 404 `unknown_job`; see [`Error`].
    pub async fn cancel<'a>(&self, job: impl Into<Which<'a>>) -> Result<(), Error> {
        let request = Request::new(Method::DELETE, self.of(job.into()));
        match self.client.ask(&request, Repeat::Harmless).await {
            Ok(_) => Ok(()),
            // An earlier try of this call, whose answer was lost, has done it.
            Err(failed) if failed.perhaps_done && failed.error.status() == Some(NOT_FOUND) => Ok(()),
            Err(failed) => Err(failed.error),
        }
    }

    /// Jobs in order of publishing, without taking them: all, or those in one state.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn jobs(
        &self,
        state: Option<JobState>,
        after: Option<&Cursor>,
    ) -> Result<Page<JobView>, Error> {
        let path = self.path(&["jobs"]);
        let path = state.map_or_else(|| path.clone(), |state| path.clone().with("state", state.as_str()));
        self.page(path, after).await
    }

    /// Jobs that failed for good, the oldest first.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn dead(&self, after: Option<&Cursor>) -> Result<Page<DeadJob>, Error> {
        self.page(self.path(&["dead"]), after).await
    }

    async fn page<T: DeserializeOwned>(&self, path: Path, after: Option<&Cursor>) -> Result<Page<T>, Error> {
        let path = match after {
            Some(cursor) => path.with("cursor", cursor.as_str()),
            None => path,
        };
        self.client.fetch(&Request::new(Method::GET, path), Repeat::Harmless).await
    }

    /// Has the oldest dead jobs tried again, with all their tries, up to 1,000; how many there
    /// were.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn respawn_oldest(&self, limit: usize) -> Result<usize, Error> {
        #[derive(Serialize)]
        struct Oldest {
            limit: usize,
        }
        self.respawn_which(&Oldest { limit }).await
    }

    /// Has these dead jobs tried again, up to 1,000; how many of them there were.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn respawn(&self, ids: &[JobId]) -> Result<usize, Error> {
        #[derive(Serialize)]
        struct These<'a> {
            ids: &'a [JobId],
        }
        self.respawn_which(&These { ids }).await
    }

    async fn respawn_which(&self, which: &impl Serialize) -> Result<usize, Error> {
        #[derive(Deserialize)]
        struct Respawned {
            respawned: usize,
        }
        let request = Request::document(Method::POST, self.path(&["dead", "respawn"]), which)?;
        let Respawned { respawned } = self.client.fetch(&request, Repeat::Harmful).await?;
        Ok(respawned)
    }

    /// Drops all dead jobs.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn clear_dead(&self) -> Result<(), Error> {
        self.client.order(&Request::new(Method::DELETE, self.path(&["dead"])), Repeat::Harmless).await
    }

    /// How the queue stands; zeros for one that has nothing.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn overview(&self) -> Result<QueueOverview, Error> {
        self.client.fetch(&Request::new(Method::GET, self.path(&[])), Repeat::Harmless).await
    }

    /// Sets what the queue does, all of it.
    ///
    /// # Errors
    /// 422 for what is out of range; see [`Error`].
    pub async fn set(&self, settings: &QueueSettings) -> Result<(), Error> {
        let request = Request::document(Method::PUT, self.path(&["settings"]), settings)?;
        self.client.order(&request, Repeat::Harmless).await
    }

    /// Hands out no more jobs until the queue is resumed.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn pause(&self) -> Result<(), Error> {
        self.client.order(&Request::new(Method::POST, self.path(&["pause"])), Repeat::Harmless).await
    }

    /// Hands out jobs again.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resume(&self) -> Result<(), Error> {
        self.client.order(&Request::new(Method::POST, self.path(&["resume"])), Repeat::Harmless).await
    }

    /// What its workers were told to do, if anything.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn control(&self) -> Result<Option<QueueControl>, Error> {
        self.consumer.control(Instant::now() + self.client.retry_for()).await
    }

    /// Tells its workers what to do, all of it; durable, and within a second with those that wait
    /// for jobs.
    ///
    /// # Errors
    /// 422 for what is out of range; see [`Error`].
    pub async fn set_control(&self, control: &QueueControl) -> Result<(), Error> {
        let request = Request::document(Method::PUT, self.path(&["control"]), control)?;
        self.client.order(&request, Repeat::Harmless).await
    }

    /// Deletes the control: workers that still run take jobs again. Stopped ones have ended.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn delete_control(&self) -> Result<(), Error> {
        self.client.order(&Request::new(Method::DELETE, self.path(&["control"])), Repeat::Harmless).await
    }

    /// Deletes the queue with its jobs, dead ones too, and its settings.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn delete(&self) -> Result<(), Error> {
        self.client.order(&Request::new(Method::DELETE, self.path(&[])), Repeat::Harmless).await
    }

    /// What takes jobs out of this queue.
    #[must_use]
    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// See [`Consumer::consume`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn consume(&self, want: Want) -> Result<Vec<Job>, Error> {
        self.consumer.consume(want).await
    }

    /// See [`Consumer::ack`].
    ///
    /// # Errors
    /// See [`Consumer::ack`].
    pub async fn ack(&self, reservation: &JobReservation) -> Result<(), Error> {
        self.consumer.ack(reservation).await
    }

    /// See [`Consumer::ack_many`].
    ///
    /// # Errors
    /// See [`Consumer::ack_many`].
    pub async fn ack_many<'a>(
        &self,
        reservations: impl IntoIterator<Item = &'a JobReservation>,
    ) -> Result<Acked, Error> {
        self.consumer.ack_many(reservations).await
    }

    /// See [`Consumer::extend`].
    ///
    /// # Errors
    /// See [`Consumer::extend`].
    pub async fn extend(&self, reservation: &JobReservation, ttr: Duration) -> Result<(), Error> {
        self.consumer.extend(reservation, ttr).await
    }

    /// See [`Consumer::release`].
    ///
    /// # Errors
    /// See [`Consumer::release`].
    pub async fn release(&self, reservation: &JobReservation, retry: &Retry) -> Result<(), Error> {
        self.consumer.release(reservation, retry).await
    }

    /// A worker whose jobs carry JSON of this shape.
    #[must_use]
    pub fn worker<T: DeserializeOwned>(&self) -> Worker<T> {
        self.consumer.worker()
    }

    fn path(&self, below: &[&str]) -> Path {
        Path::of(&["queues", &self.namespace, &self.name]).and(below)
    }

    fn of(&self, job: Which<'_>) -> Path {
        match job {
            Which::Id(id) => self.path(&["jobs", id.as_str()]),
            Which::Alias(alias) => self.path(&["aliases", alias]),
        }
    }
}
