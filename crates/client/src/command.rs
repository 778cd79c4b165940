//! Commands: what a device is told, on which terms, and how far that has come.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::error::Error;
use crate::id::text_id;
use crate::span::{JsonTime, Milliseconds, maybe_moment, moment};

text_id! {
    /// A command's id: in the order of sending, and the `message_id` that the device is shown.
    CommandId
}

/// A command to be sent: it goes out once its device is reachable, and again until the device
/// answers. What is not said here is as the server's settings have it.
#[derive(Clone, Debug, Serialize)]
pub struct NewCommand {
    payload: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<Milliseconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<JsonTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_timeout: Option<Milliseconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_timeout: Option<Milliseconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notify: Option<OutcomeTarget>,
}

/// Who is told what came of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutcomeTarget {
    Queue(String),
    Stream(String),
    Url(String),
}

impl OutcomeTarget {
    /// It becomes a job of this queue.
    pub(crate) fn queue(namespace: &str, queue: &str) -> Option<Self> {
        Some(Self::Queue(format!("{namespace}/{queue}")))
    }

    /// It becomes a message of this stream.
    pub(crate) fn stream(namespace: &str, stream: &str) -> Option<Self> {
        Some(Self::Stream(format!("{namespace}/{stream}")))
    }

    /// It is posted to this URL.
    pub(crate) fn url(url: impl Into<String>) -> Option<Self> {
        Some(Self::Url(url.into()))
    }
}

impl NewCommand {
    /// A command that tells a device this value: up to 256 KiB of JSON.
    ///
    /// # Errors
    /// [`Error::Unwritable`] when the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        Ok(Self {
            payload: to_raw_value(value)?,
            ttl: None,
            not_before: None,
            ack_timeout: None,
            run_timeout: None,
            max_attempts: None,
            origin: None,
            key: None,
            priority: None,
            notify: None,
        })
    }

    /// Worth doing for this long, from now or from [`NewCommand::not_before`] on; then it expires.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(Milliseconds(ttl)), ..self }
    }

    /// Not to go out before this moment. Until then it holds up no other.
    #[must_use]
    pub fn not_before(self, moment: SystemTime) -> Self {
        Self { not_before: Some(JsonTime(moment)), ..self }
    }

    /// How long the device has for its answer before the command goes out again.
    #[must_use]
    pub fn ack_timeout(self, timeout: Duration) -> Self {
        Self { ack_timeout: Some(Milliseconds(timeout)), ..self }
    }

    /// How long a device that says it is at work may go without saying so again; ten minutes unless
    /// it is said here.
    #[must_use]
    pub fn run_timeout(self, timeout: Duration) -> Self {
        Self { run_timeout: Some(Milliseconds(timeout)), ..self }
    }

    /// How often it goes out before it fails: 1 to 1,000.
    #[must_use]
    pub fn max_attempts(self, attempts: u32) -> Self {
        Self { max_attempts: Some(attempts), ..self }
    }

    /// Who asks for it, in your words, up to 255 bytes.
    #[must_use]
    pub fn origin(self, origin: impl Into<String>) -> Self {
        Self { origin: Some(origin.into()), ..self }
    }

    /// A waiting command of the device with the same key gives way to this one.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// -100 to 100, 0 unless it is said here; higher ones go first.
    #[must_use]
    pub fn priority(self, priority: i8) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// How it ended becomes a job of this queue; in place of [`NewCommand::notify_url`].
    #[must_use]
    pub fn notify_queue(self, namespace: &str, queue: &str) -> Self {
        Self { notify: OutcomeTarget::queue(namespace, queue), ..self }
    }

    /// How it ended is posted to this URL, signed with the secret that [`SentCommand`] shows; in
    /// place of [`NewCommand::notify_queue`].
    #[must_use]
    pub fn notify_url(self, url: impl Into<String>) -> Self {
        Self { notify: OutcomeTarget::url(url), ..self }
    }
}

/// Where a command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CommandStatus {
    /// It waits for its turn, its time, or its device.
    Scheduled,
    /// It went out, and the device has not answered.
    Published,
    /// The device says that it is at work.
    Running,
    /// The device did it.
    Acknowledged,
    /// The device could not do it, or never answered.
    Failed,
    /// Its time was over before an answer came.
    Expired,
    /// A newer one with its key took its place.
    Superseded,
    /// It was called off.
    Cancelled,
}

impl CommandStatus {
    /// Every status that this version knows.
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Published,
        Self::Running,
        Self::Acknowledged,
        Self::Failed,
        Self::Expired,
        Self::Superseded,
        Self::Cancelled,
    ];

    /// Whether nothing more comes of it by itself.
    #[must_use]
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::Scheduled | Self::Published | Self::Running)
    }

    /// The name that the API has for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Published => "published",
            Self::Running => "running",
            Self::Acknowledged => "acknowledged",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A command that was sent.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct SentCommand {
    /// Its id.
    pub id: CommandId,
    /// Where it stands: scheduled.
    pub status: CommandStatus,
    /// With [`NewCommand::notify_url`]: what the POST is signed with. It is not shown again.
    #[serde(rename = "notify", default, deserialize_with = "secret")]
    pub secret: Option<String>,
}

