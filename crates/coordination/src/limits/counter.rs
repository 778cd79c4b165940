//! What was let through of a limit, as one way of asking for it counts: by a kind, and in a span.
//!
//! A smooth count is kept in up to about [`PARTS`] sums, each of which counts until its latest part
//! is a span old. So it may count a little for too long, and never for too short.

use std::collections::VecDeque;
use std::time::Duration;

use base::Timestamp;

use super::{LimitDecision, LimitKind, LimitRequest};

/// Sums that a smooth limit keeps, about: what comes within this part of the span is one.
const PARTS: u64 = 64;

/// What was let through, for whoever asks with this kind and this span.
#[derive(Debug)]
pub(super) struct LimitCounter {
    per: Duration,
    counts: LimitCounts,
}

#[derive(Debug)]
enum LimitCounts {
    /// Oldest first.
    Smooth { sums: VecDeque<SmoothSum>, unused_at: Timestamp },
    /// What came in the span with this number.
    Window { number: i64, used: u64 },
}

/// What came from `first` to `last`.
#[derive(Clone, Copy, Debug)]
struct SmoothSum {
    first: Timestamp,
    last: Timestamp,
    cost: u64,
}

impl LimitCounter {
    /// A counter for what is asked now. It begins with what the others know: where two versions of
    /// a program ask, neither begins at nothing.
    pub(super) fn beside(others: &[&Self], asked: &LimitRequest, now: Timestamp) -> Self {
        let per = asked.per;
        let counts = match asked.kind {
            LimitKind::Smooth => LimitCounts::Smooth { sums: known_sums(others, per, now), unused_at: now },
            LimitKind::Window => {
                let number = window_at(per, now);
                let begins = Timestamp(number.saturating_mul(span_ms(per)));
                let used = others.iter().map(|other| other.used_from(begins, now)).max();
                LimitCounts::Window { number, used: used.unwrap_or(0) }
            }
        };
        Self { per, counts }
    }

    /// Whether it counts for whoever asks so.
    pub(super) fn is_of(&self, asked: &LimitRequest) -> bool {
        self.kind() == asked.kind && self.per == asked.per
    }

    pub(super) fn kind(&self) -> LimitKind {
        match self.counts {
            LimitCounts::Smooth { .. } => LimitKind::Smooth,
            LimitCounts::Window { .. } => LimitKind::Window,
        }
    }

    pub(super) fn per(&self) -> Duration {
        self.per
    }

    /// From when on it says nothing any more, if nobody asks.
    pub(super) fn unused_at(&self) -> Timestamp {
        match &self.counts {
            LimitCounts::Smooth { unused_at, .. } => *unused_at,
            LimitCounts::Window { number, .. } => window_end(self.per, *number),
        }
    }

    /// How much counts now.
    pub(super) fn used(&self, now: Timestamp) -> u64 {
        match &self.counts {
            LimitCounts::Smooth { sums, .. } => {
                total(sums.iter().filter(|sum| sum.last.after(self.per) > now))
            }
            LimitCounts::Window { number, used } => {
                let is_current = window_at(self.per, now) <= *number;
                if is_current { *used } else { 0 }
            }
        }
    }

    /// Whether something may be done now; if so, it counts from now on. `now` never goes back.
    pub(super) fn ask(&mut self, asked: &LimitRequest, now: Timestamp) -> LimitDecision {
        self.pass(now);
        let used = self.used(now);
        let remaining = asked.limit.saturating_sub(used);
        // More together than can be counted is over every limit.
        let Some(wanted) = used.checked_add(asked.cost).filter(|wanted| *wanted <= asked.limit) else {
            let over = used.saturating_sub(asked.limit.saturating_sub(asked.cost));
            let retry_after_ms = self.free_in_ms(over, now);
            return LimitDecision { allowed: false, remaining, retry_after_ms };
        };
        self.add(asked.cost, now);
        LimitDecision { allowed: true, remaining: asked.limit - wanted, retry_after_ms: 0 }
    }

