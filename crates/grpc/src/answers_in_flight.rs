//! Answers of a stream on their way to its caller: their memory is held until the connection has
//! sent them.
//!
//! A caller may be slow, as long as there is memory for others. Where there is not, the stream ends
//! of a caller that takes less than answers over HTTP have to move.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};

use base::locks::locked;
use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use net::memory_budget::MemoryReservation;
use net::pace::{PaceWatch, TAKING};
use tonic::Status;

use crate::page_answer::watch_call;

/// A connection has so much of an answer at a time, in bytes.
const PIECE_BYTES: usize = TAKING.bytes_min;

/// What a stream has given out, as an extension of its response.
#[derive(Clone)]
pub(crate) struct AnswersInFlight(Arc<StreamInFlight>);

struct StreamInFlight {
    /// Whether others lack the memory that answers of this stream take.
    is_scarce: Box<dyn Fn() -> bool + Send + Sync>,
    /// Of answers that are not written for the wire yet.
    given: Mutex<Vec<MemoryReservation>>,
    /// Bytes that were sent since somebody looked, or count as sent.
    taken: AtomicUsize,
    /// Bytes that are written for the wire and not sent.
    unsent: AtomicUsize,
}

impl AnswersInFlight {
    /// Those of a new stream; `is_scarce` says whether others lack the memory that it takes.
    pub(crate) fn new(is_scarce: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(StreamInFlight {
            is_scarce: Box::new(is_scarce),
            given: Mutex::default(),
            taken: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
        }))
    }

    /// An answer with this memory is given to be written.
    pub(crate) fn give(&self, held: MemoryReservation) {
        locked(&self.0.given).push(held);
    }

    /// The response of a stream; [`counted`] is for it.
    pub(crate) fn response<S>(&self, answers: S) -> tonic::Response<S> {
        let mut response = tonic::Response::new(answers);
        response.extensions_mut().insert(self.clone());
        response
    }

    fn take(&self) -> Vec<MemoryReservation> {
        std::mem::take(&mut *locked(&self.0.given))
    }
}

/// The response of a call: if its answers are counted, their memory is held until they are sent.
pub(crate) fn counted(mut response: Response<tonic::body::Body>) -> Response<tonic::body::Body> {
    let Some(answers) = response.extensions_mut().remove::<AnswersInFlight>() else { return response };
    let watched = Arc::downgrade(&answers.0);
    watch_call(async move { is_in_the_way(&watched).await });
    response
        .map(|body| tonic::body::Body::new(SendingAnswers { body, answers, rest: Bytes::new(), held: None }))
}

/// The body of a stream, given out in pieces.
struct SendingAnswers<B> {
    body: B,
    answers: AnswersInFlight,
    /// Of the frame that was written last.
    rest: Bytes,
    held: Option<Arc<[MemoryReservation]>>,
}

impl<B: Body<Data = Bytes, Error = Status> + Unpin> Body for SendingAnswers<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(cx)?) else {
                return Poll::Ready(None);
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            let held = this.answers.take();
            if this.answers.0.unsent.fetch_add(data.len(), Ordering::AcqRel) == 0 {
                // It had taken all. Until the next look there may be too little time for this.
                this.answers.0.taken.fetch_add(TAKING.bytes_min, Ordering::Relaxed);
            }
            (this.rest, this.held) = (data, (!held.is_empty()).then(|| held.into()));
        }
        let bytes = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        // The memory goes with the last piece: it may be long until somebody asks for more.
        let held = if this.rest.is_empty() { this.held.take() } else { this.held.clone() };
        let piece = AnswerPiece { bytes, answers: this.answers.clone(), _held: held };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

/// A piece that a connection has.
struct AnswerPiece {
    bytes: Bytes,
    answers: AnswersInFlight,
    _held: Option<Arc<[MemoryReservation]>>,
}

impl AsRef<[u8]> for AnswerPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for AnswerPiece {
    fn drop(&mut self) {
        self.answers.0.taken.fetch_add(self.bytes.len(), Ordering::Relaxed);
        self.answers.0.unsent.fetch_sub(self.bytes.len(), Ordering::AcqRel);
    }
}

