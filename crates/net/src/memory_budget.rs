//! The one memory budget for bodies: requests that are received, and answers that are made or on
//! their way, of all edges.
//!
//! A body takes its memory before it is read or made, and gives back what it turns out not to need.
//! A request keeps the rest until its answer is known: what was read out of its body waits for the
//! disk. That is so when its caller hangs up, too ([`crate::detach`]).
//!
//! Each [`Purpose`] has a part of the budget, so that whoever is slow at one of them stops no
//! other. So callers that do not read their answers do not stop reports. A sender has half of a
//! part, and whoever waits for its own half holds nothing that others wait for. What fits in a few
//! network packets is not counted: a body of up to [`FREE_BYTES`] is bounded by the number of
//! connections.

use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use axum::response::Response;
use base::Problem;
use base::answers::TakenFrom;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::detach::this_call;
use crate::metrics::LabelCounter;
use crate::shares::{SenderKey, SharedPool, Taken};

/// What memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Bodies of requests that are read as a whole, over HTTP, until they are answered.
    Bodies,
    /// NDJSON lines, and batches over gRPC, that are not durable yet.
    Lines,
    /// Messages over gRPC; that of a call with one message until the call is answered.
    Messages,
    /// Pages of lists, from before they are read until they are sent.
    Pages,
    /// Other answers, until they are sent.
    Answers,
}

impl Purpose {
    /// The part that it has, in bytes. All together are the budget, of 768 MiB.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Answers => 2 * PART_BYTES,
            Self::Bodies | Self::Lines | Self::Messages | Self::Pages => PART_BYTES,
        }
    }

    /// What figures call it.
    const fn label(self) -> &'static str {
        match self {
            Self::Bodies => "bodies",
            Self::Lines => "lines",
            Self::Messages => "messages",
            Self::Pages => "pages",
            Self::Answers => "answers",
        }
    }
}

const ALL: [Purpose; 5] =
    [Purpose::Bodies, Purpose::Lines, Purpose::Messages, Purpose::Pages, Purpose::Answers];

/// The part of every purpose but [`Purpose::Answers`], in bytes.
pub const PART_BYTES: usize = 128 * 1_024 * 1_024;
/// What one sender may have of such a part, in bytes.
pub const SENDER_BYTES: usize = PART_BYTES / 2;
/// A body up to this size takes nothing of the budget; every object that can be accepted fits in
/// it.
pub const FREE_BYTES: usize = 64 * 1_024;
/// How long a request waits for memory: meanwhile it has a place that others could have.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The budget is counted in these, in bytes.
const UNIT_BYTES: usize = 1_024;

/// The budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    parts: Arc<[MemoryPart; 5]>,
    held: Gauge,
    refused: LabelCounter,
}

/// The part of the budget that a purpose has. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryPart {
    pool: Arc<SharedPool>,
    /// What one sender may have.
    sender_bytes: usize,
    /// Of all parts.
    held: Gauge,
    refused: Counter,
    /// A call that has some goes on when its caller hangs up: it holds what came in its body.
    keeps_call: bool,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        let (held, refused) = (Gauge::default(), LabelCounter::new("purpose"));
        let part = |purpose: Purpose| {
            let (bytes, sender_bytes) = (purpose.bytes(), purpose.bytes() / 2);
            let pool = Arc::new(SharedPool::new(bytes / UNIT_BYTES, sender_bytes / UNIT_BYTES));
            let keeps_call = matches!(purpose, Purpose::Bodies | Purpose::Lines | Purpose::Messages);
            let (held, refused) = (held.clone(), refused.counter(purpose.label()));
            MemoryPart { pool, sender_bytes, held, refused, keeps_call }
        };
        Self { parts: Arc::new(ALL.map(part)), held, refused }
    }
}

impl MemoryBudget {
    /// The part that this purpose has.
    #[must_use]
    pub fn part(&self, purpose: Purpose) -> MemoryPart {
        self.parts[purpose as usize].clone()
    }

    /// All of it, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        ALL.iter().map(|purpose| purpose.bytes()).sum()
    }

    /// How much of it is taken, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        usize::try_from(self.held.get()).unwrap_or(0)
    }

    /// Puts its figures into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let help = "Memory that bodies of requests and answers have of the budget of all edges";
        registry.register("fieldpost_memory_budget_held_bytes", help, self.held.clone());
        let help = "Requests and answers that were refused for want of memory of that budget";
        self.refused.register(registry, "fieldpost_memory_budget_refused", help);
    }
}

