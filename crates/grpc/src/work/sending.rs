//! Jobs of a stream on their way to their worker: their memory is held until the connection has
//! sent them.
//!
//! A worker may be slow, as long as there is memory for others. Where there is not, the stream ends
//! of a worker that takes less than answers over HTTP have to move.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use net::memory_budget::Reservation;
use net::pace::{PaceWatch, TAKING};
use net::shares::SenderKey;
use tonic::Status;

use crate::answer_memory::AnswerMemory;
use crate::page_answer::watch_call;

/// A connection has so much of an answer at a time, in bytes.
const PIECE_BYTES: usize = TAKING.bytes_min;

/// What a stream has given out, as an extension of its response.
#[derive(Clone, Debug)]
pub(super) struct JobsInFlight(Arc<StreamInFlight>);

#[derive(Debug)]
struct StreamInFlight {
    memory: AnswerMemory,
    sender: SenderKey,
    /// Of answers that are not written for the wire yet.
    given: Mutex<Vec<Reservation>>,
    /// Bytes that were sent since somebody looked.
    taken: AtomicUsize,
    /// Pieces that the connection has not sent.
    pieces: AtomicUsize,
}

impl JobsInFlight {
    pub(super) fn new(memory: AnswerMemory, sender: SenderKey) -> Self {
        Self(Arc::new(StreamInFlight {
            memory,
            sender,
            given: Mutex::default(),
            taken: AtomicUsize::new(0),
            pieces: AtomicUsize::new(0),
        }))
    }

    /// An answer with this memory is given to be written.
    pub(super) fn give(&self, held: Reservation) {
        self.0.given.lock().unwrap_or_else(PoisonError::into_inner).push(held);
    }

    fn take(&self) -> Vec<Reservation> {
        std::mem::take(&mut *self.0.given.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The response of a call: if it is a stream of jobs, their memory is held until they are sent.
pub(crate) fn counted(mut response: Response<tonic::body::Body>) -> Response<tonic::body::Body> {
    let Some(jobs) = response.extensions_mut().remove::<JobsInFlight>() else { return response };
    let watched = Arc::downgrade(&jobs.0);
    watch_call(async move { is_in_the_way(&watched).await });
    response.map(|body| tonic::body::Body::new(SendingJobs { body, jobs, rest: Bytes::new(), held: None }))
}

/// The body of a stream, given out in pieces.
struct SendingJobs<B> {
    body: B,
    jobs: JobsInFlight,
    /// Of the frame that was written last.
    rest: Bytes,
    held: Option<Arc<[Reservation]>>,
}

impl<B: Body<Data = Bytes, Error = Status> + Unpin> Body for SendingJobs<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            this.held = None;
            let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(cx)?) else {
                return Poll::Ready(None);
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            let held = this.jobs.take();
            (this.rest, this.held) = (data, (!held.is_empty()).then(|| held.into()));
        }
        let bytes = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        this.jobs.0.pieces.fetch_add(1, Ordering::AcqRel);
        let piece = JobsPiece { bytes, jobs: this.jobs.clone(), _held: this.held.clone() };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

/// A piece that a connection has.
struct JobsPiece {
    bytes: Bytes,
    jobs: JobsInFlight,
    _held: Option<Arc<[Reservation]>>,
}

impl AsRef<[u8]> for JobsPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for JobsPiece {
    fn drop(&mut self) {
        self.jobs.0.taken.fetch_add(self.bytes.len(), Ordering::Relaxed);
        self.jobs.0.pieces.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether the worker takes too little while there is no memory for others, which is known when the
/// stream is over.
async fn is_in_the_way(stream: &Weak<StreamInFlight>) -> bool {
    let mut watch = PaceWatch::new(TAKING);
    poll_fn(|cx| {
        let Some(stream) = stream.upgrade() else { return Poll::Ready(false) };
        watch.moved(stream.taken.swap(0, Ordering::Relaxed));
        if stream.pieces.load(Ordering::Acquire) == 0 {
            // It has taken all that there is.
            watch.excuse();
        }
        watch.poll_too_slow(cx, || stream.memory.is_scarce(&stream.sender)).map(|()| true)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use net::memory_budget::MemoryBudget;
    use tokio::time::{Instant, pause, timeout};

    use super::*;
    use crate::metrics::Metrics;

    const FRAME_BYTES: usize = 2 * PIECE_BYTES + 1;

    /// Frames that are there already.
    struct MadeFrames(VecDeque<Bytes>);

    impl Body for MadeFrames {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop_front().map(|data| Ok(Frame::data(data))))
        }
    }

    fn jobs() -> (JobsInFlight, AnswerMemory, Metrics) {
        let metrics = Metrics::default();
        let memory = AnswerMemory::new(&MemoryBudget::default(), &metrics);
        (JobsInFlight::new(memory.clone(), SenderKey::Unknown), memory, metrics)
    }

    /// A stream that has given out one frame, with memory for it.
    fn sending(jobs: &JobsInFlight, memory: &AnswerMemory) -> SendingJobs<MadeFrames> {
        jobs.give(memory.try_take(&SenderKey::Unknown, FRAME_BYTES).expect("there is memory"));
        let body = MadeFrames([vec![7; FRAME_BYTES], vec![8]].map(Bytes::from).into());
        SendingJobs { body, jobs: jobs.clone(), rest: Bytes::new(), held: None }
    }

    async fn next<B: Body<Data = Bytes, Error = Status> + Unpin>(body: &mut SendingJobs<B>) -> Option<Bytes> {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        Some(frame.expect("never fails").into_data().expect("data"))
    }

    #[tokio::test]
    async fn jobs_have_their_memory_until_the_last_piece_of_them_is_sent() {
        let (jobs, memory, metrics) = jobs();
        let mut body = sending(&jobs, &memory);
        let mut pieces = Vec::new();
        for expect in [PIECE_BYTES, PIECE_BYTES, 1, 1] {
            let piece = next(&mut body).await.expect("there is more");
            assert_eq!(piece.len(), expect);
            pieces.push(piece);
        }
        pieces.drain(..2);
        assert!(metrics.answer_held_bytes.get() >= FRAME_BYTES as i64, "its last piece is not sent");
        pieces.remove(0);
        assert_eq!(metrics.answer_held_bytes.get(), 0, "what is small takes none");
        assert!(next(&mut body).await.is_none());
    }

    #[tokio::test]
    async fn who_takes_little_is_in_the_way_only_while_there_is_no_memory_for_others() {
        pause();
        let (jobs, memory, _metrics) = jobs();
        let watched = Arc::downgrade(&jobs.0);
        let mut body = sending(&jobs, &memory);
        let piece = next(&mut body).await;
        let patience = Duration::from_secs(300);
        assert!(timeout(patience, is_in_the_way(&watched)).await.is_err(), "there is enough");
        let _rest = memory.try_take(&SenderKey::Unknown, 120 * 1_024 * 1_024).expect("most of its share");
        assert!(memory.is_scarce(&SenderKey::Unknown));
        let began = Instant::now();
        assert!(timeout(patience, is_in_the_way(&watched)).await.expect("in time"));
        assert_eq!(began.elapsed().as_secs(), TAKING.every.as_secs());
        drop(piece);
        assert!(timeout(patience, is_in_the_way(&watched)).await.is_err(), "there is nothing to take");
    }
}
