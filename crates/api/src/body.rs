//! A request body as the text that routes read their JSON from.

use axum::extract::{FromRequest, Request};
use base::Problem;
use base::limits::JSON_BODY_BYTES_MAX;
use net::body::whole;
use net::problem::Refused;
use net::shares::SenderKey;

use crate::ApiState;

/// A whole body, as text. What it is said to be in its content type does not matter: it is read as
/// JSON.
#[derive(Debug)]
pub(crate) struct Text(pub String);

impl FromRequest<ApiState> for Text {
    type Rejection = Refused;

    async fn from_request(request: Request, api: &ApiState) -> Result<Self, Refused> {
        let sender = SenderKey::of(request.extensions());
        let body = whole(request.into_body(), JSON_BODY_BYTES_MAX, &api.shared.memory_of_bodies, &sender);
        let text = String::from_utf8(body.await?.bytes.into())
            .map_err(|_| Problem::unreadable("the body is not UTF-8; it must be JSON"))?;
        Ok(Self(text))
    }
}
