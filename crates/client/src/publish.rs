//! Jobs on their way out: what is published, when it runs, and how often.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::error::Error;
use crate::job::JobId;
use crate::span::{JsonTime, Milliseconds, moment};

/// A job to be published: due at once, with one try, unless it says otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct NewJob {
    #[serde(flatten)]
    carried: PayloadField,
    #[serde(flatten)]
    due: Option<DueField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<Milliseconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_conflict: Option<OnConflict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(flatten)]
    recurs: Option<RecurrenceFields>,
}

/// The field that a payload stands in.
#[derive(Clone, Debug, Serialize)]
pub(crate) enum PayloadField {
    #[serde(rename = "payload")]
    Json(Box<RawValue>),
    #[serde(rename = "payload_base64")]
    Bytes(String),
}

impl PayloadField {
    pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        Ok(Self::Json(to_raw_value(value)?))
    }

    pub(crate) fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bytes(BASE64_STANDARD.encode(bytes))
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum DueField {
    Delay(Milliseconds),
    RunAt(JsonTime),
}

/// What to do when a waiting or reserved job has the alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// Refuse with 409 `alias_taken`.
    Reject,
    /// Give a waiting job the new payload and time; have one successor follow a reserved one, the
    /// newest.
    Replace,
    /// Leave a waiting job as it is, and answer it; have one successor follow a reserved one, the
    /// first.
    Keep,
}

#[derive(Clone, Debug, Serialize)]
struct RecurrenceFields {
    #[serde(flatten)]
    rule: RecurrenceField,
    #[serde(skip_serializing_if = "Option::is_none")]
    executions: Option<u32>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum RecurrenceField {
    Every {
        every: Milliseconds,
    },
    Cron {
        cron: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        tz: Option<String>,
    },
}

/// When a job comes again.
#[derive(Clone, Debug)]
pub struct Schedule(RecurrenceFields);

impl Schedule {
    /// This long after it was due before; first one interval from now, unless the job says when.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        Self(RecurrenceFields {
            rule: RecurrenceField::Every { every: Milliseconds(interval) },
            executions: None,
        })
    }

    /// By a cron expression, in UTC.
    #[must_use]
    pub fn cron(expression: impl Into<String>) -> Self {
        Self(RecurrenceFields {
            rule: RecurrenceField::Cron { cron: expression.into(), tz: None },
            executions: None,
        })
    }

    /// By a cron expression, in a time zone such as `Europe/Berlin`.
    #[must_use]
    pub fn cron_in(expression: impl Into<String>, zone: impl Into<String>) -> Self {
        let rule = RecurrenceField::Cron { cron: expression.into(), tz: Some(zone.into()) };
        Self(RecurrenceFields { rule, executions: None })
    }

    /// So many runs, and no more.
    #[must_use]
    pub fn times(self, executions: u32) -> Self {
        Self(RecurrenceFields { executions: Some(executions), ..self.0 })
    }
}

impl NewJob {
    /// A job that carries a value.
    ///
    /// # Errors
    /// [`Error::Unwritable`] when the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        Ok(Self::carrying(PayloadField::json(value)?))
    }

    /// A job that carries bytes.
    #[must_use]
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self::carrying(PayloadField::bytes(bytes))
    }

    fn carrying(carried: PayloadField) -> Self {
        Self {
            carried,
            due: None,
            ttl: None,
            tries: None,
            alias: None,
            on_conflict: None,
            group: None,
            recurs: None,
        }
    }

    /// Due this long from now; in place of [`NewJob::run_at`].
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { due: Some(DueField::Delay(Milliseconds(delay))), ..self }
    }

    /// Due at a moment; in place of [`NewJob::delay`].
    #[must_use]
    pub fn run_at(self, moment: SystemTime) -> Self {
        Self { due: Some(DueField::RunAt(JsonTime(moment))), ..self }
    }

    /// Worth doing for this long; then it is dropped. For a job that comes again: each run, from
    /// when it is due.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(Milliseconds(ttl)), ..self }
    }

    /// So many attempts, the first included.
    #[must_use]
    pub fn tries(self, tries: u32) -> Self {
        Self { tries: Some(tries), ..self }
    }

    /// An id of your own, which no other waiting or reserved job of the queue may have.
    #[must_use]
    pub fn alias(self, alias: impl Into<String>) -> Self {
        Self { alias: Some(alias.into()), ..self }
    }

    /// What to do when another job has the alias; without it, the job is refused.
    #[must_use]
    pub fn on_conflict(self, on_conflict: OnConflict) -> Self {
        Self { on_conflict: Some(on_conflict), ..self }
    }

    /// Jobs of a group run one at a time, in order.
    #[must_use]
    pub fn group(self, group: impl Into<String>) -> Self {
        Self { group: Some(group.into()), ..self }
    }

    /// It comes again.
    #[must_use]
    pub fn recurring(self, schedule: Schedule) -> Self {
        Self { recurs: Some(schedule.0), ..self }
    }
}

