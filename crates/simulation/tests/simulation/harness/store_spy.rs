//! Listens between the engine and its store: what was handed in, what was loaded, what became of
//! each batch.
//!
//! The checkers need to see a batch when it is made, because chance decides within it, and the
//! model must follow. Chance decides which silence was noticed, what was leased, and how long a
//! retry waits.

use std::sync::{Arc, Mutex, MutexGuard};

use base::locks::locked;
use base::{Lineage, PartitionId, Timestamp};
use records::{Batch, PartitionHead};
use store::{BlockStorage, CommitDone, CommitOutcome, Store, StoreError, StoreMetric, View};

use super::fault_injection::{InjectedFault, Shows, StoredFault};

/// A store that is listened to.
pub(crate) struct StoreSpy {
    store: Arc<dyn Store>,
    injected: Option<InjectedFault>,
    heard: Arc<Mutex<Heard>>,
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Durable,
    /// Fenced or unknown: the partition is loaded again.
    Doubtful,
    Failed,
}

impl Ending {
    fn of(outcome: &CommitOutcome) -> Self {
        match outcome {
            CommitOutcome::Durable => Self::Durable,
            CommitOutcome::Fenced | CommitOutcome::Unknown => Self::Doubtful,
            CommitOutcome::Failed(_) => Self::Failed,
        }
    }
}

#[derive(Default)]
struct Heard {
    batch: Option<Batch>,
    loaded: Vec<(PartitionId, PartitionHead)>,
    ending: Option<(u64, Ending)>,
    /// What an injected fault counts.
    counted: u64,
}

impl StoreSpy {
    pub(super) fn new(store: Arc<dyn Store>, injected: Option<InjectedFault>) -> Arc<Self> {
        Arc::new(Self { store, injected, heard: Arc::default() })
    }

    /// The batch that was handed in since this was last asked.
    pub(super) fn take_batch(&self) -> Option<Batch> {
        self.heard().batch.take()
    }

    /// What was loaded since this was last asked.
    pub(super) fn take_loaded(&self) -> Vec<(PartitionId, PartitionHead)> {
        std::mem::take(&mut self.heard().loaded)
    }

    /// Number and ending of the batch whose outcome is being told at this moment.
    pub(super) fn ending(&self) -> Option<(u64, Ending)> {
        self.heard().ending
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        locked(&self.heard)
    }

    /// A fault of what is stored changes the batch, before or after it was heard.
    fn change(&self, batch: &mut Batch, is_heard: bool) {
        if let Some(InjectedFault::Stored(StoredFault { shows, change, .. })) = self.injected
            && is_heard == (shows != Shows::Batch)
        {
            change(batch, &mut self.heard().counted);
        }
    }
}

impl Store for StoreSpy {
    fn lineage(&self) -> Lineage {
        self.store.lineage()
    }

    fn partitions(&self) -> u16 {
        self.store.partitions()
    }

    fn recorded_now(&self) -> Timestamp {
        self.store.recorded_now()
    }

    fn load(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError> {
        let view = self.store.load(partition)?;
        self.heard().loaded.push((partition, view.head().clone()));
        Ok(view)
    }

    fn commit(&self, mut batch: Batch, done: CommitDone) {
        self.change(&mut batch, false);
        self.heard().batch = Some(batch.clone());
        self.change(&mut batch, true);
        if self.injected == Some(InjectedFault::EffectsBeforeDurable) {
            self.heard().ending = Some((batch.head.seq, Ending::Durable));
            done(CommitOutcome::Durable);
            self.store.commit(batch, Box::new(|_| {}));
            return;
        }
        let (heard, seq) = (Arc::clone(&self.heard), batch.head.seq);
        let listened = move |outcome: CommitOutcome| {
            locked(&heard).ending = Some((seq, Ending::of(&outcome)));
            done(outcome);
        };
        self.store.commit(batch, Box::new(listened));
    }

    fn view(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError> {
        self.store.view(partition)
    }

    fn blocks(&self) -> Arc<dyn BlockStorage> {
        self.store.blocks()
    }

    fn sync_committed(&self) -> Result<(), StoreError> {
        self.store.sync_committed()
    }

    fn failure(&self) -> Option<Arc<StoreError>> {
        self.store.failure()
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        self.store.metrics()
    }
}
