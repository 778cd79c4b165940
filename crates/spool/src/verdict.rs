//! What the server's answer means for what was forwarded. Pure.

use std::time::Duration;

use fieldpost_client::{Answer, Error, Refusal};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::destination::DestinationKind;

/// A queue that has no room now.
const QUEUE_FULL: &str = "queue_full";
/// A stream that has no room now, and drops nothing.
const STREAM_FULL: &str = "stream_full";
/// The code of a server that takes no calls yet.
const STARTING: &str = "starting";
/// The key came before, with another body.
const KEY_REUSED: &str = "idempotency_key_reused";
/// It is JSON, and no object.
const NOT_AN_OBJECT: &str = "not_an_object";

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForwardVerdict {
    /// Everything has taken effect but what is listed.
    Taken {
        /// Lines that are refused for good.
        refused: Vec<RefusedLine>,
        /// The indexes of messages in whose place the server has another one, and keeps it.
        conflicts: Vec<usize>,
    },
    /// Nothing has taken effect, and nothing of it ever will as it is.
    Refused(RefusalReason),
    /// It may be otherwise later.
    Wait {
        /// Why.
        error: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// It is certain that nothing has taken effect.
        is_undone: bool,
        /// There is no room for so many: fewer may fit.
        is_full: bool,
    },
}

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusalReason {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) detail: String,
}

impl RefusalReason {
    /// Whether the server has taken another call under the same key.
    pub(crate) fn is_key_reused(&self) -> bool {
        self.status == 422 && self.code == KEY_REUSED
    }

    /// The reason as it is told of this body. In place of text that is no JSON the server was sent
    /// null, of which it says something else.
    pub(crate) fn of_body(&self, body: &[u8]) -> Self {
        if self.code != NOT_AN_OBJECT || serde_json::from_slice::<&RawValue>(body).is_ok() {
            return self.clone();
        }
        let detail = "it is not JSON that can be read".to_owned();
        Self { status: 400, code: "unreadable".to_owned(), detail }
    }
}

/// A line that was refused. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct RefusedLine {
    pub(crate) line: usize,
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) detail: String,
}

#[derive(Deserialize)]
struct ReportTally {
    accepted: u64,
    rejected: Vec<RefusedLine>,
}

/// What became of messages, as far as it matters here.
#[derive(Deserialize)]
struct MessageTally {
    messages: Vec<TalliedMessage>,
}

#[derive(Deserialize)]
struct TalliedMessage {
    conflict: Option<bool>,
}

/// The verdict on a call with so many items.
pub(crate) fn of(kind: DestinationKind, items: usize, answer: Result<Answer, Error>) -> ForwardVerdict {
    let wait = |error: &Error| ForwardVerdict::Wait {
        error: error.explained(),
        retry_after: None,
        is_undone: error.is_undone(),
        is_full: false,
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return wait(&error),
    };
    let status = answer.status;
    match answer.success() {
        Ok(body) => taken(kind, items, status, &body),
        Err(Error::Refused(refusal)) => refused(&refusal),
        Err(error) => wait(&error),
    }
}

/// An answer of somebody in between, as of a portal that asks for a login, is none of the server's.
fn taken(kind: DestinationKind, items: usize, status: u16, body: &[u8]) -> ForwardVerdict {
    let refused = match kind {
        DestinationKind::Reports => serde_json::from_slice::<ReportTally>(body)
            .ok()
            .filter(|tally| tally.accepted as usize + tally.rejected.len() == items)
            .map(|tally| tally.rejected),
        DestinationKind::Queue | DestinationKind::Stream => {
            let is_ours = status == 201 && body.trim_ascii_start().starts_with(b"{");
            is_ours.then(Vec::new)
        }
    };
    refused.map_or_else(
        || ForwardVerdict::Wait {
            error: format!("something answers {status} that is not the server, or one of another time"),
            retry_after: None,
            is_undone: false,
            is_full: false,
        },
        |refused| ForwardVerdict::Taken { refused, conflicts: conflicts(kind, body) },
    )
}

/// In which messages' place the server has another one.
fn conflicts(kind: DestinationKind, body: &[u8]) -> Vec<usize> {
    let tally = (kind == DestinationKind::Stream).then(|| serde_json::from_slice::<MessageTally>(body).ok());
    let messages = tally.flatten().map_or_else(Vec::new, |tally| tally.messages);
    let conflicts = messages.iter().enumerate().filter(|(_, message)| message.conflict == Some(true));
    conflicts.map(|(index, _)| index).collect()
}

