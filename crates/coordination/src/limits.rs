//! How often something may be done in a span of time.
//!
//! `window` counts in spans that are aligned to the clock, so twice the limit may come around the
//! border of two. `smooth` never lets more than the limit through in any span.
//!
//! Versions of a program may ask for one limit with other kinds and spans. Each of these ways has a
//! counter of its own, and every counter is told of all that was let through.

mod counter;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use base::locks::locked;
use base::{Timestamp, hash};

use crate::CoordinationName;
use counter::LimitCounter;

/// Ways of asking for a limit that are remembered besides the latest. They are for an old and a new
/// version of a program, and two that are tried out. Each takes about three kilobytes at most.
const OTHER_WAYS_MAX: usize = 3;
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

base::names! {
    /// Every kind.
    pub LimitKind: Smooth = "smooth", Window = "window"
}

/// What a caller asks.
#[derive(Clone, Copy, Debug)]
pub struct LimitRequest {
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
pub struct LimitStatus {
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
#[derive(Debug)]
struct LimitState {
    /// How much may come, as it was asked last.
    limit: u64,
    /// When it was asked last. A caller that looked at the clock before others did asks then too.
    asked_at: Timestamp,
    /// Of the way in which it was asked last.
    latest: LimitCounter,
    /// Of other ways in which it is asked; the one that was asked longest ago is first.
    others: Vec<LimitCounter>,
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
        self.shards.iter().map(|shard| locked(shard).limits.len()).sum()
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
        asked: &LimitRequest,
        now: Timestamp,
    ) -> Result<LimitDecision, TooManyLimits> {
        let place = hash::derived(hash::derived(0, name.namespace().as_bytes()), name.name().as_bytes());
        let mut shard = locked(&self.shards[place as usize % SHARDS]);
        shard.forget_unused(now);
        if !shard.limits.contains_key(name) {
            if shard.limits.len() >= self.shard_max {
                return Err(TooManyLimits);
            }
            shard.limits.insert(name.clone(), LimitState::new(asked, now));
            shard.unused.push(Reverse((now.after(asked.per), name.clone())));
        }
        let state = shard.limits.get_mut(name).ok_or(TooManyLimits)?;
        Ok(state.ask(asked, now))
    }

    /// Limits that are used, in order of namespace and name.
    #[must_use]
    pub fn list(&self, page: LimitPage<'_>, now: Timestamp) -> Vec<LimitStatus> {
        let LimitPage { namespace, after, limit } = page;
        let mut found = BTreeMap::new();
        for shard in &self.shards {
            for (name, state) in &locked(shard).limits {
                let is_meant = namespace.is_none_or(|namespace| name.namespace() == namespace)
                    && after.is_none_or(|after| name > after)
                    && state.unused_at() > now;
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
            let Some(unused_at) = self.limits.get(&name).map(LimitState::unused_at) else {
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
    fn new(asked: &LimitRequest, now: Timestamp) -> Self {
        let latest = LimitCounter::beside(&[], asked, now);
        Self { limit: asked.limit, asked_at: now, latest, others: Vec::new() }
    }

    fn ask(&mut self, asked: &LimitRequest, now: Timestamp) -> LimitDecision {
        let now = now.max(self.asked_at);
        (self.limit, self.asked_at) = (asked.limit, now);
        if !self.latest.is_of(asked) {
            self.turn_to(asked, now);
        }
        let decision = self.latest.ask(asked, now);
        if decision.allowed {
            self.others.iter_mut().for_each(|other| other.add(asked.cost, now));
        }
        decision
    }

    /// It is asked in another way than the last time.
    fn turn_to(&mut self, asked: &LimitRequest, now: Timestamp) {
        let known = self.others.iter().position(|other| other.is_of(asked));
        let next = match known {
            Some(place) => self.others.remove(place),
            None => {
                let all: Vec<&LimitCounter> = self.others.iter().chain([&self.latest]).collect();
                LimitCounter::beside(&all, asked, now)
            }
        };
        self.others.push(std::mem::replace(&mut self.latest, next));
        if self.others.len() > OTHER_WAYS_MAX {
            self.others.remove(0);
        }
    }

    /// From when on no way of asking remembers anything.
    fn unused_at(&self) -> Timestamp {
        self.others.iter().map(LimitCounter::unused_at).fold(self.latest.unused_at(), Timestamp::max)
    }

    fn shown(&self, name: &CoordinationName, now: Timestamp) -> LimitStatus {
        let Self { limit, latest, .. } = self;
        let remaining = limit.saturating_sub(latest.used(now));
        LimitStatus { name: name.clone(), kind: latest.kind(), limit: *limit, per: latest.per(), remaining }
    }
}
