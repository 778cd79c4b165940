//! What a queue's users allow: its order, a pause, how many at a time, how many a second.
//!
//! The rate is a bucket of tokens. One goes with every lease, and they come back evenly, up to as
//! many as a second brings but one at least. Counted in whole billionths, so that nothing is lost
//! to rounding however often it is looked at.

use base::Timestamp;
use records::QueueOrder;

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
pub(crate) struct EnforcedRules {
    is_paused: bool,
    concurrency: Option<u32>,
    bucket: Option<TokenBucket>,
    /// When a token is waited for.
    refill_at: Option<Timestamp>,
}

/// When the rules of a queue allow a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    Now,
    /// Its rate allows it then, which is later.
    From(Timestamp),
    /// Not before a run ends, or other rules are set.
    Never,
}

impl EnforcedRules {
    /// The rules from now on; tokens that are there stay, as many as fit.
    pub(crate) fn new(rules: &QueueRules, before: Option<&Self>, now: Timestamp) -> Self {
        let left = before.and_then(|before| before.bucket.as_ref()).map(|bucket| bucket.tokens(now));
        Self {
            is_paused: rules.paused,
            concurrency: rules.concurrency,
            bucket: rules.rate.map(|rate| TokenBucket::new(rate, left, now)),
            refill_at: None,
        }
    }

    /// When a lease is allowed beside `reserved` others.
    pub(crate) fn allowance(&self, reserved: u32, now: Timestamp) -> Allowance {
        if self.is_paused || self.concurrency.is_some_and(|most| reserved >= most) {
            return Allowance::Never;
        }
        let next = self.bucket.as_ref().map(|bucket| bucket.next(now));
        next.filter(|next| *next > now).map_or(Allowance::Now, Allowance::From)
    }

    /// A lease was made.
    pub(crate) fn take_token(&mut self, now: Timestamp) {
        if let Some(bucket) = &mut self.bucket {
            bucket.take(now);
        }
    }

    /// A lease was taken back.
    pub(crate) fn give_back_token(&mut self, now: Timestamp) {
        if let Some(bucket) = &mut self.bucket {
            bucket.give_back(now);
        }
    }

    /// When a token is waited for.
    pub(crate) fn refill_at(&self) -> Option<Timestamp> {
        self.refill_at
    }

    /// Notes when a token is waited for; answers when one was until now.
    pub(crate) fn set_refill_at(&mut self, at: Option<Timestamp>) -> Option<Timestamp> {
        std::mem::replace(&mut self.refill_at, at)
    }
}

/// Tokens that come evenly.
struct TokenBucket {
    /// Parts that come in a millisecond; not 0.
    per_ms: u64,
    /// Parts that were there at `at`.
    parts: u64,
    at: Timestamp,
}

impl TokenBucket {
    fn new(rate: f64, left: Option<u64>, now: Timestamp) -> Self {
        // A cast of what is too large or not a number saturates.
        let per_ms = ((rate * (TOKEN / MS_PER_SECOND) as f64).round() as u64).max(1);
        let mut bucket = Self { per_ms, parts: 0, at: now };
        bucket.parts = left.unwrap_or(u64::MAX).min(bucket.capacity());
        bucket
    }

    /// When the next lease is allowed: now, or later.
    fn next(&self, now: Timestamp) -> Timestamp {
        let missing = TOKEN.saturating_sub(self.tokens(now));
        let wait = missing.div_ceil(self.per_ms);
        Timestamp(now.0.saturating_add_unsigned(wait))
    }

    /// Takes a token, which must be there.
    fn take(&mut self, now: Timestamp) {
        self.parts = self.tokens(now).saturating_sub(TOKEN);
        self.at = now;
    }

    /// Takes a token back that was not used.
    fn give_back(&mut self, now: Timestamp) {
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

    fn taken_until(bucket: &mut TokenBucket, end: i64) -> usize {
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
            let mut bucket = TokenBucket::new(rate, None, Timestamp(0));
            assert_eq!(taken_until(&mut bucket, end), expect, "{rate} a second until {end}");
        }
    }

    #[test]
    fn nobody_saves_more_than_a_second() {
        let mut bucket = TokenBucket::new(5.0, None, Timestamp(0));
        assert_eq!(taken_until(&mut bucket, 1), 5);
        bucket.at = Timestamp(0);
        assert_eq!(bucket.tokens(Timestamp(3_600_000)), 5 * TOKEN);
    }

    #[test]
    fn rates_beyond_measure_are_kept_within_what_can_be_counted() {
        for rate in [0.0, -1.0, f64::NAN, 1e-30] {
            let bucket = TokenBucket::new(rate, Some(0), Timestamp(0));
            assert_eq!(bucket.next(Timestamp(0)), Timestamp(1_000_000_000), "{rate}");
        }
        let mut bucket = TokenBucket::new(f64::INFINITY, None, Timestamp(0));
        bucket.take(Timestamp(0));
        assert_eq!(bucket.next(Timestamp(0)), Timestamp(0));
    }

    #[test]
    fn a_pause_and_a_full_concurrency_forbid_what_the_rate_would_allow() {
        let rules = |paused, rate| {
            let rules = QueueRules { order: QueueOrder::Fifo, paused, concurrency: Some(2), rate };
            EnforcedRules::new(&rules, None, Timestamp(0))
        };
        assert_eq!(rules(true, None).allowance(0, Timestamp(0)), Allowance::Never);
        assert_eq!(rules(false, None).allowance(1, Timestamp(0)), Allowance::Now);
        assert_eq!(rules(false, None).allowance(2, Timestamp(0)), Allowance::Never);
        let mut slow = rules(false, Some(0.5));
        slow.take_token(Timestamp(0));
        assert_eq!(slow.allowance(0, Timestamp(0)), Allowance::From(Timestamp(2_000)));
        assert_eq!(slow.allowance(2, Timestamp(0)), Allowance::Never);
        slow.give_back_token(Timestamp(0));
        assert_eq!(slow.allowance(0, Timestamp(0)), Allowance::Now);
    }

    #[test]
    fn new_rules_keep_the_tokens_that_are_there() {
        let rules = QueueRules { rate: Some(1.0), ..QueueRules::default() };
        let mut before = EnforcedRules::new(&rules, None, Timestamp(0));
        before.take_token(Timestamp(0));
        let after = EnforcedRules::new(&rules, Some(&before), Timestamp(400));
        assert_eq!(after.allowance(0, Timestamp(400)), Allowance::From(Timestamp(1_000)));
    }
}
