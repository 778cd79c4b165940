//! Request bodies, read whole or in pieces, in bounded memory and bounded time.
//!
//! What edges can accept mostly fits in a small body; larger ones are read so that they get a proper answer, but only
//! a few at a time: the others are read more slowly.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use base::Problem;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// A body up to this size is read without asking; every object that can be accepted fits in it.
const SMALL_BODY_BYTES_MAX: usize = 64 * 1_024;
/// Larger bodies in memory at the same time; so they take at most this many times 16 MiB.
const LARGE_BODIES_MAX: usize = 8;
/// A sender may let us wait for this long altogether, and a second more for every so many bytes that it sent: otherwise somebody
/// who sends a byte now and then could hold one of the places above for as long as he likes.
const WAIT_MAX: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND_MIN: usize = 16 * 1_024;
/// A sender of many lines may take them from something slow.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(300);

/// The places for large bodies.
#[derive(Debug)]
pub struct LargeBodies(Semaphore);

impl Default for LargeBodies {
    fn default() -> Self {
        Self(Semaphore::new(LARGE_BODIES_MAX))
    }
}

/// A body as it comes.
#[derive(Debug)]
pub struct Pieces(Body);

impl Pieces {
    /// Of a sender that may take them from something slow.
    #[must_use]
    pub fn of(body: Body) -> Self {
        Self(body)
    }

    /// The next piece; `None` at the end. Dropping this before it is ready loses nothing.
    ///
    /// # Errors
    /// `unreadable` when the sender breaks off, `body_too_slow` when nothing comes.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        Ok(next_within(&mut self.0, STREAM_SILENCE_MAX).await?.map(|(piece, _)| piece))
    }
}

