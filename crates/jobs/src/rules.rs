//! What a queue's users allow: its order, a pause, how many at a time, how many a second.
//!
//! The rate is a bucket of tokens: one goes with every lease, and they come back evenly, up to as many as a second brings
//! but one at least. Counted in whole billionths, so that nothing is lost to rounding however often it is looked at.

use base::Timestamp;
use records::{QueueKey, QueueOrder};

use crate::jobs::Jobs;

/// Parts of a token.
const TOKEN: u64 = 1_000_000_000;
const MS_PER_SECOND: u64 = 1_000;

/// What holds for the leases of a queue. The default, which costs nothing, allows all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueRules {
    /// Which ready job is first.
    pub order: QueueOrder,
    /// Nothing is leased.
    pub paused: bool,
    /// Most jobs reserved at the same time.
    pub concurrency: Option<u32>,
    /// Most leases in a second, on average; after a quiet time a second's worth may go at once.
    pub rate: Option<f64>,
}

/// The rules of a queue, and how much of its rate is left.
pub(crate) struct Rules {
    pub(crate) is_paused: bool,
    pub(crate) concurrency: Option<u32>,
    pub(crate) bucket: Option<Bucket>,
    /// When a token is waited for.
    pub(crate) refill_at: Option<Timestamp>,
}

impl Rules {
    /// The rules from now on; tokens that are there stay, as many as fit.
    pub(crate) fn new(rules: &QueueRules, before: Option<&Self>, now: Timestamp) -> Self {
        let left = before.and_then(|before| before.bucket.as_ref()).map(|bucket| bucket.tokens(now));
        Self {
            is_paused: rules.paused,
            concurrency: rules.concurrency,
            bucket: rules.rate.map(|rate| Bucket::new(rate, left, now)),
            refill_at: None,
        }
    }

    /// Whether a lease is allowed but for the rate.
    pub(crate) fn allow(&self, reserved: u32) -> bool {
        !self.is_paused && self.concurrency.is_none_or(|most| reserved < most)
    }
}

impl Jobs {
    /// Has these rules hold for a queue from now on. Jobs that are reserved already stay so, however many there are.
    pub fn set_rules(
        &mut self,
        queue: QueueKey,
        rules: QueueRules,
        now: Timestamp,
        wakes: &mut Vec<QueueKey>,
    ) {
        let queue = self.queues.enter(queue);
        if self.queues.reorder(self.table.entries_mut(), queue, rules.order) {
            self.line_is_reordered(queue);
        }
        let before = self.queues[queue].rules.take();
        if let Some(at) = before.as_ref().and_then(|before| before.refill_at) {
            self.timers.forget_refill(at, queue);
        }
        if rules != QueueRules::default() {
            self.queues[queue].rules = Some(Box::new(Rules::new(&rules, before.as_deref(), now)));
        }
        wakes.extend(self.open_line(queue, now));
        self.queues.leave(queue);
    }

    /// Has no rules hold for a queue that is no longer one. Nobody is told.
    pub fn forget_rules(&mut self, queue: QueueKey) {
        self.set_rules(queue, QueueRules::default(), Timestamp(0), &mut Vec::new());
    }
}

/// Tokens that come evenly.
pub(crate) struct Bucket {
    /// Parts that come in a millisecond; not 0.
    per_ms: u64,
    /// Parts that were there at `at`.
    parts: u64,
    at: Timestamp,
}

impl Bucket {
    fn new(rate: f64, left: Option<u64>, now: Timestamp) -> Self {
        // A cast of what is too large or not a number saturates.
        let per_ms = ((rate * (TOKEN / MS_PER_SECOND) as f64).round() as u64).max(1);
        let mut bucket = Self { per_ms, parts: 0, at: now };
        bucket.parts = left.unwrap_or(u64::MAX).min(bucket.capacity());
        bucket
    }

    /// When the next lease is allowed: now, or later.
    pub(crate) fn next(&self, now: Timestamp) -> Timestamp {
        let missing = TOKEN.saturating_sub(self.tokens(now));
        let wait = missing.div_ceil(self.per_ms);
        Timestamp(now.0.saturating_add_unsigned(wait))
    }

    /// Takes a token, which must be there.
    pub(crate) fn take(&mut self, now: Timestamp) {
        self.parts = self.tokens(now).saturating_sub(TOKEN);
        self.at = now;
    }

    /// Takes a token back that was not used.
    pub(crate) fn give_back(&mut self, now: Timestamp) {
        self.parts = self.tokens(now).saturating_add(TOKEN).min(self.capacity());
        self.at = now;
    }

    fn tokens(&self, now: Timestamp) -> u64 {
        let passed = u64::try_from(now.0.saturating_sub(self.at.0)).unwrap_or(0);
        self.parts.saturating_add(self.per_ms.saturating_mul(passed)).min(self.capacity())
    }

    fn capacity(&self) -> u64 {
        self.per_ms.saturating_mul(MS_PER_SECOND).max(TOKEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_until(bucket: &mut Bucket, end: i64) -> usize {
        let times = std::iter::from_fn(|| {
            let at = bucket.next(bucket.at);
            (at.0 < end).then(|| bucket.take(at))
        });
        times.count()
    }

    #[test]
    fn a_second_has_as_many_leases_as_the_rate_and_no_fraction_is_lost() {
        // (rate, end in ms, leases: what a full bucket has, and what comes)
        let rows = [
            (10.0, 1, 10),
            (10.0, 10_001, 110),
            (0.5, 1, 1),
            (0.5, 10_001, 6),
            (3.0, 100_001, 303),
            (7_000.0, 10_000, 7_000 + 69_993),
            (0.001, 2_000_001, 3),
        ];
        for (rate, end, expect) in rows {
            let mut bucket = Bucket::new(rate, None, Timestamp(0));
            assert_eq!(taken_until(&mut bucket, end), expect, "{rate} a second until {end}");
        }
    }

    #[test]
    fn nobody_saves_more_than_a_second() {
        let mut bucket = Bucket::new(5.0, None, Timestamp(0));
        assert_eq!(taken_until(&mut bucket, 1), 5);
        bucket.at = Timestamp(0);
        assert_eq!(bucket.tokens(Timestamp(3_600_000)), 5 * TOKEN);
    }

    #[test]
    fn rates_beyond_measure_are_kept_within_what_can_be_counted() {
        for rate in [0.0, -1.0, f64::NAN, 1e-30] {
            let bucket = Bucket::new(rate, Some(0), Timestamp(0));
            assert_eq!(bucket.next(Timestamp(0)), Timestamp(1_000_000_000), "{rate}");
        }
        let mut bucket = Bucket::new(f64::INFINITY, None, Timestamp(0));
        bucket.take(Timestamp(0));
        assert_eq!(bucket.next(Timestamp(0)), Timestamp(0));
    }
}
