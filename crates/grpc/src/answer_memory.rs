//! Memory for answers that are no pages: jobs, commands, and what was carried out.
//!
//! Whoever asks for much and takes nothing has its share of the memory, and not more.

use base::Problem;
use net::memory_budget::{MemoryBudget, MemoryPart, MemoryReservation, Purpose};
use net::shares::SenderKey;
use prometheus_client::metrics::gauge::Gauge;
use prost::Message;
use tonic::Response;

use crate::metrics::GrpcMetrics;
use crate::page_answer::PageMemory;

/// An answer up to this needs no memory of the budget, in bytes.
pub(crate) const SMALL_ANSWER_BYTES: usize = 64 * 1_024;
/// About what the largest answers take, in bytes. Where less is left, somebody is in the way.
const LARGE_ANSWER_BYTES: usize = 16 * 1_024 * 1_024;

/// Where answers take their memory, until they are sent. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AnswerMemory {
    memory: MemoryPart,
    held: Gauge,
}

impl AnswerMemory {
    pub(crate) fn new(memory: &MemoryBudget, metrics: &GrpcMetrics) -> Self {
        Self { memory: memory.part(Purpose::Answers), held: metrics.answer_held_bytes.clone() }
    }

    /// So much for a sender, if that is there.
    pub(crate) fn try_take(&self, sender: &SenderKey, bytes: usize) -> Option<MemoryReservation> {
        Some(self.memory.try_take(sender, bytes)?.counted_by(&self.held))
    }

    /// So much for a sender, once that is there.
    pub(crate) async fn take(&self, sender: &SenderKey, bytes: usize) -> MemoryReservation {
        self.memory.take(sender, bytes).await.counted_by(&self.held)
    }

    /// Whether a sender could be refused a large answer now.
    pub(crate) fn is_scarce(&self, sender: &SenderKey) -> bool {
        !self.memory.has(sender, LARGE_ANSWER_BYTES)
    }

    /// An answer that can be asked for again.
    ///
    /// # Errors
    /// 503 `busy` where there is no memory for it.
    pub(crate) fn answer<T: Message>(&self, sender: &SenderKey, answer: T) -> Result<Response<T>, Problem> {
        let bytes = answer.encoded_len();
        if bytes <= SMALL_ANSWER_BYTES {
            return Ok(Response::new(answer));
        }
        let busy = || {
            self.memory.count_refusal();
            let detail = "answers that callers do not take have all the memory for them; try again soon";
            Problem::new(503, "busy", detail)
        };
        Ok(with(self.try_take(sender, bytes).ok_or_else(busy)?, answer))
    }

    /// An answer that tells what was carried out, because a repeat would do things twice. It has as
    /// much memory as there is. What is more is not counted, and lasts half a minute at most.
    pub(crate) fn answer_always<T: Message>(&self, sender: &SenderKey, answer: T) -> Response<T> {
        let bytes = answer.encoded_len();
        if bytes <= SMALL_ANSWER_BYTES {
            return Response::new(answer);
        }
        with(self.memory.take_available(sender, bytes).counted_by(&self.held), answer)
    }
}

fn with<T>(memory: MemoryReservation, answer: T) -> Response<T> {
    let mut response = Response::new(answer);
    response.extensions_mut().insert(PageMemory::new(memory));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::AckResponse;

    fn answer(bytes: usize) -> AckResponse {
        AckResponse { acked: 0, stale: vec!["x".repeat(bytes)] }
    }

    #[test]
    fn what_can_be_asked_for_again_is_refused_without_memory_and_what_was_carried_out_is_told() {
        let metrics = GrpcMetrics::default();
        let memory = AnswerMemory::new(&MemoryBudget::default(), &metrics);
        let own = SenderKey::Token("a".into());
        let is_counted =
            |response: &Response<AckResponse>| response.extensions().get::<PageMemory>().is_some();
        let told = memory.answer_always(&own, answer(2 * SMALL_ANSWER_BYTES));
        assert!(is_counted(&told) && !memory.is_scarce(&own));
        assert!(metrics.answer_held_bytes.get() >= 2 * SMALL_ANSWER_BYTES as i64);
        drop(told);
        let _held = memory.try_take(&own, usize::MAX).expect("all of its share");
        assert!(memory.is_scarce(&own));
        let refused = memory.answer(&own, answer(2 * SMALL_ANSWER_BYTES)).err();
        assert_eq!(refused.map(|problem| (problem.status, problem.code)), Some((503, "busy")));
        assert!(
            is_counted(&memory.answer_always(&own, answer(2 * SMALL_ANSWER_BYTES))),
            "its time is limited too"
        );
        assert!(memory.answer(&own, answer(1_000)).is_ok_and(|small| !is_counted(&small)));
        let other = memory.answer(&SenderKey::Token("b".into()), answer(2 * SMALL_ANSWER_BYTES));
        assert!(other.is_ok_and(|other| is_counted(&other)), "another has a share of its own");
    }
}
