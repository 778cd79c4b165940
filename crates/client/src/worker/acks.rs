//! Acknowledgements, together: while one call is under way, those that come meanwhile gather for
//! the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::consumer::Consumer;
use crate::error::Error;
use crate::job::JobReservation;

/// The most that one call acknowledges.
const ACKS_PER_CALL_MAX: usize = 1_000;

/// What became of an acknowledgement.
pub(super) type Outcome = Result<Ack, Arc<Error>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ack {
    /// The job is done.
    Done,
    /// The reservation did not hold.
    Stale,
    /// It did not at a second try, but the first may have got through.
    Repeated,
}

/// A job that is done, and who wants to know whether the server knows.
struct PendingAck {
    reservation: JobReservation,
    told: oneshot::Sender<Outcome>,
}

/// Where acknowledgements are handed in.
#[derive(Clone)]
pub(super) struct Acks {
    pending: mpsc::Sender<PendingAck>,
}

impl Acks {
    /// With room for so many; and what sends them, which ends when nobody can hand one in any more.
    pub(super) fn new(
        consumer: Consumer,
        room: usize,
        retry_for: Duration,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (pending, handed_in) = mpsc::channel(room);
        (Self { pending }, send_all(consumer, handed_in, retry_for))
    }

    /// Acknowledges a job; `None` if nobody sends acknowledgements any more.
    pub(super) async fn ack(&self, reservation: JobReservation) -> Option<Outcome> {
        let (told, outcome) = oneshot::channel();
        self.pending.send(PendingAck { reservation, told }).await.ok()?;
        outcome.await.ok()
    }
}

async fn send_all(consumer: Consumer, mut handed_in: mpsc::Receiver<PendingAck>, retry_for: Duration) {
    let mut gathered = Vec::new();
    while handed_in.recv_many(&mut gathered, ACKS_PER_CALL_MAX).await > 0 {
        let mut by_queue: BTreeMap<String, Vec<PendingAck>> = BTreeMap::new();
        for pending in gathered.drain(..) {
            by_queue.entry(pending.reservation.queue.clone()).or_default().push(pending);
        }
        for (queue, pending) in by_queue {
            send(&consumer, &queue, pending, retry_for).await;
        }
    }
}

async fn send(consumer: &Consumer, queue: &str, pending: Vec<PendingAck>, retry_for: Duration) {
    let tokens: Vec<_> = pending.iter().map(|pending| pending.reservation.token.as_str()).collect();
    let answer = consumer.ack_there(queue, &tokens, Instant::now() + retry_for).await;
    let answer = answer.map_err(Arc::new);
    for PendingAck { reservation, told } in pending {
        let outcome = match &answer {
            Ok(there) if !there.stale.contains(&reservation.token) => Ok(Ack::Done),
            Ok(there) if there.perhaps_twice => Ok(Ack::Repeated),
            Ok(_) => Ok(Ack::Stale),
            Err(error) => Err(Arc::clone(error)),
        };
        // Whoever lost the reservation meanwhile does not wait for this.
        drop(told.send(outcome));
    }
}