/// The secret of a receiver, where it is shown.
pub(crate) fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    struct Notify {
        secret: Option<String>,
    }
    Ok(Option::<Notify>::deserialize(deserializer)?.and_then(|notify| notify.secret))
}

/// A command, and how far it has come.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Command {
    /// Its id.
    pub id: CommandId,
    /// The device.
    pub device_id: String,
    /// Where it stands.
    pub status: CommandStatus,
    /// How often it went out since it was sent, or retried.
    #[serde(default)]
    pub tries: u32,
    /// What the device is told.
    #[serde(default)]
    pub payload: Option<Box<RawValue>>,
    /// Who asked for it.
    #[serde(default)]
    pub origin: Option<String>,
    /// A newer waiting command of the device with the same key takes its place.
    #[serde(default)]
    pub key: Option<String>,
    /// Higher ones go first.
    #[serde(default)]
    pub priority: i8,
    /// When it was sent.
    #[serde(with = "moment")]
    pub created_at: SystemTime,
    /// It goes out no earlier.
    #[serde(default, with = "maybe_moment")]
    pub not_before: Option<SystemTime>,
    /// Then it ends, answered or not.
    #[serde(default, with = "maybe_moment")]
    pub expires_at: Option<SystemTime>,
    /// When it went out last.
    #[serde(default, with = "maybe_moment")]
    pub published_at: Option<SystemTime>,
    /// When it ended.
    #[serde(default, with = "maybe_moment")]
    pub finished_at: Option<SystemTime>,
    /// The latest progress that the device told.
    #[serde(default)]
    pub progress: Option<Box<RawValue>>,
    /// What the device answered.
    #[serde(default)]
    pub result: Option<Box<RawValue>>,
    /// The device's answer after the end.
    #[serde(default)]
    pub late: Option<LateAnswer>,
}

/// An answer that came after the command had ended; it changed nothing.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct LateAnswer {
    /// Whether the device did it.
    pub ok: bool,
    /// When it came.
    #[serde(with = "moment")]
    pub at: SystemTime,
    /// What it says.
    #[serde(default)]
    pub result: Option<Box<RawValue>>,
}

/// An entry that a device is to have, beside what it has confirmed.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct DesiredEntry {
    /// The entry's key.
    pub key: String,
    /// What is wished; `None` if it is to be deleted, or nothing is wished.
    pub desired: Option<Box<RawValue>>,
    /// What the device has, as far as it said.
    pub confirmed: Option<Box<RawValue>>,
    /// Whether a command is to bring it there.
    pub pending: bool,
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn check(command: &NewCommand, expect: &str) {
        assert_eq!(serde_json::to_string(command).expect("JSON"), expect);
    }

    #[test]
    fn a_command_says_only_what_was_said_of_it() {
        let open = || NewCommand::json(&7).expect("a number");
        check(&open(), r#"{"payload":7}"#);
        let command = open().ttl(Duration::from_secs(60)).key("door").priority(-5).max_attempts(3);
        check(&command, r#"{"payload":7,"ttl":"60000ms","max_attempts":3,"key":"door","priority":-5}"#);
        let command = open().not_before(UNIX_EPOCH).origin("ann").notify_queue("ops", "done");
        let says = r#"{"payload":7,"not_before":"1970-01-01T00:00:00.000Z","origin":"ann","notify":{"queue":"ops/done"}}"#;
        check(&command, says);
    }

    #[test]
    fn what_a_device_said_is_read_as_it_came() {
        let text = r#"{"id":"cmd_1","device_id":"face7","status":"failed","tries":2,"payload":{"n":1.50},
            "created_at":"2026-11-21T01:02:03.456Z","finished_at":"2026-11-21T01:02:04.000Z","result":{"why":"jam"},
            "late":{"ok":true,"at":"2026-11-21T01:02:05.000Z","result":null},"of_later":1}"#;
        let command: Command = serde_json::from_str(text).expect("a command");
        assert!(command.status.has_ended() && command.late.is_some_and(|late| late.ok));
        assert_eq!(command.result.as_deref().map(RawValue::get), Some(r#"{"why":"jam"}"#));
        let sent = r#"{"id":"cmd_1","status":"scheduled","notify":{"url":"https://a","secret":"whsec_x"}}"#;
        let sent: SentCommand = serde_json::from_str(sent).expect("a command");
        assert_eq!(sent.secret.as_deref(), Some("whsec_x"));
        let sent: SentCommand = serde_json::from_str(r#"{"id":"cmd_1","status":"scheduled"}"#).expect("one");
        assert_eq!((sent.secret, sent.status.has_ended()), (None, false));
    }
}
