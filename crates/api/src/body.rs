//! A request body as the text that routes read their JSON from.

use std::ops::Deref;

use axum::extract::{FromRequest, Request};
use base::Problem;
use base::limits::JSON_BODY_BYTES_MAX;
use net::body::{WholeBody, whole};
use net::memory_budget::MemoryReservation;
use net::problem::Refused;
use net::shares::SenderKey;

use crate::ApiState;

/// A whole body, as text, with its memory of the budget. What it is said to be in its content type
/// does not matter: it is read as JSON.
///
/// A route has it, or at least its memory, until its answer is known. One that waits for more than
/// a commit drops it before.
#[derive(Debug)]
pub(crate) struct Text {
    text: String,
    held: Option<MemoryReservation>,
}

impl Text {
    /// Lets the text go. Its memory is for what was read out of it.
    #[must_use]
    pub(crate) fn into_memory(self) -> Option<MemoryReservation> {
        self.held
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl FromRequest<ApiState> for Text {
    type Rejection = Refused;

    async fn from_request(request: Request, api: &ApiState) -> Result<Self, Refused> {
        let sender = SenderKey::of(request.extensions());
        let body = whole(request.into_body(), JSON_BODY_BYTES_MAX, &api.shared.memory_of_bodies, &sender);
        let WholeBody { bytes, held } = body.await?;
        let text = String::from_utf8(bytes.into())
            .map_err(|_| Problem::unreadable("the body is not UTF-8; it must be JSON"))?;
        Ok(Self { text, held })
    }
}
