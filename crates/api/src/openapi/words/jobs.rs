//! The schemas of queues and their jobs.

use base::limits::{
    JOB_NAME_BYTES_MAX, JOB_TRIES_MAX, JOBS_PER_CALL_MAX, QUEUE_NAME_CHARS_MAX, QUEUES_PER_CONSUME_MAX,
};
use engine::queues::JobState;
use engine::records::DeadReason;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{RefOr, Schema};

use super::{matching, names_of, one_of, text, text_up_to, whole};

names_of! {
    job_state: JobState,
    dead_reason: DeadReason,
}

/// The id of a job: a ULID.
pub(crate) fn job_id() -> Schema {
    text().pattern(Some("^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$")).into()
}

/// A namespace or a queue.
pub(crate) fn queue_name() -> Schema {
    matching("^[A-Za-z0-9-][A-Za-z0-9_-]*$", QUEUE_NAME_CHARS_MAX)
}

/// Queues to consume from, the first one first.
pub(crate) fn queue_names() -> Schema {
    let name = "[A-Za-z0-9-][A-Za-z0-9_-]*";
    let most = QUEUES_PER_CONSUME_MAX;
    let about = format!("1 to {most} names of queues with commas between them");
    text().pattern(Some(format!("^{name}(,{name}){{0,{}}}$", most - 1))).description(Some(about)).into()
}

/// An alias or a group.
pub(crate) fn job_name() -> Schema {
    let about = format!("up to {JOB_NAME_BYTES_MAX} bytes of UTF-8");
    text().min_length(Some(1)).max_length(Some(JOB_NAME_BYTES_MAX)).description(Some(about)).into()
}

pub(crate) fn queue_order() -> Schema {
    one_of(["fifo", "lifo"])
}

pub(crate) fn tries() -> Schema {
    whole(1, u64::from(JOB_TRIES_MAX))
}

/// What a consumer shows for a job.
pub(crate) fn reservation() -> Schema {
    text().description(Some("as it came with the job")).into()
}

pub(crate) fn reservations() -> Schema {
    let items = ArrayBuilder::new().items(RefOr::T(reservation())).max_items(Some(JOBS_PER_CALL_MAX));
    Schema::Array(items.build())
}

pub(crate) fn job_ids() -> Schema {
    let items = ArrayBuilder::new().items(RefOr::T(text().into())).max_items(Some(JOBS_PER_CALL_MAX));
    Schema::Array(items.build())
}

/// Jobs to be published.
pub(crate) fn jobs(job: Schema) -> Schema {
    let items = ArrayBuilder::new().items(RefOr::T(job)).min_items(Some(1));
    Schema::Array(items.max_items(Some(JOBS_PER_CALL_MAX)).build())
}

/// Longest cron expression and name of a time zone, in bytes; any that mean something are far
/// shorter.
pub(crate) const SCHEDULE_BYTES_MAX: usize = 255;

/// A cron expression, or a time zone.
pub(crate) fn schedule() -> Schema {
    text_up_to(SCHEDULE_BYTES_MAX)
}

/// Runs of a recurring job.
pub(crate) fn executions() -> Schema {
    whole(1, u64::from(u32::MAX))
}
