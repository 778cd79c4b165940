//! What is asked for, checked before it reaches a partition: form and range, and what each refusal
//! says.

use std::time::Duration;

use base::limits::{
    JOB_ERROR_BYTES_MAX, JOB_NAME_BYTES_MAX, JOB_PAYLOAD_BYTES_MAX, JOB_TRIES_MAX, JOBS_PER_CALL_MAX,
    QUEUES_PER_CONSUME_MAX,
};
use base::{Problem, Timestamp, hash};
use compact_str::CompactString;
use records::{AliasKey, GroupKey, QueueSettings, RecurrenceRule};

use super::input::ToPublish;
use super::{ConsumeTerms, DueTime, JobPayload, NewJob, QueueName, RecurrenceTerms, body};
use crate::calendar;

/// Shortest interval of a recurring job.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Rates that a queue may be held to, in jobs per second.
pub const RATES: std::ops::RangeInclusive<f64> = 0.001..=1_000_000.0;
/// Shortest reservation.
const TTR_MIN: Duration = Duration::from_millis(1);

pub(super) fn to_publish(place: usize, job: &NewJob, wall: Timestamp) -> Result<ToPublish, Problem> {
    let wrong = |field: &str, code, detail: String| {
        Problem::not_allowed(code, format!("{field} of job {} {detail}", place + 1))
    };
    check_payload(&format!("payload of job {}", place + 1), &job.payload)?;
    if !(1..=JOB_TRIES_MAX).contains(&job.tries) {
        let detail = format!("must be 1 to {JOB_TRIES_MAX}, not {}", job.tries);
        return Err(wrong("tries", "invalid_tries", detail));
    }
    let names = [("alias", &job.alias), ("group", &job.group), ("idempotency_key", &job.idempotency_key)];
    for (field, name) in names {
        let fits = name.as_ref().is_none_or(|name| (1..=JOB_NAME_BYTES_MAX).contains(&name.len()));
        if !fits {
            let detail = format!("must be 1 to {JOB_NAME_BYTES_MAX} bytes of text");
            return Err(wrong(field, "invalid_name", detail));
        }
    }
    let recurs = job.recurs.as_ref().map(|recurs| rule(place, recurs)).transpose()?;
    Ok(ToPublish {
        body: body::write(job).into(),
        due: job.due.or_else(|| first_by_calendar(job, wall)),
        ttl: job.ttl,
        tries: job.tries,
        alias: job.alias.as_deref().map(alias_key),
        on_conflict: job.on_conflict,
        group: job.group.as_deref().map(|group| GroupKey(hash::derived(0, group.as_bytes()))),
        recurs,
        idempotency_key: job.idempotency_key.clone(),
    })
}

fn first_by_calendar(job: &NewJob, wall: Timestamp) -> Option<DueTime> {
    let Some(RecurrenceTerms::Cron { expression, zone, .. }) = &job.recurs else { return None };
    calendar::first(expression, zone.as_deref(), wall).map(DueTime::At)
}

fn rule(place: usize, recurs: &RecurrenceTerms) -> Result<(RecurrenceRule, Option<u32>), Problem> {
    let place = place + 1;
    let (rule, executions) = match recurs {
        RecurrenceTerms::Every { interval, executions } if *interval >= INTERVAL_MIN => {
            (RecurrenceRule::Every(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)), *executions)
        }
        RecurrenceTerms::Every { interval, .. } => {
            let interval = base::duration::format(*interval);
            let detail = format!("every of job {place} is {interval:?}; it must be at least \"1s\"");
            return Err(Problem::not_allowed("invalid_schedule", detail));
        }
        RecurrenceTerms::Cron { expression, zone, executions } => {
            calendar::check(expression, zone.as_deref())
                .map_err(|why| Problem::not_allowed("invalid_schedule", format!("job {place}: {why}")))?;
            (RecurrenceRule::Calendar, *executions)
        }
    };
    if executions == Some(0) {
        let detail = format!("executions of job {place} must be at least 1");
        return Err(Problem::not_allowed("invalid_schedule", detail));
    }
    Ok((rule, executions))
}

pub(super) fn alias_key(alias: &str) -> AliasKey {
    AliasKey(hash::wide(alias.as_bytes()))
}

pub(super) fn check_payload(what: &str, payload: &JobPayload) -> Result<(), Problem> {
    let bytes = match payload {
        JobPayload::Json(text) => text.len(),
        JobPayload::Bytes(bytes) => bytes.len(),
    };
    if bytes > JOB_PAYLOAD_BYTES_MAX {
        let detail = format!("{what} must be at most {JOB_PAYLOAD_BYTES_MAX} bytes, not {bytes}");
        return Err(Problem::not_allowed("payload_too_large", detail));
    }
    Ok(())
}

pub(super) fn check_want(queues: &[QueueName], want: &ConsumeTerms) -> Result<(), Problem> {
    if !(1..=QUEUES_PER_CONSUME_MAX).contains(&queues.len()) {
        let detail =
            format!("1 to {QUEUES_PER_CONSUME_MAX} queues are asked in a call, not {}", queues.len());
        return Err(Problem::not_allowed("too_many_queues", detail));
    }
    if !(1..=JOBS_PER_CALL_MAX).contains(&want.max) {
        let detail = format!("max must be 1 to {JOBS_PER_CALL_MAX}, not {}", want.max);
        return Err(Problem::not_allowed("too_many_jobs", detail));
    }
    check_ttr(want.ttr)
}

pub(super) fn check_settings(settings: &QueueSettings) -> Result<(), Problem> {
    let QueueSettings { order: _, concurrency, rate, jobs_max, dead_max: _, dead_max_age_ms } = settings;
    let wrong = match () {
        () if *concurrency == Some(0) => {
            "concurrency must be at least 1; pause the queue to have nothing consumed"
        }
        () if rate.is_some_and(|rate| !RATES.contains(&rate)) => {
            "rate must be a number of jobs per second from 0.001 to 1000000"
        }
        () if *jobs_max == Some(0) => "jobs_max must be at least 1",
        () if *dead_max_age_ms == Some(0) => {
            "dead_max_age must be at least 1ms; dead_max 0 keeps no dead letters"
        }
        () => return Ok(()),
    };
    Err(Problem::not_allowed("invalid_settings", wrong))
}

pub(super) fn check_ttr(ttr: Duration) -> Result<(), Problem> {
    if ttr < TTR_MIN {
        return Err(Problem::not_allowed("invalid_ttr", "ttr must be at least 1ms, such as \"2m\""));
    }
    Ok(())
}

/// What a consumer says, cut to what is kept.
pub(super) fn cut(mut error: CompactString) -> CompactString {
    let mut end = error.len().min(JOB_ERROR_BYTES_MAX);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    error.truncate(end);
    error
}
