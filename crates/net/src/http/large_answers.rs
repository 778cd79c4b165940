//! Answers being sent: a connection takes them in pieces, and their memory is counted until the
//! last piece is sent.
//!
//! A connection that is handed a large answer whole would hold it for a caller that reads nothing,
//! uncounted. So a large answer stays in its body until the socket has taken the pieces before. All
//! large answers take it of the memory budget. Where there is none a caller gets 503 if
//! its request changed nothing, or if jobs were leased for the answer, which are given back. Any
//! other answer is counted and sent: a repeat of the request would change things twice.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use base::Problem;
use base::answers::DroppableAnswer;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::answer_pace::{AnswerInFlight, AnswerPace, LastRefusal};
use crate::memory_budget::{MemoryBudget, MemoryPart, MemoryReservation, Purpose, UntilSent};
use crate::pace::TAKING;
use crate::problem;
use crate::shares::SenderKey;

/// An answer up to this size is as good as sent when it is made: the sockets take it. Of a larger
/// one a connection takes so much at a time.
const PIECE_BYTES: usize = TAKING.bytes_min;
/// The large answers of all listeners that share this.
#[derive(Clone, Debug)]
pub struct LargeAnswers(Arc<LargeAnswersShared>);

#[derive(Debug)]
struct LargeAnswersShared {
    memory: MemoryPart,
    held: Gauge,
    refused: Counter,
    given_up: Counter,
    last_refused: LastRefusal,
}

/// The request that an answer is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnsweredRequest<'a> {
    /// What stands for the caller's address.
    pub(super) sender: IpAddr,
    /// The request changed nothing.
    pub(super) is_safe: bool,
    /// That of the connection.
    pub(super) pace: &'a AnswerPace,
}

impl Default for LargeAnswers {
    fn default() -> Self {
        Self::new(&MemoryBudget::default())
    }
}

impl LargeAnswers {
    /// Large answers take their memory of this budget.
    #[must_use]
    pub fn new(memory: &MemoryBudget) -> Self {
        Self(Arc::new(LargeAnswersShared {
            memory: memory.part(Purpose::Answers),
            held: Gauge::default(),
            refused: Counter::default(),
            given_up: Counter::default(),
            last_refused: LastRefusal::default(),
        }))
    }

    /// Puts its metrics into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let help = "Memory of answers over 64 KiB that are on their way";
        registry.register("fieldpost_http_answer_held_bytes", help, self.0.held.clone());
        let help = "Answers that were given up because those on their way take all the memory that they may";
        registry.register("fieldpost_http_answers_refused", help, self.0.refused.clone());
        let help = "Connections that were closed because little of an answer was taken while others waited";
        registry.register("fieldpost_http_slow_readers", help, self.0.given_up.clone());
    }

    /// A connection is closed: others waited for what its answer takes.
    pub(super) fn gives_up(&self) {
        self.0.given_up.inc();
    }

    /// The answer as it is sent. `until_sent` is dropped when it is, or is given up.
    pub(super) fn send<T: Send + Unpin + 'static>(
        &self,
        mut response: Response,
        request: AnsweredRequest<'_>,
        until_sent: T,
    ) -> Response {
        let (size, page) = (response.body().size_hint(), response.extensions_mut().remove::<UntilSent>());
        let is_small = size.upper().is_some_and(|bytes| bytes <= PIECE_BYTES as u64);
        if is_small && page.is_none() {
            return response;
        }
        let may_refuse = request.is_safe || response.extensions().get::<DroppableAnswer>().is_some();
        let bytes = size.exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let (memory, sender) = (&self.0.memory, SenderKey::Address(request.sender));
        let whole = match (page, bytes) {
            (Some(UntilSent(page)), bytes) => Some((page, bytes.filter(|_| !is_small).unwrap_or(0))),
            (None, None) => None,
            (None, Some(bytes)) if may_refuse => match memory.try_take(&sender, bytes) {
                Some(reservation) => Some((Arc::new(reservation), bytes)),
                None => return self.refusal(),
            },
            (None, Some(bytes)) => Some((Arc::new(memory.take_available(&sender, bytes)), bytes)),
        };
        let from = whole.as_ref().map(|(reservation, _)| reservation.taken_from().clone());
        let whole =
            whole.map(|(reservation, bytes)| LargeAnswerMemory::new(&self.0.held, reservation, bytes));
        let (answers, whole) = (self.clone(), whole.map(Arc::new));
        // What comes as it is made has a limit elsewhere, and its own time.
        let in_flight = whole.is_some().then(|| request.pace.begins(&self.0.last_refused, from));
        response.map(|body| {
            Body::new(AnswerPieces {
                body,
                rest: Bytes::new(),
                whole,
                frame_memory: None,
                answers,
                sender,
                in_flight,
                _until_sent: until_sent,
            })
        })
    }

    fn refusal(&self) -> Response {
        self.0.refused.inc();
        self.0.memory.count_refusal();
        self.0.last_refused.note();
        let detail =
            "answers that callers do not read take all the memory there is for them; try again in a moment";
        problem::response(&Problem::new(503, "busy", detail))
    }

    /// So much of what is there already.
    fn add(&self, sender: &SenderKey, bytes: usize) -> LargeAnswerMemory {
        LargeAnswerMemory::new(&self.0.held, Arc::new(self.0.memory.take_available(sender, bytes)), bytes)
    }
}

