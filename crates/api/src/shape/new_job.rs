//! Jobs as bodies ask for them, and changes of jobs. What a job may be in the end, the engine
//! decides.

use std::time::Duration;

use base::duration::DURATION_MAX;
use base::limits::{JOB_TRIES_MAX, JOBS_PER_CALL_MAX};
use base::{Problem, Timestamp};
use compact_str::CompactString;
use engine::queues::{ConflictPolicy, DueTime, JobChange, JobPayload, NewJob, RecurrenceTerms};
use net::problem::quoted;
use utoipa::openapi::schema::OneOfBuilder;
use utoipa::openapi::{RefOr, Schema};

use super::members::{Grammar, GrammarField, Members, ParsedBody, payload_of};
use super::payload;
use crate::fields::{ObjectFields, count, duration, not_nothing, some_duration, string, time, whole_or};
use crate::openapi::words::{self, SCHEDULE_BYTES_MAX};

/// The words for what is done where an alias is held.
const ON_CONFLICT_WORDS: [(&str, ConflictPolicy); 3] = [
    ("reject", ConflictPolicy::Reject),
    ("keep", ConflictPolicy::Keep),
    ("replace", ConflictPolicy::Replace),
];

/// A body that publishes.
pub(in crate::shape) static JOBS: Grammar = Grammar {
    item: "job",
    fields: &[
        "payload",
        "payload_base64",
        "delay",
        "run_at",
        "ttl",
        "tries",
        "alias",
        "on_conflict",
        "group",
        "every",
        "cron",
        "tz",
        "executions",
        "idempotency_key",
    ],
    many: "jobs",
    beside: &[],
    items_max: JOBS_PER_CALL_MAX,
    too_many: "too_many_jobs",
};

const DELAY: GrammarField = JOBS.field("delay");
const RUN_AT: GrammarField = JOBS.field("run_at");
const TTL: GrammarField = JOBS.field("ttl");
const TRIES: GrammarField = JOBS.field("tries");
const ALIAS: GrammarField = JOBS.field("alias");
const ON_CONFLICT: GrammarField = JOBS.field("on_conflict");
const GROUP: GrammarField = JOBS.field("group");
const IDEMPOTENCY_KEY: GrammarField = JOBS.field("idempotency_key");
const EVERY: GrammarField = JOBS.field("every");
const CRON: GrammarField = JOBS.field("cron");
const TZ: GrammarField = JOBS.field("tz");
const EXECUTIONS: GrammarField = JOBS.field("executions");

/// The schema of a body with a job, or many.
pub(crate) fn new_jobs_schema() -> Schema {
    let job = words::body(&[
        ("payload?", words::any()),
        ("payload_base64?", words::base64()),
        ("delay?", words::duration()),
        ("run_at?", words::time()),
        ("ttl?", words::duration()),
        ("tries?", words::tries()),
        ("alias?", words::job_name()),
        ("on_conflict?", words::one_of(ON_CONFLICT_WORDS.map(|(word, _)| word))),
        ("group?", words::job_name()),
        ("every?", words::duration()),
        ("cron?", words::schedule()),
        ("tz?", words::schedule()),
        ("executions?", words::executions()),
        ("idempotency_key?", words::job_name()),
    ]);
    let jobs = words::body(&[("jobs", words::jobs(job.clone()))]);
    Schema::OneOf(OneOfBuilder::new().item(RefOr::T(job)).item(RefOr::T(jobs)).build())
}

/// The schema of a change of a job.
pub(crate) fn job_changes_schema() -> Schema {
    words::changes(&[
        ("payload", words::any()),
        ("payload_base64", words::base64()),
        ("delay", words::duration()),
        ("run_at", words::time()),
    ])
}

/// The jobs that a body asks for, one or many; `now` is the wall clock's.
pub(crate) fn new_jobs(text: &str, now: Timestamp) -> Result<Vec<NewJob>, Problem> {
    match ParsedBody::read(text, &JOBS, |members| new_job(members, now))? {
        ParsedBody::One(job, _) => Ok(vec![job]),
        ParsedBody::Many { items, .. } => Ok(items),
    }
}

fn new_job(members: &Members<'_>, now: Timestamp) -> Result<NewJob, Problem> {
    members.all_known()?;
    let mut job = NewJob::new(payload_of(members)?.into());
    let delay = members.optional(DELAY, duration)?;
    job.due = due(delay, members.optional(RUN_AT, time)?.zip(members.json(RUN_AT)), now)?;
    job.ttl = members.optional(TTL, some_duration)?;
    if let Some(tries) = members.optional(TRIES, tries)? {
        job.tries = tries;
    }
    job.alias = members.optional(ALIAS, text)?;
    if let Some(word) = members.optional(ON_CONFLICT, on_conflict)? {
        job.on_conflict = word;
    }
    job.group = members.optional(GROUP, text)?;
    job.recurs = recurs(members)?;
    job.idempotency_key = members.optional(IDEMPOTENCY_KEY, text)?;
    Ok(job)
}

