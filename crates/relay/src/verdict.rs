//! What the server's answer means for a call. Pure.

use std::time::Duration;

use fieldpost_client::Refusal;

use crate::outgoing::RowRefusal;
use crate::publish::CallAnswer;

/// The one 404 that is waited for. The path is ours, not the row's: a server without it is too
/// old, or is reached at a wrong prefix. Every row would be refused until somebody mends that.
const NOT_THE_API: &str = "unknown_route";
/// The code of a refusal that has none: somebody in between answered.
const NO_CODE: &str = "no_code";
/// A server that is busy says 503, too; with these it is one destination that is.
const OF_ONE_DESTINATION: [&str; 2] = ["namespace_unavailable", "storage_unavailable"];
/// With this one a call of fewer rows may be taken.
const STREAM_FULL: &str = "stream_full";

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallVerdict {
    /// All of it is durable.
    Taken,
    /// Nothing of it has taken effect, nor ever will as it is.
    Refused(RowRefusal),
    /// Nothing of it has taken effect; this destination is tried again later.
    Wait { error: String, retry_after: Option<Duration> },
    /// Nothing of it has taken effect: there is no room for all of it. Fewer rows may have room
    /// now; for a single one this is to wait.
    NoRoom { error: String, retry_after: Option<Duration> },
    /// It may have taken effect, or nobody gets through: the same call is made again later.
    Again { error: String, retry_after: Option<Duration> },
}

/// The verdict on an answer, or on none.
pub(crate) fn of(answer: Result<CallAnswer, String>) -> CallVerdict {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return CallVerdict::Again { error, retry_after: None },
    };
    let CallAnswer { status, body, retry_after } = answer;
    if status == 201 && body.trim_ascii_start().starts_with(b"{") {
        return CallVerdict::Taken;
    }
    if (200..400).contains(&status) {
        let error = format!("something answers {status} that is not the server");
        return CallVerdict::Again { error, retry_after };
    }
    let refusal = Refusal::read(status, retry_after, &body);
    let error = refusal.to_string();
    let code = refusal.code.unwrap_or_else(|| NO_CODE.to_owned());
    match status {
        404 if code == NOT_THE_API => CallVerdict::Again { error, retry_after },
        400 | 404 | 409 | 413 | 422 => {
            CallVerdict::Refused(RowRefusal { status, code, detail: refusal.detail })
        }
        403 | 429 => CallVerdict::Wait { error, retry_after },
        503 if code == STREAM_FULL => CallVerdict::NoRoom { error, retry_after },
        503 if OF_ONE_DESTINATION.contains(&code.as_str()) => CallVerdict::Wait { error, retry_after },
        _ => CallVerdict::Again { error, retry_after },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_otherwise_later_is_not_refused() {
        for (status, code, expect) in [
            (201, None, "again"), // of somebody in between
            (400, Some("unreadable"), "refused"),
            (404, Some("unknown_queue"), "refused"),
            (404, Some("unknown_route"), "again"),
            (409, Some("alias_taken"), "refused"),
            (413, Some("body_too_large"), "refused"),
            (422, Some("invalid_field"), "refused"),
            (400, None, "refused"),
            (404, None, "refused"),
            (409, None, "refused"),
            (413, None, "refused"),
            (422, None, "refused"),
            (401, Some("unauthorized"), "again"),
            (401, None, "again"),
            (403, Some("forbidden"), "wait"),
            (403, None, "wait"),
            (429, None, "wait"),
            (429, Some("too_many_requests"), "wait"),
            (500, Some("internal"), "again"),
            (503, Some("busy"), "again"),
            (503, Some("stream_full"), "no room"),
            (503, Some("namespace_unavailable"), "wait"),
            (503, Some("storage_unavailable"), "wait"),
            (502, None, "again"),
        ] {
            let body = code
                .map_or_else(|| "<html>".to_owned(), |code| format!(r#"{{"code":"{code}","detail":"d"}}"#));
            let answer = CallAnswer { status, body: body.into(), retry_after: None };
            let found = match of(Ok(answer)) {
                CallVerdict::Taken => "taken",
                CallVerdict::Refused(_) => "refused",
                CallVerdict::Wait { .. } => "wait",
                CallVerdict::NoRoom { .. } => "no room",
                CallVerdict::Again { .. } => "again",
            };
            assert_eq!(found, expect, "{status} {code:?}");
        }
        let refused = CallAnswer { status: 413, body: b"too large".to_vec(), retry_after: None };
        let CallVerdict::Refused(refusal) = of(Ok(refused)) else { panic!("it is refused for good") };
        assert_eq!(refusal.reason(), "413 no_code: too large");
        let taken = CallAnswer { status: 201, body: b"{\"jobs\":[]}".to_vec(), retry_after: None };
        assert_eq!(of(Ok(taken)), CallVerdict::Taken);
        assert!(matches!(of(Err("gone".to_owned())), CallVerdict::Again { .. }));
    }
}
