//! Request bodies, read whole or in pieces, in bounded memory and bounded time.
//!
//! What edges can accept mostly fits in a small body. Larger ones are read so that they get a
//! proper answer, but only as the memory budget allows. Beyond it they are read more slowly.

use std::future::poll_fn;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use base::Problem;
use http_body_util::BodyExt;
use tokio::select;
use tokio::time::{Instant, timeout};

use crate::memory_budget::{FREE_BYTES, MemoryPart, MemoryReservation};
use crate::pace::{BYTES_PER_SECOND_MIN, PaceWatch, RECEIVING};
use crate::shares::SenderKey;

/// A sender may let us wait for this long altogether, and a second more for every so many bytes
/// that it sent. Otherwise one that sends a byte now and then could hold memory for as long as it
/// likes.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// A sender of many lines may take them from something slow.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(300);
/// The content type of a body of lines, each of them JSON.
const NDJSON: &str = "application/x-ndjson";

/// Whether a body is said to be lines of JSON: only with that very content type; parameters such
/// as a charset do not matter.
#[must_use]
pub fn is_ndjson(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(NDJSON)
}

/// A body as it comes.
#[derive(Debug)]
pub struct BodyPieces(Body);

impl BodyPieces {
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
        Ok(next_within(&mut self.0, STREAM_SILENCE_MAX, None).await?.map(|(piece, _)| piece))
    }
}

/// The next piece, and how long its sender let us wait for it: a frame without data says that the
/// wait until then was ours.
async fn next_within(
    body: &mut Body,
    wait_max: Duration,
    mut held: Option<&mut BodyReservation>,
) -> Result<Option<(Bytes, Duration)>, Problem> {
    loop {
        let began = Instant::now();
        let frame = async {
            match &mut held {
                None => Some(body.frame().await),
                Some(held) => select! {
                    biased;
                    frame = body.frame() => Some(frame),
                    () = held.is_too_slow() => None,
                },
            }
        };
        let frame = timeout(wait_max, frame).await.ok().flatten().ok_or_else(too_slow)?;
        let Some(frame) = frame.transpose().map_err(|error| broken_off(&error))? else { return Ok(None) };
        match (frame.into_data(), &mut held) {
            (Ok(piece), _) => return Ok(Some((piece, began.elapsed()))),
            (Err(_), Some(held)) => held.pace.excuse(),
            (Err(_), None) => {}
        }
    }
}

/// What a large body has of the budget. While others wait for that, its sender has to keep a pace.
struct BodyReservation {
    reservation: MemoryReservation,
    pace: PaceWatch,
}

impl BodyReservation {
    async fn is_too_slow(&mut self) {
        let from = self.reservation.taken_from();
        poll_fn(|cx| self.pace.poll_too_slow(cx, || from.is_wanted())).await;
    }
}

/// A whole body, with its memory.
#[derive(Debug)]
pub struct WholeBody {
    /// What came.
    pub bytes: Bytes,
    /// What a large one has of the budget, for as long as its bytes are needed, or what was read
    /// out of them. Whoever waits for more than a commit lets go of it first.
    pub held: Option<MemoryReservation>,
}

