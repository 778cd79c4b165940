//! How often something may be done in a span of time.
//!
//! `window` counts in spans that are aligned to the clock, so twice the limit may come around the
//! border of two. `smooth` never lets more than the limit through in any span; what was let through
//! is kept in up to [`PARTS`] sums, each of which counts until its latest part is a span old.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base::{Timestamp, hash};

use crate::CoordinationName;

/// Sums that a smooth limit keeps, about: what comes within this part of the span is one.
const PARTS: u64 = 64;
/// Parts of the table that are locked apart.
const SHARDS: usize = 16;
/// Limits that a call looks at to forget those that nobody used for a span.
const FORGOTTEN_AT_A_TIME: usize = 4;

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Never more than the limit in any span.
    Smooth,
    /// In spans that are aligned to the clock.
    Window,
}

impl LimitKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Smooth, Self::Window];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Smooth => "smooth",
            Self::Window => "window",
        }
    }
}

/// What a caller asks.
#[derive(Clone, Copy, Debug)]
pub struct LimitAsked {
    /// How much may come in `per`.
    pub limit: u64,
    /// The span; not zero.
    pub per: Duration,
    /// How much this is; at most `limit`.
    pub cost: u64,
    /// How it counts.
    pub kind: LimitKind,
}

/// Which of the limits to list.
#[derive(Clone, Copy, Debug)]
pub struct LimitPage<'a> {
    /// Only those of it.
    pub namespace: Option<&'a str>,
    /// Only those behind it.
    pub after: Option<&'a CoordinationName>,
    /// At most so many.
    pub limit: usize,
}

/// Whether it may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitDecision {
    /// Whether it may be done now. If not, it cost nothing.
    pub allowed: bool,
    /// How much may still come now.
    pub remaining: u64,
    /// After how long the same is allowed if nothing else comes; 0 if it was allowed.
    pub retry_after_ms: u64,
}

/// A limit as it was asked last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitShown {
    /// Its place.
    pub name: CoordinationName,
    /// How it counts.
    pub kind: LimitKind,
    /// How much may come in `per`.
    pub limit: u64,
    /// The span.
    pub per: Duration,
    /// How much may still come now.
    pub remaining: u64,
}

/// As many limits are in memory as may be, and none of them is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLimits;

/// Limits by name, in memory.
#[derive(Debug)]
pub struct LimitTable {
    shards: Vec<Mutex<LimitShard>>,
    shard_max: usize,
}

#[derive(Debug, Default)]
struct LimitShard {
    limits: HashMap<CoordinationName, LimitState>,
    /// When a limit may be unused; each limit once, perhaps too early.
    unused: BinaryHeap<Reverse<(Timestamp, CoordinationName)>>,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LimitState {
    /// As it was asked last.
    limit: u64,
    per: Duration,
    counts: LimitCounts,
}

/// What was let through of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LimitCounts {
    Smooth { sums: VecDeque<SmoothSum>, unused_at: Timestamp },
    Window { per_ms: i64, number: i64, used: u64 },
}

/// What came from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SmoothSum {
    first: Timestamp,
    last: Timestamp,
    cost: u64,
}

