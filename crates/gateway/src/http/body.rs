//! Bodies in bounded memory and bounded time.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use base::Problem;
use base::limits::JSON_BODY_BYTES_MAX;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Refused;

/// A whole body up to this size is read without asking; every report that can be accepted fits in it.
const SMALL_BODY_BYTES_MAX: usize = 64 * 1_024;
/// Larger whole bodies in memory at the same time; the others are read more slowly.
const LARGE_BODIES_MAX: usize = 8;
/// A sender of one object is given up when nothing comes for this long.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// A sender of NDJSON may take its lines from something slow.
pub(super) const STREAM_SILENCE_MAX: Duration = Duration::from_secs(300);

/// The places for large bodies.
#[derive(Debug)]
pub(super) struct LargeBodies(Semaphore);

impl Default for LargeBodies {
    fn default() -> Self {
        Self(Semaphore::new(LARGE_BODIES_MAX))
    }
}

/// Reads a body that is one JSON object.
pub(super) async fn whole(mut body: Body, large: &LargeBodies) -> Result<Vec<u8>, Refused> {
    if body.size_hint().lower() > JSON_BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut place = None;
    while let Some(piece) = next(&mut body, SILENCE_MAX).await? {
        let length = bytes.len() + piece.len();
        if length > JSON_BODY_BYTES_MAX {
            return Err(too_large());
        }
        if length > SMALL_BODY_BYTES_MAX && place.is_none() {
            place = Some(large.0.acquire().await.expect("the places are never closed"));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The next piece of a body; `None` at its end. Dropping this before it is ready loses nothing.
pub(super) async fn next(body: &mut Body, silence_max: Duration) -> Result<Option<Bytes>, Refused> {
    loop {
        let frame = timeout(silence_max, body.frame()).await.map_err(|_| too_slow(silence_max))?;
        let Some(frame) = frame.transpose().map_err(|error| broken_off(&error))? else { return Ok(None) };
        if let Ok(piece) = frame.into_data() {
            return Ok(Some(piece));
        }
    }
}

fn too_large() -> Refused {
    let detail = format!("a JSON body has at most {JSON_BODY_BYTES_MAX} bytes; send many reports as NDJSON");
    Refused::NotTaken("too_large", Problem::new(413, "body_too_large", detail))
}

fn too_slow(silence_max: Duration) -> Refused {
    let detail = format!("nothing of the body came for {} s", silence_max.as_secs());
    Refused::NotTaken("too_slow", Problem::new(408, "body_too_slow", detail))
}

/// The sender is gone, so nobody will read this; it names the request in a log of the layer above.
fn broken_off(error: &axum::Error) -> Refused {
    Refused::NotTaken("broken_off", Problem::unreadable(format!("the body broke off: {error}")))
}
