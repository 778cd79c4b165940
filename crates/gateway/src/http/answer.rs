//! What `POST /v1/reports` answers: a tally, or a problem (RFC 9457).

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base::Problem;
use base::limits::REJECTIONS_LISTED_MAX;
use serde::Serialize;

/// What became of a body. Rejections are listed in order of their lines, the first of them only.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    accepted: u64,
    rejected_count: u64,
    rejected: Vec<Rejected>,
}

#[derive(Debug, Serialize)]
struct Rejected {
    line: u64,
    code: &'static str,
    detail: String,
}

impl Tally {
    pub(super) fn accept(&mut self, reports: u64) {
        self.accepted += reports;
    }

    pub(super) fn reject(&mut self, line: u64, problem: Problem) {
        self.rejected_count += 1;
        if self.rejected.len() < REJECTIONS_LISTED_MAX {
            self.rejected.push(Rejected { line, code: problem.code, detail: problem.detail });
        }
    }
}

pub(super) fn tally(tally: &Tally) -> Response {
    Json(tally).into_response()
}

#[derive(Serialize)]
struct Details<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
}

pub(super) fn problem(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let details = Details {
        r#type: "about:blank",
        title: status.canonical_reason().unwrap_or("Error"),
        status: status.as_u16(),
        detail: &problem.detail,
        code: problem.code,
    };
    let mut response = (status, Json(details)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
