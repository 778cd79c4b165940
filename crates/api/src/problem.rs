//! Refusals on the wire: RFC 9457, with the stable `code` beside the sentence for people.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base::Problem;
use serde::Serialize;

use crate::answer::Answer;

/// A refusal on its way out of a handler.
#[derive(Debug)]
pub(crate) struct Refused(pub Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

/// The code of a refusal; an extension of its response, for the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(pub &'static str);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = Answer::refused(&self.0).into_response();
        response.extensions_mut().insert(Code(self.0.code));
        response
    }
}

/// The members of a problem document.
#[derive(Serialize)]
pub(crate) struct Document<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
}

impl<'a> Document<'a> {
    pub(crate) fn of(problem: &'a Problem) -> (StatusCode, Self) {
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let title = status.canonical_reason().unwrap_or("Error");
        let document = Self {
            r#type: "about:blank",
            title,
            status: status.as_u16(),
            detail: &problem.detail,
            code: problem.code,
        };
        (status, document)
    }
}

/// What was given, quoted, and cut short where it would fill the sentence.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
