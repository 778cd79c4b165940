//! What a refused request has not sent yet: it is read and thrown away for a while, so that the
//! sender gets to the answer.
//!
//! A connection that is closed while its sender still writes is reset, and a reset takes the answer
//! with it. The sender would see a broken connection where it was told "too large". So whoever
//! leaves a body unread leaves it here. What is read is bounded in bytes and in time, and so is how
//! many are read at the same time. Beyond that the connection is closed as it is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::EXPECT;
use base::limits::JSON_BODY_BYTES_MAX;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Most that is thrown away of a body: a few times what a body may have.
const BYTES_MAX: usize = 4 * JSON_BODY_BYTES_MAX;
/// Longest time for which that is done.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Bodies that are thrown away at the same time.
const BODIES_MAX: usize = 64;

/// The places for bodies that are thrown away.
#[derive(Debug)]
pub struct BodyDrain(Arc<Semaphore>);

impl Default for BodyDrain {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BODIES_MAX)))
    }
}

impl BodyDrain {
    /// Whatever is left of the body will be thrown away.
    ///
    /// A sender that asks first (`Expect: 100-continue`) has not begun, and need not be read to be
    /// told no.
    #[must_use]
    pub fn watching(&self, request: Request) -> Request {
        if request.body().is_end_stream() || request.headers().contains_key(EXPECT) {
            return request;
        }
        let places = Arc::clone(&self.0);
        request.map(|body| Body::new(DrainedBody { body, places }))
    }
}

/// A body that is not simply dropped where it is not read to its end.
struct DrainedBody {
    body: Body,
    places: Arc<Semaphore>,
}

impl HttpBody for DrainedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            return;
        }
        // Outside of the runtime, or with every place taken, the connection is closed as it is.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return };
        let body = std::mem::take(&mut self.body);
        runtime.spawn(async move {
            let _place = place;
            // Late or not, this is the end of it.
            let _too_slow = timeout(TIME_MAX, throw_away(body)).await;
        });
    }
}

/// Reads until the end, the limit or an error; how much it was.
async fn throw_away(mut body: Body) -> usize {
    let mut bytes = 0;
    while bytes < BYTES_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::stream;
    use tokio::sync::Notify;

    use super::*;

    /// A body of so many MiB, a counter of those that were read, and a signal for when the body is
    /// dropped.
    fn counted(mib: usize) -> (Body, Arc<AtomicUsize>, Arc<Notify>) {
        struct NotifyOnDrop(Arc<Notify>);
        impl Drop for NotifyOnDrop {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        let (read, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (counter, told) = (Arc::clone(&read), NotifyOnDrop(Arc::clone(&dropped)));
        let chunks = stream::iter((0..mib).map(move |_| {
            let _held = &told;
            counter.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Bytes::from(vec![b' '; 1_024 * 1_024]))
        }));
        (Body::from_stream(chunks), read, dropped)
    }

    #[tokio::test]
    async fn what_is_left_is_read_up_to_a_limit() {
        for (mib, expect) in [(0, 0), (3, 3), (64, 64), (1_000, 64)] {
            let (body, read, dropped) = counted(mib);
            drop(DrainedBody { body, places: Arc::new(Semaphore::new(1)) });
            dropped.notified().await;
            assert_eq!(read.load(Ordering::SeqCst), expect, "of {mib} MiB");
        }
    }

    #[tokio::test]
    async fn with_every_place_taken_nothing_is_read() {
        let (body, read, dropped) = counted(3);
        drop(DrainedBody { body, places: Arc::new(Semaphore::new(0)) });
        dropped.notified().await;
        assert_eq!(read.load(Ordering::SeqCst), 0);
    }
}