/// Whether the caller takes too little while there is no memory for others, which is known when the
/// stream is over.
async fn is_in_the_way(stream: &Weak<StreamInFlight>) -> bool {
    let mut watch = PaceWatch::new(TAKING);
    poll_fn(|cx| {
        let Some(stream) = stream.upgrade() else { return Poll::Ready(false) };
        watch.moved(stream.taken.swap(0, Ordering::Relaxed));
        if stream.unsent.load(Ordering::Acquire) == 0 {
            // It has taken all that there is.
            watch.excuse();
        }
        watch.poll_too_slow(cx, || (stream.is_scarce)()).map(|()| true)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::pin;
    use std::time::Duration;

    use futures_util::FutureExt;
    use net::memory_budget::{MemoryBudget, MemoryPart, Purpose, SENDER_BYTES};
    use net::shares::SenderKey;
    use tokio::time::{Instant, advance, pause, timeout};

    use super::*;
    use crate::answer_memory::AnswerMemory;
    use crate::metrics::GrpcMetrics;
    use crate::sent_ahead::SentAhead;
    use crate::store_reads::StoreReads;

    const FRAME_BYTES: usize = 2 * PIECE_BYTES + 1;
    const PATIENCE: Duration = Duration::from_secs(300);

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

    /// A stream of jobs.
    fn jobs() -> (AnswersInFlight, AnswerMemory, GrpcMetrics) {
        let metrics = GrpcMetrics::default();
        let memory = AnswerMemory::new(&MemoryBudget::default(), &metrics);
        let of_stream = memory.clone();
        (AnswersInFlight::new(move || of_stream.is_scarce(&SenderKey::Unknown)), memory, metrics)
    }

    /// A stream that has given out one frame, with this memory for it.
    fn sending(answers: &AnswersInFlight, held: MemoryReservation) -> SendingAnswers<MadeFrames> {
        answers.give(held);
        sending_without_memory(answers)
    }

    /// A stream whose answers take no memory.
    fn sending_without_memory(answers: &AnswersInFlight) -> SendingAnswers<MadeFrames> {
        let body = MadeFrames([vec![7; FRAME_BYTES], vec![8]].map(Bytes::from).into());
        SendingAnswers { body, answers: answers.clone(), rest: Bytes::new(), held: None }
    }

    fn taken(memory: &AnswerMemory) -> MemoryReservation {
        memory.try_take(&SenderKey::Unknown, FRAME_BYTES).expect("there is memory")
    }

    async fn next<B>(body: &mut SendingAnswers<B>) -> Option<Bytes>
    where
        B: Body<Data = Bytes, Error = Status> + Unpin,
    {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        Some(frame.expect("never fails").into_data().expect("data"))
    }

    /// After how many seconds the caller is in the way, if it is.
    async fn in_the_way_after(answers: &AnswersInFlight) -> Option<u64> {
        let (began, watched) = (Instant::now(), Arc::downgrade(&answers.0));
        let is_in_the_way = timeout(PATIENCE, is_in_the_way(&watched)).await.ok()?;
        assert!(is_in_the_way, "the stream is not over");
        Some(began.elapsed().as_secs())
    }

    #[tokio::test]
    async fn answers_have_their_memory_until_the_last_piece_of_them_is_sent() {
        let (jobs, memory, metrics) = jobs();
        let mut body = sending(&jobs, taken(&memory));
        let mut pieces = Vec::new();
        for expect in [PIECE_BYTES, PIECE_BYTES, 1] {
            let piece = next(&mut body).await.expect("there is more");
            assert_eq!(piece.len(), expect);
            pieces.push(piece);
        }
        pieces.drain(..2);
        assert!(metrics.answer_held_bytes.get() >= FRAME_BYTES as i64, "its last piece is not sent");
        pieces.clear();
        assert_eq!(metrics.answer_held_bytes.get(), 0, "nobody has asked for more");
        assert_eq!(next(&mut body).await.map(|piece| piece.len()), Some(1));
        assert!(next(&mut body).await.is_none());
    }

    #[tokio::test]
    async fn who_takes_little_is_in_the_way_only_while_there_is_no_memory_for_others() {
        pause();
        let (jobs, memory, _metrics) = jobs();
        let mut body = sending(&jobs, taken(&memory));
        let piece = next(&mut body).await;
        assert_eq!(in_the_way_after(&jobs).await, None, "there is enough");
        let _rest = memory.try_take(&SenderKey::Unknown, 120 * 1_024 * 1_024).expect("most of its share");
        assert!(memory.is_scarce(&SenderKey::Unknown));
        assert_eq!(in_the_way_after(&jobs).await, Some(TAKING.every.as_secs()));
        drop(piece);
        let later = 2 * TAKING.every.as_secs();
        assert_eq!(in_the_way_after(&jobs).await, Some(later), "its window is shut for the rest");
        while next(&mut body).await.is_some() {}
        assert_eq!(in_the_way_after(&jobs).await, None, "there is nothing to take");
    }

    #[tokio::test]
    async fn who_had_taken_all_has_the_whole_time_for_what_comes_next() {
        pause();
        let (jobs, memory, _metrics) = jobs();
        let mut body = sending(&jobs, taken(&memory));
        let _rest = memory.try_take(&SenderKey::Unknown, 120 * 1_024 * 1_024).expect("most of its share");
        let watched = Arc::downgrade(&jobs.0);
        let mut watching = pin!(is_in_the_way(&watched));
        assert!(watching.as_mut().now_or_never().is_none());
        advance(TAKING.every + Duration::from_millis(1)).await;
        assert!(watching.as_mut().now_or_never().is_none(), "there is nothing to take");
        advance(TAKING.every - Duration::from_millis(100)).await;
        let _piece = next(&mut body).await;
        let given_at = Instant::now();
        assert!(watching.await);
        assert_eq!(given_at.elapsed().as_secs(), TAKING.every.as_secs());
    }

    #[tokio::test]
    async fn a_page_that_is_not_taken_is_in_the_way_of_those_who_wait_for_its_memory() {
        pause();
        let reads = StoreReads::new(&MemoryBudget::default(), &GrpcMetrics::default());
        let (own, of_stream) = (SenderKey::Token("a".into()), reads.clone());
        let sender = own.clone();
        let pages = AnswersInFlight::new(move || of_stream.is_memory_wanted(&sender));
        let ((), held) = reads.run_with_memory(&own, SENDER_BYTES / 2, || Ok(())).await.expect("read");
        let ((), _rest) = reads.run_with_memory(&own, SENDER_BYTES / 2, || Ok(())).await.expect("read");
        let mut body = sending(&pages, held);
        let piece = next(&mut body).await;
        assert_eq!(in_the_way_after(&pages).await, None, "nobody waits");
        let mut waiting = pin!(reads.run_with_memory(&own, 1, || Ok(())));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(in_the_way_after(&pages).await, Some(TAKING.every.as_secs()));
        drop((piece, body));
        assert!(timeout(PATIENCE, waiting).await.is_ok(), "its memory is free");
    }

    /// Where calls of one sender take memory for what they send ahead.
    fn part() -> (MemoryPart, SenderKey) {
        (MemoryBudget::default().part(Purpose::Lines), SenderKey::Unknown)
    }

    #[tokio::test]
    async fn an_append_that_is_not_taken_is_in_the_way_of_those_who_wait_for_its_memory() {
        pause();
        let (part, sender) = part();
        let memory = SentAhead::that_waits(part, sender);
        let answers = memory.answers(|| false);
        let held = memory.try_take(SENDER_BYTES / 2).expect("of its share");
        let mut body = sending_without_memory(&answers);
        let _piece = next(&mut body).await;
        assert_eq!(in_the_way_after(&answers).await, None, "nobody waits");
        let mut waiting = pin!(memory.take(SENDER_BYTES));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(in_the_way_after(&answers).await, Some(TAKING.every.as_secs()));
        drop(held);
        assert!(timeout(PATIENCE, waiting).await.is_ok(), "its memory is free");
    }

    #[tokio::test]
    async fn a_pipeline_that_is_not_taken_is_in_the_way_of_those_who_are_refused() {
        pause();
        let (part, sender) = part();
        let memory = SentAhead::that_is_refused(part, sender);
        let answers = memory.answers(|| false);
        let mut body = sending_without_memory(&answers);
        let piece = next(&mut body).await;
        let _held = memory.try_take(SENDER_BYTES / 2).expect("of its share");
        assert_eq!(in_the_way_after(&answers).await, None, "there is enough");
        let _rest = memory.try_take(SENDER_BYTES / 2).expect("the rest of it");
        assert!(memory.try_take(1).is_none());
        assert_eq!(in_the_way_after(&answers).await, Some(TAKING.every.as_secs()));
        drop(piece);
        while next(&mut body).await.is_some() {}
        assert_eq!(in_the_way_after(&answers).await, None, "there is nothing to take");
    }
}