impl LimitTable {
    /// A table of at most about so many limits.
    #[must_use]
    pub fn new(limits_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, shard_max: limits_max.div_ceil(SHARDS).max(1) }
    }

    /// Limits in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).limits.len()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether something may be done now.
    ///
    /// # Errors
    /// When there is no room for another limit.
    pub fn ask(
        &self,
        name: &CoordinationName,
        asked: &LimitAsked,
        now: Timestamp,
    ) -> Result<LimitDecision, TooManyLimits> {
        let place = hash::derived(hash::derived(0, name.namespace().as_bytes()), name.name().as_bytes());
        let mut shard = lock(&self.shards[place as usize % SHARDS]);
        shard.forget_unused(now);
        if !shard.limits.contains_key(name) {
            if shard.limits.len() >= self.shard_max {
                return Err(TooManyLimits);
            }
            shard.limits.insert(name.clone(), LimitState::new(asked));
            shard.unused.push(Reverse((now.after(asked.per), name.clone())));
        }
        let state = shard.limits.get_mut(name).ok_or(TooManyLimits)?;
        Ok(state.ask(asked, now))
    }

    /// Limits that are used, in order of namespace and name.
    #[must_use]
    pub fn list(&self, page: LimitPage<'_>, now: Timestamp) -> Vec<LimitShown> {
        let LimitPage { namespace, after, limit } = page;
        let mut found = BTreeMap::new();
        for shard in &self.shards {
            for (name, state) in &lock(shard).limits {
                let is_meant = namespace.is_none_or(|namespace| name.namespace() == namespace)
                    && after.is_none_or(|after| name > after)
                    && state.counts.unused_at() > now;
                let is_behind =
                    found.len() >= limit && found.last_key_value().is_none_or(|(last, _)| name > last);
                if is_meant && !is_behind {
                    found.insert(name.clone(), state.shown(name, now));
                    if found.len() > limit {
                        found.pop_last();
                    }
                }
            }
        }
        found.into_values().collect()
    }
}

impl LimitShard {
    fn forget_unused(&mut self, now: Timestamp) {
        for _ in 0..FORGOTTEN_AT_A_TIME {
            let Some(Reverse((_, name))) = self.unused.pop_if_due(now) else { return };
            let Some(unused_at) = self.limits.get(&name).map(|limit| limit.counts.unused_at()) else {
                continue;
            };
            if unused_at <= now {
                self.limits.remove(&name);
            } else {
                self.unused.push(Reverse((unused_at, name)));
            }
        }
    }
}

/// Taking the first of a heap only if its time has come.
trait PopIfDue {
    fn pop_if_due(&mut self, now: Timestamp) -> Option<Reverse<(Timestamp, CoordinationName)>>;
}

impl PopIfDue for BinaryHeap<Reverse<(Timestamp, CoordinationName)>> {
    fn pop_if_due(&mut self, now: Timestamp) -> Option<Reverse<(Timestamp, CoordinationName)>> {
        let Reverse((at, _)) = self.peek()?;
        if *at <= now { self.pop() } else { None }
    }
}

impl LimitState {
    fn new(asked: &LimitAsked) -> Self {
        Self { limit: asked.limit, per: asked.per, counts: LimitCounts::new(asked) }
    }

    fn ask(&mut self, asked: &LimitAsked, now: Timestamp) -> LimitDecision {
        if !self.counts.are_of(asked) {
            // Where two versions of a program ask, neither begins at nothing.
            self.counts = LimitCounts::with_used(asked, self.used(now), now);
        }
        (self.limit, self.per) = (asked.limit, asked.per);
        self.counts.ask(asked, now)
    }

    fn used(&self, now: Timestamp) -> u64 {
        match &self.counts {
            LimitCounts::Smooth { sums, .. } => {
                let counted = sums.iter().filter(|sum| sum.last.after(self.per) > now);
                counted.fold(0, |used: u64, sum| used.saturating_add(sum.cost))
            }
            LimitCounts::Window { per_ms, number, used } => {
                let is_current = now.0.div_euclid(*per_ms) <= *number;
                if is_current { *used } else { 0 }
            }
        }
    }

    fn shown(&self, name: &CoordinationName, now: Timestamp) -> LimitShown {
        let Self { limit, per, counts } = self;
        let kind = match counts {
            LimitCounts::Smooth { .. } => LimitKind::Smooth,
            LimitCounts::Window { .. } => LimitKind::Window,
        };
        let remaining = limit.saturating_sub(self.used(now));
        LimitShown { name: name.clone(), kind, limit: *limit, per: *per, remaining }
    }
}

impl LimitCounts {
    fn new(asked: &LimitAsked) -> Self {
        match asked.kind {
            LimitKind::Smooth => Self::Smooth { sums: VecDeque::new(), unused_at: Timestamp(0) },
            LimitKind::Window => Self::Window { per_ms: span_ms(asked.per), number: i64::MIN, used: 0 },
        }
    }