fn refused(refusal: &Refusal) -> ForwardVerdict {
    let told = (refusal.status, refusal.code.as_deref());
    let wait = |is_undone| ForwardVerdict::Wait {
        error: refusal.to_string(),
        retry_after: refusal.retry_after,
        is_undone,
        is_full: matches!(told, (409, Some(QUEUE_FULL)) | (503, Some(STREAM_FULL))),
    };
    // Without a code it is somebody in between who answers: what the server did is not known.
    let Some(code) = refusal.code.clone() else { return wait(false) };
    match refusal.status {
        503 if code == STARTING => wait(true),
        500.. => wait(false),
        401 | 403 | 408 | 429 => wait(true),
        409 if code == QUEUE_FULL => wait(true),
        status => ForwardVerdict::Refused(RefusalReason { status, code, detail: refusal.detail.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, code: Option<&str>) -> ForwardVerdict {
        let body =
            code.map_or_else(|| "<html>".to_owned(), |code| format!(r#"{{"code":"{code}","detail":"d"}}"#));
        refused(&Refusal::read(status, Some(Duration::from_secs(7)), body.as_bytes()))
    }

    #[test]
    fn what_may_be_otherwise_later_is_not_refused() {
        for (status, code, waits) in [
            (400, Some("unreadable"), false),
            (404, Some("unknown_device"), false),
            (409, Some("alias_taken"), false),
            (409, Some("queue_full"), true),
            (413, Some("body_too_large"), false),
            (422, Some("invalid_field"), false),
            (401, Some("unauthorized"), true),
            (403, Some("forbidden"), true),
            (408, Some("body_too_slow"), true),
            (429, Some("too_many_requests"), true),
            (503, Some("busy"), true),
            (404, None, true),
            (502, None, true),
        ] {
            let verdict = refusal(status, code);
            assert_eq!(
                matches!(verdict, ForwardVerdict::Wait { .. }),
                waits,
                "{status} {code:?}: {verdict:?}"
            );
        }
    }

    #[test]
    fn nothing_was_done_only_where_that_is_certain() {
        let undone = |verdict| matches!(verdict, ForwardVerdict::Wait { is_undone: true, .. });
        for (status, code, expect) in [
            (503, Some("starting"), true),
            (503, Some("busy"), false),
            (429, Some("too_many_requests"), true),
            (409, Some("queue_full"), true),
            (429, None, false),
            (502, None, false),
            (503, Some("busy"), false),
        ] {
            assert_eq!(undone(refusal(status, code)), expect, "{status} {code:?}");
        }
        let server = || "http://h".to_owned();
        let nobody = Error::Unreachable { server: server(), cause: "refused".into() };
        let late = Error::TimedOut { server: server(), limit: Duration::from_secs(1) };
        for (error, expect) in [(nobody, true), (late, false)] {
            assert_eq!(undone(of(DestinationKind::Queue, 1, Err(error))), expect);
        }
    }

    #[test]
    fn only_a_full_queue_or_stream_may_have_room_for_fewer() {
        for (status, code, expect) in [
            (409, Some("queue_full"), true),
            (503, Some("stream_full"), true),
            (503, Some("busy"), false),
            (429, Some("too_many_requests"), false),
            (503, None, false),
        ] {
            let verdict = refusal(status, code);
            let is_full = matches!(verdict, ForwardVerdict::Wait { is_full: true, .. });
            assert_eq!(is_full, expect, "{status} {code:?}: {verdict:?}");
        }
    }

    #[test]
    fn of_text_that_is_no_json_it_is_told_that_it_is_unreadable() {
        let null = RefusalReason { status: 422, code: "not_an_object".into(), detail: "it is null".into() };
        assert_eq!(null.of_body(b"null"), null);
        for body in ["not json", "", "{", "1 2"] {
            let told = null.of_body(body.as_bytes());
            assert_eq!((told.status, &*told.code), (400, "unreadable"), "{body}");
        }
        let other = RefusalReason { status: 413, code: "payload_too_large".into(), ..null };
        assert_eq!(other.of_body(b"not json"), other);
    }

    #[test]
    fn only_the_server_itself_takes_something() {
        let reports = |body: &str| taken(DestinationKind::Reports, 2, 200, body.as_bytes());
        let all = || ForwardVerdict::Taken { refused: vec![], conflicts: vec![] };
        assert_eq!(reports(r#"{"accepted":2,"rejected_count":0,"rejected":[]}"#), all());
        let line = RefusedLine { line: 2, code: "x".into(), detail: "y".into() };
        let partly = r#"{"accepted":1,"rejected_count":1,"rejected":[{"line":2,"code":"x","detail":"y"}]}"#;
        assert_eq!(reports(partly), ForwardVerdict::Taken { refused: vec![line], conflicts: vec![] });
        for foreign in [r#"{"accepted":1,"rejected":[]}"#, "<html>please log in", "{}", ""] {
            assert!(matches!(reports(foreign), ForwardVerdict::Wait { .. }), "{foreign}");
        }
        let jobs = |status, body: &str| taken(DestinationKind::Queue, 1, status, body.as_bytes());
        assert_eq!(jobs(201, r#"{"ids":["1"]}"#), all());
        assert!(matches!(jobs(200, "<html>"), ForwardVerdict::Wait { .. }));
    }

    #[test]
    fn conflicts_of_messages_are_found_and_duplicates_are_none() {
        let body = r#"{"messages":[{"id":"7","duplicate":false},{"id":"1","duplicate":true,"conflict":null},
            {"id":"2","duplicate":true,"conflict":true},{"id":null,"duplicate":true,"conflict":true}]}"#;
        for (kind, body, conflicts) in [
            (DestinationKind::Stream, body, vec![2, 3]),
            (DestinationKind::Queue, body, vec![]),
            (DestinationKind::Stream, r#"{"other":1}"#, vec![]),
        ] {
            let verdict = taken(kind, 4, 201, body.as_bytes());
            assert_eq!(verdict, ForwardVerdict::Taken { refused: vec![], conflicts }, "{kind:?} {body}");
        }
    }
}
