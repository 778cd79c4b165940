//! Memory and deadlines for messages being received: a message is held whole before it is parsed.
//!
//! A message that has begun has a deadline. After [`FREE_BYTES`] it takes its memory of the budget,
//! so that announcing a large message costs nobody else anything. While others wait for memory, its
//! holder must keep a minimum pace. A connection has a share, so it blocks only itself. A waiting
//! message is not read, and HTTP/2 flow control stops its sender. A call with one message has its
//! memory until it is answered.

mod call_memory;
mod call_messages;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::Problem;
use base::answers::TakenFrom;
use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use http_body::{Body, Frame};
use net::memory_budget::{MemoryBudget, MemoryPart, MemoryReservation, Purpose, SENDER_BYTES};
use net::metrics::Counted;
use net::pace::{BYTES_PER_SECOND_MIN, PaceWatch, RECEIVING};
use net::shares::{SenderKey, Share};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Timeout, timeout};
use tonic::Status;

use crate::metrics::GrpcMetrics;
use crate::status::status;

pub(crate) use call_memory::{give_back, until_answered};
pub(crate) use call_messages::CallMessages;

/// So much of any message is received without memory of the budget, in bytes: a frame of HTTP/2.
const FREE_BYTES: usize = 16 * 1_024;
/// All of these beginnings, in bytes; beyond it each takes memory of the budget.
const BEGUN_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// What the messages of one connection may have of the budget, in bytes: two of the largest.
const CONNECTION_BYTES: usize = SENDER_BYTES / 2;
/// Memory is counted in these, in bytes.
const UNIT_BYTES: usize = 1_024;
/// A message up to this size is counted as a medium one, in bytes; a larger one as a large one.
const MEDIUM_BYTES_MAX: usize = 256 * 1_024;
/// How long a message may wait for its memory: what waits fills the window of its connection.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long a message may take altogether, and a second more for every so many bytes.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Before each message: a flag and its length.
const HEAD_BYTES: usize = 5;

/// The memory that messages may have.
#[derive(Clone, Debug)]
pub(crate) struct MessageMemory {
    memory: MemoryPart,
    begun_bytes: Arc<AtomicUsize>,
    metrics: GrpcMetrics,
}

/// The memory that messages of one connection may have.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPlaces {
    server: MessageMemory,
    own: Share,
}

/// What a caller sends in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sends {
    /// One message, and nothing behind it.
    One,
    /// Any number of messages, whenever it has something to say.
    Stream,
}

impl MessageMemory {
    pub(crate) fn new(memory: &MemoryBudget, metrics: &GrpcMetrics) -> Self {
        let memory = memory.part(Purpose::Messages);
        Self { memory, begun_bytes: Arc::default(), metrics: metrics.clone() }
    }

    /// Those of a new connection.
    pub(crate) fn of_connection(&self) -> ConnectionPlaces {
        ConnectionPlaces { server: self.clone(), own: Share::new(CONNECTION_BYTES / UNIT_BYTES) }
    }
}

impl ConnectionPlaces {
    /// The body of a request, whose messages take memory and have deadlines.
    pub(crate) fn guard<B>(&self, body: B, sends: Sends, sender: SenderKey) -> Guarded<B> {
        let mut guarded = Guarded {
            body,
            places: self.clone(),
            sender,
            sends,
            message: Message::default(),
            begun: PartialMessage {
                bytes: 0,
                all: Arc::clone(&self.server.begun_bytes),
                gauge: self.server.metrics.begun_bytes.clone(),
            },
            body_memory: BodyMemory::NotNeeded,
            due: None,
            rest: Bytes::new(),
            is_large_over: false,
            handed_over: None,
        };
        guarded.begin_to_wait();
        guarded
    }

    /// Memory for a message of this size: of the connection's share first and then of its sender's.
    /// So it waits for nobody while it holds something that others wait for.
    fn ask(&self, bytes: usize, sender: &SenderKey) -> BodyMemory {
        let (own, memory, sender) = (self.own.clone(), self.server.memory.clone(), sender.clone());
        let metrics = &self.server.metrics;
        let large = bytes > MEDIUM_BYTES_MAX;
        let counted = Counted::new(if large { &metrics.large_messages } else { &metrics.medium_messages });
        let bytes = bytes.min(CONNECTION_BYTES);
        let place: BoxFuture<'static, MessagePlace> = Box::pin(async move {
            let permits = own.take(bytes.div_ceil(UNIT_BYTES) as u32).await;
            let memory = memory.take(&sender, bytes).await;
            let from = PlaceFrom { of_connection: own, of_sender: memory.taken_from().clone() };
            MessagePlace { from, memory, permits, _counted: counted }
        });
        BodyMemory::Waits(Box::pin(timeout(WAIT_MAX, place)))
    }
}

