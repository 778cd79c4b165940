//! What a command may be: the ranges of its fields, and who may be told how it ended. Every edge
//! checks commands here, so that they are refused alike.

use std::sync::Arc;
use std::time::Duration;

use base::duration::DURATION_MAX;
use base::limits::{
    COMMAND_ATTEMPTS_MAX, COMMAND_NAME_BYTES_MAX, COMMAND_PAYLOAD_BYTES_MAX, COMMAND_PRIORITY_MAX,
};
use base::{Problem, Timestamp, random};
use records::{CommandState, OutcomeReceiver};

use super::{CommandCalls, NewCommand, TrackedCommand};
use crate::name::QueueName;
use crate::streams::StreamName;

/// What the keys of the commands of desired entries begin with.
pub(crate) const DESIRED_KEY_PREFIX: &str = "desired/";

impl NewCommand {
    /// A command with this payload; all else is left to the settings.
    #[must_use]
    pub fn new(payload: Arc<[u8]>) -> Self {
        Self {
            payload,
            ttl: None,
            not_before: None,
            ack_timeout: None,
            run_timeout: None,
            attempts_max: None,
            origin: None,
            key: None,
            priority: 0,
            notify: None,
        }
    }

    /// Whether every field is within its range. `wall` is the wall clock.
    ///
    /// # Errors
    /// `payload_too_large`, `invalid_duration`, `invalid_time`, `invalid_number`, `invalid_name` or
    /// `reserved_name`.
    pub fn check(&self, wall: Timestamp) -> Result<(), Problem> {
        let bytes = self.payload.len();
        if bytes > COMMAND_PAYLOAD_BYTES_MAX {
            let detail = format!(
                "payload has {bytes} bytes as compact JSON; a command's may have {COMMAND_PAYLOAD_BYTES_MAX}"
            );
            return Err(Problem::not_allowed("payload_too_large", detail));
        }
        for (name, span) in
            [("ttl", self.ttl), ("ack_timeout", self.ack_timeout), ("run_timeout", self.run_timeout)]
        {
            check_span(name, span)?;
        }
        if self.not_before.is_some_and(|at| at > wall.after(DURATION_MAX)) {
            let detail = "not_before is more than ten years away";
            return Err(Problem::not_allowed("invalid_time", detail));
        }
        check_number("max_attempts", self.attempts_max.map(i64::from), 1, COMMAND_ATTEMPTS_MAX.into())?;
        let priority = Some(i64::from(self.priority));
        check_number("priority", priority, -i64::from(COMMAND_PRIORITY_MAX), COMMAND_PRIORITY_MAX.into())?;
        for (name, text) in [("origin", &self.origin), ("key", &self.key)] {
            text.as_deref().map_or(Ok(()), |text| check_name(name, text))?;
        }
        if self.key.as_deref().is_some_and(|key| key.starts_with(DESIRED_KEY_PREFIX)) {
            let detail = format!(
                "key must not begin with {DESIRED_KEY_PREFIX:?}: such keys are those of desired entries"
            );
            return Err(Problem::not_allowed("reserved_name", detail));
        }
        Ok(())
    }
}

impl TrackedCommand {
    /// The command as it was taken: what its sender is answered. A reachable device may have it
    /// already; how far it came since then is for later calls to show.
    #[must_use]
    pub fn as_given(&self) -> Self {
        let CommandState { is_held, expires_at, .. } = self.state;
        let state = CommandState { is_held, expires_at, ..CommandState::WAITING };
        Self { command: Arc::clone(&self.command), state }
    }
}

/// Whether the text may be the key of a desired entry that is wished: what JSON writes as it is.
///
/// # Errors
/// `invalid_name` or `invalid_key`.
pub fn check_entry_key(text: &str) -> Result<(), Problem> {
    check_name("key", text)?;
    if text.contains(['"', '\\']) || text.contains(char::is_control) {
        let detail = "the key of an entry must have no quote, backslash or control character";
        return Err(Problem::not_allowed("invalid_key", detail));
    }
    Ok(())
}

/// Whether the text may be the key of a command, or an origin.
///
/// # Errors
/// `invalid_name`.
pub fn check_name(field: &str, text: &str) -> Result<(), Problem> {
    if (1..=COMMAND_NAME_BYTES_MAX).contains(&text.len()) {
        return Ok(());
    }
    let detail = format!("{field} has {} bytes; it may have 1 to {COMMAND_NAME_BYTES_MAX}", text.len());
    Err(Problem::not_allowed("invalid_name", detail))
}

fn check_span(name: &str, span: Option<Duration>) -> Result<(), Problem> {
    match span {
        Some(span) if span < Duration::from_millis(1) || span > DURATION_MAX => {
            let detail = format!("{name} must be at least \"1ms\" and at most ten years");
            Err(Problem::not_allowed("invalid_duration", detail))
        }
        _ => Ok(()),
    }
}

fn check_number(name: &str, number: Option<i64>, least: i64, most: i64) -> Result<(), Problem> {
    match number {
        Some(number) if !(least..=most).contains(&number) => {
            let detail = format!("{name} is {number}; it must be {least} to {most}");
            Err(Problem::not_allowed("invalid_number", detail))
        }
        _ => Ok(()),
    }
}

