//! Jobs as they are shown.

use engine::queues::{Consumed, JobState, JobView, PublishedJob, RecurrenceTerms, id_text};

use crate::payload::{WirePayload, carried};
use crate::proto::{self, job, job_view};
use crate::time::{moment, span};

/// A job that was published.
pub(crate) fn published(job: &PublishedJob) -> proto::PublishedJob {
    proto::PublishedJob { id: id_text(job.id), run_at: Some(moment(job.run_at)) }
}

/// A job for its consumer.
pub(crate) fn consumed(job: Consumed, queue: &str) -> proto::Job {
    let payload = match carried(job.payload) {
        WirePayload::Json(text) => job::Payload::Json(text),
        WirePayload::Data(data) => job::Payload::Data(data),
    };
    proto::Job {
        id: id_text(job.id),
        queue: queue.to_owned(),
        payload: Some(payload),
        attempt: job.attempt,
        tries: job.tries,
        reservation: job.reservation.text(),
        published_at: Some(moment(job.published_at)),
        run_at: Some(moment(job.run_at)),
        alias: job.alias.map(Into::into),
    }
}

/// A job that is looked at.
pub(crate) fn view(job: JobView, queue: &str) -> proto::JobView {
    let payload = match carried(job.payload) {
        WirePayload::Json(text) => job_view::Payload::Json(text),
        WirePayload::Data(data) => job_view::Payload::Data(data),
    };
    let state = match job.state {
        JobState::Scheduled => proto::JobState::Scheduled,
        JobState::Ready => proto::JobState::Ready,
        JobState::Reserved => proto::JobState::Reserved,
    };
    let (recurs, executions_left) = job.recurs.map_or((None, None), recurs);
    proto::JobView {
        id: id_text(job.id),
        queue: queue.to_owned(),
        state: state.into(),
        payload: Some(payload),
        run_at: Some(moment(job.run_at)),
        published_at: Some(moment(job.published_at)),
        expires_at: job.expires_at.map(moment),
        attempt: job.attempt,
        tries: job.tries,
        alias: job.alias.map(Into::into),
        group: job.group.map(Into::into),
        recurs,
        executions_left,
    }
}

fn recurs(recurs: RecurrenceTerms) -> (Option<job_view::Recurs>, Option<u32>) {
    match recurs {
        RecurrenceTerms::Every { interval, executions } => {
            (Some(job_view::Recurs::Every(span(interval))), executions)
        }
        RecurrenceTerms::Cron { expression, zone, executions } => {
            let cron =
                proto::Cron { expression: expression.into(), tz: zone.map(Into::into).unwrap_or_default() };
            (Some(job_view::Recurs::Cron(cron)), executions)
        }
    }
}
