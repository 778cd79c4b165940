//! A state machine with its batches on their way: steps it, commits, and lets effects go when their
//! batch is durable.
//!
//! No executor and no clock of its own: `driver.rs` runs it on tasks, the simulation on a virtual
//! clock. Whatever a batch did not survive takes its effects with it.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{PartitionId, Timestamp};
use store::{CommitOutcome, StoreError};
use tracing::warn;

use super::context::KernelContext;
use super::feed_clock::WritingSince;
use super::fetch::FromStore;
use super::machine::{Machine, MachineContext};

/// Batches of a partition that are being written at most: one that is synced, one that gathers for
/// the next sync.
pub const BATCHES_IN_FLIGHT_MAX: usize = 2;

/// Loads a machine again after a commit whose outcome is not known.
pub type Reload<M> = Box<dyn Fn() -> Result<M, StoreError> + Send>;

/// A machine and what it has on its way.
pub struct Runner<M: Machine> {
    id: PartitionId,
    machine: M,
    reload: Reload<M>,
    kernel: Arc<KernelContext>,
    context: Arc<M::Context>,
    writing_since: Arc<WritingSince>,
    in_flight: VecDeque<CommittingBatch<M>>,
    /// A batch was lost, or may be: the machine is loaded again as soon as nothing is on its way
    /// any more.
    lost: bool,
    /// The stamp of the latest step.
    last_stamp: Timestamp,
}

/// A batch that is being written, and what it holds back.
struct CommittingBatch<M: Machine> {
    seq: u64,
    /// Nothing in it is stamped earlier.
    stamp: Timestamp,
    /// Nor later than this.
    last_stamp: Timestamp,
    effects: Vec<M::Effect>,
    update: Option<<M::Context as MachineContext>::Update>,
}

/// How the commit of a batch ended.
#[derive(Debug)]
pub struct CommitResult {
    seq: u64,
    outcome: CommitOutcome,
}

impl<M: Machine> Runner<M> {
    /// A machine with nothing on its way.
    pub fn new(
        id: PartitionId,
        machine: M,
        reload: Reload<M>,
        kernel: Arc<KernelContext>,
        context: Arc<M::Context>,
    ) -> Self {
        let writing_since = Arc::new(WritingSince::nothing());
        Self {
            id,
            machine,
            reload,
            kernel,
            context,
            writing_since,
            in_flight: VecDeque::new(),
            lost: false,
            last_stamp: Timestamp(0),
        }
    }

    pub(crate) fn writing_since(&self) -> Arc<WritingSince> {
        Arc::clone(&self.writing_since)
    }

    /// The partition.
    #[must_use]
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The machine as it is, durable or not.
    #[must_use]
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Whether another batch may be made before an outcome is known.
    #[must_use]
    pub fn may_step(&self) -> bool {
        !self.lost && self.in_flight.len() < BATCHES_IN_FLIGHT_MAX
    }

    /// Whether everything is durable.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether inputs were taken that are not applied to their end.
    #[must_use]
    pub fn has_unfinished(&self) -> bool {
        self.machine.has_unfinished()
    }

    /// The next step is the last before a clean stop.
    pub fn close(&mut self) {
        self.machine.close();
    }

    /// When the passing of time brings something next.
    #[must_use]
    pub fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        self.machine.next_wakeup(now)
    }

    /// One step over `inputs`; `tell` is called when the outcome of its batch is known. Whether
    /// there is more to do at once.
    ///
    /// # Errors
    /// When a record could not be read: the machine must not be used any more.
    pub fn step(
        &mut self,
        inputs: &mut dyn Iterator<Item = M::Input>,
        tell: impl FnOnce(CommitResult) + Send + 'static,
    ) -> Result<bool, StoreError> {
        // Feeds end before this moment from here on; the step's own time and stamp are read after
        // it.
        let is_first = self.in_flight.is_empty();
        if is_first {
            self.writing_since.set(self.kernel.clock.now());
        }
        let moment = self.kernel.moment(self.last_stamp);
        if is_first {
            self.has_written_before(moment.stamp);
        }
        self.last_stamp = moment.stamp;
        let fetch = FromStore::new(&*self.kernel.store, self.id);
        let step = self.machine.step(moment, inputs, &fetch)?;
        match step.batch {
            Some(batch) => {
                let (seq, last_stamp) = (batch.head.seq, batch.head.stamp);
                self.kernel.feed_clock().note(last_stamp);
                let update = self.context.batch_made(self.id, &batch);
                self.in_flight.push_back(CommittingBatch {
                    seq,
                    stamp: moment.stamp,
                    last_stamp,
                    effects: step.effects,
                    update,
                });
                self.kernel.store.commit(batch, Box::new(move |outcome| tell(CommitResult { seq, outcome })));
            }
            None => self.hold_or_release(step.effects),
        }
        Ok(step.more)
    }

    /// What a step without a batch shows may rest on batches that are still being written.
    fn hold_or_release(&mut self, effects: Vec<M::Effect>) {
        if let Some(last) = self.in_flight.back_mut() {
            last.effects.extend(effects);
        } else {
            self.has_written_before(Timestamp::MAX);
            self.release(effects);
        }
    }

    /// Nothing that is still being written is stamped before this.
    fn has_written_before(&self, since: Timestamp) {
        self.writing_since.set(since);
        if M::Context::HAS_FEEDS {
            self.kernel.feed_clock().has_written();
        }
    }

    fn release(&self, effects: Vec<M::Effect>) {
        for effect in effects {
            self.context.release(effect);
        }
    }

    /// The outcome of a batch is known.
    ///
    /// # Errors
    /// When the store accepts nothing more: everything held is dropped, and the machine must not be
    /// used any more.
    pub fn outcome(&mut self, result: CommitResult) -> Result<(), Arc<StoreError>> {
        match result.outcome {
            CommitOutcome::Durable if !self.lost => {
                self.machine.settled(result.seq);
                // Before the effects: whoever is answered finds what it was answered about.
                let oldest = self.in_flight.iter().find(|batch| batch.seq > result.seq);
                self.has_written_before(oldest.map_or(Timestamp::MAX, |batch| batch.stamp));
                while let Some(batch) = self.in_flight.pop_front_if(|batch| batch.seq <= result.seq) {
                    if M::Context::HAS_FEEDS {
                        self.kernel.feed_clock().note_durable(batch.last_stamp);
                    }
                    self.release(batch.effects);
                    self.context.batch_durable(batch.stamp, batch.update.as_ref());
                }
                Ok(())
            }
            CommitOutcome::Failed(error) => {
                self.in_flight.clear();
                self.has_written_before(Timestamp::MAX);
                Err(error)
            }
            outcome => {
                warn!(partition = %self.id, seq = result.seq, %outcome, "what is on its way is dropped");
                self.lost = true;
                self.in_flight.retain(|batch| batch.seq != result.seq);
                self.in_flight.iter_mut().for_each(|batch| batch.effects.clear());
                self.load_again_when_quiet()
            }
        }
    }

    /// While a batch is on its way it could still be written, under a number that the machine would
    /// use again.
    fn load_again_when_quiet(&mut self) -> Result<(), Arc<StoreError>> {
        if self.in_flight.is_empty() {
            self.machine = (self.reload)().map_err(Arc::new)?;
            self.lost = false;
            self.has_written_before(Timestamp::MAX);
            // What is durable is not known in detail.
            self.context.batch_durable(self.last_stamp, None);
            warn!(partition = %self.id, "partition was loaded again");
        }
        Ok(())
    }
}