/// Where we are in a body: in the head of a message, or in what it carries.
#[derive(Debug, Default)]
struct Message {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the message that begun, and those which have not come.
    bytes: usize,
    left: usize,
}

impl Message {
    /// Goes on behind this piece: whether something of the head of a message was in it.
    fn passes(&mut self, mut piece: &[u8]) -> bool {
        let mut begun = false;
        while !piece.is_empty() {
            let carried = self.left.min(piece.len());
            piece.advance(carried);
            self.left -= carried;
            if self.left == 0 && !piece.is_empty() {
                let taken = (HEAD_BYTES - self.head_bytes).min(piece.len());
                self.head[self.head_bytes..][..taken].copy_from_slice(&piece[..taken]);
                piece.advance(taken);
                begun = true;
                self.head_bytes += taken;
                self.bytes = 0;
                if self.head_bytes == HEAD_BYTES {
                    let [_, length @ ..] = self.head;
                    self.bytes = u32::from_be_bytes(length) as usize;
                    (self.head_bytes, self.left) = (0, self.bytes);
                }
            }
        }
        begun
    }

    /// Whether one has begun that is not all there.
    fn is_begun(&self) -> bool {
        self.left > 0 || self.head_bytes > 0
    }

    /// Whether the latest one takes memory of the budget.
    fn is_large(&self) -> bool {
        self.bytes > FREE_BYTES
    }

    /// How much of a piece of so many bytes is given out at a time: nothing behind the end of a
    /// large one.
    fn at_a_time(&self, bytes: usize) -> usize {
        if self.left > 0 && self.is_large() { self.left.min(bytes) } else { bytes }
    }

    /// How much of it has come.
    fn came(&self) -> usize {
        if self.left > 0 { self.bytes - self.left } else { 0 }
    }
}

/// What of a message without memory has come, as far as it counts for all of them.
struct PartialMessage {
    bytes: usize,
    all: Arc<AtomicUsize>,
    gauge: Gauge,
}

impl PartialMessage {
    fn becomes(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes != before {
            self.all.fetch_add(bytes, Ordering::Relaxed);
            self.all.fetch_sub(before, Ordering::Relaxed);
            self.gauge.inc_by(bytes as i64 - before as i64);
        }
    }

    fn is_too_much(&self) -> bool {
        self.bytes > 0 && self.all.load(Ordering::Relaxed) > BEGUN_BYTES_MAX
    }
}

impl Drop for PartialMessage {
    fn drop(&mut self) {
        self.becomes(0);
    }
}

/// The memory for the message that is being received.
enum BodyMemory {
    /// What has begun is small.
    NotNeeded,
    /// It waits for memory.
    Waits(Pin<Box<Timeout<BoxFuture<'static, MessagePlace>>>>),
    /// It has its memory.
    Has(MessagePlace),
}

impl BodyMemory {
    /// Whether others wait for it.
    fn is_wanted(&self) -> bool {
        matches!(self, Self::Has(place) if place.from.is_wanted())
    }
}

struct MessagePlace {
    from: PlaceFrom,
    memory: MemoryReservation,
    permits: OwnedSemaphorePermit,
    _counted: Counted,
}

/// From what the memory of a message is taken: others may wait for that.
struct PlaceFrom {
    of_connection: Share,
    of_sender: TakenFrom,
}

impl PlaceFrom {
    fn is_wanted(&self) -> bool {
        self.of_connection.wanted().waiting() > 0 || self.of_sender.is_wanted()
    }
}

/// The time that a message of so many bytes may take.
fn due_of_message(bytes: usize) -> PaceWatch {
    PaceWatch::within(RECEIVING, TIME_MAX + Duration::from_secs((bytes / BYTES_PER_SECOND_MIN) as u64))
}

/// A body whose messages take memory and have deadlines.
pub(crate) struct Guarded<B> {
    body: B,
    places: ConnectionPlaces,
    sender: SenderKey,
    sends: Sends,
    message: Message,
    begun: PartialMessage,
    body_memory: BodyMemory,
    due: Option<PaceWatch>,
    /// What came in one piece with the end of a large message.
    rest: Bytes,
    /// All of a large message was given out, and nothing behind it.
    is_large_over: bool,
    /// The call has the memory of its only message, and the end behind that has to come.
    handed_over: Option<PlaceFrom>,
}

impl<B> Guarded<B> {
    /// Between messages a stream may be silent; a single message, and the end behind it, have to
    /// come in time.
    fn begin_to_wait(&mut self) {
        self.begun.becomes(0);
        self.due = match self.sends {
            Sends::One => {
                let memory = std::mem::replace(&mut self.body_memory, BodyMemory::NotNeeded);
                if let BodyMemory::Has(place) = memory {
                    self.handed_over = Some(call_memory::hand_over(place));
                }
                Some(PaceWatch::within(RECEIVING, TIME_MAX))
            }
            Sends::Stream => None,
        };
    }

