//! Request bodies: read whole, up to the limit of a JSON body, in bounded memory and bounded time.
//!
//! What the API can accept fits in a small body; larger ones are read so that they get a proper answer, but only a few
//! at a time: the others are read more slowly.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use base::limits::JSON_BODY_BYTES_MAX;
use base::{Problem, duration};
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
/// A sender of many lines may take them from something slow.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(300);

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
        Ok(Self(read(request.into_body(), &api.shared.large_bodies, SILENCE_MAX).await?))
    }
}

/// A body as it comes.
#[derive(Debug)]
pub(crate) struct Pieces {
    body: Body,
    silence_max: Duration,
}

impl Pieces {
    /// Of a request whose sender may take them from something slow.
    pub(crate) fn of(request: Request) -> Self {
        Self { body: request.into_body(), silence_max: STREAM_SILENCE_MAX }
    }

    /// The next piece; `None` at the end. Dropping this before it is ready loses nothing.
    ///
    /// # Errors
    /// `unreadable` when the sender breaks off, `body_too_slow` when nothing comes.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let frame = timeout(self.silence_max, self.body.frame());
            let Some(frame) = frame.await.map_err(|_| silent(self.silence_max))? else { return Ok(None) };
            if let Ok(piece) = frame.map_err(|error| broken_off(&error))?.into_data() {
                return Ok(Some(piece));
            }
        }
    }
}

async fn read(body: Body, large_bodies: &LargeBodies, silence_max: Duration) -> Result<String, Problem> {
    if body.size_hint().lower() > JSON_BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut place = None;
    let mut pieces = Pieces { body, silence_max };
    while let Some(data) = pieces.next().await? {
        if bytes.len() + data.len() > JSON_BODY_BYTES_MAX {
            return Err(too_large());
        }
        if bytes.len() + data.len() > SMALL_BODY_BYTES_MAX && place.is_none() {
            place = Some(large_bodies.0.acquire().await.expect("the places are never closed"));
        }
        bytes.extend_from_slice(&data);
    }
    String::from_utf8(bytes).map_err(|_| Problem::unreadable("the body is not UTF-8; it must be JSON"))
}

fn broken_off(error: &axum::Error) -> Problem {
    Problem::unreadable(format!("the body broke off: {error}"))
}

fn too_large() -> Problem {
    let detail = format!("the body is larger than {JSON_BODY_BYTES_MAX} bytes, the most that is read");
    Problem::new(413, "body_too_large", detail)
}

fn silent(silence_max: Duration) -> Problem {
    let detail = format!("nothing of the body came for {}", duration::format(silence_max));
    Problem::new(408, "body_too_slow", detail)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream::{self, StreamExt};

    use super::*;

    /// A body of so many KiB in chunks of one, after which nothing comes any more.
    fn stalls_after(kib: usize) -> Body {
        let chunk = || Ok::<_, Infallible>(Bytes::from_static(&[b' '; 1_024]));
        Body::from_stream(stream::iter((0..kib).map(move |_| chunk())).chain(stream::pending()))
    }

    #[tokio::test]
    async fn a_sender_that_stops_is_given_up() {
        let large_bodies = LargeBodies::default();
        for kib in [0, 1, 65] {
            let read = read(stalls_after(kib), &large_bodies, Duration::from_millis(1)).await;
            let refused = read.map_err(|problem| (problem.status, problem.code));
            assert_eq!(refused, Err((408, "body_too_slow")), "after {kib} KiB");
        }
        assert_eq!(large_bodies.0.available_permits(), LARGE_BODIES_MAX);
    }

    #[tokio::test]
    async fn small_bodies_do_not_wait_for_large_ones() {
        let large_bodies = LargeBodies(Semaphore::new(0));
        let read = |bytes: usize| read(Body::from(" ".repeat(bytes)), &large_bodies, SILENCE_MAX);
        assert_eq!(read(SMALL_BODY_BYTES_MAX).await.map(|text| text.len()), Ok(SMALL_BODY_BYTES_MAX));
        let large = tokio::select! {
            biased;
            read = read(SMALL_BODY_BYTES_MAX + 1) => Some(read),
            () = std::future::ready(()) => None,
        };
        assert_eq!(large, None, "a large body waits for its place");
    }
}
