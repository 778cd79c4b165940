//! Queues that somebody should look at: paused ones, and those with dead letters.
//!
//! A partition notes which queues changed in a step, and tells at its end how these stand. So
//! asking looks at no queue. Each partition shows [`TROUBLED_MAX`] of them at most.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use base::PartitionId;
use base::locks::locked;
use records::QueueKey;

use super::QueueName;

/// Troubled queues that are kept of a partition; others are only counted.
const TROUBLED_MAX: usize = 256;

/// A queue that is paused, has dead letters, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TroubledQueue {
    /// The queue.
    pub name: QueueName,
    /// Nothing is leased.
    pub paused: bool,
    /// Dead letters.
    pub dead: u64,
}

/// A partition's troubled queues are otherwise than before.
#[derive(Debug, PartialEq, Eq)]
pub enum TroubleChange {
    /// There is none: the partition was loaded.
    Anew,
    /// The queue stands so; `None` if all is well with it, or it is gone.
    Is(QueueKey, Option<TroubledQueue>),
}

/// What a partition has noted since its last step.
#[derive(Debug, Default)]
pub(super) struct TroubleNotes {
    changed: BTreeSet<QueueKey>,
    paused: BTreeSet<QueueKey>,
    was_told: bool,
}

impl TroubleNotes {
    /// A queue was loaded, paused, resumed or deleted, or has other dead letters.
    pub(super) fn note(&mut self, queue: QueueKey) {
        self.changed.insert(queue);
    }

    /// Paused queues, as of the last [`TroubleNotes::changes`].
    pub(super) fn paused(&self) -> usize {
        self.paused.len()
    }

    /// How the noted queues stand `now`.
    pub(super) fn changes(&mut self, now: impl Fn(QueueKey) -> Option<TroubledQueue>) -> Vec<TroubleChange> {
        let mut changes = Vec::new();
        if !std::mem::replace(&mut self.was_told, true) {
            changes.push(TroubleChange::Anew);
        }
        for queue in std::mem::take(&mut self.changed) {
            let stands = now(queue).filter(|stands| stands.paused || stands.dead > 0);
            if stands.as_ref().is_some_and(|stands| stands.paused) {
                self.paused.insert(queue);
            } else {
                self.paused.remove(&queue);
            }
            changes.push(TroubleChange::Is(queue, stands));
        }
        changes
    }
}

/// The troubled queues of all partitions.
#[derive(Debug, Default)]
pub(crate) struct TroubledQueues(Mutex<Vec<BTreeMap<QueueKey, TroubledQueue>>>);

impl TroubledQueues {
    pub(crate) fn change(&self, partition: PartitionId, changes: Vec<TroubleChange>) {
        let Some(index) = partition.queues_index().map(usize::from) else { return };
        let mut all = locked(&self.0);
        if all.len() <= index {
            all.resize_with(index + 1, BTreeMap::new);
        }
        let troubled = &mut all[index];
        for change in changes {
            match change {
                TroubleChange::Anew => troubled.clear(),
                TroubleChange::Is(queue, None) => drop(troubled.remove(&queue)),
                TroubleChange::Is(queue, Some(stands)) => {
                    if troubled.len() < TROUBLED_MAX || troubled.contains_key(&queue) {
                        troubled.insert(queue, stands);
                    }
                }
            }
        }
    }

    /// So many of them at most, those with the most dead letters first.
    pub(crate) fn worst(&self, limit: usize) -> Vec<TroubledQueue> {
        let all = locked(&self.0);
        let mut troubled: Vec<&TroubledQueue> = all.iter().flat_map(BTreeMap::values).collect();
        troubled.sort_by(|a, b| b.dead.cmp(&a.dead).then_with(|| a.name.cmp(&b.name)));
        troubled.into_iter().take(limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands(number: u64, paused: bool, dead: u64) -> TroubledQueue {
        TroubledQueue { name: QueueName::unchecked("a", &format!("{number:04}")), paused, dead }
    }

    #[test]
    fn queues_come_and_go_as_they_stand_and_the_worst_is_first() {
        let (mut notes, shown) = (TroubleNotes::default(), TroubledQueues::default());
        let partition = PartitionId::of_queues(1);
        let mut step = |queues: &[(u64, bool, u64)]| {
            queues.iter().for_each(|(number, ..)| notes.note(QueueKey(*number)));
            let now = |key: QueueKey| {
                let (number, paused, dead) = queues.iter().find(|(number, ..)| *number == key.0)?;
                Some(stands(*number, *paused, *dead))
            };
            shown.change(partition, notes.changes(now));
            let dead: Vec<u64> = shown.worst(2).iter().map(|queue| queue.dead).collect();
            (notes.paused(), dead)
        };
        assert_eq!(step(&[(1, false, 0), (2, true, 0), (3, false, 5)]), (1, vec![5, 0]));
        assert_eq!(step(&[(4, false, 7)]), (1, vec![7, 5]));
        assert_eq!(step(&[(2, false, 0), (3, false, 0)]), (0, vec![7]));
    }

    #[test]
    fn a_partition_shows_so_many_at_most_and_forgets_them_when_it_is_loaded_again() {
        let shown = TroubledQueues::default();
        let partition = PartitionId::of_queues(0);
        let more = TROUBLED_MAX as u64 + 10;
        let all = (0..more).map(|number| TroubleChange::Is(QueueKey(number), Some(stands(number, true, 0))));
        shown.change(partition, all.collect());
        assert_eq!(shown.worst(usize::MAX).len(), TROUBLED_MAX);
        shown.change(partition, vec![TroubleChange::Anew]);
        assert_eq!(shown.worst(usize::MAX), []);
    }
}
