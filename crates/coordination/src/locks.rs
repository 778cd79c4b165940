//! Who holds which lock, who waits for it, and with which fence.
//!
//! A fence is a number of its own for each holder, from one rising count over all locks of a table.
//! So a lock that is forgotten and comes back goes on above every number that it ever had.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::Timestamp;
use compact_str::CompactString;
use records::{Lock, Op};

use crate::CoordinationName;

/// How much a table keeps.
#[derive(Clone, Copy, Debug)]
pub struct LockBounds {
    /// Most locks that are held.
    pub held_max: usize,
    /// Most callers that wait.
    pub waiting_max: usize,
    /// Most free locks whose last fence is remembered.
    pub free_max: usize,
}

/// What a caller asks for.
#[derive(Clone, Debug)]
pub struct LockRequest {
    /// The lock.
    pub name: CoordinationName,
    /// Who wants to hold it.
    pub owner: CompactString,
    /// How long, from the grant on.
    pub ttl: Duration,
    /// Until when it waits; not at all if that is over.
    pub until: Timestamp,
    /// The caller's number: one that called earlier has a lower one.
    pub ticket: u64,
}

/// A lock that somebody holds now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockGrant {
    /// Who.
    pub owner: CompactString,
    /// The holder's number.
    pub fence: u64,
    /// When it is lost unless it is extended.
    pub expires_at: Timestamp,
}

/// Why somebody does not hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRefused {
    /// Another holds it.
    Held,
    /// The owner that was given does not hold it, or no longer.
    NotOwner,
    /// As many locks are held as may be.
    TooMany,
    /// As many callers wait as may.
    TooManyWaiting,
}

/// A lock as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStatus {
    /// The lock.
    pub name: CoordinationName,
    /// Who holds it, and until when.
    pub holder: Option<(CompactString, Timestamp)>,
    /// The number of its latest holder; 0 if none is known.
    pub fence: u64,
    /// Callers that wait for it.
    pub waiting: usize,
}

/// What a call of the table gives: what to store, and who is answered.
#[derive(Debug)]
pub struct LockStep<'a, W> {
    /// The engine clock; it never goes back.
    pub now: Timestamp,
    /// What to store.
    pub ops: &'a mut Vec<Op>,
    /// Callers that waited, with their answers.
    pub answers: Vec<(W, Result<LockGrant, LockRefused>)>,
}

impl<'a, W> LockStep<'a, W> {
    /// Nothing happened so far.
    pub fn new(now: Timestamp, ops: &'a mut Vec<Op>) -> Self {
        Self { now, ops, answers: Vec::new() }
    }
}

/// Locks of one partition. `W` is a caller that waits.
#[derive(Debug)]
pub struct LockTable<W> {
    locks: BTreeMap<CoordinationName, KnownLock<W>>,
    /// When holders lose their locks.
    expiries: BTreeSet<(Timestamp, CoordinationName)>,
    /// When callers have waited enough, by ticket.
    wait_ends: BTreeMap<(Timestamp, u64), CoordinationName>,
    /// Free locks by fence.
    free: BTreeMap<u64, CoordinationName>,
    next_fence: u64,
    bounds: LockBounds,
}

#[derive(Debug)]
struct KnownLock<W> {
    fence: u64,
    holder: Option<LockHolder>,
    line: BTreeMap<u64, WaitingCaller<W>>,
}

#[derive(Debug)]
struct LockHolder {
    owner: CompactString,
    expires_at: Timestamp,
    /// The caller that was given it.
    ticket: Option<u64>,
}

#[derive(Debug)]
struct WaitingCaller<W> {
    owner: CompactString,
    ttl: Duration,
    until: Timestamp,
    caller: W,
}

impl<W> LockTable<W> {
    /// A table without locks, whose next holder gets this fence.
    #[must_use]
    pub fn new(bounds: LockBounds, next_fence: u64) -> Self {
        Self {
            locks: BTreeMap::new(),
            expiries: BTreeSet::new(),
            wait_ends: BTreeMap::new(),
            free: BTreeMap::new(),
            next_fence: next_fence.max(1),
            bounds,
        }
    }

    /// Has other bounds from now on.
    pub fn set_bounds(&mut self, bounds: LockBounds) {
        self.bounds = bounds;
    }

    /// Takes in a lock as it was stored.
    pub fn load(&mut self, lock: Lock) {
        let name = CoordinationName::unchecked(&lock.namespace, &lock.name);
        self.next_fence = self.next_fence.max(lock.fence + 1);
        let holder = lock.owner.map(|owner| LockHolder { owner, expires_at: lock.until, ticket: None });
        match &holder {
            Some(_) => drop(self.expiries.insert((lock.until, name.clone()))),
            None => drop(self.free.insert(lock.fence, name.clone())),
        }
        self.locks.insert(name, KnownLock { fence: lock.fence, holder, line: BTreeMap::new() });
    }

    /// The number that the next holder gets.
    #[must_use]
    pub fn next_fence(&self) -> u64 {
        self.next_fence
    }

