//! What `POST /v1/reports` answers if it is no problem: a tally.

use axum::Json;
use axum::response::{IntoResponse, Response};
use base::Problem;
use base::limits::REJECTIONS_LISTED_MAX;
use serde::Serialize;

/// What became of a body. Rejections are listed in order of their lines, the first of them only.
#[derive(Debug, Default, Serialize)]
pub(super) struct BodyOutcome {
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

impl BodyOutcome {
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

pub(super) fn tally(tally: &BodyOutcome) -> Response {
    Json(tally).into_response()
}
