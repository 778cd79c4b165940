//! Jobs as they come: what a consumer gets, and what one sees who only looks.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::id::text_id;
use crate::span::{maybe_span, moment};

text_id! {
    /// A job's id: in the order of publishing.
    JobId
}

/// What a job or a message carries.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A JSON value, its numbers as they were published.
    Json(Box<RawValue>),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Payload {
    /// Reads the value.
    ///
    /// # Errors
    /// When the value has another shape, or when these are bytes.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match self {
            Self::Json(value) => serde_json::from_str(value.get()),
            Self::Bytes(_) => Err(serde_json::Error::custom("the payload is bytes, not JSON")),
        }
    }

    /// The bytes that were given, or the text of the JSON value.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Json(value) => value.get().as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// A payload's two fields, of which a job or a message has one.
#[derive(Deserialize)]
pub(crate) struct PayloadFields {
    #[serde(default, deserialize_with = "present")]
    pub(crate) payload: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) payload_base64: Option<String>,
}

/// `null` is a payload like any other.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl PayloadFields {
    pub(crate) fn payload<E: serde::de::Error>(self) -> Result<Payload, E> {
        match (self.payload, self.payload_base64) {
            (Some(value), None) => Ok(Payload::Json(value)),
            (None, Some(text)) => BASE64_STANDARD.decode(text).map(Payload::Bytes).map_err(E::custom),
            _ => Err(E::custom("there is either payload or payload_base64")),
        }
    }
}

/// A reservation: what shows that a job is with this consumer. It holds until its ttr is over, and
/// can be kept as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobReservation {
    /// The job's queue.
    pub queue: String,
    /// The job.
    pub id: JobId,
    /// What the server wants to be shown.
    pub token: String,
}

/// A job that is with this consumer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Job<T = Payload> {
    /// Its id.
    pub id: JobId,
    /// The queue that it came from.
    pub queue: String,
    /// What it carries.
    pub payload: T,
    /// Which attempt this is, from 1 on.
    pub attempt: u32,
    /// How many it has.
    pub tries: u32,
    /// When it was published.
    pub published_at: SystemTime,
    /// When it was due.
    pub run_at: SystemTime,
    /// The publisher's own id for it.
    pub alias: Option<String>,
    /// What shows that it is with this consumer.
    pub reservation: JobReservation,
}

impl<T> Job<T> {
    /// Whether it is dead if this attempt fails.
    #[must_use]
    pub fn is_last_try(&self) -> bool {
        self.attempt >= self.tries
    }

    /// The same job with its payload read.
    ///
    /// # Errors
    /// What `read` says, and the job as it was.
    pub fn read<U, E>(self, read: impl FnOnce(&T) -> Result<U, E>) -> Result<Job<U>, (Box<Self>, E)> {
        let payload = match read(&self.payload) {
            Ok(payload) => payload,
            Err(error) => return Err((Box::new(self), error)),
        };
        let Self { id, queue, attempt, tries, published_at, run_at, alias, reservation, .. } = self;
        Ok(Job { id, queue, payload, attempt, tries, published_at, run_at, alias, reservation })
    }
}

impl<'de> Deserialize<'de> for Job {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            id: JobId,
            queue: String,
            #[serde(default, deserialize_with = "present")]
            payload: Option<Box<RawValue>>,
            #[serde(default)]
            payload_base64: Option<String>,
            attempt: u32,
            tries: u32,
            reservation: String,
            #[serde(with = "moment")]
            published_at: SystemTime,
            #[serde(with = "moment")]
            run_at: SystemTime,
            #[serde(default)]
            alias: Option<String>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let fields = PayloadFields { payload: wire.payload, payload_base64: wire.payload_base64 };
        let reservation =
            JobReservation { queue: wire.queue.clone(), id: wire.id.clone(), token: wire.reservation };
        Ok(Self {
            id: wire.id,
            queue: wire.queue,
            payload: fields.payload()?,
            attempt: wire.attempt,
            tries: wire.tries,
            published_at: wire.published_at,
            run_at: wire.run_at,
            alias: wire.alias,
            reservation,
        })
    }
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It waits for its time.
    Scheduled,
    /// It can be consumed.
    Ready,
    /// It is with a consumer.
    Reserved,
}

impl JobState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Reserved => "reserved",
        }
    }
}

