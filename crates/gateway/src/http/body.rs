//! Bodies in bounded memory and bounded time.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use base::Problem;
use base::limits::JSON_BODY_BYTES_MAX;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::Refused;

/// A whole body up to this size is read without asking; every report that can be accepted fits in it.
const SMALL_BODY_BYTES_MAX: usize = 64 * 1_024;
/// Larger whole bodies in memory at the same time; the others are read more slowly.
const LARGE_BODIES_MAX: usize = 8;
/// A sender of one object may let us wait for this long altogether, and a second more for every so many bytes that it sent:
/// otherwise somebody who sends a byte now and then could hold one of the places above for as long as he likes.
const WAIT_MAX: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND_MIN: usize = 16 * 1_024;
/// A sender of NDJSON may take its lines from something slow.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(300);

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
    let mut waited = Duration::ZERO;
    loop {
        let left = wait_max(bytes.len()).saturating_sub(waited);
        let Some((piece, waited_for)) = next_within(&mut body, left).await? else { return Ok(bytes) };
        // What we wait for a place is not the sender's fault.
        waited += waited_for;
        let length = bytes.len() + piece.len();
        if length > JSON_BODY_BYTES_MAX {
            return Err(too_large());
        }
        if length > SMALL_BODY_BYTES_MAX && place.is_none() {
            place = Some(large.0.acquire().await.expect("the places are never closed"));
        }
        bytes.extend_from_slice(&piece);
    }
}

/// How long the sender of so many bytes may have let us wait.
fn wait_max(bytes: usize) -> Duration {
    WAIT_MAX + Duration::from_secs((bytes / BYTES_PER_SECOND_MIN) as u64)
}

/// The next piece of an NDJSON body; `None` at its end. Dropping this before it is ready loses nothing.
pub(super) async fn next(body: &mut Body) -> Result<Option<Bytes>, Refused> {
    Ok(next_within(body, STREAM_SILENCE_MAX).await?.map(|(piece, _)| piece))
}

/// The next piece, and how long its sender let us wait for it: a frame without data says that the wait
/// until then was ours.
async fn next_within(body: &mut Body, wait_max: Duration) -> Result<Option<(Bytes, Duration)>, Refused> {
    loop {
        let began = Instant::now();
        let frame = timeout(wait_max, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame.transpose().map_err(|error| broken_off(&error))? else { return Ok(None) };
        if let Ok(piece) = frame.into_data() {
            return Ok(Some((piece, began.elapsed())));
        }
    }
}

fn too_large() -> Refused {
    let detail = format!("a JSON body has at most {JSON_BODY_BYTES_MAX} bytes; send many reports as NDJSON");
    Refused::NotTaken("too_large", Problem::new(413, "body_too_large", detail))
}

fn too_slow() -> Refused {
    let detail = "nothing of the body came for a while, or very little altogether";
    Refused::NotTaken("too_slow", Problem::new(408, "body_too_slow", detail))
}

/// The sender is gone, so nobody will read this; it names the request in a log of the layer above.
fn broken_off(error: &axum::Error) -> Refused {
    if let Some(problem) = Problem::behind(error) {
        return Refused::NotTaken("too_slow", problem.clone());
    }
    Refused::NotTaken("broken_off", Problem::unreadable(format!("the body broke off: {error}")))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::http::HeaderMap;
    use futures_util::stream::{self, StreamExt};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::time::{pause, sleep};

    use super::*;

    /// So many pieces, one after each pause.
    fn trickles(pieces: usize, bytes: usize, every: Duration) -> Body {
        Body::from_stream(stream::unfold(pieces, move |left| async move {
            sleep(every).await;
            (left > 0).then(|| (Ok::<_, Infallible>(Bytes::from(vec![b' '; bytes])), left - 1))
        }))
    }

    #[tokio::test]
    async fn a_wait_that_is_ours_is_not_the_senders() {
        pause();
        let frames = stream::iter(0..=100).then(|n| async move {
            sleep(Duration::from_secs(1)).await;
            let nothing = || Frame::trailers(HeaderMap::new());
            Ok::<_, Infallible>(if n < 100 { nothing() } else { Frame::data(Bytes::from("{}")) })
        });
        let read = whole(Body::new(StreamBody::new(Box::pin(frames))), &LargeBodies::default()).await;
        assert!(read.is_ok_and(|read| read == b"{}"));
        let why = Problem::new(408, "body_too_slow", "others wait");
        let failing = Body::from_stream(stream::iter([Err::<Bytes, _>(why.clone())]));
        let refused = whole(failing, &LargeBodies::default()).await;
        assert!(matches!(refused, Err(Refused::NotTaken("too_slow", problem)) if problem == why));
    }

    #[tokio::test]
    async fn a_sender_that_trickles_is_given_up_and_a_slow_one_is_not() {
        pause();
        for (pieces, bytes, every, expect) in [
            (28, 1, 1, Ok(28)),
            (60, 1, 1, Err("too_slow")),
            (2, 1, 29, Err("too_slow")),
            (1_000, BYTES_PER_SECOND_MIN, 1, Ok(1_000 * BYTES_PER_SECOND_MIN)),
            (1_000, BYTES_PER_SECOND_MIN / 2, 1, Err("too_slow")),
        ] {
            let body = trickles(pieces, bytes, Duration::from_secs(every));
            let read = match whole(body, &LargeBodies::default()).await {
                Ok(read) => Ok(read.len()),
                Err(Refused::NotTaken(result, _)) => Err(result),
                Err(Refused::Report(problem)) => Err(problem.code),
            };
            assert_eq!(read, expect, "{pieces} x {bytes} every {every} s");
        }
    }
}
