//! Memory for what a call sent ahead of its answers: batches that are not durable, and messages of
//! pipelines whose calls have not all begun.
//!
//! Such a call moves only while its answers are taken. One whose answers are not would hold its
//! memory without end, so it ends while others lack that.

use base::Problem;
use net::memory_budget::{MemoryPart, Reservation};
use net::shares::SenderKey;

use crate::answers_in_flight::AnswersInFlight;
use crate::coordination;

/// About what the largest message of a pipeline takes, in bytes. It is refused where that is not
/// there, and waits for nothing. So where less is left, somebody is in the way.
const REFUSED_BYTES: usize = 2 * coordination::MESSAGE_BYTES_MAX;

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
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Reservation> {
        self.part.try_take(&self.sender, bytes)
    }

    /// So much, or else a refusal, which is counted.
    ///
    /// # Errors
    /// 503 `busy`.
    pub(crate) fn take_or_refuse(&self, bytes: usize) -> Result<Reservation, Problem> {
        self.try_take(bytes).ok_or_else(|| {
            self.part.count_refusal();
            Problem::new(503, "busy", "there is no memory for a message of this size; repeat it later")
        })
    }

    /// So much, once that is there. Whoever waits for it holds none of it.
    pub(crate) async fn take(&self, bytes: usize) -> Reservation {
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

#[cfg(test)]
mod tests {
    use net::memory_budget::{MemoryBudget, Purpose, SENDER_BYTES};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

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