    /// Refuses another large message of a call that has one: it would wait for memory while it has
    /// some.
    fn came(&mut self, piece: &[u8]) -> Result<(), Problem> {
        self.is_large_over = false;
        if piece.is_empty() {
            return Ok(());
        }
        let begun = self.message.passes(piece);
        if !self.message.is_begun() {
            self.is_large_over = !begun && self.message.is_large();
            self.begin_to_wait();
            return Ok(());
        }
        if begun {
            self.body_memory = BodyMemory::NotNeeded;
            self.due = Some(due_of_message(self.message.bytes));
        }
        if let Some(due) = &mut self.due {
            due.moved(piece.len());
        }
        if matches!(self.body_memory, BodyMemory::NotNeeded) {
            self.begun.becomes(self.message.came());
            if self.message.came() >= FREE_BYTES || self.begun.is_too_much() {
                if self.handed_over.is_some() {
                    return Err(Problem::unreadable("the call has one message, and another one came"));
                }
                self.body_memory = self.places.ask(self.message.bytes, &self.sender);
            }
        }
        Ok(())
    }

    /// Ready once the body may be read on; a refusal if it waited too long for memory. The deadline
    /// of the message begins anew with its memory: until then it is we who do not read.
    fn poll_memory(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Problem>> {
        if let BodyMemory::Waits(place) = &mut self.body_memory {
            let Ok(place) = ready!(place.as_mut().poll(cx)) else { return Poll::Ready(Err(no_place())) };
            self.body_memory = BodyMemory::Has(place);
            self.begun.becomes(0);
            self.due = Some(due_of_message(self.message.bytes));
        }
        Poll::Ready(Ok(()))
    }

    /// Whether others wait for the memory that the message has which is coming.
    fn is_memory_wanted(&self) -> bool {
        self.body_memory.is_wanted()
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (memory, of_call) = (&self.body_memory, &self.handed_over);
        let is_wanted = || memory.is_wanted() || of_call.as_ref().is_some_and(PlaceFrom::is_wanted);
        match &mut self.due {
            Some(due) => due.poll_too_slow(cx, is_wanted),
            None => Poll::Pending,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Guarded<B> {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = if self.rest.is_empty() {
            ready!(Pin::new(&mut self.body).poll_frame(cx))
        } else {
            Some(Ok(Frame::data(std::mem::take(&mut self.rest))))
        };
        let (message, rest) = (&self.message, &mut self.rest);
        let cut = |mut piece: Bytes| {
            *rest = piece.split_off(message.at_a_time(piece.len()));
            piece
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(cut))))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Guarded<B>
where
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.message.is_begun() {
            // Who reads a stream on has taken other memory for the message before, or is through
            // with it.
            self.body_memory = BodyMemory::NotNeeded;
        }
        if let Err(no_place) = ready!(self.poll_memory(cx)) {
            self.body_memory = BodyMemory::NotNeeded;
            self.places.server.memory.count_refusal();
            return Poll::Ready(Some(Err(status(&no_place))));
        }
        let Poll::Ready(frame) = self.poll_piece(cx) else {
            ready!(self.poll_due(cx));
            return Poll::Ready(Some(Err(status(&too_slow()))));
        };
        if let Some(Ok(frame)) = &frame
            && let Some(piece) = frame.data_ref()
            && let Err(one_too_many) = self.came(piece)
        {
            return Poll::Ready(Some(Err(status(&one_too_many))));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| Status::from_error(Box::new(error)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

fn no_place() -> Problem {
    Problem::new(503, "busy", "too many messages of this size are being received; repeat it later")
}

fn too_slow() -> Problem {
    Problem::new(408, "body_too_slow", "the message came too slowly; send at least 16 KiB a second")
}

#[cfg(test)]
mod tests;
