//! Answers being sent: a connection takes them in pieces, and their memory is counted until the
//! last piece is sent.
//!
//! A connection that is handed a large answer whole would hold it for a caller that reads nothing,
//! uncounted. So a large answer stays in its body until the socket has taken the pieces before. All
//! large answers share a limit. At the limit a caller gets 503, and jobs leased for the answer are
//! given back.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use base::Problem;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::answer;

/// An answer up to this size is as good as sent when it is made: the sockets take it. Of a larger one a connection takes so much
/// at a time.
pub(super) const PIECE_BYTES: usize = 64 * 1_024;
/// Memory of all large answers of a known size that are on their way, in bytes: twice what pages of lists may take, which have a
/// limit of their own.
const BYTES_MAX: usize = 256 * 1_024 * 1_024;

/// The large answers of all listeners that share this.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    held_bytes: AtomicUsize,
    held: Gauge,
    refused: Counter,
}

impl Answers {
    /// Puts its figures into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let help = "Memory of answers over 64 KiB that are on their way";
        registry.register("fieldpost_http_answer_held_bytes", help, self.0.held.clone());
        let help = "Answers that were given up because those on their way take all the memory that they may";
        registry.register("fieldpost_http_answers_refused", help, self.0.refused.clone());
    }

    /// The answer as it is sent. `until_sent` is dropped when it is, or is given up.
    pub(super) fn send<T: Send + Unpin + 'static>(&self, response: Response, until_sent: T) -> Response {
        let size = response.body().size_hint();
        if size.upper().is_some_and(|bytes| bytes <= PIECE_BYTES as u64) {
            return response;
        }
        let whole = match size.exact().map(|bytes| self.take(usize::try_from(bytes).unwrap_or(usize::MAX))) {
            None => None,
            Some(Some(share)) => Some(Arc::new(share)),
            Some(None) => {
                self.0.refused.inc();
                let detail = "answers that callers do not read take all the memory there is for them; try again in a moment";
                return answer::problem(&Problem::new(503, "busy", detail));
            }
        };
        let answers = self.clone();
        response.map(|body| {
            Body::new(Pieces {
                body,
                rest: Bytes::new(),
                whole,
                share: None,
                answers,
                _until_sent: until_sent,
            })
        })
    }

    /// So much, if there is room. What is larger than all of it goes alone.
    fn take(&self, bytes: usize) -> Option<Share> {
        let fits = |held: usize| {
            let sum = held.checked_add(bytes)?;
            (sum <= BYTES_MAX || held == 0).then_some(sum)
        };
        let taken = self.0.held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.ok().map(|_| self.share(bytes))
    }

    /// So much of what is there already, and has a limit elsewhere.
    fn add(&self, bytes: usize) -> Share {
        self.0.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.share(bytes)
    }

    fn share(&self, bytes: usize) -> Share {
        self.0.held.inc_by(bytes as i64);
        Share { answers: Arc::clone(&self.0), bytes }
    }
}

/// Counted as long as this lives.
#[derive(Debug)]
struct Share {
    answers: Arc<Shared>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.answers.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.answers.held.dec_by(self.bytes as i64);
    }
}

/// A body that is given out in pieces.
struct Pieces<T> {
    body: Body,
    /// What is left of the frame that the body gave.
    rest: Bytes,
    /// Of an answer whose size is known: all pieces are parts of one memory.
    whole: Option<Arc<Share>>,
    /// Of the frame, where the size of the whole is not known.
    share: Option<Arc<Share>>,
    answers: Answers,
    _until_sent: T,
}

impl<T: Unpin> HttpBody for Pieces<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.rest.is_empty() {
            self.share = None;
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)?) else {
                return Poll::Ready(None);
            };
            match frame.into_data() {
                Ok(data) => {
                    self.share = match &self.whole {
                        Some(whole) => Some(Arc::clone(whole)),
                        None => Some(Arc::new(self.answers.add(data.len()))),
                    };
                    self.rest = data;
                }
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let bytes = self.rest.len().min(PIECE_BYTES);
        let piece = Piece { bytes: self.rest.split_to(bytes), _share: self.share.clone() };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, mut size) = (self.rest.len() as u64, self.body.size_hint());
        match size.exact() {
            Some(bytes) => SizeHint::with_exact(bytes + rest),
            None => {
                size.set_lower(size.lower() + rest);
                size
            }
        }
    }
}

/// A piece that a connection has; its memory is counted until the connection has sent it.
struct Piece {
    bytes: Bytes,
    _share: Option<Arc<Share>>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_counted_until_its_last_piece_is_sent() {
        let answers = Answers::default();
        let all = 10 * PIECE_BYTES + 1;
        let mut body = answers.send(Response::new(Body::from(vec![b'x'; all])), ()).into_body();
        assert_eq!((body.size_hint().exact(), answers.0.held.get()), (Some(all as u64), all as i64));
        let mut sending = Vec::new();
        while let Some(frame) = body.frame().await {
            let piece = frame.expect("never fails").into_data().expect("data");
            assert!(piece.len() <= PIECE_BYTES);
            sending.push(piece);
        }
        assert_eq!(sending.iter().map(Bytes::len).sum::<usize>(), all);
        drop(body);
        let last = sending.pop();
        drop(sending);
        assert_eq!(answers.0.held.get(), all as i64, "the connection has not sent the last piece");
        drop(last);
        assert_eq!((answers.0.held.get(), answers.0.held_bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[tokio::test]
    async fn a_stream_is_counted_as_far_as_it_was_made() {
        let answers = Answers::default();
        let frames = [vec![b'x'; 3 * PIECE_BYTES], vec![b'y'; 7]].map(Ok::<_, Infallible>);
        let stream = Body::from_stream(stream::iter(frames));
        let mut body = answers.send(Response::new(stream), ()).into_body();
        assert_eq!(answers.0.held.get(), 0);
        let first = body.frame().await;
        assert_eq!(answers.0.held.get(), 3 * PIECE_BYTES as i64);
        drop(first);
        let rest = body.collect().await.expect("never fails").to_bytes();
        assert_eq!((rest.len(), answers.0.held.get()), (2 * PIECE_BYTES + 7, 0));
    }

    #[test]
    fn what_finds_no_room_is_told_to_come_back() {
        let answers = Answers::default();
        let large = || Response::new(Body::from(Bytes::from(vec![b'x'; BYTES_MAX / 2])));
        let [first, second, third] = [large(), large(), large()].map(|response| answers.send(response, ()));
        assert_eq!([&first, &second, &third].map(|answer| answer.status().as_u16()), [200, 200, 503]);
        assert_eq!(third.headers()["retry-after"], "1");
        drop(first);
        assert_eq!(answers.send(large(), ()).status().as_u16(), 200);
        assert_eq!(answers.0.refused.get(), 1);
    }
}