impl MemoryPart {
    /// So much for a sender, once that is there; a share at most. Whoever waits for it must hold
    /// nothing of the part: it could be what others wait for.
    pub async fn take(&self, sender: &SenderKey, bytes: usize) -> MemoryReservation {
        self.reserved(self.pool.take(sender, units(bytes.min(self.sender_bytes))).await)
    }

    /// So much for a sender, as [`MemoryPart::take`] has it, if it is there in half a minute.
    ///
    /// # Errors
    /// 503 `busy` when it is not.
    pub async fn take_soon(&self, sender: &SenderKey, bytes: usize) -> Result<MemoryReservation, Problem> {
        timeout(WAIT_MAX, self.take(sender, bytes)).await.map_err(|_| {
            self.count_refusal();
            let detail = "others have all the memory there is for this; try again in a moment";
            Problem::new(503, "busy", detail)
        })
    }

    /// So much for a sender, if that is there; a share at most.
    #[must_use]
    pub fn try_take(&self, sender: &SenderKey, bytes: usize) -> Option<MemoryReservation> {
        Some(self.reserved(self.pool.try_take(sender, units(bytes.min(self.sender_bytes)))?))
    }

    /// Counts what its caller refused for want of this memory.
    pub fn count_refusal(&self) {
        self.refused.inc();
    }

    /// Whether so much is there for a sender; a share at most. It takes none of it.
    #[must_use]
    pub fn has(&self, sender: &SenderKey, bytes: usize) -> bool {
        self.pool.has(sender, units(bytes.min(self.sender_bytes)))
    }

    /// Whether others wait for what a sender takes.
    #[must_use]
    pub fn is_wanted(&self, sender: &SenderKey) -> bool {
        self.pool.is_wanted(sender)
    }

    /// As much of these bytes as is there, for what is in memory already.
    #[must_use]
    pub fn take_available(&self, sender: &SenderKey, bytes: usize) -> MemoryReservation {
        self.reserved(self.pool.take_available(sender, units(bytes.min(self.sender_bytes))))
    }

    fn reserved(&self, (permits, from): Taken) -> MemoryReservation {
        let gauges = [self.held.clone(), Gauge::default()];
        let call = self.keeps_call.then(this_call).flatten();
        let reservation = MemoryReservation { permits, from, gauges, call };
        reservation.gauges[0].inc_by(reservation.bytes());
        reservation
    }

    /// How much is free, in bytes.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.pool.free() * UNIT_BYTES
    }
}

/// Memory of the budget; given back when this is dropped.
#[derive(Debug)]
pub struct MemoryReservation {
    /// Of the sender's share, and of all.
    permits: [OwnedSemaphorePermit; 2],
    from: TakenFrom,
    /// That of the budget, and that of its purpose.
    gauges: [Gauge; 2],
    /// Which has it, and goes on with it when its caller hangs up.
    call: Option<Arc<()>>,
}

impl MemoryReservation {
    /// That of the call that runs here, which goes on with it: it was taken before that began.
    #[must_use]
    pub fn of_this_call(mut self) -> Self {
        self.call = this_call();
        self
    }

    /// Counted by this gauge too, which shows a purpose.
    #[must_use]
    pub fn counted_by(mut self, gauge: &Gauge) -> Self {
        self.gauges[1].dec_by(self.bytes());
        self.gauges[1] = gauge.clone();
        gauge.inc_by(self.bytes());
        self
    }

    /// Gives back what is more than this.
    pub fn shrink(&mut self, bytes: usize) {
        let before = self.bytes();
        for permits in &mut self.permits {
            let spare = permits.num_permits().saturating_sub(units(bytes) as usize);
            drop(permits.split(spare));
        }
        for gauge in &self.gauges {
            gauge.dec_by(before - self.bytes());
        }
    }

    /// From what it is taken: others may wait for that.
    #[must_use]
    pub fn taken_from(&self) -> &TakenFrom {
        &self.from
    }

    /// Has the answer take what it needs until it is sent. The listener takes it from the
    /// extensions of the answer.
    #[must_use]
    pub fn until_sent(mut self, mut response: Response) -> Response {
        self.shrink(response.body().size_hint().exact().unwrap_or(0) as usize);
        response.extensions_mut().insert(UntilSent(Arc::new(self)));
        response
    }

    fn bytes(&self) -> i64 {
        (self.permits[0].num_permits() * UNIT_BYTES) as i64
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        for gauge in &self.gauges {
            gauge.dec_by(self.bytes());
        }
    }
}

