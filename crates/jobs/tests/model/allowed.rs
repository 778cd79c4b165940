//! What the rules of a queue allow, in the naive model: a pause, how many at a time, how many a
//! second.

use jobs::QueueRules;
use records::QueueKey;

use crate::naive::Naive;

const TOKEN: i128 = 1_000_000_000;

/// The rules of a queue, and its tokens in millionths of a thousandth.
#[derive(Default)]
pub(crate) struct Rules {
    pub(crate) rules: QueueRules,
    tokens: i128,
    counted_at: i64,
}

impl Naive {
    pub(crate) fn set_rules(&mut self, queue: QueueKey, rules: QueueRules) {
        let had_rate = self.rules.get(&queue).is_some_and(|rules| rules.rules.rate.is_some());
        let tokens = if had_rate { self.tokens(queue) } else { i128::MAX };
        let tokens = tokens.min(capacity(&rules));
        self.rules.insert(queue, Rules { rules, tokens, counted_at: self.now.0 });
    }

    /// A restart fills what a rate allows.
    pub(crate) fn reset_rates(&mut self) {
        for rules in self.rules.values_mut() {
            (rules.tokens, rules.counted_at) = (capacity(&rules.rules), self.now.0);
        }
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = (QueueKey, QueueRules)> {
        self.rules.iter().map(|(queue, rules)| (*queue, rules.rules))
    }

    fn tokens(&self, queue: QueueKey) -> i128 {
        let rules = &self.rules[&queue];
        let passed = i128::from(self.now.0 - rules.counted_at);
        (rules.tokens + passed * per_ms(&rules.rules)).min(capacity(&rules.rules))
    }

    pub(crate) fn rules_allow(&self, queue: QueueKey) -> bool {
        let Some(rules) = self.rules.get(&queue).map(|rules| rules.rules) else { return true };
        let reserved = self.jobs.iter().filter(|job| job.queue == queue && job.lease.is_some()).count();
        !rules.paused
            && rules.concurrency.is_none_or(|most| reserved < most as usize)
            && (rules.rate.is_none() || self.tokens(queue) >= TOKEN)
    }

    pub(crate) fn take_token(&mut self, queue: QueueKey) {
        if self.rules.get(&queue).is_some_and(|rules| rules.rules.rate.is_some()) {
            let left = self.tokens(queue) - TOKEN;
            let counted_at = self.now.0;
            self.rules.entry(queue).and_modify(|rules| (rules.tokens, rules.counted_at) = (left, counted_at));
        }
    }

    pub(crate) fn give_token(&mut self, queue: QueueKey) {
        if self.rules.get(&queue).is_some_and(|rules| rules.rules.rate.is_some()) {
            let left = self.tokens(queue) + TOKEN;
            let counted_at = self.now.0;
            self.rules.entry(queue).and_modify(|rules| {
                (rules.tokens, rules.counted_at) = (left.min(capacity(&rules.rules)), counted_at);
            });
        }
    }

    /// Whether nothing but its rate keeps a queue from giving a job.
    pub(crate) fn waits_for_rate(&self, queue: QueueKey) -> bool {
        let Some(rules) = self.rules.get(&queue).filter(|rules| rules.rules.rate.is_some()) else {
            return false;
        };
        let reserved = self.jobs.iter().filter(|job| job.queue == queue && job.lease.is_some()).count();
        let is_allowed =
            !rules.rules.paused && rules.rules.concurrency.is_none_or(|most| reserved < most as usize);
        is_allowed && self.tokens(queue) < TOKEN && self.first(queue).is_some()
    }
}

fn per_ms(rules: &QueueRules) -> i128 {
    rules.rate.map_or(0, |rate| (rate * 1e6) as i128)
}

fn capacity(rules: &QueueRules) -> i128 {
    (per_ms(rules) * 1_000).max(TOKEN)
}
