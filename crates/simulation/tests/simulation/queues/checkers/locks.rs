//! What callers of locks were told, held against what was told before. A lock has one holder at a
//! time, and fences rise for ever, whatever is killed.

use std::collections::BTreeMap;

use base::Timestamp;
use engine::coordination::{CoordinationName, LockGrant};

use crate::harness::calls::CallId;
use crate::harness::violation::{Checked, Invariant};
use crate::queues::checkers::history::Source;

/// What was told about locks.
#[derive(Default)]
pub(crate) struct LockHistory {
    by_name: BTreeMap<CoordinationName, OneLock>,
}

#[derive(Default)]
struct OneLock {
    /// Each fence that was told: whose it is, and the last call that had been made by then. The
    /// power takes nothing of it: a number that somebody saw is never another's.
    fences: BTreeMap<u64, (String, CallId)>,
    /// What holders may rely on.
    claims: Vec<Claim>,
    /// Calls under way that may change what an owner has.
    pending: BTreeMap<String, u32>,
}

/// Somebody holds it until then.
struct Claim {
    source: Source,
    owner: String,
    fence: u64,
    until: Timestamp,
}

impl LockHistory {
    /// An owner asks for it, or lets it go: what it has may change before it is told.
    pub(crate) fn asking(&mut self, name: &CoordinationName, owner: &str) {
        let lock = self.by_name.entry(name.clone()).or_default();
        lock.claims.retain(|claim| claim.owner != owner);
        *lock.pending.entry(owner.to_owned()).or_default() += 1;
    }

    /// The call has ended, with an answer or without.
    pub(crate) fn ended(&mut self, name: &CoordinationName, owner: &str) {
        let lock = self.by_name.entry(name.clone()).or_default();
        let pending = lock.pending.entry(owner.to_owned()).or_default();
        *pending = pending.saturating_sub(1);
    }

    /// Batches behind `seq` of a partition were taken by the power.
    pub(crate) fn forget_after(&mut self, partition: base::PartitionId, seq: u64) {
        for lock in self.by_name.values_mut() {
            lock.claims.retain(|claim| claim.source.0 != partition || claim.source.1 <= seq);
        }
    }

    /// A caller is told that it holds a lock, `ttl_ms` from the step that made it so. `last` is the
    /// last call that was made by now.
    pub(crate) fn note(
        &mut self,
        (source, call, last): (Source, CallId, CallId),
        name: &CoordinationName,
        ttl_ms: i64,
        grant: &LockGrant,
    ) -> Checked {
        let lock = self.by_name.entry(name.clone()).or_default();
        let (owner, fence) = (grant.owner.as_str(), grant.fence);
        let of_another = |(told, (whose, _)): (&u64, &(String, CallId))| *told == fence && whose != owner;
        let is_right = !lock.fences.iter().any(of_another)
            && !lock.fences.iter().any(|(told, (_, when))| *told > fence && *when < call);
        Invariant::FENCES_RISE
            .check(is_right, || format!("{name} has fence {fence} for {owner} after {:?}", lock.fences))?;
        let granted_at = Timestamp(grant.expires_at.0 - ttl_ms);
        let other = lock.claims.iter().find(|claim| claim.fence < fence && claim.until > granted_at);
        Invariant::ONE_HOLDER.check(other.is_none(), || {
            let before = other.map(|claim| (&claim.owner, claim.fence, claim.until));
            format!("{owner} holds {name} from {granted_at:?} on, and so does {before:?}")
        })?;
        lock.fences.entry(fence).or_insert_with(|| (owner.to_owned(), last));
        lock.claims.retain(|claim| claim.owner != owner);
        if lock.pending.get(owner).is_none_or(|pending| *pending == 0) {
            lock.claims.push(Claim { source, owner: owner.to_owned(), fence, until: grant.expires_at });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base::PartitionId;

    use super::*;

    /// For so long each holder has the lock, in milliseconds.
    const TTL_MS: i64 = 10;

    fn lock() -> CoordinationName {
        CoordinationName::unchecked("shop", "lock")
    }

    /// `owner` is told of its fence and of the moment from which it holds the lock, by a call that
    /// nobody has followed with another. What that breaks.
    fn note(
        history: &mut LockHistory,
        (call, owner): (CallId, &str),
        (fence, at): (u64, i64),
    ) -> Option<Invariant> {
        let grant = LockGrant { owner: owner.into(), fence, expires_at: Timestamp(at + TTL_MS) };
        let source = (PartitionId::of_queues(0), call);
        let noted = history.note((source, call, call), &lock(), TTL_MS, &grant);
        noted.err().map(|violation| violation.invariant)
    }

    #[test]
    fn a_lock_that_two_hold_at_a_time_is_found() {
        let mut history = LockHistory::default();
        assert_eq!(note(&mut history, (1, "a"), (1, 0)), None);
        assert_eq!(note(&mut history, (2, "b"), (2, 9)), Some(Invariant::ONE_HOLDER));
        assert_eq!(note(&mut history, (3, "b"), (2, 10)), None, "the time of the other is over");
        history.asking(&lock(), "b");
        assert_eq!(note(&mut history, (4, "a"), (3, 11)), None, "the other may have let go");
    }

    #[test]
    fn a_holder_that_the_power_took_is_held_against_nobody() {
        let mut history = LockHistory::default();
        assert_eq!(note(&mut history, (1, "a"), (1, 0)), None);
        history.forget_after(PartitionId::of_queues(0), 0);
        assert_eq!(note(&mut history, (2, "b"), (2, 5)), None);
        assert_eq!(note(&mut history, (3, "b"), (1, 6)), Some(Invariant::FENCES_RISE), "its fence is kept");
    }

    #[test]
    fn a_fence_that_is_told_twice_or_goes_back_is_found() {
        let mut history = LockHistory::default();
        assert_eq!(note(&mut history, (1, "a"), (5, 0)), None);
        assert_eq!(note(&mut history, (2, "a"), (5, 5)), None, "the same holder");
        assert_eq!(note(&mut history, (3, "b"), (5, 20)), Some(Invariant::FENCES_RISE), "twice");
        assert_eq!(note(&mut history, (4, "b"), (4, 20)), Some(Invariant::FENCES_RISE), "lower");
        assert_eq!(note(&mut history, (1, "b"), (4, 20)), None, "it was called before, and is told late");
    }
}
