//! Jobs as they come in to be published.

use base::duration::DURATION_MAX;
use base::{Problem, Timestamp, hash};
use compact_str::CompactString;
use engine::queues::{DueTime, IdempotencyKey, NewJob, QueueName, RecurrenceTerms};
use engine::records::AnswerKey;
use prost::Message;

use crate::payload;
use crate::proto::{self, OnConflict, new_job};
use crate::time::{read_moment, read_some_span, read_span};

/// Longest idempotency key, in characters; the same over HTTP.
const KEY_CHARS_MAX: usize = 255;
/// Longest cron expression and time zone, in bytes; the same over HTTP.
const SCHEDULE_BYTES_MAX: usize = 255;

/// Reads the job at this place among those that were sent.
///
/// `wall` is the wall clock's time.
pub(crate) fn job(place: usize, job: proto::NewJob, wall: Timestamp) -> Result<NewJob, Problem> {
    let named = |field: &str| format!("{field} of job {}", place + 1);
    let payload = match &job.payload {
        Some(new_job::Payload::Json(text)) => payload::read_json(text),
        Some(new_job::Payload::Data(data)) => payload::read_data(data),
        None => Err(Problem::not_allowed("missing_field", "either json or data has to be there")),
    };
    let payload = payload.map_err(|problem| of_job(place, problem))?;
    let on_conflict = on_conflict(&named("on_conflict"), job.on_conflict)?;
    let due = match &job.due {
        Some(new_job::Due::Delay(delay)) => Some(DueTime::After(read_span(&named("delay"), delay)?)),
        Some(new_job::Due::RunAt(at)) => {
            let at = read_moment(&named("run_at"), at)?;
            if at > wall.after(DURATION_MAX) {
                let detail = format!("{} is more than ten years away", named("run_at"));
                return Err(Problem::not_allowed("invalid_time", detail));
            }
            Some(DueTime::At(at))
        }
        None => None,
    };
    let recurs = recurs(place, &job)?;
    Ok(NewJob {
        due,
        ttl: job.ttl.map(|ttl| read_some_span(&named("ttl"), &ttl)).transpose()?,
        tries: job.tries.unwrap_or(1),
        alias: job.alias.map(CompactString::from),
        on_conflict,
        group: job.group.map(CompactString::from),
        recurs,
        idempotency_key: job.idempotency_key.map(CompactString::from),
        ..NewJob::new(payload)
    })
}

fn of_job(place: usize, mut problem: Problem) -> Problem {
    problem.detail = format!("job {}: {}", place + 1, problem.detail);
    problem
}

fn on_conflict(field: &str, given: i32) -> Result<engine::queues::ConflictPolicy, Problem> {
    match OnConflict::try_from(given) {
        Ok(OnConflict::Unspecified | OnConflict::Reject) => Ok(engine::queues::ConflictPolicy::Reject),
        Ok(OnConflict::Replace) => Ok(engine::queues::ConflictPolicy::Replace),
        Ok(OnConflict::Keep) => Ok(engine::queues::ConflictPolicy::Keep),
        Err(_) => {
            let detail = format!("{field} must be 0 to 3, not {given}");
            Err(Problem::not_allowed("unknown_word", detail))
        }
    }
}

fn recurs(place: usize, job: &proto::NewJob) -> Result<Option<RecurrenceTerms>, Problem> {
    let executions = job.executions;
    match &job.recurs {
        Some(new_job::Recurs::Every(every)) => {
            let interval = read_span(&format!("every of job {}", place + 1), every)?;
            Ok(Some(RecurrenceTerms::Every { interval, executions }))
        }
        Some(new_job::Recurs::Cron(cron))
            if cron.expression.len().max(cron.tz.len()) > SCHEDULE_BYTES_MAX =>
        {
            let detail = format!("cron of job {} may have {SCHEDULE_BYTES_MAX} bytes", place + 1);
            Err(Problem::not_allowed("invalid_schedule", detail))
        }
        Some(new_job::Recurs::Cron(cron)) => Ok(Some(RecurrenceTerms::Cron {
            expression: CompactString::new(&cron.expression),
            zone: (!cron.tz.is_empty()).then(|| CompactString::new(&cron.tz)),
            executions,
        })),
        None if executions.is_some() => {
            let detail = format!(
                "executions of job {} is there without every or cron, to one of which it belongs",
                place + 1
            );
            Err(Problem::not_allowed("missing_field", detail))
        }
        None => Ok(None),
    }
}

/// What makes a request that may be repeated the same as before. It is its key, which belongs to
/// the call, the queue and the caller, and its jobs.
pub(crate) fn once(
    request: &proto::PublishRequest,
    queue: &QueueName,
    caller: &str,
) -> Result<Option<IdempotencyKey>, Problem> {
    // None of the parts can have a line break in it.
    let belongs = format!("grpc Publish\n{queue}\n{caller}");
    once_for(&request.idempotency_key, &belongs, || request.encode_to_vec())
}

/// A key that belongs to something, and to what is sent with it; empty is none.
pub(crate) fn once_for(
    key: &str,
    belongs: &str,
    sent: impl FnOnce() -> Vec<u8>,
) -> Result<Option<IdempotencyKey>, Problem> {
    if key.is_empty() {
        return Ok(None);
    }
    if key.len() > KEY_CHARS_MAX || !key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        let detail = format!("idempotency_key must be up to {KEY_CHARS_MAX} printable ASCII characters");
        return Err(Problem::not_allowed("invalid_idempotency_key", detail));
    }
    let belongs = format!("{belongs}\n{key}");
    let (key, body) = (AnswerKey(hash::wide(belongs.as_bytes())), hash::wide(&sent()));
    Ok(Some(IdempotencyKey { key, body }))
}
