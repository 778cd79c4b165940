//! What all partitions have in quarantine, by age: one limit for the whole store.
//!
//! A partition takes its changes in at the end of its step. It lets only reports of its own go:
//! those beside which the newer ones of all partitions leave no room. So the oldest of all go
//! first, and the newest of all stays, however large it is. A partition that does not step may have
//! reports without room meanwhile; it looks again after [`LOOKED_AT_EVERY`].
//!
//! What a step adds counts at once. If its batch is lost, older ones of other partitions may have
//! gone for it. That is at most what one partition has on its way.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use base::locks::locked;
use base::{PartitionId, Timestamp};
use records::QuarantineKey;

/// How often a partition looks whether others have taken the room of its refused reports.
pub(crate) const LOOKED_AT_EVERY: Duration = Duration::from_secs(10);
/// Refused reports that one step drops at most, beside as many as it adds; the next drops more.
const DROPPED_AT_ONCE: usize = 500;

/// The refused reports of all partitions of devices.
#[derive(Debug)]
pub(crate) struct QuarantineBudget(Mutex<Box<[KeptReports]>>);

/// What a partition has: key and cost of each refused report, oldest first.
#[derive(Debug, Default)]
pub(crate) struct KeptReports {
    by_age: VecDeque<(QuarantineKey, u32)>,
    bytes: u64,
}

/// What a step changes.
#[derive(Debug, Default)]
pub(crate) struct QuarantineChanges {
    /// New ones with their cost, oldest first.
    pub(crate) added: Vec<(QuarantineKey, u32)>,
    pub(crate) discarded: Vec<QuarantineKey>,
}

/// What a partition has after a step.
#[derive(Debug)]
pub(crate) struct QuarantineLeft {
    /// These have just gone.
    pub(crate) dropped: Vec<QuarantineKey>,
    pub(crate) count: usize,
    pub(crate) oldest_at: Option<Timestamp>,
    /// There may be more to drop.
    pub(crate) more: bool,
}

impl KeptReports {
    /// Adds the newest.
    pub(crate) fn push(&mut self, key: QuarantineKey, cost: u32) {
        self.by_age.push_back((key, cost));
        self.bytes += u64::from(cost);
    }

    pub(crate) fn len(&self) -> usize {
        self.by_age.len()
    }

    pub(crate) fn oldest_at(&self) -> Option<Timestamp> {
        self.by_age.front().map(|(key, _)| key.at)
    }

    fn place(&self, key: QuarantineKey) -> Option<usize> {
        self.by_age.binary_search_by_key(&key, |(key, _)| *key).ok()
    }

    fn change(&mut self, changes: QuarantineChanges) {
        changes.added.into_iter().for_each(|(key, cost)| self.push(key, cost));
        for key in changes.discarded {
            if let Some((_, cost)) = self.place(key).and_then(|at| self.by_age.remove(at)) {
                self.bytes -= u64::from(cost);
            }
        }
    }

    fn pop(&mut self) {
        if let Some((_, cost)) = self.by_age.pop_front() {
            self.bytes -= u64::from(cost);
        }
    }
}

impl QuarantineBudget {
    pub(crate) fn new(partitions: u16) -> Self {
        Self(Mutex::new((0..partitions).map(|_| KeptReports::default()).collect()))
    }

    /// A partition was loaded with these.
    pub(crate) fn replace(&self, partition: PartitionId, kept: KeptReports) {
        locked(&self.0)[usize::from(partition.0)] = kept;
    }

    /// Whether a partition has a refused report.
    pub(crate) fn has(&self, partition: PartitionId, key: QuarantineKey) -> bool {
        locked(&self.0)[usize::from(partition.0)].place(key).is_some()
    }

