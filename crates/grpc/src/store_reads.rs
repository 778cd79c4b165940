//! Reads of the store, in their turn: so many at a time for all services together.

use std::sync::Arc;

use base::Problem;
use base::limits::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX};
use net::memory_budget::{MemoryBudget, MemoryPart, MemoryReservation, Purpose, SENDER_BYTES};
use net::shares::{SenderKey, SharedPool, Taken};
use prometheus_client::metrics::gauge::Gauge;
use prost::Message;
use tokio::sync::Semaphore;
use tonic::Response;

use crate::answer_memory::{AnswerMemory, SMALL_ANSWER_BYTES};
use crate::metrics::GrpcMetrics;
use crate::page_answer::PageMemory;
use crate::receiving::give_back;

/// Reads that run at the same time, and those that wait for their turn.
const READS_RUNNING_MAX: usize = 2;
const READS_WAITING_MAX: usize = 256;
/// Of those, the reads of one token, or of one address where there are none.
const READS_SHARE: usize = 130;
/// A page ends before its items become heavier than this, in bytes. A client takes no message over
/// 4 MiB unless it is told to, and the message has a head besides.
pub(crate) const PAGE_BYTES_MAX: usize = 4 * 1_024 * 1_024 - 64 * 1_024;
/// What an item has on the wire besides: its tag and its length, in bytes.
pub(crate) const FIELD_BYTES_MAX: usize = 8;
/// What a page may take at most, in bytes: half of what its caller may have, so that a slow one
/// leaves room for another.
const PAGE_HELD_BYTES_MAX: usize = SENDER_BYTES / 2;

/// Where reads have their turn. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StoreReads {
    places: Arc<SharedPool>,
    turns: Arc<Semaphore>,
    /// For pages, from before they are read until they are sent.
    memory: MemoryPart,
    page_held_bytes: Gauge,
    answers: AnswerMemory,
}

impl StoreReads {
    pub(crate) fn new(memory: &MemoryBudget, metrics: &GrpcMetrics) -> Self {
        Self {
            places: Arc::new(SharedPool::new(READS_RUNNING_MAX + READS_WAITING_MAX, READS_SHARE)),
            turns: Arc::new(Semaphore::new(READS_RUNNING_MAX)),
            memory: memory.part(Purpose::Pages),
            page_held_bytes: metrics.page_held_bytes.clone(),
            answers: AnswerMemory::new(memory, metrics),
        }
    }

    /// Where answers that are no pages take their memory.
    pub(crate) fn answers(&self) -> &AnswerMemory {
        &self.answers
    }