    /// So much was let through now, by whichever way of asking.
    pub(super) fn add(&mut self, cost: u64, now: Timestamp) {
        self.pass(now);
        let part_ms = (span_ms(self.per) as u64 / PARTS) as i64;
        match &mut self.counts {
            LimitCounts::Window { used, .. } => *used = used.saturating_add(cost),
            LimitCounts::Smooth { sums, .. } => match sums.back_mut() {
                _ if cost == 0 => {}
                Some(sum) if now.0 - sum.first.0 <= part_ms => {
                    sum.last = sum.last.max(now);
                    sum.cost = sum.cost.saturating_add(cost);
                }
                _ => sums.push_back(SmoothSum { first: now, last: now, cost }),
            },
        }
    }

    /// What is a span old, or of a window that has ended, does not count any more.
    fn pass(&mut self, now: Timestamp) {
        let per = self.per;
        match &mut self.counts {
            LimitCounts::Smooth { sums, unused_at } => {
                *unused_at = now.after(per).max(*unused_at);
                while sums.front().is_some_and(|sum| sum.last.after(per) <= now) {
                    sums.pop_front();
                }
            }
            LimitCounts::Window { number, used } => {
                let current = window_at(per, now);
                if current > *number {
                    (*number, *used) = (current, 0);
                }
            }
        }
    }

    /// After how long `over` less counts, if nothing else comes.
    fn free_in_ms(&self, mut over: u64, now: Timestamp) -> u64 {
        let free_at = match &self.counts {
            LimitCounts::Smooth { sums, .. } => {
                let leaves = |sum: &&SmoothSum| {
                    over = over.saturating_sub(sum.cost);
                    over == 0
                };
                sums.iter().find(leaves).map(|sum| sum.last.after(self.per))
            }
            LimitCounts::Window { number, .. } => Some(window_end(self.per, *number)),
        };
        free_at.map_or(1, |at| (at.0 - now.0).max(1) as u64)
    }

    /// How much may have come from `begins` on.
    fn used_from(&self, begins: Timestamp, now: Timestamp) -> u64 {
        match &self.counts {
            LimitCounts::Smooth { sums, .. } => total(sums.iter().filter(|sum| sum.last >= begins)),
            LimitCounts::Window { .. } => self.used(now),
        }
    }
}

/// What others know of the last span.
fn known_sums(others: &[&LimitCounter], per: Duration, now: Timestamp) -> VecDeque<SmoothSum> {
    let smooth = others.iter().filter_map(|other| match &other.counts {
        LimitCounts::Smooth { sums, .. } => Some((other.per, sums)),
        LimitCounts::Window { .. } => None,
    });
    // The one with the longest span knows most.
    let longest = smooth.max_by_key(|(per, _)| *per);
    let mut sums = longest.map(|(_, sums)| sums.clone()).unwrap_or_default();
    sums.retain(|sum| sum.last.after(per) > now);
    let windows = others.iter().filter(|other| other.kind() == LimitKind::Window);
    let in_window = windows.map(|window| window.used(now)).max().unwrap_or(0);
    if in_window > total(sums.iter()) {
        // A window does not know when it came: at the latest now.
        return VecDeque::from([SmoothSum { first: now, last: now, cost: in_window }]);
    }
    sums
}

fn total<'a>(sums: impl Iterator<Item = &'a SmoothSum>) -> u64 {
    sums.fold(0, |used: u64, sum| used.saturating_add(sum.cost))
}

/// The number of the window that is open at a moment.
fn window_at(per: Duration, now: Timestamp) -> i64 {
    now.0.div_euclid(span_ms(per))
}

fn window_end(per: Duration, number: i64) -> Timestamp {
    Timestamp(number.saturating_add(1).saturating_mul(span_ms(per)))
}

fn span_ms(per: Duration) -> i64 {
    i64::try_from(per.as_millis()).unwrap_or(i64::MAX).max(1)
}