    /// Locks that are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.expiries.len()
    }

    /// Callers that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.wait_ends.len()
    }

    /// When time brings something next.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let expiry = self.expiries.first().map(|(at, _)| *at);
        let wait = self.wait_ends.first_key_value().map(|((at, _), _)| *at);
        expiry.into_iter().chain(wait).min()
    }

    /// Gives the lock to a caller, or has it wait, or refuses it. `None` where it waits.
    pub fn acquire(
        &mut self,
        asked: LockRequest,
        caller: W,
        step: &mut LockStep<'_, W>,
    ) -> Option<(W, Result<LockGrant, LockRefused>)> {
        let LockRequest { name, owner, ttl, until, ticket } = asked;
        self.expire(&name, step);
        let held = self.locks.get(&name).and_then(|lock| lock.holder.as_ref());
        match held {
            Some(holder) if holder.owner == owner => {
                let granted = self.prolong(&name, ttl, step);
                Some((caller, granted.ok_or(LockRefused::NotOwner)))
            }
            Some(_) if until <= step.now => Some((caller, Err(LockRefused::Held))),
            Some(_) if self.waiting() >= self.bounds.waiting_max => {
                Some((caller, Err(LockRefused::TooManyWaiting)))
            }
            Some(_) => {
                self.wait_ends.insert((until, ticket), name.clone());
                let waiting = WaitingCaller { owner, ttl, until, caller };
                if let Some(lock) = self.locks.get_mut(&name) {
                    lock.line.insert(ticket, waiting);
                }
                None
            }
            None if self.held() >= self.bounds.held_max => Some((caller, Err(LockRefused::TooMany))),
            None => Some((caller, Ok(self.grant(&name, (owner, ttl), ticket, step)))),
        }
    }

    /// Has the lock end `ttl` from now, for its owner.
    ///
    /// # Errors
    /// [`LockRefused::NotOwner`].
    pub fn extend(
        &mut self,
        name: &CoordinationName,
        owner: &str,
        ttl: Duration,
        step: &mut LockStep<'_, W>,
    ) -> Result<LockGrant, LockRefused> {
        self.expire(name, step);
        if !self.is_held_by(name, owner) {
            return Err(LockRefused::NotOwner);
        }
        self.prolong(name, ttl, step).ok_or(LockRefused::NotOwner)
    }

    /// The lock is free, or its next caller's.
    ///
    /// # Errors
    /// [`LockRefused::NotOwner`].
    pub fn release(
        &mut self,
        name: &CoordinationName,
        owner: &str,
        step: &mut LockStep<'_, W>,
    ) -> Result<(), LockRefused> {
        self.expire(name, step);
        if !self.is_held_by(name, owner) {
            return Err(LockRefused::NotOwner);
        }
        self.pass_on(name, step);
        Ok(())
    }

    /// A caller has gone before it had its answer: it leaves the line, or what it was given.
    pub fn leave(&mut self, name: &CoordinationName, ticket: u64, step: &mut LockStep<'_, W>) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        if let Some(gone) = lock.line.remove(&ticket) {
            self.wait_ends.remove(&(gone.until, ticket));
        } else if lock.holder.as_ref().is_some_and(|holder| holder.ticket == Some(ticket)) {
            self.pass_on(name, step);
        }
    }

    /// A lock as it stands.
    #[must_use]
    pub fn show(&self, name: &CoordinationName, now: Timestamp) -> LockStatus {
        match self.locks.get(name) {
            Some(lock) => shown(name, lock, now),
            None => LockStatus { name: name.clone(), holder: None, fence: 0, waiting: 0 },
        }
    }

    /// Locks that are held, in order of name.
    pub fn list<'a>(
        &'a self,
        after: Option<&CoordinationName>,
        now: Timestamp,
    ) -> impl Iterator<Item = LockStatus> + use<'a, W> {
        use std::ops::Bound::{Excluded, Unbounded};

        let from = after.map_or(Unbounded, |after| Excluded(after.clone()));
        let behind = self.locks.range((from, Unbounded));
        behind.map(move |(name, lock)| shown(name, lock, now)).filter(|shown| shown.holder.is_some())
    }

    /// What the passing of time brings, up to so many locks and callers. Whether there is more.
    pub fn advance(&mut self, most: usize, step: &mut LockStep<'_, W>) -> bool {
        for _ in 0..most {
            if let Some((_, name)) = self.expiries.first().filter(|(at, _)| *at <= step.now) {
                let name = name.clone();
                self.expire(&name, step);
                continue;
            }
            let late = self.wait_ends.first_entry().filter(|late| late.key().0 <= step.now);
            let Some(late) = late else { return false };
            let (_, ticket) = *late.key();
            let name = late.remove();
            let gone = self.locks.get_mut(&name).and_then(|lock| lock.line.remove(&ticket));
            step.answers.extend(gone.map(|gone| (gone.caller, Err(LockRefused::Held))));
        }
        self.next_wakeup().is_some_and(|at| at <= step.now)
    }

    /// Sends every caller that waits away without an answer.
    pub fn send_home(&mut self) {
        self.wait_ends.clear();
        self.locks.values_mut().for_each(|lock| lock.line.clear());
    }

    fn is_held_by(&self, name: &CoordinationName, owner: &str) -> bool {
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        holder.is_some_and(|holder| holder.owner == owner)
    }

    /// Takes the lock from a holder whose time is over.
    fn expire(&mut self, name: &CoordinationName, step: &mut LockStep<'_, W>) {
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        if holder.is_some_and(|holder| holder.expires_at <= step.now) {
            self.pass_on(name, step);
        }
    }

    /// Gives the lock to the caller that came first of those that still wait, or to nobody.
    fn pass_on(&mut self, name: &CoordinationName, step: &mut LockStep<'_, W>) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        if let Some(holder) = lock.holder.take() {
            self.expiries.remove(&(holder.expires_at, name.clone()));
        }
        while let Some((ticket, next)) = lock.line.pop_first() {
            self.wait_ends.remove(&(next.until, ticket));
            if next.until <= step.now {
                step.answers.push((next.caller, Err(LockRefused::Held)));
                continue;
            }
            let granted = self.grant(name, (next.owner, next.ttl), ticket, step);
            step.answers.push((next.caller, Ok(granted)));
            return self.give_to_others_of_holder(name, step);
        }
        step.ops.push(stored(name, None, lock.fence, step.now));
        self.free.insert(lock.fence, name.clone());
        while self.free.len() > self.bounds.free_max
            && let Some((_, forgotten)) = self.free.pop_first()
        {
            self.locks.remove(&forgotten);
            step.ops.push(Op::DeleteLock(forgotten.namespace().into(), forgotten.name().into()));
        }
    }

    /// Whoever else waits in the name of the new holder has the lock with it: an owner that asked
    /// twice lets go once.
    fn give_to_others_of_holder(&mut self, name: &CoordinationName, step: &mut LockStep<'_, W>) {
        let Some(KnownLock { holder: Some(holder), line, .. }) = self.locks.get_mut(name) else { return };
        let others: Vec<_> = line.extract_if(.., |_, waiting| waiting.owner == holder.owner).collect();
        for (ticket, other) in others {
            self.wait_ends.remove(&(other.until, ticket));
            let is_late = other.until <= step.now;
            let prolonged = if is_late { None } else { self.prolong(name, other.ttl, step) };
            step.answers.push((other.caller, prolonged.ok_or(LockRefused::Held)));
        }
    }

    fn grant(
        &mut self,
        name: &CoordinationName,
        (owner, ttl): (CompactString, Duration),
        ticket: u64,
        step: &mut LockStep<'_, W>,
    ) -> LockGrant {
        let (fence, expires_at) = (self.next_fence, step.now.after(ttl));
        self.next_fence += 1;
        let lock = self.locks.entry(name.clone());
        let lock = lock.or_insert_with(|| KnownLock { fence: 0, holder: None, line: BTreeMap::new() });
        self.free.remove(&lock.fence);
        lock.fence = fence;
        lock.holder = Some(LockHolder { owner: owner.clone(), expires_at, ticket: Some(ticket) });
        self.expiries.insert((expires_at, name.clone()));
        step.ops.push(stored(name, Some(&owner), fence, expires_at));
        LockGrant { owner, fence, expires_at }
    }

    /// Its holder has the lock for so long from now on.
    fn prolong(
        &mut self,
        name: &CoordinationName,
        ttl: Duration,
        step: &mut LockStep<'_, W>,
    ) -> Option<LockGrant> {
        let lock = self.locks.get_mut(name)?;
        let holder = lock.holder.as_mut()?;
        self.expiries.remove(&(holder.expires_at, name.clone()));
        holder.expires_at = step.now.after(ttl);
        // Somebody else has it in hand now: the caller that was given it may go.
        holder.ticket = None;
        self.expiries.insert((holder.expires_at, name.clone()));
        step.ops.push(stored(name, Some(&holder.owner), lock.fence, holder.expires_at));
        Some(LockGrant { owner: holder.owner.clone(), fence: lock.fence, expires_at: holder.expires_at })
    }
}

fn shown<W>(name: &CoordinationName, lock: &KnownLock<W>, now: Timestamp) -> LockStatus {
    let holder = lock.holder.as_ref().filter(|holder| holder.expires_at > now);
    LockStatus {
        name: name.clone(),
        holder: holder.map(|holder| (holder.owner.clone(), holder.expires_at)),
        fence: lock.fence,
        waiting: lock.line.len(),
    }
}

fn stored(name: &CoordinationName, owner: Option<&CompactString>, fence: u64, until: Timestamp) -> Op {
    Op::PutLock(Box::new(Lock {
        namespace: name.namespace().into(),
        name: name.name().into(),
        owner: owner.cloned(),
        fence,
        until,
    }))
}
