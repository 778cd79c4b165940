//! The one memory budget for bodies: requests that are received, and answers that are made or on
//! their way, of all edges.
//!
//! A body takes its memory before it is read or made, and gives back what it turns out not to need.
//! A sender has a share of the budget, and whoever waits for its own share holds nothing that
//! others wait for. What fits in a few network packets is not counted: a body of up to
//! [`FREE_BYTES`] is bounded by the number of connections.

use std::sync::Arc;

use axum::body::HttpBody;
use axum::response::Response;
use base::answers::TakenFrom;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::OwnedSemaphorePermit;

use crate::shares::{Pool, SenderKey, Share};

/// All of the budget, in bytes.
pub const BUDGET_BYTES: usize = 256 * 1_024 * 1_024;
/// What one sender may have of it, in bytes.
pub const SENDER_BYTES: usize = BUDGET_BYTES / 2;
/// A body up to this size takes nothing of the budget; every object that can be accepted fits in
/// it.
pub const FREE_BYTES: usize = 64 * 1_024;
/// The budget is counted in these, in bytes.
const UNIT_BYTES: usize = 1_024;

/// The budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    pool: Arc<Pool>,
    held: Gauge,
    /// For one purpose, which may have so much of the budget.
    part: Option<Share>,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        let pool = Pool::new(BUDGET_BYTES / UNIT_BYTES, SENDER_BYTES / UNIT_BYTES);
        Self { pool: Arc::new(pool), held: Gauge::default(), part: None }
    }
}

impl MemoryBudget {
    /// The budget for a purpose that may have so many bytes of it at most.
    #[must_use]
    pub fn part(&self, bytes: usize) -> Self {
        Self { part: Some(Share::new(bytes / UNIT_BYTES)), ..self.clone() }
    }

    /// Puts its gauge into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let help = "Memory that bodies of requests and answers have of the budget of all edges";
        registry.register("fieldpost_memory_budget_held_bytes", help, self.held.clone());
    }

    /// So much for a sender, once that is there; a share at most. Whoever waits for it must hold
    /// nothing of the budget: it could be what others wait for.
    pub async fn take(&self, sender: &SenderKey, bytes: usize) -> Reservation {
        let part = match &self.part {
            Some(part) => Some(part.take(units(bytes)).await),
            None => None,
        };
        let (permits, from) = self.pool.take(sender, units(bytes)).await;
        self.reserved(permits, part, from)
    }

    /// So much for a sender, if that is there; a share at most.
    #[must_use]
    pub fn try_take(&self, sender: &SenderKey, bytes: usize) -> Option<Reservation> {
        let part = match &self.part {
            Some(part) => Some(part.try_take(units(bytes))?),
            None => None,
        };
        let (permits, from) = self.pool.try_take(sender, units(bytes))?;
        Some(self.reserved(permits, part, from))
    }

    /// As much of these bytes as is there, for what is in memory already.
    #[must_use]
    pub fn take_available(&self, sender: &SenderKey, bytes: usize) -> Reservation {
        let (permits, from) = self.pool.take_available(sender, units(bytes));
        self.reserved(permits, None, from)
    }

    fn reserved(
        &self,
        permits: [OwnedSemaphorePermit; 2],
        part: Option<OwnedSemaphorePermit>,
        from: TakenFrom,
    ) -> Reservation {
        let gauges = [self.held.clone(), Gauge::default()];
        let reservation = Reservation { permits, part, from, gauges };
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
pub struct Reservation {
    /// Of the sender's share, and of all.
    permits: [OwnedSemaphorePermit; 2],
    part: Option<OwnedSemaphorePermit>,
    from: TakenFrom,
    /// That of the budget, and that of its purpose.
    gauges: [Gauge; 2],
}

impl Reservation {
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
        for permits in self.permits.iter_mut().chain(&mut self.part) {
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

impl Drop for Reservation {
    fn drop(&mut self) {
        for gauge in &self.gauges {
            gauge.dec_by(self.bytes());
        }
    }
}

/// What an answer has of the budget, as an extension of it.
#[derive(Clone, Debug)]
pub(crate) struct UntilSent(pub(crate) Arc<Reservation>);

fn units(bytes: usize) -> u32 {
    bytes.min(SENDER_BYTES).div_ceil(UNIT_BYTES) as u32
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
        let page = budget.take(&SenderKey::Unknown, 8_000 * 1_024).await.counted_by(&pages);
        assert_eq!((budget.held.get(), pages.get()), (8_000 * 1_024, 8_000 * 1_024));
        let response = page.until_sent(Response::new(Body::from(vec![b' '; 100_000])));
        assert_eq!((budget.held.get(), pages.get()), (98 * 1_024, 98 * 1_024));
        drop(response);
        assert_eq!((budget.held.get(), pages.get(), budget.free_bytes()), (0, 0, BUDGET_BYTES));
    }

    #[tokio::test]
    async fn a_sender_has_a_share_and_who_waits_is_noticed() {
        let (budget, own) = (MemoryBudget::default(), token("a"));
        let held = budget.take(&own, SENDER_BYTES).await;
        assert!(!held.taken_from().is_wanted());
        let mut waiting = pin!(budget.take(&own, 1));
        assert!(waiting.as_mut().now_or_never().is_none() && held.taken_from().is_wanted());
        let other = budget.try_take(&token("b"), usize::MAX).expect("another's share");
        assert!(budget.take(&token("c"), 1).now_or_never().is_none(), "there is no more of it");
        assert_eq!(budget.take_available(&token("c"), 1).bytes(), 0);
        drop((held, other));
        drop(waiting.await);
        assert_eq!((budget.free_bytes(), budget.held.get()), (BUDGET_BYTES, 0));
    }

    #[test]
    fn what_is_not_needed_is_there_for_others() {
        let (budget, sender) = (MemoryBudget::default(), SenderKey::Unknown);
        let mut all: Vec<_> = (0..2).filter_map(|_| budget.try_take(&sender, SENDER_BYTES / 2)).collect();
        assert_eq!(all.len(), 2);
        assert!(budget.try_take(&sender, 1).is_none());
        all[0].shrink(SENDER_BYTES / 4);
        assert!(budget.try_take(&sender, SENDER_BYTES / 4 + 1).is_none());
        assert!(budget.try_take(&sender, SENDER_BYTES / 4).is_some());
    }

    #[test]
    fn a_purpose_has_a_part_and_leaves_the_rest_to_others() {
        let (budget, sender) = (MemoryBudget::default(), SenderKey::Unknown);
        let part = budget.part(SENDER_BYTES / 2);
        let mut held = part.try_take(&sender, SENDER_BYTES / 2).expect("all of the part");
        assert!(part.try_take(&sender, 1).is_none());
        assert!(budget.try_take(&sender, SENDER_BYTES / 2).is_some());
        held.shrink(SENDER_BYTES / 4);
        assert!(part.try_take(&sender, SENDER_BYTES / 4).is_some());
    }
}
