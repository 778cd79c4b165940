//! The port in memory: for tests of what is above it, and the model that the embedded store is
//! compared with.
//!
//! It keeps rows in ordered maps and nothing else: no log, no checkpoint, no thread. It panics on a
//! commit that breaks the port's rules for parked jobs, dead letters, answers and open commands.
//! Another store would keep rows that lead nowhere. A test chooses the outcome of a commit
//! beforehand ([`MemoryStore::plan`]). In manual mode every commit waits for [`MemoryStore::step`],
//! so that a test decides when a batch is durable.

mod partition;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use base::locks::locked;
use base::{Lineage, PartitionId, Timestamp};
use records::Batch;

use crate::blocks::{BlockStorage, MemoryBlocks};
use crate::change::PreparedBatch;
use crate::port::{CommitDone, CommitOutcome, Store, StoreError, StoreMetric, View};
use partition::MemoryPartition;
use view::MemoryView;

/// What is to become of a batch, in place of being committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// Nothing is written; the outcome is `Fenced`.
    Fenced,
    /// It is written; the outcome is `Unknown`.
    UnknownWritten,
    /// Nothing is written; the outcome is `Unknown`.
    UnknownLost,
    /// Nothing is written, and the store accepts nothing more.
    Failed,
}

/// A store that forgets everything when it is dropped.
pub struct MemoryStore {
    lineage: Lineage,
    partitions: u16,
    manual: bool,
    blocks: Arc<MemoryBlocks>,
    state: Mutex<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    data: BTreeMap<PartitionId, Arc<MemoryPartition>>,
    planned: BTreeMap<PartitionId, VecDeque<Planned>>,
    waiting: VecDeque<(Batch, CommitDone)>,
    batches: u64,
    failure: Option<Arc<StoreError>>,
}

impl MemoryStore {
    /// An empty store; commits are durable at once.
    #[must_use]
    pub fn new(lineage: Lineage, partitions: u16) -> Self {
        let (blocks, state) = (Arc::default(), Mutex::new(MemoryState::default()));
        Self { lineage, partitions, manual: false, blocks, state }
    }

    /// An empty store in which every commit waits for [`MemoryStore::step`].
    #[must_use]
    pub fn manual(lineage: Lineage, partitions: u16) -> Self {
        Self { manual: true, ..Self::new(lineage, partitions) }
    }

    /// Plans what becomes of the next batch of `partition` that has nothing planned yet.
    pub fn plan(&self, partition: PartitionId, planned: Planned) {
        self.locked().planned.entry(partition).or_default().push_back(planned);
    }

    /// Commits the batch that waits longest; whether there was one.
    pub fn step(&self) -> bool {
        let mut state = self.locked();
        let Some((batch, done)) = state.waiting.pop_front() else { return false };
        let outcome = state.commit(batch);
        drop(state);
        done(outcome);
        true
    }

    /// How many commits wait for [`MemoryStore::step`].
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.locked().waiting.len()
    }

    /// A panic in a test must not hide behind a second one.
    fn locked(&self) -> MutexGuard<'_, MemoryState> {
        locked(&self.state)
    }

    fn check(&self, partition: PartitionId) {
        let index = partition.queues_index().or(partition.streams_index()).unwrap_or(partition.0);
        let is_single = partition == PartitionId::REGISTRY || partition == PartitionId::CAMPAIGNS;
        let exists = is_single || index < self.partitions;
        assert!(exists, "there is no partition {partition}");
    }
}

impl MemoryState {
    fn commit(&mut self, batch: Batch) -> CommitOutcome {
        if let Some(failure) = &self.failure {
            return CommitOutcome::Failed(Arc::clone(failure));
        }
        match self.planned.get_mut(&batch.partition).and_then(VecDeque::pop_front) {
            None => self.write(batch),
            Some(Planned::Fenced) => CommitOutcome::Fenced,
            Some(Planned::UnknownLost) => CommitOutcome::Unknown,
            Some(Planned::UnknownWritten) => {
                self.write(batch);
                CommitOutcome::Unknown
            }
            Some(Planned::Failed) => {
                let failure = Arc::new(StoreError::Disk {
                    what: "writing to the log in memory".to_owned(),
                    source: std::io::Error::other("planned by the test"),
                });
                self.failure = Some(Arc::clone(&failure));
                CommitOutcome::Failed(failure)
            }
        }
    }

    /// A batch that follows one which was not written must not be written either.
    fn write(&mut self, batch: Batch) -> CommitOutcome {
        let partition = self.data.entry(batch.partition).or_default();
        let expected = partition.head.seq + 1;
        if batch.head.seq > expected {
            return CommitOutcome::Fenced;
        }
        if batch.head.seq == expected {
            Arc::make_mut(partition).apply(PreparedBatch::of(batch));
            self.batches += 1;
        }
        CommitOutcome::Durable
    }

    fn view(&self, partition: PartitionId) -> Result<MemoryView, StoreError> {
        match &self.failure {
            Some(failure) => Err(StoreError::Poisoned(failure.to_string())),
            None => Ok(MemoryView(self.data.get(&partition).cloned().unwrap_or_default())),
        }
    }
}

impl Store for MemoryStore {
    fn lineage(&self) -> Lineage {
        self.lineage
    }

    fn partitions(&self) -> u16 {
        self.partitions
    }

    fn recorded_now(&self) -> Timestamp {
        self.locked().data.values().map(|partition| partition.head.now).max().unwrap_or_default()
    }

    fn commit(&self, batch: Batch, done: CommitDone) {
        self.check(batch.partition);
        let mut state = self.locked();
        if self.manual {
            state.waiting.push_back((batch, done));
            return;
        }
        let outcome = state.commit(batch);
        drop(state);
        done(outcome);
    }

    fn view(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError> {
        self.check(partition);
        Ok(Box::new(self.locked().view(partition)?))
    }

    fn blocks(&self) -> Arc<dyn BlockStorage> {
        Arc::clone(&self.blocks) as Arc<dyn BlockStorage>
    }

    fn failure(&self) -> Option<Arc<StoreError>> {
        self.locked().failure.clone()
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        let batches = self.locked().batches as f64;
        let help = "Batches committed";
        vec![StoreMetric { name: "fieldpost_store_batches_total", help, counter: true, value: batches }]
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("partitions", &self.partitions).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