/// A whole body of at most `bytes_max`; a small one that comes in one piece is not copied. A large
/// one takes memory of the budget, and keeps what it turned out to need.
///
/// # Errors
/// `body_too_large`, `body_too_slow`, `busy` when there is no memory for it, or `unreadable` when
/// the sender breaks off.
pub async fn whole(
    mut body: Body,
    bytes_max: usize,
    memory: &MemoryPart,
    sender: &SenderKey,
) -> Result<WholeBody, Problem> {
    let size = body.size_hint();
    if size.lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let announced = size.exact().map_or(bytes_max, |bytes| bytes as usize);
    let (mut bytes, mut held) = (Vec::new(), None::<BodyReservation>);
    let mut waited = Duration::ZERO;
    loop {
        let left = wait_max(bytes.len()).saturating_sub(waited);
        let Some((data, waited_for)) = next_within(&mut body, left, held.as_mut()).await? else { break };
        // What we wait for memory is not the sender's fault.
        waited += waited_for;
        let length = bytes.len() + data.len();
        if length > bytes_max {
            return Err(too_large(bytes_max));
        }
        if bytes.is_empty() && length <= FREE_BYTES && body.is_end_stream() {
            return Ok(WholeBody { bytes: data, held: None });
        }
        if length > FREE_BYTES && held.is_none() {
            let reservation = memory.take_soon(sender, announced).await?;
            held = Some(BodyReservation { reservation, pace: PaceWatch::new(RECEIVING) });
            // The budget has these bytes already: reserving them saves growing and copying.
            if size.exact().is_some() {
                bytes.reserve_exact(announced.saturating_sub(bytes.len()));
            }
        }
        if let Some(held) = &mut held {
            held.pace.moved(data.len());
        }
        bytes.extend_from_slice(&data);
    }
    let held = held.map(|BodyReservation { mut reservation, .. }| {
        reservation.shrink(bytes.capacity());
        reservation
    });
    Ok(WholeBody { bytes: bytes.into(), held })
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
    use std::pin::pin;

    use base::limits::JSON_BODY_BYTES_MAX;
    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use futures_util::stream::{self, StreamExt};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::time::{pause, sleep};

    use super::*;
    use crate::memory_budget::{MemoryBudget, PART_BYTES, Purpose, SENDER_BYTES};

    /// A body of so many chunks of one KiB, one after each pause, after which nothing comes any
    /// more.
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
        let (memory, sender) = (MemoryBudget::default().part(Purpose::Bodies), SenderKey::Unknown);
        for (kib, every_ms, expect_secs) in
            [(0, 0, 30), (1, 0, 30), (65, 0, 34), (10_000, 1_000, 31), (10_000, 60, 655)]
        {
            let start = Instant::now();
            let body = trickles(kib, Duration::from_millis(every_ms));
            let read = whole(body, JSON_BODY_BYTES_MAX, &memory, &sender).await;
            let refused = read.map_err(|problem| (problem.status, problem.code)).err();
            assert_eq!(refused, Some((408, "body_too_slow")), "{kib} KiB every {every_ms} ms");
            assert_eq!(start.elapsed().as_secs(), expect_secs, "{kib} KiB every {every_ms} ms");
        }
        assert_eq!(memory.free_bytes(), PART_BYTES);
    }

    #[tokio::test]
    async fn small_bodies_do_not_wait_for_large_ones() {
        let (memory, sender) = (MemoryBudget::default().part(Purpose::Bodies), SenderKey::Unknown);
        let read = |bytes: usize| whole(Body::from(" ".repeat(bytes)), JSON_BODY_BYTES_MAX, &memory, &sender);
        let all = memory.take(&sender, PART_BYTES).await;
        assert_eq!(read(FREE_BYTES).await.map(|read| read.bytes.len()), Ok(FREE_BYTES));
        let mut large = pin!(read(FREE_BYTES + 1));
        assert!(large.as_mut().now_or_never().is_none(), "a large body waits for memory");
        drop(all);
        assert_eq!(large.await.map(|read| read.bytes.len()), Ok(FREE_BYTES + 1));
    }

    #[tokio::test]
    async fn a_large_body_has_its_memory_for_as_long_as_it_is_needed() {
        let (memory, sender) = (MemoryBudget::default().part(Purpose::Bodies), SenderKey::Unknown);
        let announced = || Body::from(" ".repeat(JSON_BODY_BYTES_MAX));
        let piece = |_| Ok::<_, Infallible>(vec![b' '; FREE_BYTES]);
        let pieces = || Body::from_stream(stream::iter((0..3).map(piece)));
        let taken = || PART_BYTES - memory.free_bytes();
        for (body, bytes, most) in [
            (announced(), JSON_BODY_BYTES_MAX, JSON_BODY_BYTES_MAX),
            // What it takes is what its buffer has, and not the largest body.
            (pieces(), 3 * FREE_BYTES, 6 * FREE_BYTES),
            (Body::from("{}"), 0, 0),
        ] {
            let WholeBody { bytes: read, held } =
                whole(body, JSON_BODY_BYTES_MAX, &memory, &sender).await.expect("a whole body");
            drop(read);
            assert!((bytes..=most).contains(&taken()), "{bytes}: {}", taken());
            drop(held);
            assert_eq!(taken(), 0, "{bytes}");
        }
    }

    #[tokio::test]
    async fn while_large_bodies_are_needed_the_next_one_is_refused() {
        pause();
        let (memory, sender) = (MemoryBudget::default().part(Purpose::Bodies), SenderKey::Unknown);
        let read = |bytes: usize| whole(Body::from(" ".repeat(bytes)), JSON_BODY_BYTES_MAX, &memory, &sender);
        let mut needed = Vec::new();
        for _ in 0..SENDER_BYTES / JSON_BODY_BYTES_MAX {
            needed.push(read(JSON_BODY_BYTES_MAX).await.expect("there is memory"));
        }
        let refused = read(FREE_BYTES + 1).await.err();
        assert_eq!(refused.map(|problem| (problem.status, problem.code)), Some((503, "busy")));
        assert!(read(FREE_BYTES).await.is_ok(), "a small one needs none");
        needed.pop();
        assert!(read(JSON_BODY_BYTES_MAX).await.is_ok());
    }

    #[tokio::test]
    async fn who_sends_little_of_a_large_body_is_given_up_once_others_wait() {
        pause();
        let (memory, sender) = (MemoryBudget::default().part(Purpose::Bodies), SenderKey::Unknown);
        let body = || {
            let begun = stream::iter([Ok::<_, Infallible>(vec![b' '; FREE_BYTES + 1])]);
            Body::from_stream(begun.chain(stream::pending()))
        };
        let large: Vec<_> = (0..SENDER_BYTES / JSON_BODY_BYTES_MAX)
            .map(|_| whole(body(), JSON_BODY_BYTES_MAX, &memory, &sender))
            .collect();
        let start = Instant::now();
        let waits = async {
            drop(memory.take(&sender, FREE_BYTES).await);
            start.elapsed()
        };
        let (ended, waited) = tokio::join!(join_all(large), waits);
        assert!(ended.iter().all(|read| read.as_ref().is_err_and(|problem| problem.code == "body_too_slow")));
        assert!(waited <= 2 * RECEIVING.every, "{waited:?}");
    }

    #[tokio::test]
    async fn a_wait_that_is_ours_is_not_the_senders() {
        pause();
        let frames = stream::iter(0..=100).then(|n| async move {
            sleep(Duration::from_secs(1)).await;
            let nothing = || Frame::trailers(HeaderMap::new());
            Ok::<_, Infallible>(if n < 100 { nothing() } else { Frame::data(Bytes::from("{}")) })
        });
        let (memory, sender) = (MemoryBudget::default().part(Purpose::Bodies), SenderKey::Unknown);
        let read = |body| whole(body, JSON_BODY_BYTES_MAX, &memory, &sender);
        let body = Body::new(StreamBody::new(Box::pin(frames)));
        assert!(read(body).await.is_ok_and(|read| read.bytes == "{}"));
        let why = Problem::new(408, "body_too_slow", "others wait");
        let failing = Body::from_stream(stream::iter([Err::<Bytes, _>(why.clone())]));
        assert_eq!(read(failing).await.err(), Some(why));
    }

    #[tokio::test]
    async fn a_slow_sender_that_keeps_the_pace_is_read_to_the_end() {
        pause();
        let pieces = stream::unfold(1_000, |left| async move {
            sleep(Duration::from_secs(1)).await;
            (left > 0).then(|| (Ok::<_, Infallible>(vec![b' '; BYTES_PER_SECOND_MIN]), left - 1))
        });
        let body = Body::from_stream(pieces);
        let memory = MemoryBudget::default().part(Purpose::Bodies);
        let read = whole(body, JSON_BODY_BYTES_MAX, &memory, &SenderKey::Unknown).await;
        assert_eq!(read.map(|read| read.bytes.len()), Ok(1_000 * BYTES_PER_SECOND_MIN));
    }
}