/// The next piece, and how long its sender let us wait for it: a frame without data says that the wait
/// until then was ours.
async fn next_within(body: &mut Body, wait_max: Duration) -> Result<Option<(Bytes, Duration)>, Problem> {
    loop {
        let began = Instant::now();
        let frame = timeout(wait_max, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame.transpose().map_err(|error| broken_off(&error))? else { return Ok(None) };
        if let Ok(piece) = frame.into_data() {
            return Ok(Some((piece, began.elapsed())));
        }
    }
}

/// A whole body of at most `bytes_max`; a small one that comes in one piece is not copied.
///
/// # Errors
/// `body_too_large`, `body_too_slow`, or `unreadable` when the sender breaks off.
pub async fn whole(mut body: Body, bytes_max: usize, large_bodies: &LargeBodies) -> Result<Bytes, Problem> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let mut bytes = Vec::new();
    let mut place = None;
    let mut waited = Duration::ZERO;
    loop {
        let left = wait_max(bytes.len()).saturating_sub(waited);
        let Some((data, waited_for)) = next_within(&mut body, left).await? else { break };
        // What we wait for a place is not the sender's fault.
        waited += waited_for;
        if bytes.len() + data.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        if bytes.is_empty() && data.len() <= SMALL_BODY_BYTES_MAX && body.is_end_stream() {
            return Ok(data);
        }
        if bytes.len() + data.len() > SMALL_BODY_BYTES_MAX && place.is_none() {
            place = Some(large_bodies.0.acquire().await.expect("the places are never closed"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
}

fn broken_off(error: &axum::Error) -> Problem {
    if let Some(problem) = Problem::behind(error) {
        return problem.clone();
    }
    Problem::unreadable(format!("the body broke off: {error}"))
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("the body is larger than {bytes_max} bytes, the most that is read");
    Problem::new(413, "body_too_large", detail)
}

/// How long the sender of so many bytes may have let us wait.
fn wait_max(bytes: usize) -> Duration {
    WAIT_MAX + Duration::from_secs((bytes / BYTES_PER_SECOND_MIN) as u64)
}

fn too_slow() -> Problem {
    Problem::new(408, "body_too_slow", "nothing of the body came for a while, or very little altogether")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::http::HeaderMap;
    use base::limits::JSON_BODY_BYTES_MAX;
    use futures_util::stream::{self, StreamExt};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::time::{pause, sleep};

    use super::*;

    /// A body of so many chunks of one KiB, one after each pause, after which nothing comes any more.
    fn trickles(kib: usize, every: Duration) -> Body {
        let chunks = stream::unfold(kib, move |left| async move {
            sleep(every).await;
            (left > 0).then(|| (Ok::<_, Infallible>(Bytes::from_static(&[b' '; 1_024])), left - 1))
        });
        Body::from_stream(chunks.chain(stream::pending()))
    }

    #[tokio::test]
    async fn a_sender_that_stops_or_trickles_is_given_up() {
        pause();
        let large_bodies = LargeBodies::default();
        for (kib, every_ms, expect_secs) in
            [(0, 0, 30), (1, 0, 30), (65, 0, 34), (10_000, 1_000, 31), (10_000, 60, 655)]
        {
            let start = Instant::now();
            let body = trickles(kib, Duration::from_millis(every_ms));
            let read = whole(body, JSON_BODY_BYTES_MAX, &large_bodies).await;
            let refused = read.map_err(|problem| (problem.status, problem.code));
            assert_eq!(refused, Err((408, "body_too_slow")), "{kib} KiB every {every_ms} ms");
            assert_eq!(start.elapsed().as_secs(), expect_secs, "{kib} KiB every {every_ms} ms");
        }
        assert_eq!(large_bodies.0.available_permits(), LARGE_BODIES_MAX);
    }

    #[tokio::test]
    async fn small_bodies_do_not_wait_for_large_ones() {
        let large_bodies = LargeBodies(Semaphore::new(0));
        let read = |bytes: usize| whole(Body::from(" ".repeat(bytes)), JSON_BODY_BYTES_MAX, &large_bodies);
        assert_eq!(read(SMALL_BODY_BYTES_MAX).await.map(|bytes| bytes.len()), Ok(SMALL_BODY_BYTES_MAX));
        let large = tokio::select! {
            biased;
            read = read(SMALL_BODY_BYTES_MAX + 1) => Some(read),
            () = std::future::ready(()) => None,
        };
        assert_eq!(large, None, "a large body waits for its place");
    }

    #[tokio::test]
    async fn a_wait_that_is_ours_is_not_the_senders() {
        pause();
        let frames = stream::iter(0..=100).then(|n| async move {
            sleep(Duration::from_secs(1)).await;
            let nothing = || Frame::trailers(HeaderMap::new());
            Ok::<_, Infallible>(if n < 100 { nothing() } else { Frame::data(Bytes::from("{}")) })
        });
        let large_bodies = LargeBodies::default();
        let read = |body| whole(body, JSON_BODY_BYTES_MAX, &large_bodies);
        let body = Body::new(StreamBody::new(Box::pin(frames)));
        assert!(read(body).await.is_ok_and(|read| read == "{}"));
        let why = Problem::new(408, "body_too_slow", "others wait");
        let failing = Body::from_stream(stream::iter([Err::<Bytes, _>(why.clone())]));
        assert_eq!(read(failing).await, Err(why));
    }

    #[tokio::test]
    async fn a_slow_sender_that_keeps_the_pace_is_read_to_the_end() {
        pause();
        let pieces = stream::unfold(1_000, |left| async move {
            sleep(Duration::from_secs(1)).await;
            (left > 0).then(|| (Ok::<_, Infallible>(vec![b' '; BYTES_PER_SECOND_MIN]), left - 1))
        });
        let body = Body::from_stream(pieces);
        let read = whole(body, JSON_BODY_BYTES_MAX, &LargeBodies::default()).await;
        assert_eq!(read.map(|read| read.len()), Ok(1_000 * BYTES_PER_SECOND_MIN));
    }
}