/// A job that was published, or the one that was kept in its place.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Published {
    /// Its id.
    pub id: JobId,
    /// When it is due.
    #[serde(with = "moment")]
    pub run_at: SystemTime,
}

/// What to change of a waiting job.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobChange {
    #[serde(flatten)]
    carried: Option<PayloadField>,
    #[serde(flatten)]
    due: Option<DueField>,
}

impl JobChange {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// It carries this value instead.
    ///
    /// # Errors
    /// [`Error::Unwritable`] when the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, Error> {
        Ok(Self { carried: Some(PayloadField::json(value)?), ..self })
    }

    /// It carries these bytes instead.
    #[must_use]
    pub fn bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        Self { carried: Some(PayloadField::bytes(bytes)), ..self }
    }

    /// It is due this long from now.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { due: Some(DueField::Delay(Milliseconds(delay))), ..self }
    }

    /// It is due at this moment.
    #[must_use]
    pub fn run_at(self, moment: SystemTime) -> Self {
        Self { due: Some(DueField::RunAt(JsonTime(moment))), ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn check(job: &impl Serialize, expect: &str) {
        assert_eq!(serde_json::to_string(job).expect("JSON"), expect);
    }

    fn seven() -> NewJob {
        NewJob::json(&7).expect("a number")
    }

    #[test]
    fn a_job_says_only_what_was_said_of_it() {
        check(&seven(), r#"{"payload":7}"#);
        check(&NewJob::bytes([0, 255]), r#"{"payload_base64":"AP8="}"#);
        let job = seven().delay(Duration::from_secs(30)).ttl(Duration::from_secs(60)).tries(5);
        check(&job, r#"{"payload":7,"delay":"30000ms","ttl":"60000ms","tries":5}"#);
        let job = seven().alias("a").on_conflict(OnConflict::Keep).group("g").run_at(UNIX_EPOCH);
        let says = r#"{"payload":7,"run_at":"1970-01-01T00:00:00.000Z","alias":"a","on_conflict":"keep","group":"g"}"#;
        check(&job, says);
    }

    #[test]
    fn a_schedule_is_an_interval_or_an_expression() {
        let job = seven().recurring(Schedule::every(Duration::from_secs(1)).times(3));
        check(&job, r#"{"payload":7,"every":"1000ms","executions":3}"#);
        check(&seven().recurring(Schedule::cron("0 9 * * *")), r#"{"payload":7,"cron":"0 9 * * *"}"#);
        let job = seven().recurring(Schedule::cron_in("0 9 * * *", "Europe/Berlin"));
        check(&job, r#"{"payload":7,"cron":"0 9 * * *","tz":"Europe/Berlin"}"#);
    }

    #[test]
    fn a_change_names_what_it_changes() {
        check(&JobChange::new(), "{}");
        let change = JobChange::new().json("x").expect("a text").delay(Duration::ZERO);
        check(&change, r#"{"payload":"x","delay":"0ms"}"#);
        check(&JobChange::new().bytes(b"x"), r#"{"payload_base64":"eA=="}"#);
    }
}