    /// Takes in what a step of a partition changes. Then those of the partition go that are too
    /// old, or beside which the newer ones of all partitions leave no room of `bytes_max`.
    pub(crate) fn change(
        &self,
        partition: PartitionId,
        changes: QuarantineChanges,
        bytes_max: u64,
        is_too_old: impl Fn(Timestamp) -> bool,
    ) -> QuarantineLeft {
        let (own, dropped_max) = (usize::from(partition.0), DROPPED_AT_ONCE + changes.added.len());
        let mut all = locked(&self.0);
        all[own].change(changes);
        // All but those that are known to be older than the partition's oldest.
        let mut bytes: u64 = all.iter().map(|kept| kept.bytes).sum();
        let mut passed = vec![0; all.len()];
        let mut dropped = Vec::new();
        while dropped.len() < dropped_max
            && let Some((key, cost)) = all[own].by_age.front().copied()
        {
            for (other, kept) in all.iter().enumerate().filter(|(other, _)| *other != own) {
                while bytes > bytes_max
                    && let Some((older, cost)) = kept.by_age.get(passed[other])
                    && (older.at, other) < (key.at, own)
                {
                    bytes -= u64::from(*cost);
                    passed[other] += 1;
                }
            }
            let has_newer = bytes > u64::from(cost);
            let has_room = bytes <= bytes_max || !has_newer;
            if has_room && !is_too_old(key.at) {
                break;
            }
            all[own].pop();
            bytes -= u64::from(cost);
            dropped.push(key);
        }
        let more = dropped.len() == dropped_max;
        let kept = &all[own];
        QuarantineLeft { dropped, count: kept.len(), oldest_at: kept.oldest_at(), more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(at: i64) -> QuarantineKey {
        QuarantineKey { at: Timestamp(at), number: 0 }
    }

    /// The partition adds reports of these times and costs, and those of the times `gone` go. There
    /// is room for 1,000 bytes.
    fn add(budget: &QuarantineBudget, partition: u16, added: &[(i64, u32)], gone: &[i64]) {
        let added = added.iter().map(|(at, cost)| (key(*at), *cost)).collect();
        let changes = QuarantineChanges { added, discarded: Vec::new() };
        let left = budget.change(PartitionId(partition), changes, 1_000, |at| at < Timestamp(0));
        let dropped: Vec<i64> = left.dropped.iter().map(|key| key.at.0).collect();
        assert_eq!(dropped, gone);
        assert!(!left.more);
    }

    #[test]
    fn one_partition_may_take_all_of_the_room() {
        let budget = QuarantineBudget::new(16);
        add(&budget, 7, &[(1, 400), (2, 600)], &[]);
        add(&budget, 7, &[(3, 500)], &[1, 2]);
    }

    #[test]
    fn the_newest_is_kept_however_large_it_is() {
        let budget = QuarantineBudget::new(2);
        add(&budget, 0, &[(1, 10), (2, 5_000)], &[1]);
        add(&budget, 1, &[(3, 10)], &[]);
        // It is the newest no longer.
        add(&budget, 0, &[], &[2]);
    }

    #[test]
    fn the_oldest_of_all_partitions_goes_first() {
        let budget = QuarantineBudget::new(3);
        add(&budget, 0, &[(1, 300), (3, 300)], &[]);
        add(&budget, 1, &[(2, 300)], &[]);
        // It has no older one.
        add(&budget, 2, &[(4, 300)], &[]);
        // Those of 2, 3 and 4 have room.
        add(&budget, 1, &[], &[]);
        add(&budget, 0, &[], &[1]);
        add(&budget, 2, &[(5, 200)], &[]);
        add(&budget, 0, &[], &[]);
        add(&budget, 1, &[], &[2]);
    }

    #[test]
    fn of_one_time_those_of_the_lower_partition_are_older() {
        let budget = QuarantineBudget::new(2);
        add(&budget, 0, &[(1, 600)], &[]);
        add(&budget, 1, &[(1, 600)], &[]);
        add(&budget, 1, &[], &[]);
        add(&budget, 0, &[], &[1]);
    }

    #[test]
    fn what_was_discarded_or_is_lost_with_its_batch_takes_no_room() {
        let budget = QuarantineBudget::new(2);
        add(&budget, 0, &[(1, 400)], &[]);
        add(&budget, 1, &[(2, 300), (3, 300)], &[]);
        assert!(budget.has(PartitionId(1), key(2)));
        let changes = QuarantineChanges { added: Vec::new(), discarded: vec![key(2)] };
        let left = budget.change(PartitionId(1), changes, 1_000, |_| false);
        assert_eq!((left.count, left.oldest_at), (1, Some(Timestamp(3))));
        assert!(!budget.has(PartitionId(1), key(2)));
        add(&budget, 1, &[(4, 600)], &[]);
        // Loaded again: the batch of 4 was lost.
        let mut loaded = KeptReports::default();
        loaded.push(key(3), 300);
        budget.replace(PartitionId(1), loaded);
        add(&budget, 0, &[], &[]);
    }

    #[test]
    fn a_step_drops_no_more_than_its_share_and_as_many_as_it_adds() {
        let budget = QuarantineBudget::new(1);
        let added: Vec<_> = (0..2_000).map(|at| (key(at), 1)).collect();
        let changes = QuarantineChanges { added, discarded: Vec::new() };
        budget.change(PartitionId(0), changes, 10_000, |_| false);
        let changes = QuarantineChanges { added: vec![(key(3_000), 1)], discarded: Vec::new() };
        let left = budget.change(PartitionId(0), changes, 100, |_| false);
        assert_eq!((left.dropped.len(), left.count, left.more), (501, 1_500, true));
    }
}
