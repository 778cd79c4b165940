//! Locks in the model: who holds each, and who waits for it in which order.

use std::collections::BTreeMap;

use base::Timestamp;
use engine::coordination::CoordinationName;

use super::{Answers, Partition, Step};
use crate::harness::calls::CallId;
use crate::queues::meant::LockMeant;
use crate::queues::model::expected::Expected;

/// A lock that is held.
#[derive(Clone, Debug)]
pub(crate) struct ModelLock {
    pub(crate) owner: String,
    pub(crate) until: Timestamp,
    /// The call that was given it, until its holder says something else.
    given_to: Option<CallId>,
    line: Vec<WaitingLocker>,
}

#[derive(Clone, Debug)]
struct WaitingLocker {
    call: CallId,
    owner: String,
    ttl_ms: i64,
    until: Timestamp,
}

/// Held locks by name.
pub(crate) type ModelLocks = BTreeMap<CoordinationName, ModelLock>;

impl Partition {
    /// Holders and callers whose time is over.
    pub(super) fn advance_locks(&mut self, answers: &mut Answers) {
        let names: Vec<_> = self.locks.keys().cloned().collect();
        for name in names {
            self.expire(&name, answers);
            let now = self.now;
            let Some(lock) = self.locks.get_mut(&name) else { continue };
            let late = lock.line.extract_if(.., |waiting| waiting.until <= now);
            answers.extend(late.map(|late| (late.call, Expected::Locked(Err("lock_held")))));
        }
    }

    fn expire(&mut self, name: &CoordinationName, answers: &mut Answers) {
        if self.locks.get(name).is_some_and(|lock| lock.until <= self.now) {
            self.counts.locks_expired += 1;
            self.pass_on(name, answers);
        }
    }

    /// The lock is that of the first who still waits, or free.
    fn pass_on(&mut self, name: &CoordinationName, answers: &mut Answers) {
        let Some(lock) = self.locks.remove(name) else { return };
        let mut line = lock.line.into_iter();
        for next in line.by_ref() {
            if next.until <= self.now {
                answers.push((next.call, Expected::Locked(Err("lock_held"))));
                continue;
            }
            let until = Timestamp(self.now.0 + next.ttl_ms);
            answers.push((next.call, Expected::Locked(Ok((next.owner.clone(), until)))));
            let (others, line) = line.partition(|waiting| waiting.owner == next.owner);
            let mut held = ModelLock { owner: next.owner, until, given_to: Some(next.call), line };
            self.give_to_others_of_holder(&mut held, others, answers);
            self.locks.insert(name.clone(), held);
            self.counts.locks_passed_on += 1;
            return;
        }
    }

    /// Whoever else waits in the name of the new holder has the lock too.
    fn give_to_others_of_holder(
        &self,
        held: &mut ModelLock,
        others: Vec<WaitingLocker>,
        answers: &mut Answers,
    ) {
        for other in others {
            let answer = if other.until <= self.now {
                Err("lock_held")
            } else {
                (held.until, held.given_to) = (Timestamp(self.now.0 + other.ttl_ms), None);
                Ok((held.owner.clone(), held.until))
            };
            answers.push((other.call, Expected::Locked(answer)));
        }
    }

    pub(super) fn apply_to_lock(&mut self, meant: &LockMeant, step: &Step<'_>, answers: &mut Answers) {
        let (now, name) = (self.now, meant.name());
        if !matches!(meant, LockMeant::Leave { .. } | LockMeant::Show { .. }) {
            self.expire(name, answers);
        }
        match meant {
            LockMeant::Acquire { call, owner, ttl_ms, until, .. } => {
                let waits = *until > now && !step.closing;
                let expected = self.acquire(name, (*call, owner), *ttl_ms, waits.then_some(*until));
                answers.extend(expected.map(|expected| (*call, Expected::Locked(expected))));
            }
            LockMeant::Extend { call, owner, ttl_ms, .. } => {
                let extended = self.prolong(name, owner, *ttl_ms).ok_or("not_owner");
                answers.push((*call, Expected::Locked(extended)));
            }
            LockMeant::Release { call, owner, .. } => {
                let is_owner = self.locks.get(name).is_some_and(|lock| lock.owner == *owner);
                if is_owner {
                    self.pass_on(name, answers);
                }
                answers.push((*call, Expected::Done(if is_owner { Ok(()) } else { Err("not_owner") })));
            }
            LockMeant::Leave { call, .. } => {
                let Some(lock) = self.locks.get_mut(name) else { return };
                lock.line.retain(|waiting| waiting.call != *call);
                if lock.given_to == Some(*call) {
                    self.pass_on(name, answers);
                }
            }
            LockMeant::Show { call, .. } => {
                let lock = self.locks.get(name);
                let holder =
                    lock.filter(|lock| lock.until > now).map(|lock| (lock.owner.clone(), lock.until));
                let waiting = lock.map_or(0, |lock| lock.line.len());
                answers.push((*call, Expected::LockStatus(holder, waiting)));
            }
        }
    }

    /// `None` where the caller waits.
    fn acquire(
        &mut self,
        name: &CoordinationName,
        (call, owner): (CallId, &str),
        ttl_ms: i64,
        until: Option<Timestamp>,
    ) -> Option<Result<(String, Timestamp), &'static str>> {
        if let Some(held) = self.prolong(name, owner, ttl_ms) {
            return Some(Ok(held));
        }
        let Some(lock) = self.locks.get_mut(name) else {
            let until = Timestamp(self.now.0 + ttl_ms);
            let held = ModelLock { owner: owner.to_owned(), until, given_to: Some(call), line: Vec::new() };
            self.locks.insert(name.clone(), held);
            return Some(Ok((owner.to_owned(), until)));
        };
        let Some(until) = until else { return Some(Err("lock_held")) };
        lock.line.push(WaitingLocker { call, owner: owner.to_owned(), ttl_ms, until });
        None
    }

    fn prolong(&mut self, name: &CoordinationName, owner: &str, ttl_ms: i64) -> Option<(String, Timestamp)> {
        let until = Timestamp(self.now.0 + ttl_ms);
        let lock = self.locks.get_mut(name).filter(|lock| lock.owner == owner)?;
        (lock.until, lock.given_to) = (until, None);
        Some((owner.to_owned(), until))
    }

    /// Nobody waits any more, and whoever was given a lock has it.
    pub(super) fn locks_loaded(&mut self) {
        for lock in self.locks.values_mut() {
            lock.line.clear();
            lock.given_to = None;
        }
    }
}
