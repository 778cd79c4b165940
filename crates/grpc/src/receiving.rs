//! Places and deadlines for messages being received: a message is held whole before it is parsed.
//!
//! A message that has begun has a deadline. After [`FREE_BYTES`] it takes a place, so that
//! announcing a large message costs nobody else anything. While others wait for a place, its holder
//! must keep a minimum pace. A connection has a share of the places, so it blocks only itself. A
//! waiting message is not read, and HTTP/2 flow control stops its sender.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::{Problem, address};
use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use http_body::{Body, Frame};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, Timeout, sleep_until, timeout};
use tonic::Status;

use crate::figures::{Counted, Figures};
use crate::status::status;

/// So much of any message is received without a place, in bytes: a frame of HTTP/2.
const FREE_BYTES: usize = 16 * 1_024;
/// Memory of all beginnings without a place, in bytes; beyond it each needs one.
const BEGUN_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// A message up to this size takes a place for medium ones, in bytes; a larger one takes a place
/// for large ones.
const MEDIUM_BYTES_MAX: usize = 256 * 1_024;
/// Medium messages that are received at the same time: 64 MiB.
const MEDIUM_MAX: usize = 256;
/// Large messages that are received at the same time: 256 MiB.
const LARGE_MAX: usize = 16;
/// Those of one connection: 4 MiB of medium ones, 64 MiB of large ones.
const MEDIUM_OF_CONNECTION_MAX: usize = 16;
const LARGE_OF_CONNECTION_MAX: usize = 4;
/// Those of one sender, however many connections it has.
const MEDIUM_OF_SENDER_MAX: usize = 128;
const LARGE_OF_SENDER_MAX: usize = 8;
/// How long a message may wait for its place: what waits fills the window of its connection.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Senders are forgotten that send nothing any more, at this many.
const SENDERS_FEW: usize = 64;
/// How long a message may take altogether, and a second more for every so many bytes.
const TIME_MAX: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND_MIN: usize = 16 * 1_024;
/// While others wait for a place, the pace of each holder is checked this often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A deadline noticed later than this does not count: the server did not read meanwhile.
const NOT_WATCHED: Duration = Duration::from_secs(1);
/// Before each message: a flag and its length.
const HEAD_BYTES: usize = 5;

const _: () =
    assert!(LARGE_OF_CONNECTION_MAX < LARGE_OF_SENDER_MAX && MEDIUM_OF_CONNECTION_MAX < MEDIUM_OF_SENDER_MAX);
const _: () = assert!(LARGE_OF_SENDER_MAX < LARGE_MAX && MEDIUM_OF_SENDER_MAX < MEDIUM_MAX);

/// The places of the server.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    medium: Class,
    large: Class,
    senders: Arc<Mutex<Senders>>,
    begun_bytes: Arc<AtomicUsize>,
    figures: Figures,
}

/// Whose messages share places over all connections: those of a token, or of an address where no
/// token is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sender {
    Token(Box<str>),
    Address(IpAddr),
}

impl Sender {
    pub(crate) fn of(token: Option<&str>, peer: SocketAddr) -> Self {
        match token {
            Some(token) if !token.is_empty() => Self::Token(token.into()),
            _ => Self::Address(address::sender(peer.ip())),
        }
    }
}

/// The senders whose calls are under way.
#[derive(Debug, Default)]
struct Senders {
    by_sender: HashMap<Sender, Weak<SenderPlaces>>,
    tidied_at: usize,
}

/// The places that one sender may take.
#[derive(Debug)]
struct SenderPlaces {
    medium: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Senders {
    fn places(&mut self, sender: &Sender) -> Arc<SenderPlaces> {
        if let Some(places) = self.by_sender.get(sender).and_then(Weak::upgrade) {
            return places;
        }
        if self.by_sender.len() >= self.tidied_at.max(SENDERS_FEW) {
            self.by_sender.retain(|_, places| places.strong_count() > 0);
            self.tidied_at = 2 * self.by_sender.len();
        }
        let places = Arc::new(SenderPlaces {
            medium: Arc::new(Semaphore::new(MEDIUM_OF_SENDER_MAX)),
            large: Arc::new(Semaphore::new(LARGE_OF_SENDER_MAX)),
        });
        self.by_sender.insert(sender.clone(), Arc::downgrade(&places));
        places
    }
}

/// Places for messages of a size.
#[derive(Clone, Debug)]
struct Class {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

/// The places that one connection may take.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPlaces {
    server: Places,
    medium: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// What a caller sends in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sends {
    /// One message, and nothing behind it.
    One,
    /// Any number of messages, whenever it has something to say.
    Stream,
}

impl Class {
    fn new(places: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(places)), waiting: Arc::default() }
    }
}

