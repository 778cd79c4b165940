//! Why a command failed, in words that say what to do, and the exit code that tells a script the
//! same.
//!
//! The codes are a contract; `docs/cli.md` lists them.

use std::fmt;
use std::io;

use fieldpost_client::Refusal;
use serde_json::{Map, Value, json};

use super::advice;
use super::import::ImportTally;
use super::table::plain;

/// A command that did not do what it was asked for.
#[derive(Debug)]
pub(super) enum CommandFailure {
    /// The command line, or a file that it names, is wrong.
    Usage(String),
    /// The server was asked and said no.
    Refused(Box<Refusal>),
    /// Nobody answered, or the connection broke.
    NotReached { server: String, why: String },
    /// Something answered that is not a Fieldpost server.
    Foreign { server: String, what: String },
    /// It was done in part, the receiver under test did not take it, a lock was held or lost, or a
    /// limit forbids it. What came of it has been shown.
    Incomplete(String),
    /// An import ended before its input did; everything up to this line of it has been taken.
    BrokenOff { after_line: u64, so_far: Box<ImportTally>, cause: Box<CommandFailure> },
    /// A command that was run for this one ended with this exit code, and has told why.
    Command(u8),
    /// The output cannot be written.
    Output(io::Error),
}

impl CommandFailure {
    /// An answer of `server` that is no success. Fieldpost sends a problem document with each, but
    /// for a head or a body that it does not read. A proxy in front of it may send 429 and 5xx
    /// without one; any other 4xx without one is foreign.
    pub(super) fn refused(server: String, refusal: Box<Refusal>) -> Self {
        match &*refusal {
            Refusal { status: 408 | 413 | 414 | 429 | 431, .. } => Self::Refused(refusal),
            Refusal { status: status @ 400..500, code: None, detail, .. } => {
                Self::Foreign { server, what: format!("it answered {status} {detail}").trim_end().to_owned() }
            }
            _ => Self::Refused(refusal),
        }
    }

    /// What the process exits with.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(refusal) if advice::is_temporary(refusal) => 4,
            Self::Refused(_) | Self::Incomplete(_) => 1,
            Self::Usage(_) => 2,
            Self::NotReached { .. } | Self::Foreign { .. } => 3,
            Self::BrokenOff { cause, .. } => cause.exit_code(),
            Self::Command(code) => *code,
            // Whoever read the output has had enough of it, as `head` does.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(_) => 5,
        }
    }

    /// Whether the same may succeed in a while, without anybody doing anything here.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Refused(refusal) => advice::is_temporary(refusal),
            Self::NotReached { .. } => true,
            _ => false,
        }
    }

    /// Whether another id may be taken where this one was refused.
    pub(super) fn is_of_one(&self) -> bool {
        matches!(self, Self::Refused(_)) && !self.may_pass()
    }

    /// Whether there is anybody to be told.
    pub(super) fn is_silent(&self) -> bool {
        self.exit_code() == 0 || matches!(self, Self::Command(_))
    }

    /// What to do about it.
    fn advice(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => advice::advice(refusal).map(str::to_owned),
            Self::NotReached { .. } => Some(
                "is it running? `fieldpost serve` starts one; --url or FIELDPOST_URL names another"
                    .to_owned(),
            ),
            Self::Foreign { .. } => Some(
                "does --url or FIELDPOST_URL lead to it? A proxy in between may have answered".to_owned(),
            ),
            Self::BrokenOff { after_line, cause, .. } => {
                let go_on = match after_line {
                    0 => "nothing of the input has been taken for certain".to_owned(),
                    1 => "line 1 has been handled; go on with line 2".to_owned(),
                    line => format!("lines 1 to {line} have been handled; go on with line {}", line + 1),
                };
                Some(cause.advice().into_iter().chain([go_on]).collect::<Vec<_>>().join("\n"))
            }
            Self::Usage(_) | Self::Incomplete(_) | Self::Command(_) | Self::Output(_) => None,
        }
    }

    /// For scripts: the server's own document where there is one, else one of the same form.
    pub(super) fn to_json(&self) -> String {
        let kind = match self {
            Self::Refused(refusal) => match &refusal.document {
                Some(document) => return document.clone(),
                None => "refused",
            },
            Self::BrokenOff { after_line, so_far, cause } => {
                let text = cause.to_json();
                let Ok(mut document) = serde_json::from_str::<Map<String, Value>>(&text) else { return text };
                let so_far = serde_json::to_value(so_far).expect("a tally has only names for keys");
                document.extend(so_far.as_object().cloned().unwrap_or_default());
                document.insert("last_line".to_owned(), (*after_line).into());
                return Value::Object(document).to_string();
            }
            Self::Usage(_) => "usage",
            Self::NotReached { .. } => "not_reached",
            Self::Foreign { .. } => "not_fieldpost",
            Self::Incomplete(_) => "incomplete",
            Self::Command(_) => "command",
            Self::Output(_) => "output",
        };
        let mut document = json!({ "detail": self.to_string() });
        document["code"] = kind.into();
        document.to_string()
    }

    /// For scripts, where it is about one of several ids: the same with its `id`.
    pub(super) fn to_json_of(&self, id: &str) -> String {
        let text = self.to_json();
        match serde_json::from_str::<Map<String, Value>>(&text) {
            Ok(mut document) => {
                document.insert("id".to_owned(), id.into());
                Value::Object(document).to_string()
            }
            Err(_) => text,
        }
    }

    /// For people: what went wrong, and below it what to do.
    pub(super) fn to_text(&self) -> String {
        let advice = self
            .advice()
            .into_iter()
            .flat_map(|text| text.lines().map(|line| format!("\n  {line}")).collect::<Vec<_>>());
        format!("error: {}{}", plain(&self.to_string()), advice.collect::<String>())
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) | Self::Incomplete(what) => f.write_str(what),
            Self::Refused(refusal) => match &refusal.code {
                Some(code) => write!(f, "{} ({} {code})", refusal.detail, refusal.status),
                None => write!(f, "the server answered {}: {}", refusal.status, refusal.detail),
            },
            Self::NotReached { server, why } => write!(f, "no answer from {server}: {why}"),
            Self::Foreign { server, what } => write!(f, "{server} is not a Fieldpost server: {what}"),
            Self::BrokenOff { cause, .. } => write!(f, "{cause}"),
            Self::Command(code) => write!(f, "the command ended with {code}"),
            Self::Output(error) => write!(f, "the output cannot be written: {error}"),
        }
    }
}

