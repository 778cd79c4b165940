//! An answer that hands jobs over: they are their consumer's once the connection has taken the last
//! of it.
//!
//! An answer that is dropped before that - the consumer hung up, the connection broke - gives its
//! jobs back uncounted. A large one goes out in pieces, and the connection asks for the next one
//! when the sockets took those before. So a consumer that stops reading keeps no jobs
//! that it never read. A small one is as good as sent when it is asked for: the sockets take it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};

/// Bytes that the connection takes at a time.
const PIECE_BYTES: usize = 64 * 1_024;

/// A body that calls `taken` when its last byte is taken, and drops it otherwise.
pub fn body<F: FnOnce() + Send + Unpin + 'static>(bytes: Bytes, taken: F) -> Body {
    Body::new(HandOverBody { rest: bytes, taken: Some(taken) })
}

struct HandOverBody<F> {
    rest: Bytes,
    taken: Option<F>,
}

impl<F: FnOnce() + Unpin> HttpBody for HandOverBody<F> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let bytes = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(bytes);
        if self.rest.is_empty()
            && let Some(taken) = self.taken.take()
        {
            taken();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http_body_util::BodyExt;

    use super::*;

    fn watched(bytes: usize) -> (Body, Arc<AtomicBool>) {
        let told = Arc::new(AtomicBool::new(false));
        let taken = Arc::clone(&told);
        (body(vec![b'x'; bytes].into(), move || taken.store(true, Ordering::SeqCst)), told)
    }

    #[tokio::test]
    async fn jobs_are_handed_over_with_the_last_piece() {
        for (bytes, pieces) in [(1, 1), (PIECE_BYTES, 1), (PIECE_BYTES + 1, 2), (10 * PIECE_BYTES, 10)] {
            let (mut body, told) = watched(bytes);
            assert_eq!(body.size_hint().exact(), Some(bytes as u64));
            let mut read = 0;
            for piece in 1..=pieces {
                assert!(!told.load(Ordering::SeqCst), "{bytes} bytes, before piece {piece}");
                let frame = body.frame().await.expect("a piece").expect("never fails");
                read += frame.into_data().expect("data").len();
            }
            assert!(told.load(Ordering::SeqCst), "{bytes} bytes");
            assert_eq!((read, body.is_end_stream()), (bytes, true));
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_given_up_hands_nothing_over() {
        let (mut body, told) = watched(2 * PIECE_BYTES);
        let _first = body.frame().await;
        drop(body);
        assert!(!told.load(Ordering::SeqCst));
    }
}