impl Places {
    pub(crate) fn new(figures: &Figures) -> Self {
        Self {
            medium: Class::new(MEDIUM_MAX),
            large: Class::new(LARGE_MAX),
            senders: Arc::default(),
            begun_bytes: Arc::default(),
            figures: figures.clone(),
        }
    }

    /// Those of a new connection.
    pub(crate) fn of_connection(&self) -> ConnectionPlaces {
        ConnectionPlaces {
            server: self.clone(),
            medium: Arc::new(Semaphore::new(MEDIUM_OF_CONNECTION_MAX)),
            large: Arc::new(Semaphore::new(LARGE_OF_CONNECTION_MAX)),
        }
    }
}

impl ConnectionPlaces {
    /// The body of a request, whose messages take places and have deadlines.
    pub(crate) fn guard<B>(&self, body: B, sends: Sends, sender: &Sender) -> Guarded<B> {
        let of_sender = self.server.senders.lock().unwrap_or_else(PoisonError::into_inner).places(sender);
        let mut guarded = Guarded {
            body,
            places: self.clone(),
            of_sender,
            sends,
            message: Message::default(),
            begun: Begun {
                bytes: 0,
                all: Arc::clone(&self.server.begun_bytes),
                gauge: self.server.figures.begun_bytes.clone(),
            },
            turn: Turn::NotNeeded,
            due: None,
        };
        guarded.begin_to_wait();
        guarded
    }

    /// A place for a message of this size: the connection's own first and then its sender's, so that
    /// it waits for nobody while it holds one of the server's.
    fn ask(&self, bytes: usize, of_sender: &SenderPlaces) -> Turn {
        let large = bytes > MEDIUM_BYTES_MAX;
        let (class, own, of_sender) = match large {
            true => (&self.server.large, &self.large, &of_sender.large),
            false => (&self.server.medium, &self.medium, &of_sender.medium),
        };
        let (free, waiting) = (Arc::clone(&class.free), Arc::clone(&class.waiting));
        let (own, of_sender) = (Arc::clone(own), Arc::clone(of_sender));
        let figures = &self.server.figures;
        let counted = Counted::new(if large { &figures.large_messages } else { &figures.medium_messages });
        let place = async move {
            let waits = Waits::new(waiting);
            let own = own.acquire_owned().await.ok();
            let of_sender = of_sender.acquire_owned().await.ok();
            let of_server = free.acquire_owned().await.ok();
            drop(waits);
            Place { _permits: [own, of_sender, of_server], _counted: counted }
        };
        let place: BoxFuture<'static, Place> = Box::pin(place);
        let place = Box::pin(timeout(WAIT_MAX, place));
        Turn::Waits { place, waiting: Arc::clone(&class.waiting) }
    }
}

/// Somebody waits for a place while this lives.
struct Waits(Arc<AtomicUsize>);

impl Waits {
    fn new(waiting: Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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

    /// How much of it has come.
    fn came(&self) -> usize {
        if self.left > 0 { self.bytes - self.left } else { 0 }
    }
}

/// What of a message without a place has come, as far as it counts for all of them.
struct Begun {
    bytes: usize,
    all: Arc<AtomicUsize>,
    gauge: Gauge,
}

impl Begun {
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

impl Drop for Begun {
    fn drop(&mut self) {
        self.becomes(0);
    }
}

/// Whether a body may be read on.
enum Turn {
    /// What has begun is small.
    NotNeeded,
    /// It waits for a place.
    Waits { place: Pin<Box<Timeout<BoxFuture<'static, Place>>>>, waiting: Arc<AtomicUsize> },
    /// It has one, and so many wait for one like it.
    Has { _place: Place, waiting: Arc<AtomicUsize> },
}

struct Place {
    _permits: [Option<OwnedSemaphorePermit>; 3],
    _counted: Counted,
}

/// When something has to be there.
struct Due {
    at_latest: Instant,
    /// At the end of the time, or when it is looked at the pace.
    sleep: Pin<Box<Sleep>>,
    /// What came since the last look, in bytes.
    moved: usize,
}

impl Due {
    fn within(time: Duration) -> Self {
        let now = Instant::now();
        let (at_latest, look) = (now + time, now + time.min(LOOK_EVERY));
        Self { at_latest, sleep: Box::pin(sleep_until(look)), moved: 0 }
    }