/// What an answer has of the budget, as an extension of it.
#[derive(Clone, Debug)]
pub(crate) struct UntilSent(pub(crate) Arc<MemoryReservation>);

fn units(bytes: usize) -> u32 {
    bytes.div_ceil(UNIT_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use axum::body::Body;
    use futures_util::FutureExt;

    use super::*;

    fn token(name: &str) -> SenderKey {
        SenderKey::Token(name.into())
    }

    #[tokio::test]
    async fn an_answer_holds_what_it_takes_until_it_is_gone() {
        let (budget, pages) = (MemoryBudget::default(), Gauge::default());
        let part = budget.part(Purpose::Pages);
        let page = part.take(&SenderKey::Unknown, 8_000 * 1_024).await.counted_by(&pages);
        assert_eq!((budget.held.get(), pages.get()), (8_000 * 1_024, 8_000 * 1_024));
        let response = page.until_sent(Response::new(Body::from(vec![b' '; 100_000])));
        assert_eq!((budget.held.get(), pages.get()), (98 * 1_024, 98 * 1_024));
        drop(response);
        assert_eq!((budget.held.get(), pages.get(), part.free_bytes()), (0, 0, PART_BYTES));
    }

    #[tokio::test]
    async fn a_sender_has_a_share_and_who_waits_is_noticed() {
        let (budget, own) = (MemoryBudget::default().part(Purpose::Bodies), token("a"));
        let held = budget.take(&own, SENDER_BYTES).await;
        assert!(!held.taken_from().is_wanted());
        let mut waiting = pin!(budget.take(&own, 1));
        assert!(waiting.as_mut().now_or_never().is_none() && held.taken_from().is_wanted());
        assert!(budget.is_wanted(&own) && !budget.is_wanted(&token("b")));
        let other = budget.try_take(&token("b"), usize::MAX).expect("another's share");
        assert!(budget.take(&token("c"), 1).now_or_never().is_none(), "there is no more of it");
        assert_eq!(budget.take_available(&token("c"), 1).bytes(), 0);
        drop((held, other));
        drop(waiting.await);
        assert_eq!((budget.free_bytes(), budget.held.get()), (PART_BYTES, 0));
    }

    #[tokio::test]
    async fn a_request_does_not_wait_for_ever() {
        tokio::time::pause();
        let (budget, own) = (MemoryBudget::default(), token("a"));
        let part = budget.part(Purpose::Pages);
        let held = part.take_soon(&own, SENDER_BYTES).await.expect("all of a share");
        let refused = part.take_soon(&own, 1).await.err();
        assert_eq!(refused.map(|problem| (problem.status, problem.code)), Some((503, "busy")));
        drop(held);
        assert!(part.take_soon(&own, 1).await.is_ok());
        let refused = |purpose: Purpose| budget.refused.counter(purpose.label()).get();
        assert_eq!((refused(Purpose::Pages), refused(Purpose::Bodies)), (1, 0), "counted by its purpose");
    }

    #[test]
    fn what_is_not_needed_is_there_for_others() {
        let (budget, sender) = (MemoryBudget::default().part(Purpose::Bodies), SenderKey::Unknown);
        let mut all: Vec<_> = (0..2).filter_map(|_| budget.try_take(&sender, SENDER_BYTES / 2)).collect();
        assert_eq!(all.len(), 2);
        assert!(budget.try_take(&sender, 1).is_none());
        all[0].shrink(SENDER_BYTES / 4);
        assert!(budget.try_take(&sender, SENDER_BYTES / 4 + 1).is_none());
        assert!(budget.try_take(&sender, SENDER_BYTES / 4).is_some());
    }

    #[tokio::test]
    async fn whoever_has_all_of_one_part_stops_nobody_at_another() {
        let budget = MemoryBudget::default();
        let answers = budget.part(Purpose::Answers);
        let held = ["a", "b"].map(|name| answers.try_take(&token(name), usize::MAX));
        assert!(held.iter().all(Option::is_some) && answers.free_bytes() == 0);
        assert!(answers.take(&token("c"), 1).now_or_never().is_none());
        for purpose in [Purpose::Bodies, Purpose::Lines, Purpose::Messages, Purpose::Pages] {
            let part = budget.part(purpose);
            assert!(part.take(&token("a"), SENDER_BYTES).now_or_never().is_some(), "{purpose:?}");
        }
    }
}
