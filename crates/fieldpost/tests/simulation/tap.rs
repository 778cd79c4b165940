//! Listens between the engine and its store: what was handed in, what was loaded, what became of
//! each batch.
//!
//! The checkers need to see a batch when it is made. Chance decides within it which silence was
//! noticed, what was leased, how long a retry waits; the model must follow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Lineage, PartitionId, Timestamp, Value};
use records::{Batch, Holder, JobHead, JobState, Op, PartitionHead, Rule};
use store::{CommitDone, CommitOutcome, Resident, Store, StoreError, StoreMetric, View};

use crate::sabotage::Sabotage;

/// A store that is listened to.
pub(crate) struct Tap {
    store: Arc<dyn Store>,
    sabotage: Option<Sabotage>,
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

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Heard {
    batch: Option<Batch>,
    loaded: Vec<(PartitionId, PartitionHead)>,
    ending: Option<(u64, Ending)>,
    events: u64,
    spoiled: u64,
}

/// Of the records that a sabotage is about, the one that is stored with another content.
const CORRUPTED: u64 = 15;

impl Tap {
    pub(crate) fn new(store: Arc<dyn Store>, sabotage: Option<Sabotage>) -> Arc<Self> {
        Arc::new(Self { store, sabotage, heard: Arc::default() })
    }

    /// The batch that was handed in since this was last asked.
    pub(crate) fn take_batch(&self) -> Option<Batch> {
        self.heard().batch.take()
    }

    /// What was loaded since this was last asked.
    pub(crate) fn take_loaded(&self) -> Vec<(PartitionId, PartitionHead)> {
        std::mem::take(&mut self.heard().loaded)
    }

    /// Number and ending of the batch whose outcome is being told at this moment.
    pub(crate) fn ending(&self) -> Option<(u64, Ending)> {
        self.heard().ending
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        lock(&self.heard)
    }

    fn spoil(&self, batch: &mut Batch) {
        if self.sabotage != Some(Sabotage::EventTwice) {
            return;
        }
        let events: Vec<Op> = batch.ops.iter().filter(|op| matches!(op, Op::PutEvent(_))).cloned().collect();
        let mut heard = self.heard();
        heard.events += events.len() as u64;
        if heard.events >= 3 {
            heard.events = 0;
            for mut op in events {
                if let Op::PutEvent(event) = &mut op {
                    event.id.number = event.id.number.wrapping_add(1 << 20);
                }
                batch.ops.push(op);
            }
        }
    }

    /// What is stored is another thing than what was heard.
    fn corrupt(&self, batch: &mut Batch) {
        let Some(sabotage) = self.sabotage else { return };
        let mut heard = self.heard();
        let mut next = || {
            heard.spoiled += 1;
            heard.spoiled
        };
        let other = || Value::number(41.0).expect("finite");
        let now = batch.head.now;
        batch.ops.retain_mut(|op| {
            match (sabotage, op) {
                (Sabotage::AliasNotFreed, Op::DeleteJob(_)) => return !next().is_multiple_of(3),
                (Sabotage::BodyStays, op @ Op::DeleteJob(_)) => {
                    if let (Op::DeleteJob(id), true) = (&*op, next().is_multiple_of(3)) {
                        *op = Op::DeleteJobHead(*id);
                    }
                }
                (Sabotage::StateCorrupted, Op::PutState(_, state)) if next() == CORRUPTED => {
                    state.value = Some(other());
                }
                (Sabotage::ReadingCorrupted, Op::Sign(sign)) => {
                    if let Some(reading) = sign.reading.as_mut().filter(|_| next() == CORRUPTED) {
                        reading.value = other();
                    }
                }
                (Sabotage::ParkedForgotten, Op::ParkJob(_)) => return !next().is_multiple_of(3),
                (Sabotage::DeathForgotten, Op::DeleteJobHead(_))
                | (Sabotage::AnswersForgotten, Op::PutAnswer(_))
                | (Sabotage::CountsForgotten, Op::PutQueueCounts(..)) => return false,
                (Sabotage::PauseForgotten, Op::PutQueue(queue)) => queue.paused = false,
                (_, Op::PutJob(head)) => forget(sabotage, head, now),
                _ => {}
            }
            true
        });
    }
}

/// A job is stored without something of it.
fn forget(sabotage: Sabotage, head: &mut JobHead, now: Timestamp) {
    let is_tried = head.attempt > 0 && head.state == JobState::Waiting;
    match sabotage {
        Sabotage::LeaseForgotten => {
            if matches!(head.state, JobState::Reserved { holder: Holder::Outside, .. }) {
                head.state = JobState::Waiting;
                head.visible_at = now;
            }
        }
        Sabotage::AttemptsForgotten if is_tried => head.attempt = 0,
        Sabotage::GroupForgotten if is_tried => head.terms.group = None,
        Sabotage::RunsFromNow => {
            let next = head.terms.recurrence.filter(|again| again.run > 1 && head.attempt == 0);
            if let Some(Rule::Every(ms)) = next.map(|again| again.rule) {
                head.run_at = now.after(Duration::from_millis(ms));
                head.visible_at = head.run_at;
            }
        }
        _ => {}
    }
}

impl Store for Tap {
    fn lineage(&self) -> Lineage {
        self.store.lineage()
    }

    fn partitions(&self) -> u16 {
        self.store.partitions()
    }

    fn recorded_now(&self) -> Timestamp {
        self.store.recorded_now()
    }

    fn load(
        &self,
        partition: PartitionId,
        resident: &mut dyn FnMut(Resident),
    ) -> Result<PartitionHead, StoreError> {
        let head = self.store.load(partition, resident)?;
        self.heard().loaded.push((partition, head.clone()));
        Ok(head)
    }

    fn commit(&self, mut batch: Batch, done: CommitDone) {
        self.spoil(&mut batch);
        self.heard().batch = Some(batch.clone());
        self.corrupt(&mut batch);
        if self.sabotage == Some(Sabotage::EffectsBeforeDurable) {
            self.heard().ending = Some((batch.head.seq, Ending::Durable));
            done(CommitOutcome::Durable);
            self.store.commit(batch, Box::new(|_| {}));
            return;
        }
        let (heard, seq) = (Arc::clone(&self.heard), batch.head.seq);
        let listened = move |outcome: CommitOutcome| {
            lock(&heard).ending = Some((seq, Ending::of(&outcome)));
            done(outcome);
        };
        self.store.commit(batch, Box::new(listened));
    }

    fn view(&self, partition: PartitionId) -> Result<Box<dyn View>, StoreError> {
        self.store.view(partition)
    }

    fn failure(&self) -> Option<Arc<StoreError>> {
        self.store.failure()
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        self.store.metrics()
    }
}