/// Counted as long as this lives.
#[derive(Debug)]
struct LargeAnswerMemory {
    held: Gauge,
    bytes: usize,
    _reservation: Arc<MemoryReservation>,
}

impl LargeAnswerMemory {
    fn new(held: &Gauge, reservation: Arc<MemoryReservation>, bytes: usize) -> Self {
        held.inc_by(bytes as i64);
        Self { held: held.clone(), bytes, _reservation: reservation }
    }
}

impl Drop for LargeAnswerMemory {
    fn drop(&mut self) {
        self.held.dec_by(self.bytes as i64);
    }
}

/// A body that is given out in pieces.
struct AnswerPieces<T> {
    body: Body,
    /// What is left of the frame that the body gave.
    rest: Bytes,
    /// Of an answer whose size is known: all pieces are parts of one memory.
    whole: Option<Arc<LargeAnswerMemory>>,
    /// Of the frame, where the size of the whole is not known.
    frame_memory: Option<Arc<LargeAnswerMemory>>,
    answers: LargeAnswers,
    sender: SenderKey,
    /// Of an answer whose size is known.
    in_flight: Option<Arc<AnswerInFlight>>,
    _until_sent: T,
}

impl<T: Unpin> HttpBody for AnswerPieces<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.rest.is_empty() {
            self.frame_memory = None;
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)?) else {
                return Poll::Ready(None);
            };
            match frame.into_data() {
                Ok(data) => {
                    self.frame_memory = match &self.whole {
                        Some(whole) => Some(Arc::clone(whole)),
                        None => Some(Arc::new(self.answers.add(&self.sender, data.len()))),
                    };
                    self.rest = data;
                }
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let bytes = self.rest.len().min(PIECE_BYTES);
        let (memory, in_flight) = (self.frame_memory.clone(), self.in_flight.clone());
        let piece = CountedPiece { bytes: self.rest.split_to(bytes), in_flight, _memory: memory };
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
struct CountedPiece {
    bytes: Bytes,
    in_flight: Option<Arc<AnswerInFlight>>,
    _memory: Option<Arc<LargeAnswerMemory>>,
}

impl Drop for CountedPiece {
    fn drop(&mut self) {
        if let Some(in_flight) = &self.in_flight {
            in_flight.takes(self.bytes.len());
        }
    }
}

impl AsRef<[u8]> for CountedPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::Ipv4Addr;

    use futures_util::stream;
    use http_body_util::BodyExt;

    use super::*;
    use crate::memory_budget::{PART_BYTES, SENDER_BYTES};

    const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    impl LargeAnswers {
        fn sent(&self, response: Response, sender: IpAddr, is_safe: bool) -> Response {
            self.send(response, AnsweredRequest { sender, is_safe, pace: &AnswerPace::default() }, ())
        }

        fn is_empty(&self) -> bool {
            self.0.memory.free_bytes() == Purpose::Answers.bytes() && self.0.held.get() == 0
        }
    }

    #[tokio::test]
    async fn an_answer_is_counted_until_its_last_piece_is_sent() {
        let answers = LargeAnswers::default();
        let all = 10 * PIECE_BYTES + 1;
        let mut body = answers.sent(Response::new(Body::from(vec![b'x'; all])), ONE, true).into_body();
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
        assert!(answers.is_empty());
    }

    #[tokio::test]
    async fn a_stream_is_counted_as_far_as_it_was_made() {
        let answers = LargeAnswers::default();
        let frames = [vec![b'x'; 3 * PIECE_BYTES], vec![b'y'; 7]].map(Ok::<_, Infallible>);
        let stream = Body::from_stream(stream::iter(frames));
        let mut body = answers.sent(Response::new(stream), ONE, true).into_body();
        assert_eq!(answers.0.held.get(), 0);
        let first = body.frame().await;
        assert_eq!(answers.0.held.get(), 3 * PIECE_BYTES as i64);
        drop(first);
        let rest = body.collect().await.expect("never fails").to_bytes();
        assert_eq!((rest.len(), answers.0.held.get()), (2 * PIECE_BYTES + 7, 0));
    }

    #[tokio::test]
    async fn a_page_takes_its_memory_once_and_until_it_is_sent() {
        let budget = MemoryBudget::default();
        let (memory, answers) = (budget.part(Purpose::Pages), LargeAnswers::new(&budget));
        let page = memory.take(&SenderKey::Unknown, SENDER_BYTES).await;
        let response = page.until_sent(Response::new(Body::from(vec![b'x'; 2 * PIECE_BYTES])));
        let mut body = answers.sent(response, ONE, true).into_body();
        let free = PART_BYTES - 2 * PIECE_BYTES;
        assert_eq!(memory.free_bytes(), free);
        let first = body.frame().await;
        drop(body);
        assert_eq!(memory.free_bytes(), free, "the connection has not sent the piece");
        drop(first);
        assert!(answers.is_empty());
    }

    fn large() -> Response {
        Response::new(Body::from(Bytes::from(vec![b'x'; Purpose::Answers.bytes() / 4])))
    }

    #[test]
    fn what_finds_no_room_is_told_to_come_back() {
        let answers = LargeAnswers::default();
        let own: Vec<_> = (0..3).map(|_| answers.sent(large(), ONE, true)).collect();
        assert_eq!(own.iter().map(|answer| answer.status().as_u16()).collect::<Vec<_>>(), [200, 200, 503]);
        assert_eq!(own[2].headers()["retry-after"], "1");
        let others: Vec<_> = (0..2).map(|_| answers.sent(large(), OTHER, true)).collect();
        assert!(others.iter().all(|answer| answer.status().is_success()), "others have a share of their own");
        drop(own);
        assert_eq!(answers.sent(large(), ONE, true).status().as_u16(), 200);
        assert_eq!(answers.0.refused.get(), 1);
        drop(others);
        assert!(answers.is_empty());
    }

    #[test]
    fn what_was_carried_out_is_told_and_what_can_be_asked_for_again_is_refused() {
        let answers = LargeAnswers::default();
        let _held: Vec<_> = [ONE, ONE, OTHER, OTHER].map(|sender| answers.sent(large(), sender, true)).into();
        let with_hand_over = || {
            let mut response = large();
            response.extensions_mut().insert(DroppableAnswer);
            response
        };
        for (response, is_safe, expect) in
            [(large(), true, 503), (large(), false, 200), (with_hand_over(), false, 503)]
        {
            let status = answers.sent(response, ONE, is_safe).status();
            assert_eq!(status.as_u16(), expect, "safe: {is_safe}");
        }
    }
}
