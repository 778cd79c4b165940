//! A refusal that the caller can act on: what is wrong, with which field, and what would be right.
//!
//! Every edge turns it into its own wire form; the code is stable and listed in
//! `docs/operations.md`.

use std::fmt;

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status that says the same.
    pub status: u16,
    /// A stable, snake_case word for programs.
    pub code: &'static str,
    /// A sentence for people: what was wrong with which field, and what would be right.
    pub detail: String,
}

impl Problem {
    /// Any problem.
    #[must_use]
    pub fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into() }
    }

    /// The problem that an error comes from.
    #[must_use]
    pub fn behind<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
    }

    /// 400: cannot be read.
    #[must_use]
    pub fn unreadable(detail: impl Into<String>) -> Self {
        Self::new(400, "unreadable", detail)
    }

    /// 404: no such thing.
    #[must_use]
    pub fn unknown(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(404, code, detail)
    }

    /// 409: at odds with what is there.
    #[must_use]
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(409, code, detail)
    }

    /// 422: readable, but not allowed.
    #[must_use]
    pub fn not_allowed(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(422, code, detail)
    }

    /// 503: not now.
    #[must_use]
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(503, "unavailable", detail)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

impl std::error::Error for Problem {}
