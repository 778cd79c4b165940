//! Places for large messages: a message is held whole before it is looked at, so only so many large ones are received at a time.
//!
//! The others are read more slowly, which their senders notice by HTTP/2's flow control. Who has a place has to make use of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::Problem;
use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use http_body::{Body, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use crate::figures::{Counted, Figures};
use crate::status::status;

/// A message up to this size, in bytes, is received without asking.
const SMALL_BYTES_MAX: usize = 256 * 1_024;
/// Larger ones that are received at the same time.
const LARGE_MAX: usize = 16;
/// How long a large one may take altogether, and a second more for every so many bytes.
const TIME_MAX: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND_MIN: usize = 16 * 1_024;
/// Before each message: a flag and its length.
const HEAD_BYTES: usize = 5;

/// The places.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    figures: Figures,
}

impl Places {
    pub(crate) fn new(figures: &Figures) -> Self {
        Self { free: Arc::new(Semaphore::new(LARGE_MAX)), figures: figures.clone() }
    }

    /// The body of a request, whose large messages take places.
    pub(crate) fn guard<B>(&self, body: B) -> Guarded<B> {
        Guarded { body, places: self.clone(), message: Message::default(), turn: Turn::NotNeeded }
    }
}

/// Where we are in a body: in the head of a message, or in what it carries.
#[derive(Debug, Default)]
struct Message {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the message that begun which have not come.
    left: usize,
}

impl Message {
    /// Goes on behind this piece. Answers how many bytes the message that is not all there has in all.
    fn passes(&mut self, mut piece: &[u8]) -> Option<usize> {
        let mut bytes = None;
        while !piece.is_empty() {
            let carried = self.left.min(piece.len());
            piece.advance(carried);
            self.left -= carried;
            if self.left == 0 && !piece.is_empty() {
                let taken = (HEAD_BYTES - self.head_bytes).min(piece.len());
                self.head[self.head_bytes..][..taken].copy_from_slice(&piece[..taken]);
                piece.advance(taken);
                self.head_bytes += taken;
                if self.head_bytes == HEAD_BYTES {
                    let [_, length @ ..] = self.head;
                    (self.head_bytes, self.left) = (0, u32::from_be_bytes(length) as usize);
                    bytes = Some(self.left);
                }
            }
        }
        bytes.filter(|_| self.left > 0)
    }
}

/// Whether a body may be read on.
enum Turn {
    /// There is no large message.
    NotNeeded,
    /// A large one of this size waits for a place.
    Waits(usize, BoxFuture<'static, Option<OwnedSemaphorePermit>>, Counted),
    /// It has one until its time is over.
    Has(Pin<Box<Sleep>>, #[expect(dead_code, reason = "held while the message comes")] Place),
}

type Place = (Option<OwnedSemaphorePermit>, Counted);

/// A body whose large messages take places.
pub(crate) struct Guarded<B> {
    body: B,
    places: Places,
    message: Message,
    turn: Turn,
}

impl<B> Guarded<B> {
    /// A large message needs a place; one that is all there gives it back.
    fn takes_turns(&mut self, piece: &[u8]) {
        let begun = self.message.passes(piece);
        if self.message.left == 0 || begun.is_some() {
            self.turn = Turn::NotNeeded;
        }
        if let Some(bytes) = begun.filter(|bytes| *bytes > SMALL_BYTES_MAX) {
            let free = Arc::clone(&self.places.free);
            let counted = Counted::new(&self.places.figures.large_messages);
            self.turn = Turn::Waits(bytes, Box::pin(async { free.acquire_owned().await.ok() }), counted);
        }
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Turn::Waits(bytes, place, _) = &mut self.turn {
            let place = ready!(place.as_mut().poll(cx));
            let time = TIME_MAX + Duration::from_secs((*bytes / BYTES_PER_SECOND_MIN) as u64);
            let turn = std::mem::replace(&mut self.turn, Turn::NotNeeded);
            if let Turn::Waits(_, _, counted) = turn {
                self.turn = Turn::Has(Box::pin(sleep(time)), (place, counted));
            }
        }
        Poll::Ready(())
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
        ready!(self.poll_turn(cx));
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            if let Turn::Has(time, _) = &mut self.turn {
                ready!(time.as_mut().poll(cx));
                return Poll::Ready(Some(Err(status(&too_slow()))));
            }
            return Poll::Pending;
        };
        if let Some(Ok(frame)) = &frame
            && let Some(piece) = frame.data_ref()
        {
            self.takes_turns(piece);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| Status::from_error(Box::new(error)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

fn too_slow() -> Problem {
    Problem::new(408, "body_too_slow", "very little of a large message came altogether")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(bytes: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend((bytes as u32).to_be_bytes());
        message.resize(HEAD_BYTES + bytes, 7);
        message
    }

    #[test]
    fn the_size_of_a_message_is_known_as_soon_as_its_head_is() {
        let stream = [framed(3), framed(0), framed(10)].concat();
        for cut in 1..stream.len() {
            let mut message = Message::default();
            let mut begun: Vec<_> = stream.chunks(cut).filter_map(|piece| message.passes(piece)).collect();
            begun.dedup();
            assert!(begun.iter().all(|bytes| [3, 10].contains(bytes)), "{cut}: {begun:?}");
            assert_eq!((message.left, message.head_bytes), (0, 0), "{cut}");
        }
        let mut message = Message::default();
        assert_eq!(message.passes(&framed(300)[..HEAD_BYTES]), Some(300));
        assert_eq!(message.passes(&[7; 299]), None);
        assert_eq!(message.left, 1);
    }
}