/// A change of a job as the body of a request asks for it; `now` is the wall clock's.
pub(crate) fn change_of_job(body: &str, now: Timestamp) -> Result<JobChange, Problem> {
    let fields = ObjectFields::read(body, &["payload", "payload_base64", "delay", "run_at"])?;
    for name in ["payload_base64", "delay", "run_at"] {
        if fields.json(name) == Some("null") {
            let detail = format!("{name} is null; a job always has a payload and a time");
            return Err(Problem::not_allowed("cannot_clear", detail));
        }
    }
    let payload = payload::given("job", fields.json("payload"), fields.json("payload_base64"))?;
    let delay = fields.optional("delay", duration)?;
    let run_at = fields.optional("run_at", time)?.zip(fields.json("run_at"));
    Ok(JobChange { payload: payload.map(JobPayload::from), due: due(delay, run_at, now)? })
}

/// When a job is due; `run_at` comes with its JSON text.
fn due(
    delay: Option<Duration>,
    run_at: Option<(Timestamp, &str)>,
    now: Timestamp,
) -> Result<Option<DueTime>, Problem> {
    match (delay, run_at) {
        (Some(_), Some(_)) => Err(conflicting("delay and run_at are there; a job has one of the two")),
        (Some(delay), None) => Ok(Some(DueTime::After(delay))),
        (None, Some((at, given))) if at > now.after(DURATION_MAX) => {
            let detail = format!("run_at is {given}, which is more than ten years away");
            Err(Problem::not_allowed("invalid_time", detail))
        }
        (None, Some((at, _))) => Ok(Some(DueTime::At(at))),
        (None, None) => Ok(None),
    }
}

fn recurs(members: &Members<'_>) -> Result<Option<RecurrenceTerms>, Problem> {
    let every = members.optional(EVERY, |name, json| not_nothing(name, json, "1s"))?;
    let cron = members.optional(CRON, schedule)?;
    let zone = members.optional(TZ, schedule)?;
    let executions = members.optional(EXECUTIONS, count)?;
    match (every, cron) {
        (Some(_), Some(_)) => Err(conflicting("every and cron are there; a job recurs by one of the two")),
        (_, None) if zone.is_some() => Err(missing("tz is there without cron, which it belongs to")),
        (None, None) if executions.is_some() => {
            Err(missing("executions is there without every or cron, to one of which it belongs"))
        }
        (Some(interval), None) => Ok(Some(RecurrenceTerms::Every { interval, executions })),
        (None, Some(expression)) => Ok(Some(RecurrenceTerms::Cron { expression, zone, executions })),
        (None, None) => Ok(None),
    }
}

fn conflicting(detail: &str) -> Problem {
    Problem::not_allowed("conflicting_fields", detail)
}

fn missing(detail: &str) -> Problem {
    Problem::not_allowed("missing_field", detail)
}

fn text(name: &str, json: &str) -> Result<CompactString, Problem> {
    string(name, json).map(CompactString::from)
}

fn tries(name: &str, json: &str) -> Result<u32, Problem> {
    let refusal = |detail| Problem::not_allowed("invalid_tries", detail);
    whole_or(name, json, &(1..=JOB_TRIES_MAX.into()), refusal).map(|tries| tries as u32)
}

fn schedule(name: &str, json: &str) -> Result<CompactString, Problem> {
    let text = text(name, json)?;
    if text.len() > SCHEDULE_BYTES_MAX {
        let detail = format!("{name} has {} bytes; it may have {SCHEDULE_BYTES_MAX}", text.len());
        return Err(Problem::not_allowed("invalid_schedule", detail));
    }
    Ok(text)
}

fn on_conflict(name: &str, json: &str) -> Result<ConflictPolicy, Problem> {
    one_of(name, json, &ON_CONFLICT_WORDS)
}

