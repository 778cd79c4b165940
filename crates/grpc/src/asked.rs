//! What requests name: queues, jobs, reservations.

use std::time::Duration;

use base::Problem;
use base::limits::TTR_DEFAULT;
use engine::queues::{JobRef, QueueName, ReservationToken, id_from_text};

use crate::time::read_span;

/// The queues of a namespace, in the order of their names as given.
pub(crate) fn queues(namespace: &str, names: &[String]) -> Result<Vec<QueueName>, Problem> {
    names.iter().map(|name| QueueName::new(namespace, name)).collect()
}

/// How long jobs are reserved.
pub(crate) fn ttr(given: Option<&prost_types::Duration>) -> Result<Duration, Problem> {
    given.map_or(Ok(TTR_DEFAULT), |ttr| read_span("ttr", ttr))
}

/// The job that is named by either of these.
pub(crate) fn job(id: Option<&str>, alias: Option<&str>) -> Result<JobRef, Problem> {
    match (id, alias) {
        (Some(id), _) => id_from_text(id).map(JobRef::Id).ok_or_else(unknown_job),
        (None, Some(alias)) => Ok(JobRef::Alias(alias.into())),
        (None, None) => Err(Problem::not_allowed("missing_field", "either id or alias has to be there")),
    }
}

fn unknown_job() -> Problem {
    Problem::unknown("unknown_job", "there is no such job: an id is 26 characters, as publishing gave it")
}

/// What a consumer shows for a job.
pub(crate) fn reservation_token(reservation: &str) -> Result<ReservationToken, Problem> {
    ReservationToken::from_text(reservation).ok_or_else(stale)
}

/// What was never a reservation is no better than one that has run out.
pub(crate) fn stale() -> Problem {
    Problem::conflict(
        "stale_reservation",
        "the reservation does not hold: it has run out, or the job is gone",
    )
}
