//! The sends of one task, side by side: each looks its client up, makes the attempt and says how it
//! ended.

use std::sync::Arc;
use std::time::Duration;

use base::{Incarnation, PartitionId};
use engine::records::{AttemptDetail, Reservation};
use engine::{AttemptDue, AttemptEnd, AttemptOutcome, Engine};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use crate::breaker::AttemptReport;
use crate::lanes::ClientStatus;
use crate::sender::Sender;

/// What every task needs.
pub(super) struct SendContext {
    pub(super) engine: Engine,
    pub(super) sender: Arc<Sender>,
    pub(super) timeout: Duration,
    pub(super) tell: mpsc::Sender<Vec<Finished>>,
}

/// A notification that is no longer in flight.
pub(super) struct Finished {
    pub(super) client: Incarnation,
    pub(super) partition: PartitionId,
    /// What is to be recorded; `None` if it counts as interrupted.
    pub(super) ended: Option<(Reservation, AttemptEnd)>,
    /// The attempt, if one was made.
    pub(super) tried: Option<AttemptReport>,
}

/// Sends what is due, side by side, and tells what ended together in one message.
pub(super) async fn see_through(shared: Arc<SendContext>, due: Vec<AttemptDue>) {
    let mut places = HeldPlaces::of(&shared.tell, &due);
    let shared = &shared;
    let send = |(place, due)| async move { (place, shared.send(due).await) };
    let sends: FuturesUnordered<_> = due.into_iter().enumerate().map(send).collect();
    let mut sends = sends.ready_chunks(super::SENDS_PER_TASK_MAX);
    while let Some(finished) = sends.next().await {
        places.finished(finished);
    }
}

impl SendContext {
    pub(super) fn status_of(&self, client: Incarnation) -> ClientStatus {
        match self.engine.directory().get(client) {
            None => ClientStatus::Gone,
            Some(client) if !client.enabled => ClientStatus::Disabled,
            Some(client) => ClientStatus::Enabled(client),
        }
    }

    /// Sends one notification, if its client is still there and enabled and the lease outlasts the
    /// attempt.
    pub(super) async fn send(&self, due: AttemptDue) -> Finished {
        let now = self.engine.clock().now();
        let holds = now.after(self.timeout) <= due.until;
        let to = self.engine.directory().get(due.client).filter(|client| client.enabled && holds);
        let AttemptDue { partition, client, reservation, delivery, body, .. } = due;
        let Some(to) = to else {
            let (answer, detail) = (AttemptOutcome::Withheld, AttemptDetail::default());
            let end = AttemptEnd { at: now, took: Duration::ZERO, answer, detail };
            return Finished { client, partition, ended: Some((reservation, end)), tried: None };
        };
        let end = self.sender.attempt(&to, delivery, body).await;
        let (at, answer) = (end.at, end.answer);
        let noted = self.engine.note_answer(&to, answer).await;
        if noted.is_err() {
            tracing::debug!(%partition, "the end of an attempt is not recorded; it will count as interrupted");
        }
        let ended = noted.is_ok().then_some((reservation, end));
        Finished { client, partition, ended, tried: Some(AttemptReport { to, delivery, at, answer }) }
    }
}

/// The places in flight that a task holds. Whatever way the task ends, they are told to be free.
struct HeldPlaces<'a> {
    tell: &'a mpsc::Sender<Vec<Finished>>,
    /// Whose each is, until its send has ended.
    held: Vec<Option<(Incarnation, PartitionId)>>,
}

impl<'a> HeldPlaces<'a> {
    fn of(tell: &'a mpsc::Sender<Vec<Finished>>, due: &[AttemptDue]) -> Self {
        Self { tell, held: due.iter().map(|due| Some((due.client, due.partition))).collect() }
    }

    fn finished(&mut self, finished: Vec<(usize, Finished)>) {
        // Collected, they would be in the larger allocation of `finished`, which is then shrunk.
        let mut told = Vec::with_capacity(finished.len());
        for (place, finished) in finished {
            self.held[place] = None;
            told.push(finished);
        }
        self.tell(told);
    }

    fn tell(&self, finished: Vec<Finished>) {
        // Fails only once a stop has closed the channel, and then nobody counts places any more.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.tell.try_send(finished) {
            tracing::error!("the sender lost count of its places in flight");
        }
    }
}

impl Drop for HeldPlaces<'_> {
    fn drop(&mut self) {
        let held = self.held.drain(..).flatten();
        let left: Vec<_> = held
            .map(|(client, partition)| Finished { client, partition, ended: None, tried: None })
            .collect();
        if !left.is_empty() {
            self.tell(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use base::{EntityId, Timestamp};
    use engine::records::JobId;

    use super::*;

    fn due(client: u64) -> AttemptDue {
        AttemptDue {
            partition: PartitionId(0),
            client: Incarnation(client),
            reservation: Reservation { job: JobId([0; 16]), lease: client },
            until: Timestamp(0),
            delivery: EntityId { routing: 0, at: Timestamp(0), number: 0, tag: 0 },
            attempt: 1,
            body: Arc::from([]),
        }
    }

    #[test]
    fn a_task_that_fails_gives_back_what_it_held() {
        let (tell, mut told) = mpsc::channel(8);
        let (client, partition) = (Incarnation(2), PartitionId(0));
        let mut places = HeldPlaces::of(&tell, &[due(1), due(2), due(3)]);
        places.finished(vec![(1, Finished { client, partition, ended: None, tried: None })]);
        drop(places);
        let mut clients = || -> Vec<u64> {
            told.try_recv().into_iter().flatten().map(|finished| finished.client.0).collect()
        };
        assert_eq!((clients(), clients(), clients()), (vec![2], vec![1, 3], vec![]));
    }
}
