//! The store in memory, with commits that wait and every outcome that the port allows.
//!
//! What has been committed survives a crash; what waits may or may not, in the order of handing in,
//! as in a log. After an outcome other than `Durable` a partition's batches come to nothing until
//! it is loaded again.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::random::Random;
use base::{Lineage, PartitionId, Timestamp};
use engine::kernel::runner::BATCHES_IN_FLIGHT_MAX;
use records::Batch;
use store::{
    BlockStorage, CommitDone, CommitOutcome, MemoryStore, Planned, Store, StoreError, StoreMetric, View,
};

use super::{End, Storage};
use crate::harness::fault_injection::InjectedFault;
use crate::harness::machine::MachinePlan;

/// The store, whichever process has it.
pub(crate) struct InMemory {
    committed: Arc<MemoryStore>,
    opened: Option<Arc<ProcessStore>>,
    /// What was committed, kept only for the fault that loses some of it.
    log: Arc<Mutex<Vec<Batch>>>,
    /// Outcomes other than `Durable` that are still to come.
    planned: u64,
    injected: Option<InjectedFault>,
}

impl InMemory {
    pub(crate) fn new(plan: &MachinePlan) -> Self {
        let committed = Arc::new(MemoryStore::new(Lineage(plan.seed), plan.partitions));
        Self { committed, opened: None, log: Arc::default(), planned: 0, injected: plan.injected }
    }

    /// As if the last batch had never been written.
    fn lose_the_last(&mut self) {
        let mut log = locked(&self.log);
        log.pop();
        let again = MemoryStore::new(self.committed.lineage(), self.committed.partitions());
        for batch in log.iter() {
            again.commit(batch.clone(), Box::new(|_| {}));
        }
        self.committed = Arc::new(again);
    }

    fn outcome(&mut self, random: &mut Random) -> Option<Planned> {
        if self.planned == 0 || !random.chance(1, 3) {
            return None;
        }
        self.planned -= 1;
        Some(match random.below(7) {
            0..=1 => Planned::Fenced,
            2..=3 => Planned::UnknownWritten,
            4..=5 => Planned::UnknownLost,
            _ => Planned::Failed,
        })
    }
}

impl Storage for InMemory {
    fn open(&mut self) -> Result<Arc<dyn Store>, StoreError> {
        let store = Arc::new(ProcessStore {
            committed: Arc::clone(&self.committed),
            log: self.injected.map(|_| Arc::clone(&self.log)),
            state: Mutex::default(),
        });
        self.opened = Some(Arc::clone(&store));
        Ok(store)
    }

    fn commit_step(&mut self, random: &mut Random) -> bool {
        let Some(opened) = self.opened.clone() else { return false };
        if locked(&opened.state).waiting.is_empty() {
            return false;
        }
        let planned = self.outcome(random);
        opened.commit_first(planned)
    }

    fn upkeep_step(&mut self, _: &mut Random) -> bool {
        false
    }

    fn sync_step(&mut self) -> bool {
        false
    }

    fn fault(&mut self, random: &mut Random) -> String {
        self.planned += 1 + random.below(3);
        format!("{} commits will not be durable", self.planned)
    }

    /// A commit is one call: there is nothing in the middle of it.
    fn doom(&mut self, _: &mut Random) -> String {
        "no end in the middle of a step".to_owned()
    }

    fn take_end(&mut self) -> Option<End> {
        None
    }

    fn is_bounded(&self, partitions: usize) -> Result<(), String> {
        let waiting = self.opened.as_ref().map_or(0, |opened| locked(&opened.state).waiting.len());
        let most = BATCHES_IN_FLIGHT_MAX * partitions;
        if waiting <= most { Ok(()) } else { Err(format!("{waiting} batches wait; {most} are allowed")) }
    }

    fn is_faulty(&self) -> bool {
        self.planned > 0
    }

    fn heal(&mut self) {
        self.planned = 0;
    }

    fn kill(&mut self) {
        self.opened = None;
    }

    fn crash(&mut self, random: &mut Random) {
        let Some(opened) = self.opened.take() else { return };
        let survivors = random.below(locked(&opened.state).waiting.len() as u64 + 1);
        for _ in 0..survivors {
            opened.write_first();
        }
        if self.injected == Some(InjectedFault::BatchLostAtRestart) {
            self.lose_the_last();
        }
    }

    fn stop(&mut self) -> bool {
        self.opened = None;
        true
    }