    fn of_message(bytes: usize) -> Self {
        Self::within(TIME_MAX + Duration::from_secs((bytes / BYTES_PER_SECOND_MIN) as u64))
    }

    /// Ready when it takes too long: altogether, or for those who wait.
    fn poll(&mut self, cx: &mut Context<'_>, others_wait: bool) -> Poll<()> {
        const PACE: usize = BYTES_PER_SECOND_MIN * LOOK_EVERY.as_secs() as usize;
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let now = Instant::now();
            let late = now.duration_since(self.sleep.deadline());
            if late > NOT_WATCHED {
                self.at_latest += late;
            } else if now >= self.at_latest || (others_wait && self.moved < PACE) {
                return Poll::Ready(());
            }
            self.moved = 0;
            self.sleep.as_mut().reset(self.at_latest.min(now + LOOK_EVERY));
        }
    }
}

/// A body whose messages take places and have deadlines.
pub(crate) struct Guarded<B> {
    body: B,
    places: ConnectionPlaces,
    of_sender: Arc<SenderPlaces>,
    sends: Sends,
    message: Message,
    begun: Begun,
    turn: Turn,
    due: Option<Due>,
}

impl<B> Guarded<B> {
    /// Between messages a stream may be silent; a single message, and the end behind it, have to
    /// come in time.
    fn begin_to_wait(&mut self) {
        self.turn = Turn::NotNeeded;
        self.begun.becomes(0);
        self.due = match self.sends {
            Sends::One => Some(Due::within(TIME_MAX)),
            Sends::Stream => None,
        };
    }

    fn came(&mut self, piece: &[u8]) {
        let begun = self.message.passes(piece);
        if !self.message.is_begun() {
            return self.begin_to_wait();
        }
        if begun {
            self.turn = Turn::NotNeeded;
            self.due = Some(Due::of_message(self.message.bytes));
        }
        if let Some(due) = &mut self.due {
            due.moved += piece.len();
        }
        if matches!(self.turn, Turn::NotNeeded) {
            self.begun.becomes(self.message.came());
            if self.message.came() >= FREE_BYTES || self.begun.is_too_much() {
                self.turn = self.places.ask(self.message.bytes, &self.of_sender);
            }
        }
    }

    /// Ready when it may be read on, or waited too long for that. The time of a message begins anew
    /// when it has its place: until then it is we who do not read.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Problem>> {
        if let Turn::Waits { place, waiting } = &mut self.turn {
            let Ok(place) = ready!(place.as_mut().poll(cx)) else { return Poll::Ready(Err(no_place())) };
            self.turn = Turn::Has { _place: place, waiting: Arc::clone(waiting) };
            self.begun.becomes(0);
            self.due = Some(Due::of_message(self.message.bytes));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let others_wait = match &self.turn {
            Turn::Has { waiting, .. } => waiting.load(Ordering::Relaxed) > 0,
            Turn::NotNeeded | Turn::Waits { .. } => false,
        };
        match &mut self.due {
            Some(due) => due.poll(cx, others_wait),
            None => Poll::Pending,
        }
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
        if let Err(no_place) = ready!(self.poll_turn(cx)) {
            self.turn = Turn::NotNeeded;
            return Poll::Ready(Some(Err(status(&no_place))));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.poll_due(cx));
            return Poll::Ready(Some(Err(status(&too_slow()))));
        };
        if let Some(Ok(frame)) = &frame
            && let Some(piece) = frame.data_ref()
        {
            self.came(piece);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| Status::from_error(Box::new(error)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
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
