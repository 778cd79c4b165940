//! An answer as status and bytes, which is also the form in which one is remembered for a repeated
//! request.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base::Problem;
use net::problem::{PROBLEM_JSON, RETRY_AFTER_SECONDS, document, is_for_later};
use serde::Serialize;

use crate::compression::{self, InOnePiece};

/// What is answered. JSON, a problem document when the status says so, or nothing.
#[derive(Clone, Debug)]
pub(crate) struct ApiAnswer {
    pub status: StatusCode,
    pub body: Bytes,
}

impl ApiAnswer {
    /// 200 with the shape.
    pub(crate) fn ok(shape: &impl Serialize) -> Self {
        Self::json(StatusCode::OK, shape)
    }

    /// 200 with what is JSON already.
    pub(crate) fn ok_json(json: Bytes) -> Self {
        Self { status: StatusCode::OK, body: json }
    }

    /// 201 with the shape.
    pub(crate) fn created(shape: &impl Serialize) -> Self {
        Self::json(StatusCode::CREATED, shape)
    }

    /// 204.
    pub(crate) fn nothing() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: Bytes::new() }
    }

    /// 202: it will be done, and there is nothing to show yet.
    pub(crate) fn accepted() -> Self {
        Self { status: StatusCode::ACCEPTED, body: Bytes::new() }
    }

    /// The problem with its own status.
    pub(crate) fn refused(problem: &Problem) -> Self {
        let (status, body) = document(problem);
        Self { status, body }
    }

    /// What became of a request, shown by `show` if it was done.
    pub(crate) fn of<T>(made: &Result<T, Problem>, show: impl FnOnce(&T) -> Self) -> Self {
        made.as_ref().map_or_else(Self::refused, show)
    }

    /// The form in which the store keeps it: two bytes of status, and the body.
    pub(crate) fn stored(&self) -> Arc<[u8]> {
        let status = self.status.as_u16().to_be_bytes();
        status.into_iter().chain(self.body.iter().copied()).collect()
    }

    /// Reads one back that was kept with what it is about.
    pub(crate) fn kept(stored: &[u8]) -> Result<Self, Problem> {
        let unreadable =
            || Problem::new(500, "internal_error", "the answer that is kept of this request cannot be read");
        Self::from_stored(stored).ok_or_else(unreadable)
    }

    /// Reads it back; `None` for what was never one.
    pub(crate) fn from_stored(stored: &[u8]) -> Option<Self> {
        let (status, body) = stored.split_first_chunk()?;
        let status = StatusCode::from_u16(u16::from_be_bytes(*status)).ok()?;
        Some(Self { status, body: Bytes::copy_from_slice(body) })
    }

    fn json(status: StatusCode, shape: &impl Serialize) -> Self {
        let body = serde_json::to_vec(shape).expect("a shape has text for keys and no infinite number");
        Self { status, body: body.into() }
    }

    fn content_type(&self) -> Option<HeaderValue> {
        if self.body.is_empty() {
            return None;
        }
        let failed = self.status.is_client_error() || self.status.is_server_error();
        Some(HeaderValue::from_static(if failed { PROBLEM_JSON } else { "application/json" }))
    }
}

impl IntoResponse for ApiAnswer {
    fn into_response(self) -> Response {
        let content_type = self.content_type();
        let is_large = self.status.is_success() && self.body.len() >= compression::BYTES_MIN;
        let in_one_piece = is_large.then(|| InOnePiece(self.body.clone()));
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        if let Some(in_one_piece) = in_one_piece {
            response.extensions_mut().insert(in_one_piece);
        }
        if let Some(content_type) = content_type {
            response.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        if is_for_later(self.status) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        response
    }
}