    /// Of a limit by the same name, so much of which is used already.
    fn with_used(asked: &LimitAsked, used: u64, now: Timestamp) -> Self {
        match asked.kind {
            LimitKind::Smooth => {
                let sum = (used > 0).then_some(SmoothSum { first: now, last: now, cost: used });
                Self::Smooth { sums: sum.into_iter().collect(), unused_at: now.after(asked.per) }
            }
            LimitKind::Window => {
                let per_ms = span_ms(asked.per);
                Self::Window { per_ms, number: now.0.div_euclid(per_ms), used }
            }
        }
    }

    /// Whether they count what is asked: the kind, and of windows how long they are.
    fn are_of(&self, asked: &LimitAsked) -> bool {
        match self {
            Self::Smooth { .. } => asked.kind == LimitKind::Smooth,
            Self::Window { per_ms, .. } => asked.kind == LimitKind::Window && *per_ms == span_ms(asked.per),
        }
    }

    /// From when on it says nothing any more.
    fn unused_at(&self) -> Timestamp {
        match self {
            Self::Smooth { unused_at, .. } => *unused_at,
            Self::Window { per_ms, number, .. } => {
                Timestamp(number.saturating_add(1).saturating_mul(*per_ms))
            }
        }
    }

    fn ask(&mut self, asked: &LimitAsked, now: Timestamp) -> LimitDecision {
        match self {
            Self::Smooth { sums, unused_at } => {
                *unused_at = (*unused_at).max(now.after(asked.per));
                ask_smooth(sums, asked, now)
            }
            Self::Window { per_ms, number, used } => {
                // A caller that looked at the clock before others did counts in their window.
                let current = now.0.div_euclid(*per_ms);
                if current > *number {
                    (*number, *used) = (current, 0);
                }
                let ends_in = number.saturating_add(1).saturating_mul(*per_ms) - now.0;
                ask_window(used, asked, ends_in.max(1) as u64)
            }
        }
    }
}

fn ask_window(used: &mut u64, asked: &LimitAsked, ends_in_ms: u64) -> LimitDecision {
    let allowed = used.saturating_add(asked.cost) <= asked.limit;
    if allowed {
        *used += asked.cost;
    }
    let retry_after_ms = if allowed { 0 } else { ends_in_ms };
    LimitDecision { allowed, remaining: asked.limit.saturating_sub(*used), retry_after_ms }
}

fn ask_smooth(sums: &mut VecDeque<SmoothSum>, asked: &LimitAsked, now: Timestamp) -> LimitDecision {
    while sums.front().is_some_and(|sum| sum.last.after(asked.per) <= now) {
        sums.pop_front();
    }
    let used = sums.iter().fold(0_u64, |used, sum| used.saturating_add(sum.cost));
    let allowed = used.saturating_add(asked.cost) <= asked.limit;
    if !allowed {
        let mut over = used.saturating_add(asked.cost) - asked.limit;
        let leaves = |sum: &&SmoothSum| {
            over = over.saturating_sub(sum.cost);
            over == 0
        };
        let free_at = sums.iter().find(leaves).map(|sum| sum.last.after(asked.per));
        let retry_after_ms = free_at.map_or(1, |at| (at.0 - now.0).max(1) as u64);
        return LimitDecision { allowed, remaining: asked.limit.saturating_sub(used), retry_after_ms };
    }
    let part_ms = (span_ms(asked.per) as u64 / PARTS) as i64;
    match sums.back_mut() {
        Some(sum) if now.0 - sum.first.0 <= part_ms && asked.cost > 0 => {
            sum.last = sum.last.max(now);
            sum.cost += asked.cost;
        }
        _ if asked.cost == 0 => {}
        _ => sums.push_back(SmoothSum { first: now, last: now, cost: asked.cost }),
    }
    LimitDecision { allowed, remaining: asked.limit - used - asked.cost, retry_after_ms: 0 }
}

fn span_ms(per: Duration) -> i64 {
    i64::try_from(per.as_millis()).unwrap_or(i64::MAX).max(1)
}

fn lock(shard: &Mutex<LimitShard>) -> std::sync::MutexGuard<'_, LimitShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
