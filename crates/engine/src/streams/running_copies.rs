//! Which copies run. Whoever runs them has a task for each; it is told when one is made, changed
//! or gone, and notes here how it goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::PartitionId;
use tokio::sync::Notify;

use super::StreamName;
use super::copy::{CopyKey, CopyStatus, CopyTarget};
use super::effect::{CopyChange, CopyChangeKind};

/// All copies.
#[derive(Debug, Default)]
pub(crate) struct RunningCopies {
    known: Mutex<KnownCopies>,
    changed: Notify,
    /// Told whenever a copy moved on.
    moved: Arc<Notify>,
}

#[derive(Debug, Default)]
struct KnownCopies {
    by_key: BTreeMap<CopyKey, KnownCopy>,
    generation: u64,
}

#[derive(Debug)]
struct KnownCopy {
    partition: PartitionId,
    generation: u64,
    runs: bool,
    status: CopyStatus,
}

impl KnownCopies {
    fn put(&mut self, partition: PartitionId, key: CopyKey, runs: bool) {
        self.generation += 1;
        let before = self.by_key.remove(&key).map(|copy| copy.status).unwrap_or_default();
        // What was seen of the other end may be of another one; when it was tried is the same.
        let status = CopyStatus { at: before.at, ..CopyStatus::default() };
        let copy = KnownCopy { partition, generation: self.generation, runs, status };
        self.by_key.insert(key, copy);
    }
}

impl RunningCopies {
    fn known(&self) -> MutexGuard<'_, KnownCopies> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A machine was loaded: its partition has these copies, which run or rest, and no others.
    pub(super) fn partition_loaded(&self, partition: PartitionId, copies: &[(StreamName, Box<str>, bool)]) {
        let mut known = self.known();
        known.by_key.retain(|_, copy| copy.partition != partition);
        for (stream, copy, runs) in copies.iter().cloned() {
            known.put(partition, CopyKey { stream, copy }, runs);
        }
        drop(known);
        self.changed.notify_one();
    }

    pub(super) fn change(&self, partition: PartitionId, change: CopyChange) {
        let CopyChange { stream, copy, kind } = change;
        let key = CopyKey { stream, copy };
        match kind {
            CopyChangeKind::Moved => {}
            CopyChangeKind::Put { runs } => self.known().put(partition, key, runs),
            CopyChangeKind::Gone => drop(self.known().by_key.remove(&key)),
        }
        if kind != CopyChangeKind::Moved {
            self.changed.notify_one();
        }
        self.moved.notify_waiters();
    }

    pub(super) fn len(&self) -> usize {
        self.known().by_key.len()
    }

    pub(super) fn has(&self, key: &CopyKey) -> bool {
        self.known().by_key.contains_key(key)
    }

    /// Some of them, in order of stream and name.
    pub(super) fn keys(&self, limit: usize) -> Vec<CopyKey> {
        self.known().by_key.keys().take(limit).cloned().collect()
    }

    /// Those that run.
    pub(super) fn all(&self) -> Vec<CopyTarget> {
        let known = self.known();
        let running = known.by_key.iter().filter(|(_, copy)| copy.runs);
        running.map(|(key, copy)| CopyTarget { key: key.clone(), generation: copy.generation }).collect()
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Told whenever a copy moved on.
    pub(super) fn moved(&self) -> Arc<Notify> {
        Arc::clone(&self.moved)
    }

    /// Notes how a copy goes.
    pub(super) fn note(&self, target: &CopyTarget, status: CopyStatus) {
        let mut known = self.known();
        let copy = known.by_key.get_mut(&target.key);
        if let Some(copy) = copy.filter(|copy| copy.generation == target.generation) {
            copy.status = status;
        }
    }

    pub(super) fn status(&self, key: &CopyKey) -> Option<CopyStatus> {
        self.known().by_key.get(key).map(|copy| copy.status.clone())
    }
}