    /// Reads the store in its turn.
    ///
    /// # Errors
    /// 503 `busy`, or what the read says.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        sender: &SenderKey,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let _place = self.enter(sender)?;
        self.in_turn(read).await
    }

    /// [`StoreReads::run`], once there is a place. Only for callers that have a limit elsewhere.
    ///
    /// # Errors
    /// What the read says.
    pub(crate) async fn run_when_free<T: Send + 'static>(
        &self,
        sender: &SenderKey,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let _place = self.places.take(sender, 1).await;
        self.in_turn(read).await
    }

    /// [`StoreReads::run`], once there is a place and memory for what is read. Only for callers
    /// that have a limit elsewhere, and hold no page but one that its connection sends.
    ///
    /// # Errors
    /// What the read says.
    pub(crate) async fn run_with_memory<T: Send + 'static>(
        &self,
        sender: &SenderKey,
        bytes_max: usize,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<(T, MemoryReservation), Problem> {
        let memory = self.memory.take(sender, bytes_max.min(PAGE_HELD_BYTES_MAX)).await;
        let memory = memory.counted_by(&self.page_held_bytes);
        Ok((self.run_when_free(sender, read).await?, memory))
    }

    /// Whether others wait for the memory that pages of this sender take.
    pub(crate) fn is_memory_wanted(&self, sender: &SenderKey) -> bool {
        self.memory.is_wanted(sender)
    }

    /// Reads a page that takes at most so many bytes while it is made, with memory for it. The
    /// answer has what it needs of that until it is sent.
    ///
    /// # Errors
    /// 503 `busy`, or what the read says.
    pub(crate) async fn page<T: Message + 'static>(
        &self,
        sender: &SenderKey,
        bytes_max: usize,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<Response<T>, Problem> {
        // Whoever waits for memory waits among those who wait for their turn.
        let _place = self.enter(sender)?;
        give_back();
        let memory = self.memory.take_soon(sender, bytes_max.min(PAGE_HELD_BYTES_MAX)).await?;
        let mut memory = memory.counted_by(&self.page_held_bytes);
        let page = self.in_turn(read).await?;
        // The page, and its bytes for the wire.
        memory.shrink(2 * page.encoded_len());
        let mut response = Response::new(page);
        response.extensions_mut().insert(PageMemory::new(memory));
        Ok(response)
    }

    /// An answer that is made already, of what is in memory anyway: what its bytes for the wire
    /// take is held until it is sent.
    ///
    /// # Errors
    /// 503 `busy`.
    pub(crate) async fn with_memory<T: Message + 'static>(
        &self,
        sender: &SenderKey,
        answer: T,
    ) -> Result<Response<T>, Problem> {
        let bytes = answer.encoded_len();
        let mut response = Response::new(answer);
        if bytes > SMALL_ANSWER_BYTES {
            give_back();
            let memory = self.memory.take_soon(sender, bytes).await?;
            let memory = memory.counted_by(&self.page_held_bytes);
            response.extensions_mut().insert(PageMemory::new(memory));
        }
        Ok(response)
    }

    fn enter(&self, sender: &SenderKey) -> Result<Taken, Problem> {
        let busy = || Problem::new(503, "busy", "too many reads wait for their turn; try again in a moment");
        self.places.try_take(sender, 1).ok_or_else(busy)
    }

    async fn in_turn<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.expect("the turns are never closed");
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            read()
        });
        match reading.await {
            Ok(read) => read,
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            Err(_) => Err(Problem::unavailable("the server is stopping")),
        }
    }
}

/// How many items a page may have.
///
/// # Errors
/// `invalid_number`.
pub(crate) fn page_limit(limit: Option<u32>) -> Result<usize, Problem> {
    let limit = limit.map_or(PAGE_ITEMS_DEFAULT, |limit| limit as usize);
    if (1..=PAGE_ITEMS_MAX).contains(&limit) {
        return Ok(limit);
    }
    let detail = format!("limit must be 1 to {PAGE_ITEMS_MAX}, not {limit}");
    Err(Problem::not_allowed("invalid_number", detail))
}

/// The refusal of a page that no call gave.
pub(crate) fn foreign_page() -> Problem {
    Problem::new(400, "invalid_cursor", "page is not one that this call gave")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn token(name: &str) -> SenderKey {
        SenderKey::Token(name.into())
    }

    #[tokio::test]
    async fn one_caller_leaves_places_for_others_and_a_patient_one_waits_for_its_own() {
        let reads = StoreReads::new(&MemoryBudget::default(), &GrpcMetrics::default());
        let (own, other) = (token("a"), token("b"));
        let held: Vec<_> = (0..READS_SHARE).map(|_| reads.enter(&own).expect("of its share")).collect();
        let refused = reads.run(&own, || Ok(())).await;
        assert_eq!(refused.map_err(|problem| (problem.status, problem.code)), Err((503, "busy")));
        assert_eq!(reads.run(&other, || Ok("read")).await, Ok("read"));
        let mut patient = Box::pin(reads.run_when_free(&own, || Ok("later")));
        assert!(patient.as_mut().now_or_never().is_none());
        drop(held);
        assert_eq!(patient.await, Ok("later"));
    }

    #[tokio::test]
    async fn a_page_has_memory_of_its_callers_share_until_it_is_sent() {
        let reads = StoreReads::new(&MemoryBudget::default(), &GrpcMetrics::default());
        let own = token("a");
        let page = || Ok(crate::proto::ListRolloutsResponse::default());
        let before = reads.memory.free_bytes();
        let held = reads.memory.take(&own, SENDER_BYTES).await;
        let mut waits = Box::pin(reads.page(&own, 1_024, page));
        assert!(waits.as_mut().now_or_never().is_none(), "there is no memory for it");
        assert!(reads.page(&token("b"), 1_024, page).await.is_ok());
        drop(held);
        assert!(waits.await.is_ok_and(|answer| answer.extensions().get::<PageMemory>().is_some()));
        assert_eq!(reads.memory.free_bytes(), before);
    }
}
