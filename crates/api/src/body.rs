//! Request bodies: read whole, up to the limit of a JSON body, in bounded memory and bounded time.
//!
//! What the API can accept fits in a small body; larger ones are read so that they get a proper answer, but only a few
//! at a time: the others are read more slowly.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use base::Problem;
use base::limits::JSON_BODY_BYTES_MAX;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::ApiState;
use crate::problem::Refused;

/// A body up to this size is read without asking; every object that can be accepted fits in it.
const SMALL_BODY_BYTES_MAX: usize = 64 * 1_024;
/// Larger bodies in memory at the same time; so they take at most this many times 16 MiB.
const LARGE_BODIES_MAX: usize = 8;
/// A sender that sends nothing for this long is given up: it may hold one of the places above.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The places for large bodies.
#[derive(Debug)]
pub(crate) struct LargeBodies(Semaphore);

impl Default for LargeBodies {
    fn default() -> Self {
        Self(Semaphore::new(LARGE_BODIES_MAX))
    }
}

/// A whole body, as text. What it is said to be in its content type does not matter: it is read as JSON.
#[derive(Debug)]
pub(crate) struct Text(pub String);

impl FromRequest<ApiState> for Text {
    type Rejection = Refused;

    async fn from_request(request: Request, api: &ApiState) -> Result<Self, Refused> {
        Ok(Self(read(request.into_body(), &api.shared.large_bodies).await?))
    }
}

async fn read(mut body: Body, large_bodies: &LargeBodies) -> Result<String, Problem> {
    if body.size_hint().lower() > JSON_BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut place = None;
    while let Some(frame) = timeout(SILENCE_MAX, body.frame()).await.map_err(|_| silent())? {
        let frame = frame.map_err(|error| Problem::unreadable(format!("the body broke off: {error}")))?;
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len() + data.len() > JSON_BODY_BYTES_MAX {
            return Err(too_large());
        }
        if bytes.len() + data.len() > SMALL_BODY_BYTES_MAX && place.is_none() {
            place = Some(large_bodies.0.acquire().await.expect("the places are never closed"));
        }
        bytes.extend_from_slice(data);
    }
    String::from_utf8(bytes).map_err(|_| Problem::unreadable("the body is not UTF-8; it must be JSON"))
}

fn too_large() -> Problem {
    let detail = format!("the body is larger than {JSON_BODY_BYTES_MAX} bytes, the most that is read");
    Problem::new(413, "body_too_large", detail)
}

fn silent() -> Problem {
    let detail = format!("nothing of the body came for {} s", SILENCE_MAX.as_secs());
    Problem::new(408, "body_too_slow", detail)
}