impl CommandCalls {
    /// A URL that is told how a command ended. Without a secret to sign with, one is made.
    ///
    /// # Errors
    /// `too_long`, `invalid_url`, `private_address` or `invalid_secret`; 503 where the system has
    /// no randomness.
    pub fn receiver_at(&self, url: String, secret: Option<Vec<u8>>) -> Result<OutcomeReceiver, Problem> {
        fleet::check_url(&url, self.engine.settings().allow_private)?;
        let secret = match secret {
            Some(secret) => fleet::checked_secret(secret)?.into(),
            None => Box::new(made_secret()?) as Box<[u8]>,
        };
        Ok(OutcomeReceiver::Url { url: url.into(), secret })
    }
}

fn made_secret() -> Result<[u8; 32], Problem> {
    random::unguessable().map_err(|_| Problem::unavailable("the system has no source of randomness"))
}

/// A queue, written `NAMESPACE/QUEUE`, that is told how a command ended.
///
/// # Errors
/// `invalid_name` or `reserved_name`.
pub fn receiver_queue(text: &str) -> Result<OutcomeReceiver, Problem> {
    let (namespace, queue) = parts("queue", text)?;
    let name = QueueName::new(namespace, queue)?;
    Ok(OutcomeReceiver::Queue { namespace: name.namespace().into(), queue: name.queue().into() })
}

/// A stream, written `NAMESPACE/STREAM`, that is told what came of something.
///
/// # Errors
/// `invalid_name` or `reserved_name`.
pub fn receiver_stream(text: &str) -> Result<OutcomeReceiver, Problem> {
    let (namespace, stream) = parts("stream", text)?;
    let name = StreamName::new(namespace, stream)?;
    Ok(OutcomeReceiver::Stream { namespace: name.namespace().into(), stream: name.stream().into() })
}

fn parts<'a>(what: &str, text: &'a str) -> Result<(&'a str, &'a str), Problem> {
    text.split_once('/').ok_or_else(|| {
        let detail = format!("{what} must be a namespace and a {what} with '/' between them");
        Problem::not_allowed("invalid_name", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Timestamp = Timestamp(1_800_000_000_000);

    fn code(change: impl FnOnce(&mut NewCommand)) -> Option<&'static str> {
        let mut command = NewCommand::new(Arc::from(*b"1"));
        change(&mut command);
        command.check(WALL).err().map(|problem| problem.code)
    }

    #[test]
    fn a_command_is_within_its_limits() {
        let payload = |bytes: usize| Arc::from(vec![b'1'; bytes]);
        let name = |bytes: usize| Some("n".repeat(bytes));
        assert_eq!(code(|_| ()), None);
        for (bytes, expect) in [(256 * 1_024, None), (256 * 1_024 + 1, Some("payload_too_large"))] {
            assert_eq!(code(|command| command.payload = payload(bytes)), expect, "{bytes}");
        }
        for (bytes, expect) in
            [(1, None), (255, None), (0, Some("invalid_name")), (256, Some("invalid_name"))]
        {
            assert_eq!(code(|command| command.origin = name(bytes)), expect, "{bytes}");
            assert_eq!(code(|command| command.key = name(bytes)), expect, "{bytes}");
        }
        for (priority, expect) in
            [(100, None), (-100, None), (101, Some("invalid_number")), (-101, Some("invalid_number"))]
        {
            assert_eq!(code(|command| command.priority = priority), expect, "{priority}");
        }
        for (attempts, expect) in
            [(1, None), (1_000, None), (0, Some("invalid_number")), (1_001, Some("invalid_number"))]
        {
            assert_eq!(code(|command| command.attempts_max = Some(attempts)), expect, "{attempts}");
        }
        for (span, expect) in [
            (Duration::from_millis(1), None),
            (DURATION_MAX, None),
            (Duration::ZERO, Some("invalid_duration")),
            (DURATION_MAX + Duration::from_secs(1), Some("invalid_duration")),
        ] {
            assert_eq!(code(|command| command.ttl = Some(span)), expect, "{span:?}");
            assert_eq!(code(|command| command.ack_timeout = Some(span)), expect, "{span:?}");
            assert_eq!(code(|command| command.run_timeout = Some(span)), expect, "{span:?}");
        }
        let ahead = |span| WALL.after(span);
        assert_eq!(code(|command| command.not_before = Some(Timestamp(0))), None);
        let too_far = ahead(DURATION_MAX + Duration::from_secs(1));
        assert_eq!(code(|command| command.not_before = Some(too_far)), Some("invalid_time"));
    }

    #[test]
    fn a_queue_is_named_with_its_namespace() {
        let told = receiver_queue("ops/done").expect("a queue");
        assert_eq!(told, OutcomeReceiver::Queue { namespace: "ops".into(), queue: "done".into() });
        for (text, expect) in [
            ("done", "invalid_name"),
            ("ops/", "invalid_name"),
            ("a/b/c", "invalid_name"),
            ("_own/q", "reserved_name"),
        ] {
            assert_eq!(receiver_queue(text).map_err(|problem| problem.code), Err(expect), "{text}");
            assert_eq!(receiver_stream(text).map_err(|problem| problem.code), Err(expect), "{text}");
        }
    }

    #[test]
    fn a_stream_is_named_with_its_namespace() {
        let told = receiver_stream("ops/done").expect("a stream");
        assert_eq!(told, OutcomeReceiver::Stream { namespace: "ops".into(), stream: "done".into() });
    }
}