/// A job, looked at without taking it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// Where it stands.
    pub state: JobState,
    /// What it carries.
    pub payload: Payload,
    /// When it is, or was, due.
    pub run_at: SystemTime,
    /// When it was published.
    pub published_at: SystemTime,
    /// How many attempts have begun.
    pub attempt: u32,
    /// How many it has.
    pub tries: u32,
    /// The publisher's own id for it.
    pub alias: Option<String>,
    /// The jobs among which it keeps its order.
    pub group: Option<String>,
    /// It comes again this long after it was due before.
    pub every: Option<Duration>,
    /// It comes again by this cron expression.
    pub cron: Option<String>,
    /// The time zone of `cron`; UTC where there is none.
    pub tz: Option<String>,
    /// Runs that are left, the present one included; `None` where there is no end to them, or only
    /// one.
    pub executions_left: Option<u32>,
}

impl<'de> Deserialize<'de> for JobView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            id: JobId,
            queue: String,
            state: JobState,
            #[serde(default, deserialize_with = "present")]
            payload: Option<Box<RawValue>>,
            #[serde(default)]
            payload_base64: Option<String>,
            #[serde(with = "moment")]
            run_at: SystemTime,
            #[serde(with = "moment")]
            published_at: SystemTime,
            attempt: u32,
            tries: u32,
            #[serde(default)]
            alias: Option<String>,
            #[serde(default)]
            group: Option<String>,
            #[serde(default, with = "maybe_span")]
            every: Option<Duration>,
            #[serde(default)]
            cron: Option<String>,
            #[serde(default)]
            tz: Option<String>,
            #[serde(default)]
            executions_left: Option<u32>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let fields = PayloadFields { payload: wire.payload, payload_base64: wire.payload_base64 };
        Ok(Self {
            id: wire.id,
            queue: wire.queue,
            state: wire.state,
            payload: fields.payload()?,
            run_at: wire.run_at,
            published_at: wire.published_at,
            attempt: wire.attempt,
            tries: wire.tries,
            alias: wire.alias,
            group: wire.group,
            every: wire.every,
            cron: wire.cron,
            tz: wire.tz,
            executions_left: wire.executions_left,
        })
    }
}

/// A job that failed for good.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadJob {
    /// Its id.
    pub id: JobId,
    /// What it carried.
    pub payload: Payload,
    /// How many attempts were made.
    pub attempt: u32,
    /// How many it had.
    pub tries: u32,
    /// `released` or `timed_out`: what ended its last attempt.
    pub reason: String,
    /// What its last consumer said of it.
    pub error: Option<String>,
    /// When.
    pub died_at: SystemTime,
}

impl<'de> Deserialize<'de> for DeadJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            id: JobId,
            #[serde(default, deserialize_with = "present")]
            payload: Option<Box<RawValue>>,
            #[serde(default)]
            payload_base64: Option<String>,
            attempt: u32,
            tries: u32,
            reason: String,
            #[serde(default)]
            error: Option<String>,
            #[serde(with = "moment")]
            died_at: SystemTime,
        }
        let wire = Wire::deserialize(deserializer)?;
        let fields = PayloadFields { payload: wire.payload, payload_base64: wire.payload_base64 };
        Ok(Self {
            id: wire.id,
            payload: fields.payload()?,
            attempt: wire.attempt,
            tries: wire.tries,
            reason: wire.reason,
            error: wire.error,
            died_at: wire.died_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = r#"{"id":"01J","queue":"mail","payload":PAYLOAD,"attempt":2,"tries":2,"reservation":"R",
        "published_at":"2026-11-21T01:02:03.456Z","run_at":"2026-11-21T01:02:04.000Z","later":1}"#;

    fn job(payload: &str) -> Result<Job, serde_json::Error> {
        serde_json::from_str(&JOB.replace("\"payload\":PAYLOAD", payload))
    }

    #[test]
    fn a_payload_is_a_value_or_bytes_and_never_both() {
        let carries = |payload: &str| job(payload).expect("a job").payload;
        assert_eq!(carries(r#""payload":{"n":1.50}"#).as_bytes(), br#"{"n":1.50}"#);
        assert_eq!(carries(r#""payload":null"#).as_bytes(), b"null");
        let bytes = carries(r#""payload_base64":"AP8=""#);
        assert_eq!(bytes.as_bytes(), [0, 255]);
        assert!(bytes.json::<Option<u8>>().is_err());
        for wrong in [r#""x":1"#, r#""payload":1,"payload_base64":"""#, r#""payload_base64":"%""#] {
            assert!(job(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_job_shows_what_it_is_held_by() {
        let job = job(r#""payload":7"#).expect("a job");
        assert!(job.is_last_try());
        assert_eq!((job.reservation.queue.as_str(), job.reservation.token.as_str()), ("mail", "R"));
        let (job, _) = job.read(Payload::json::<String>).expect_err("a number is no text");
        let job = job.read(Payload::json::<u8>).expect("a number");
        assert_eq!((job.payload, job.alias, job.id.as_str()), (7, None, "01J"));
    }
}
