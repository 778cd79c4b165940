//! Refusals on the wire: RFC 9457, with the stable `code` beside the sentence for people.

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base::Problem;
use serde::Serialize;

/// The content type of a problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// Seconds after which a caller that was told "not now" may come back.
pub const RETRY_AFTER_SECONDS: &str = "1";

/// A refusal on its way out of a handler.
#[derive(Debug)]
pub struct Refused(pub Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

/// The code of a refusal; an extension of its response, for the log.
#[derive(Clone, Copy, Debug)]
pub struct Code(pub &'static str);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = response(&self.0);
        response.extensions_mut().insert(Code(self.0.code));
        response
    }
}

/// The members of a problem document: those that every one has, and more.
#[derive(Serialize)]
struct ProblemDocument<'a, M> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    #[serde(flatten)]
    more: &'a M,
}

/// No more members than every problem document has.
#[derive(Serialize)]
struct NoMoreMembers {}

/// The status and the document of a problem.
#[must_use]
pub fn document(problem: &Problem) -> (StatusCode, Bytes) {
    document_with(problem, &NoMoreMembers {})
}

fn document_with(problem: &Problem, more: &impl Serialize) -> (StatusCode, Bytes) {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let document = ProblemDocument {
        r#type: "about:blank",
        title: status.canonical_reason().unwrap_or("Error"),
        status: status.as_u16(),
        detail: &problem.detail,
        code: problem.code,
        more,
    };
    let bytes = serde_json::to_vec(&document).expect("texts, numbers and members with names are JSON");
    (status, bytes.into())
}

/// Whether an answer of this status says when to come back.
#[must_use]
pub fn is_for_later(status: StatusCode) -> bool {
    matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
}

/// The answer that tells a problem. A 429 and a 503 say when to come back.
#[must_use]
pub fn response(problem: &Problem) -> Response {
    response_with(problem, &NoMoreMembers {})
}

/// The same, with more members in the document: those of an object with other names.
#[must_use]
pub fn response_with(problem: &Problem, more: &impl Serialize) -> Response {
    let (status, document) = document_with(problem, more);
    let mut response = Response::new(Body::from(document));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if is_for_later(status) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
    }
    response
}

/// What was given, quoted, and cut short where it would fill the sentence.
#[must_use]
pub fn quoted(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
