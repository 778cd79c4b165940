//! Which copies run. Whoever runs them has a task for each; it is told when one is made, changed
//! or gone, and notes here how it goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base::PartitionId;
use base::locks::locked;
use fleet::Selection;
use records::ReportsCopy;
use tokio::sync::Notify;

use super::copy::{CopyKey, CopyStatus, CopyTarget};
use super::effect::{CopyChange, CopyChangeKind};
use crate::gathering::{Gathering, Gatherings};

/// All copies.
#[derive(Debug)]
pub(crate) struct RunningCopies {
    known: Mutex<KnownCopies>,
    /// Told which of them are of kind `reports`.
    gatherings: Arc<Gatherings>,
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
    reports: Option<Box<ReportsCopy>>,
    status: CopyStatus,
}

/// A copy that there was when its machine was loaded.
#[derive(Clone, Debug)]
pub(crate) struct LoadedCopy {
    pub(super) key: CopyKey,
    pub(super) runs: bool,
    pub(super) reports: Option<Box<ReportsCopy>>,
}

impl KnownCopies {
    fn put(&mut self, partition: PartitionId, copy: LoadedCopy) {
        let LoadedCopy { key, runs, reports } = copy;
        self.generation += 1;
        let before = self.by_key.remove(&key).map(|copy| copy.status).unwrap_or_default();
        // What was seen of the other end may be of another one; when it was tried is the same.
        let status = CopyStatus { at: before.at, ..CopyStatus::default() };
        let copy = KnownCopy { partition, generation: self.generation, runs, reports, status };
        self.by_key.insert(key, copy);
    }

    /// Those of kind `reports`. One that rests gathers on: what is gathered waits in its stream.
    fn gathering(&self) -> Vec<Gathering> {
        let reports = self.by_key.iter().filter_map(|(key, copy)| Some((key, copy.reports.as_deref()?)));
        reports.map(|(key, reports)| gathering(key, reports)).collect()
    }
}

/// A selection that no device is meant by.
const NOBODY: &str = "nobody,!nobody";

/// What a copy gathers. One whose selector cannot be read any more gathers nothing more: it would
/// bring reports of others to a foreign node. What it has gathered goes on.
fn gathering(key: &CopyKey, reports: &ReportsCopy) -> Gathering {
    let selection = match reports.selector.as_deref().map(Selection::parse).transpose() {
        Ok(selection) => selection,
        Err(error) => {
            let (copy, stream) = (&key.copy, &key.stream);
            tracing::error!(%copy, %stream, %error, "its selector cannot be read: it gathers nothing; put it again");
            Some(Selection::parse(NOBODY).expect("two terms about a label"))
        }
    };
    Gathering { gather: reports.gather, key: key.clone(), selection }
}

impl RunningCopies {
    pub(crate) fn new(gatherings: Arc<Gatherings>) -> Self {
        let (known, changed, moved) = Default::default();
        Self { known, gatherings, changed, moved }
    }

    /// A machine was loaded: its partition has these copies, which run or rest, and no others.
    pub(super) fn partition_loaded(&self, partition: PartitionId, copies: &[LoadedCopy]) {
        let mut known = locked(&self.known);
        known.by_key.retain(|_, copy| copy.partition != partition);
        copies.iter().cloned().for_each(|copy| known.put(partition, copy));
        self.gatherings.set(known.gathering());
        drop(known);
        self.changed.notify_one();
    }

    pub(super) fn change(&self, partition: PartitionId, change: CopyChange) {
        let CopyChange { stream, copy, kind } = change;
        let key = CopyKey { stream, copy };
        let is_other = kind != CopyChangeKind::Moved;
        if is_other {
            let mut known = locked(&self.known);
            match kind {
                CopyChangeKind::Moved => {}
                CopyChangeKind::Put { runs, reports } => {
                    known.put(partition, LoadedCopy { key, runs, reports });
                }
                CopyChangeKind::Gone => drop(known.by_key.remove(&key)),
            }
            // Partitions of devices know it before the answer that follows this.
            self.gatherings.set(known.gathering());
            drop(known);
            self.changed.notify_one();
        }
        self.moved.notify_waiters();
    }

    /// Those of kind `reports`.
    #[cfg(test)]
    pub(super) fn gathering(&self) -> Vec<Gathering> {
        locked(&self.known).gathering()
    }

    pub(super) fn len(&self) -> usize {
        locked(&self.known).by_key.len()
    }

    pub(super) fn has(&self, key: &CopyKey) -> bool {
        locked(&self.known).by_key.contains_key(key)
    }

    /// Some of them, in order of stream and name.
    pub(super) fn keys(&self, limit: usize) -> Vec<CopyKey> {
        locked(&self.known).by_key.keys().take(limit).cloned().collect()
    }

    /// Those that run.
    pub(super) fn all(&self) -> Vec<CopyTarget> {
        let known = locked(&self.known);
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
        let mut known = locked(&self.known);
        let copy = known.by_key.get_mut(&target.key);
        if let Some(copy) = copy.filter(|copy| copy.generation == target.generation) {
            copy.status = status;
        }
    }

    pub(super) fn status(&self, key: &CopyKey) -> Option<CopyStatus> {
        locked(&self.known).by_key.get(key).map(|copy| copy.status.clone())
    }
}