    fn reader(&self) -> Option<Arc<dyn Store>> {
        let opened = self.opened.as_ref()?;
        opened.check().is_ok().then(|| Arc::clone(&self.committed) as Arc<dyn Store>)
    }

    fn after_a_crash(&mut self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::clone(&self.committed) as Arc<dyn Store>)
    }

    /// It has no rows that could name each other.
    fn findings(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
}

/// The store as one process has it.
struct ProcessStore {
    committed: Arc<MemoryStore>,
    log: Option<Arc<Mutex<Vec<Batch>>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Batch, CommitDone)>,
    /// Partitions that must be loaded before anything of them is written again.
    fenced: BTreeSet<PartitionId>,
    failure: Option<Arc<StoreError>>,
}

impl ProcessStore {
    /// Commits the batch that waits longest, with the planned outcome if there is one.
    fn commit_first(&self, planned: Option<Planned>) -> bool {
        let mut state = locked(&self.state);
        let Some((batch, done)) = state.waiting.pop_front() else { return false };
        let outcome = self.commit_now(&mut state, batch, planned);
        drop(state);
        done(outcome);
        true
    }

    fn commit_now(&self, state: &mut State, batch: Batch, planned: Option<Planned>) -> CommitOutcome {
        let copy = self.log.as_ref().map(|log| (log, batch.clone()));
        let outcome = state.commit(&self.committed, batch, planned);
        let written = matches!(outcome, CommitOutcome::Durable)
            || (matches!(outcome, CommitOutcome::Unknown) && planned == Some(Planned::UnknownWritten));
        if let Some((log, batch)) = copy.filter(|_| written) {
            locked(log).push(batch);
        }
        outcome
    }

    /// Writes the batch that waits longest and tells nobody.
    fn write_first(&self) {
        let mut state = locked(&self.state);
        if let Some((batch, _nobody)) = state.waiting.pop_front() {
            self.commit_now(&mut state, batch, None);
        }
    }

    /// A partition begins anew. Nothing that it handed in before may still wait: its numbers are
    /// used again.
    fn unfence(&self, partition: PartitionId) {
        let mut state = locked(&self.state);
        let waits = state.waiting.iter().any(|(batch, _)| batch.partition == partition);
        assert!(!waits, "partition {partition} is loaded while a batch of it may still be written");
        state.fenced.remove(&partition);
    }

    fn check(&self) -> Result<(), StoreError> {
        match &locked(&self.state).failure {
            Some(failure) => Err(StoreError::Poisoned(failure.to_string())),
            None => Ok(()),
        }
    }
}

impl State {
    fn commit(&mut self, committed: &MemoryStore, batch: Batch, planned: Option<Planned>) -> CommitOutcome {
        if let Some(failure) = &self.failure {
            return CommitOutcome::Failed(Arc::clone(failure));
        }
        if self.fenced.contains(&batch.partition) {
            return CommitOutcome::Fenced;
        }
        if planned == Some(Planned::Failed) {
            let failure = Arc::new(StoreError::Refused("the disk failed, as planned".to_owned()));
            self.failure = Some(Arc::clone(&failure));
            return CommitOutcome::Failed(failure);
        }
        let partition = batch.partition;
        if let Some(planned) = planned {
            committed.plan(partition, planned);
            self.fenced.insert(partition);
        }
        let slot = Arc::new(Mutex::new(None));
        let told = Arc::clone(&slot);
        let tell = move |outcome| *locked(&told) = Some(outcome);
        committed.commit(batch, Box::new(tell));
        let outcome = locked(&slot).take();
        outcome.expect("the store in memory tells at once")
    }
}

impl Store for ProcessStore {
    fn lineage(&self) -> Lineage {
        self.committed.lineage()
    }

    fn partitions(&self) -> u16 {
        self.committed.partitions()
    }

    fn recorded_now(&self) -> Timestamp {
        self.committed.recorded_now()
    }

    fn load(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError> {
        self.check()?;
        self.unfence(partition);
        self.committed.load(partition)
    }

    fn commit(&self, batch: Batch, done: CommitDone) {
        locked(&self.state).waiting.push_back((batch, done));
    }

    fn view(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError> {
        self.check()?;
        self.committed.view(partition)
    }

    fn blocks(&self) -> Arc<dyn BlockStorage> {
        self.committed.blocks()
    }

    fn failure(&self) -> Option<Arc<StoreError>> {
        locked(&self.state).failure.clone()
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        self.committed.metrics()
    }
}