/// What one of some words stands for.
///
/// # Errors
/// `wrong_type` or `unknown_word`.
pub(super) fn one_of<T: Copy>(name: &str, json: &str, words: &[(&str, T)]) -> Result<T, Problem> {
    let given = string(name, json)?;
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let known = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let detail = format!("{name} is {}; it must be one of {known}", quoted(&given));
        Problem::not_allowed("unknown_word", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn one(body: &str) -> NewJob {
        new_jobs(body, NOW).unwrap_or_else(|problem| panic!("{body}: {problem}")).remove(0)
    }

    #[test]
    fn a_job_has_what_its_body_says() {
        let plain = one(r#"{"payload":{"a": 1}}"#);
        assert_eq!(plain.payload, JobPayload::Json(r#"{"a":1}"#.into()));
        let unset = (plain.due, plain.ttl, plain.tries, plain.alias, plain.group, plain.recurs);
        assert_eq!(unset, (None, None, 1, None, None, None));
        let job = one(
            r#"{"payload":null,"delay":"5s","ttl":"1h","tries":3,"alias":"a\u0062","on_conflict":"keep","group":"g",
                "every":"10m","executions":2,"idempotency_key":"r:1","run_at":null,"cron":null,"tz":null}"#,
        );
        assert_eq!(job.due, Some(DueTime::After(Duration::from_secs(5))));
        assert_eq!((job.ttl, job.tries), (Some(Duration::from_secs(3_600)), 3));
        assert_eq!((job.alias.as_deref(), job.group.as_deref()), (Some("ab"), Some("g")));
        assert_eq!((job.on_conflict, job.idempotency_key.as_deref()), (ConflictPolicy::Keep, Some("r:1")));
        let every = RecurrenceTerms::Every { interval: Duration::from_secs(600), executions: Some(2) };
        assert_eq!(job.recurs, Some(every));
        let cron =
            one(r#"{"payload":1,"cron":"0 8 * * *","tz":"Europe/Berlin","run_at":"2026-11-21T01:02:03Z"}"#);
        let expect = ("0 8 * * *".into(), Some("Europe/Berlin".into()));
        let Some(RecurrenceTerms::Cron { expression, zone, executions: None }) = cron.recurs else {
            panic!("{cron:?}")
        };
        assert_eq!((expression, zone), expect);
        assert_eq!(cron.due, Some(DueTime::At(Timestamp(1_795_222_923_000))));
    }

    #[test]
    fn what_no_job_can_be_is_refused_with_its_place() {
        for (job, code, part) in [
            ("{}", "missing_field", "payload"),
            (r#"{"payload_base64":null}"#, "missing_field", "payload"),
            (r#"{"payload":1,"delay":"1s","run_at":"2026-11-21T01:02:03Z"}"#, "conflicting_fields", "run_at"),
            (r#"{"payload":1,"delay":5}"#, "wrong_type", "delay is a number"),
            (r#"{"payload":1,"delay":"11 y"}"#, "invalid_duration", "11 y"),
            (r#"{"payload":1,"delay":"4000d"}"#, "invalid_duration", "ten years"),
            (r#"{"payload":1,"run_at":"tomorrow"}"#, "invalid_time", "tomorrow"),
            (r#"{"payload":1,"run_at":"2999-01-01T00:00:00Z"}"#, "invalid_time", "ten years"),
            (r#"{"payload":1,"ttl":"0s"}"#, "invalid_duration", "ttl"),
            (r#"{"payload":1,"tries":0}"#, "invalid_tries", "tries is 0"),
            (r#"{"payload":1,"tries":-1}"#, "invalid_tries", "tries is -1"),
            (r#"{"payload":1,"tries":1000001}"#, "invalid_tries", "1 to 1000000"),
            (r#"{"payload":1,"tries":99999999999999999999}"#, "invalid_tries", "1 to 1000000"),
            (r#"{"payload":1,"tries":1.5}"#, "invalid_number", "1.5"),
            (r#"{"payload":1,"tries":1e3}"#, "invalid_number", "1e3"),
            (r#"{"payload":1,"tries":"1"}"#, "wrong_type", "tries is a string"),
            (r#"{"payload":1,"on_conflict":"merge"}"#, "unknown_word", "reject, keep, replace"),
            (r#"{"payload":1,"every":"1m","cron":"* * * * *"}"#, "conflicting_fields", "every and cron"),
            (r#"{"payload":1,"tz":"UTC"}"#, "missing_field", "cron"),
            (r#"{"payload":1,"executions":3}"#, "missing_field", "every or cron"),
            (r#"{"payload":1,"hue":3}"#, "unknown_field", "\"hue\""),
            ("7", "not_an_object", "a number"),
        ] {
            let body = format!(r#"{{"jobs":[{{"payload":1}},{job}]}}"#);
            let problem = new_jobs(&body, NOW).expect_err(job);
            assert_eq!(problem.code, code, "{job}: {problem}");
            assert!(
                problem.detail.contains(part) && problem.detail.starts_with("job 2: "),
                "{job}: {problem}"
            );
        }
    }

    #[test]
    fn a_change_names_a_payload_a_time_or_both() {
        let change = change_of_job(r#"{"payload":null,"delay":"1m"}"#, NOW).expect("allowed");
        assert_eq!(change.payload, Some(JobPayload::Json("null".into())));
        assert_eq!(change.due, Some(DueTime::After(Duration::from_secs(60))));
        let nothing = change_of_job("{}", NOW).expect("allowed");
        assert_eq!((nothing.payload, nothing.due), (None, None));
        for (body, code) in [
            (r#"{"delay":null}"#, "cannot_clear"),
            (r#"{"tries":1}"#, "unknown_field"),
            (r#"{"delay":"1s","run_at":"2026-11-21T01:02:03Z"}"#, "conflicting_fields"),
            (r#"{"payload":1,"payload_base64":""}"#, "conflicting_fields"),
        ] {
            assert_eq!(
                change_of_job(body, NOW).map(|_| ()).map_err(|problem| problem.code),
                Err(code),
                "{body}"
            );
        }
    }
}
