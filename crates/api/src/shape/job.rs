//! Jobs in answers: what was published, what a consumer got, what was looked at.

use base::duration;
use engine::queues::{Consumed, JobView, PublishedJob, QueueName, RecurrenceTerms, id_text};
use engine::records::WorkerControl;
use serde::Serialize;
use utoipa::ToSchema;

use super::coordination::QueueControlShape;
use super::payload::PayloadShape;
use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// What came of publishing.
#[derive(Serialize, ToSchema)]
#[schema(as = PublishedJobs)]
pub(crate) struct PublishedShape {
    /// In the order of the request.
    #[schema(max_items = 1000)]
    jobs: Vec<PublishedJobShape>,
}

/// A job that was published, or the one that was there already.
#[derive(Serialize, ToSchema)]
#[schema(as = PublishedJob)]
pub(crate) struct PublishedJobShape {
    #[schema(schema_with = words::job_id)]
    id: String,
    run_at: Time,
}

impl From<&[PublishedJob]> for PublishedShape {
    fn from(jobs: &[PublishedJob]) -> Self {
        let job = |job: &PublishedJob| PublishedJobShape { id: id_text(job.id), run_at: Time(job.run_at) };
        Self { jobs: jobs.iter().map(job).collect() }
    }
}

/// What a consumer got.
#[derive(Serialize, ToSchema)]
#[schema(as = ConsumedJobs)]
pub(crate) struct ConsumedShape<'a> {
    /// None when nothing came.
    #[schema(max_items = 1000)]
    jobs: Vec<ConsumedJobShape<'a>>,
    /// What the workers of the first queue are to do, if that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    control: Option<QueueControlShape<'a>>,
}

/// A job that a consumer holds.
#[derive(Serialize, ToSchema)]
#[schema(as = ConsumedJob)]
pub(crate) struct ConsumedJobShape<'a> {
    #[schema(schema_with = words::job_id)]
    id: String,
    #[schema(schema_with = words::queue_name)]
    queue: &'a str,
    #[serde(flatten)]
    payload: PayloadShape<'a>,
    /// Counts from 1.
    attempt: u32,
    tries: u32,
    /// What is shown to say that it is done, or to give it back.
    reservation: String,
    published_at: Time,
    run_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::job_name)]
    alias: Option<&'a str>,
}

impl<'a> ConsumedShape<'a> {
    /// Jobs that were consumed from these queues.
    pub(crate) fn of(
        queues: &'a [QueueName],
        jobs: &'a [Consumed],
        control: Option<&'a WorkerControl>,
    ) -> Self {
        let shape = |job: &'a Consumed| ConsumedJobShape {
            id: id_text(job.id),
            queue: queues[job.queue].queue(),
            payload: (&job.payload).into(),
            attempt: job.attempt,
            tries: job.tries,
            reservation: job.reservation.text(),
            published_at: Time(job.published_at),
            run_at: Time(job.run_at),
            alias: job.alias.as_deref(),
        };
        Self { jobs: jobs.iter().map(shape).collect(), control: control.map(QueueControlShape::from) }
    }
}

/// What became of reservations.
#[derive(Serialize, ToSchema)]
#[schema(as = AckedJobs)]
pub(crate) struct AckedShape<'a> {
    /// Jobs that are done.
    acked: usize,
    /// Reservations that do not hold, as they were given.
    stale: Vec<&'a str>,
}

impl<'a> AckedShape<'a> {
    /// Of those that were given, with the places of the stale ones.
    pub(crate) fn of(given: &'a [String], acked: usize, stale: &[usize]) -> Self {
        Self { acked, stale: stale.iter().map(|place| given[*place].as_str()).collect() }
    }
}

/// A job, looked at without taking it.
#[derive(Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobShape<'a> {
    #[schema(schema_with = words::job_id)]
    id: String,
    #[schema(schema_with = words::queue_name)]
    queue: &'a str,
    #[schema(schema_with = words::job_state)]
    state: &'static str,
    #[serde(flatten)]
    payload: PayloadShape<'a>,
    /// When it can be consumed, or since when; of a reserved job, when it was first due.
    run_at: Time,
    published_at: Time,
    /// Attempts begun.
    attempt: u32,
    tries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::job_name)]
    alias: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::job_name)]
    group: Option<&'a str>,
    /// It comes again this long after it was due before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::duration)]
    every: Option<String>,
    /// It comes again by this cron expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::schedule)]
    cron: Option<&'a str>,
    /// The zone of `cron`; UTC where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::schedule)]
    tz: Option<&'a str>,
    /// Runs that are left, the present one included; not there where there is no end to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::executions)]
    executions_left: Option<u32>,
}

impl<'a> JobShape<'a> {
    /// A job of the queue.
    pub(crate) fn of(queue: &'a str, job: &'a JobView) -> Self {
        let (every, cron, tz, executions_left) = match &job.recurs {
            None => (None, None, None, None),
            Some(RecurrenceTerms::Every { interval, executions }) => {
                (Some(duration::format(*interval)), None, None, *executions)
            }
            Some(RecurrenceTerms::Cron { expression, zone, executions }) => {
                (None, Some(expression.as_str()), zone.as_deref(), *executions)
            }
        };
        Self {
            id: id_text(job.id),
            queue,
            state: job.state.as_str(),
            payload: (&job.payload).into(),
            run_at: Time(job.run_at),
            published_at: Time(job.published_at),
            attempt: job.attempt,
            tries: job.tries,
            alias: job.alias.as_deref(),
            group: job.group.as_deref(),
            every,
            cron,
            tz,
            executions_left,
        }
    }
}

impl CsvRow for JobShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "queue",
        "state",
        "payload",
        "payload_base64",
        "run_at",
        "published_at",
        "attempt",
        "tries",
        "alias",
        "group",
        "every",
        "cron",
        "tz",
        "executions_left",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(&self.id).text(self.queue).text(self.state);
        self.payload.write(cells);
        cells.shown(self.run_at).shown(self.published_at).shown(self.attempt).shown(self.tries);
        cells.shown_or_empty(self.alias).shown_or_empty(self.group);
        cells.shown_or_empty(self.every.as_deref()).shown_or_empty(self.cron).shown_or_empty(self.tz);
        cells.shown_or_empty(self.executions_left);
    }
}
