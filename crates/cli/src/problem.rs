//! A refusal as the server tells it (RFC 9457), read leniently: a proxy in between may have written it.

use serde::Deserialize;

/// Longer text of a stranger is cut.
const STRANGE_CHARS_MAX: usize = 200;

/// What the server refused, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// Stable, for programs; `None` where the answer was not one of Fieldpost's.
    pub(super) code: Option<String>,
    pub(super) detail: String,
    /// The document as it came, where it was one.
    pub(super) document: Option<String>,
}

#[derive(Deserialize)]
struct Document {
    code: String,
    detail: String,
}

impl Refusal {
    /// Reads the body that came with a status.
    pub(super) fn read(status: u16, body: &str) -> Self {
        match serde_json::from_str(body) {
            Ok(Document { code, detail }) => {
                Self { status, code: Some(code), detail, document: Some(body.trim().to_owned()) }
            }
            Err(_) => {
                let detail = body.trim().chars().take(STRANGE_CHARS_MAX).collect();
                Self { status, code: None, detail, document: None }
            }
        }
    }

    /// Whether the same might be accepted later.
    pub(super) fn is_for_now(&self) -> bool {
        self.status == 429 || self.status >= 500
    }

    /// What the person can do about it, where the refusal itself does not say.
    pub(super) fn advice(&self) -> Option<&'static str> {
        match (self.status, self.code.as_deref()) {
            (401, _) => Some("give the token in FIELDPOST_TOKEN or with --token"),
            (403, _) => Some("the token is good, but not for this; ask for one with the scope"),
            (_, Some("unknown_device")) => Some("`fieldpost device ls` lists those that there are"),
            (_, Some("unknown_client")) => Some("`fieldpost client ls` lists those that there are"),
            (_, Some("unknown_delivery")) => Some("`fieldpost delivery ls` lists those that there are"),
            (_, Some("unknown_quarantined")) => {
                Some("`fieldpost report rejected ls` lists those that there are")
            }
            (_, Some("unknown_job")) => Some("`fieldpost job ls` lists those that are not done"),
            (_, Some("stale_reservation")) => {
                Some("its ttr was over, or the job was done or cancelled: it has to be consumed again")
            }
            (_, Some("unknown_route")) => {
                Some("either the server is older than this program, or --url leads elsewhere")
            }
            (429, _) => Some("this token may ask again a little later"),
            (503, _) => Some("try again; if it lasts, the server's /readyz gives the reason"),
            (_, None) => Some("this is not how Fieldpost answers: does --url lead to it?"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_document_is_read_and_kept() {
        let body = r#"{"type":"about:blank","status":404,"code":"unknown_device","detail":"no"}"#;
        let refusal = Refusal::read(404, body);
        assert_eq!(refusal.code.as_deref(), Some("unknown_device"));
        assert_eq!((refusal.detail.as_str(), refusal.document.as_deref()), ("no", Some(body)));
        assert!(refusal.advice().is_some_and(|advice| advice.contains("device ls")));
    }

    #[test]
    fn what_a_stranger_says_is_cut_short() {
        let refusal = Refusal::read(502, &"<html>".repeat(1_000));
        assert_eq!((refusal.code, refusal.detail.chars().count()), (None, STRANGE_CHARS_MAX));
    }

    #[test]
    fn what_is_refused_for_now_may_be_accepted_later() {
        for (status, for_now) in
            [(404, false), (409, false), (422, false), (429, true), (500, true), (503, true)]
        {
            assert_eq!(Refusal::read(status, "").is_for_now(), for_now, "{status}");
        }
    }
}