impl std::error::Error for CommandFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Output(error) => Some(error),
            Self::BrokenOff { cause, .. } => Some(&**cause),
            _ => None,
        }
    }
}

impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, body: &str) -> CommandFailure {
        CommandFailure::refused("s".to_owned(), Box::new(Refusal::read(status, None, body.as_bytes())))
    }

    #[test]
    fn the_exit_code_tells_what_a_script_can_do() {
        let not_reached = || CommandFailure::NotReached { server: "s".to_owned(), why: "w".to_owned() };
        let problem = r#"{"code":"c","detail":"d"}"#;
        for (failure, code) in [
            (refused(404, problem), 1),
            (refused(422, problem), 1),
            (refused(429, problem), 4),
            (refused(503, problem), 4),
            (refused(400, ""), 3),
            (refused(422, "<html>"), 3),
            (refused(429, ""), 4),
            (refused(502, "<html>"), 4),
            (refused(503, ""), 4),
            (CommandFailure::Incomplete("2 lines rejected".to_owned()), 1),
            (CommandFailure::Usage("no such file".to_owned()), 2),
            (not_reached(), 3),
            (broken_off(7, not_reached()), 3),
            (CommandFailure::Output(io::ErrorKind::BrokenPipe.into()), 0),
            (CommandFailure::Output(io::ErrorKind::StorageFull.into()), 5),
        ] {
            assert_eq!(failure.exit_code(), code, "{failure}");
        }
    }

    fn broken_off(after_line: u64, cause: CommandFailure) -> CommandFailure {
        CommandFailure::BrokenOff { after_line, so_far: Box::default(), cause: Box::new(cause) }
    }

    #[test]
    fn a_person_reads_what_is_wrong_and_what_to_do() {
        let failure = refused(404, r#"{"code":"unknown_device","detail":"there is no device \"x\""}"#);
        assert_eq!(
            failure.to_text(),
            "error: there is no device \"x\" (404 unknown_device)\n  `fieldpost device ls` lists those that there are"
        );
        let broken = CommandFailure::NotReached {
            server: "http://a".to_owned(),
            why: "connection refused".to_owned(),
        };
        let text = broken_off(40, broken).to_text();
        assert!(text.ends_with("\n  lines 1 to 40 have been handled; go on with line 41"), "{text}");
    }

    #[test]
    fn a_script_reads_the_servers_own_document() {
        let document = r#"{"code":"unknown_device","detail":"no","status":404}"#;
        assert_eq!(refused(404, document).to_json(), document);
        let usage = CommandFailure::Usage("what".to_owned()).to_json();
        assert_eq!(usage, r#"{"code":"usage","detail":"what"}"#);
        let broken_off: Value =
            serde_json::from_str(&broken_off(7, CommandFailure::Usage("what".to_owned())).to_json())
                .expect("JSON");
        assert_eq!((&broken_off["code"], &broken_off["last_line"]), (&json!("usage"), &json!(7)));
    }
}
