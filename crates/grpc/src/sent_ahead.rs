//! Memory for what a call sent ahead of its answers: batches that are not durable, and messages of
//! pipelines whose calls have not all begun.
//!
//! Such a call moves only while its answers are taken. One whose answers are not would hold its
//! memory without end, so it ends while others lack that.

use base::Problem;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt, poll_immediate};
use futures_util::stream::FuturesOrdered;
use net::detach::Detaching;
use net::memory_budget::{MemoryPart, MemoryReservation};
use net::shares::SenderKey;

use crate::answers_in_flight::AnswersInFlight;
use crate::coordination;

/// About what the largest message of a pipeline takes, in bytes. It is refused where that is not
/// there, and waits for nothing. So where less is left, somebody is in the way.
const REFUSED_BYTES: usize = 2 * coordination::MESSAGE_BYTES_MAX;
/// Batches of one call that are handed in and not yet answered.
const BATCHES_IN_FLIGHT_MAX: usize = 8;

/// Where one call takes its memory. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct SentAhead {
    part: MemoryPart,
    sender: SenderKey,
    /// How much its calls must find there, or else they are refused; 0 if they wait for it.
    refused_below: usize,
}

impl SentAhead {
    /// Of calls that wait for their memory.
    pub(crate) fn that_waits(part: MemoryPart, sender: SenderKey) -> Self {
        Self { part, sender, refused_below: 0 }
    }

    /// Of calls that are refused where there is none.
    pub(crate) fn that_is_refused(part: MemoryPart, sender: SenderKey) -> Self {
        Self { part, sender, refused_below: REFUSED_BYTES }
    }

    /// So much, if that is there.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<MemoryReservation> {
        self.part.try_take(&self.sender, bytes)
    }

    /// So much, or else a refusal, which is counted.
    ///
    /// # Errors
    /// 503 `busy`.
    pub(crate) fn take_or_refuse(&self, bytes: usize) -> Result<MemoryReservation, Problem> {
        self.try_take(bytes).ok_or_else(|| {
            self.part.count_refusal();
            Problem::new(503, "busy", "there is no memory for a message of this size; repeat it later")
        })
    }

    /// So much, once that is there. Whoever waits for it holds none of it.
    pub(crate) async fn take(&self, bytes: usize) -> MemoryReservation {
        self.part.take(&self.sender, bytes).await
    }

    /// What the call has given out, from its beginning on. It sends messages too, and others may
    /// lack the memory of one that has half come.
    pub(crate) fn answers(
        &self,
        is_message_wanted: impl Fn() -> bool + Send + Sync + 'static,
    ) -> AnswersInFlight {
        let Self { part, sender, refused_below } = self.clone();
        AnswersInFlight::new(move || {
            part.is_wanted(&sender) || !part.has(&sender, refused_below) || is_message_wanted()
        })
    }
}

/// The batches of a call: one that waits for memory, and those that are handed in, which are
/// answered in turn.
pub(crate) struct BatchesInFlight<B, O> {
    memory: SentAhead,
    /// With how much it takes.
    waiting: Option<(B, usize)>,
    in_flight: FuturesOrdered<BoxFuture<'static, O>>,
}

impl<B, O: Send + 'static> BatchesInFlight<B, O> {
    pub(crate) fn new(memory: SentAhead) -> Self {
        Self { memory, waiting: None, in_flight: FuturesOrdered::new() }
    }

    /// Whether another batch may be read.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.is_none() && self.in_flight.len() < BATCHES_IN_FLIGHT_MAX
    }

    /// Whether none is handed in.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// A batch that takes so much waits for it.
    pub(crate) fn wait(&mut self, batch: B, bytes: usize) {
        self.waiting = Some((batch, bytes));
    }

    /// The batch that waits, once there is memory. Whoever has batches under way does not wait
    /// here: the memory of these may be what others wait for.
    pub(crate) async fn with_memory(&mut self) -> Option<(B, MemoryReservation)> {
        let bytes = self.waiting.as_ref()?.1;
        let held = match self.memory.try_take(bytes) {
            Some(held) => held,
            None if self.in_flight.is_empty() => self.memory.take(bytes).await,
            None => return None,
        };
        self.waiting.take().map(|(batch, _)| (batch, held))
    }

    /// A batch is handed in. It has its memory until it is answered, also where its call ends
    /// before.
    pub(crate) async fn push(
        &mut self,
        held: MemoryReservation,
        outcome: impl Future<Output = O> + Send + 'static,
    ) {
        let outcome = Detaching::new(async move {
            let _held = held.of_this_call();
            outcome.await
        });
        let mut outcome = outcome.boxed();
        // What is polled once is on its way, ahead of all that comes later.
        match poll_immediate(&mut outcome).await {
            Some(outcome) => self.in_flight.push_back(async { outcome }.boxed()),
            None => self.in_flight.push_back(outcome),
        }
    }

    /// How the oldest one ended.
    pub(crate) async fn next(&mut self) -> Option<O> {
        self.in_flight.next().await
    }

    /// Nobody is told of any of them.
    pub(crate) fn clear(&mut self) {
        self.in_flight.clear();
        self.waiting = None;
    }
}

#[cfg(test)]
mod tests {
    use net::memory_budget::{MemoryBudget, PART_BYTES, Purpose, SENDER_BYTES};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn a_batch_has_its_memory_until_it_is_answered_also_without_its_call() {
        let part = MemoryBudget::default().part(Purpose::Lines);
        let mut sent = BatchesInFlight::new(SentAhead::that_waits(part.clone(), SenderKey::Unknown));
        sent.wait("first", SENDER_BYTES);
        let (batch, held) = sent.with_memory().await.expect("there is memory");
        assert_eq!(batch, "first");
        let (durable, committed) = oneshot::channel::<()>();
        sent.push(held, committed).await;
        sent.wait("second", 1);
        assert!(!sent.has_room() && sent.with_memory().await.is_none(), "it waits for the first");
        drop(sent);
        assert_eq!(PART_BYTES - part.free_bytes(), SENDER_BYTES);
        durable.send(()).expect("it goes on");
        while part.free_bytes() < PART_BYTES {
            yield_now().await;
        }
    }

    #[test]
    fn a_message_that_is_refused_is_counted() {
        let (budget, mut registry) = (MemoryBudget::default(), Registry::default());
        budget.register_metrics(&mut registry);
        let memory = SentAhead::that_is_refused(budget.part(Purpose::Lines), SenderKey::Unknown);
        let _all = memory.take_or_refuse(SENDER_BYTES).expect("there is memory");
        let refused = memory.take_or_refuse(1).err();
        assert_eq!(refused.map(|problem| (problem.status, problem.code)), Some((503, "busy")));
        let mut figures = String::new();
        encode(&mut figures, &registry).expect("a String takes every write");
        let counted = "fieldpost_memory_budget_refused_total{purpose=\"lines\"} 1";
        assert!(figures.contains(counted), "{figures}");
    }
}
