//! The committer: what waits goes to the log, is synced once, is applied, and only then are its
//! callers told.
//!
//! With [`SyncMode::Interval`] the sync comes later, with [`EmbeddedStore::sync_step`]. It comes
//! before anything that rests on what was applied goes to the tables. So these never know of a
//! batch that the log may still lose.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use blocklog::{Log, Position};

use super::backpressure;
use super::inbox::WaitingBatch;
use super::locks::locked;
use super::tables::TablesTransaction;
use super::{EmbeddedStore, LOG_BYTES_FACTOR_MAX, StepOutcome, SyncMode, log_failure, position};
use crate::change::PreparedBatch;
use crate::port::{CommitDone, CommitOutcome, StoreError};

/// The log, and what is in it.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) log: Log,
    /// The number of the latest batch of each partition in the log.
    pub(super) appended: Vec<u64>,
    /// Batches since the last sync.
    pub(super) unsynced_batches: usize,
}

/// What becomes of a batch once it is in the log.
enum CommitVerdict {
    /// It is new, at this position.
    Apply(PreparedBatch, Position),
    /// It was written earlier.
    Repeated,
    /// One before it was not written: whoever made it does not know that.
    Gap,
}

impl EmbeddedStore {
    /// Commits every batch that waits, with one sync or, with [`SyncMode::Interval`], none.
    pub fn commit_step(&self) -> StepOutcome {
        if self.log_is_full() && self.health.failure().is_none() {
            return if self.inbox.is_empty() { StepOutcome::Idle } else { StepOutcome::Full };
        }
        let mut committer = locked(&self.committer);
        let waiting = self.inbox.take();
        if waiting.is_empty() {
            return StepOutcome::Idle;
        }
        let (batches, done): (Vec<_>, Vec<CommitDone>) = waiting
            .into_iter()
            .map(|WaitingBatch { index, prepared, frame, done }| ((index, prepared, frame), done))
            .unzip();
        let outcomes = match self.write(&mut committer, batches) {
            Ok(verdicts) => self.apply(&committer, verdicts),
            Err(error) => {
                self.failed(error);
                Vec::new()
            }
        };
        drop(committer);
        self.tell(done, outcomes);
        StepOutcome::Worked
    }

    /// Without an outcome of its own a batch failed with the store.
    fn tell(&self, done: Vec<CommitDone>, outcomes: Vec<CommitOutcome>) {
        let failure = self.health.failure();
        let failed = || failure.clone().map_or(CommitOutcome::Unknown, CommitOutcome::Failed);
        let outcomes = outcomes.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        for (done, outcome) in done.into_iter().zip(outcomes) {
            done(outcome.unwrap_or_else(failed));
        }
    }

    /// Appends, and syncs or writes.
    fn write(
        &self,
        committer: &mut Committer,
        batches: Vec<(usize, PreparedBatch, Vec<u8>)>,
    ) -> Result<Vec<(usize, CommitVerdict)>, StoreError> {
        self.health.check()?;
        let mut verdicts = Vec::with_capacity(batches.len());
        for (index, prepared, frame) in batches {
            let last = &mut committer.appended[index];
            let verdict = match prepared.head.seq {
                seq if seq <= *last => CommitVerdict::Repeated,
                seq if seq > *last + 1 => CommitVerdict::Gap,
                seq => {
                    *last = seq;
                    self.counters.frame(frame.len());
                    CommitVerdict::Apply(prepared, committer.log.append(&frame).map_err(log_failure)?)
                }
            };
            verdicts.push((index, verdict));
        }
        committer.unsynced_batches += verdicts.len();
        match self.options.sync {
            SyncMode::Always => self.sync(committer)?,
            SyncMode::Interval(_) => drop(committer.log.write().map_err(log_failure)?),
        }
        // Before anything is applied: a checkpoint must see that what it takes is not synced.
        self.written.store(committer.log.written().0, Ordering::Release);
        Ok(verdicts)
    }

    fn sync(&self, committer: &mut Committer) -> Result<(), StoreError> {
        let began = Instant::now();
        let synced = committer.log.sync().map_err(log_failure)?;
        self.synced.store(synced.0, Ordering::Release);
        self.counters.sync(began.elapsed(), std::mem::take(&mut committer.unsynced_batches));
        Ok(())
    }

    /// Syncs what was committed without a sync. With [`SyncMode::Always`] there is no such thing.
    pub fn sync_step(&self) -> StepOutcome {
        if self.health.failure().is_some() || !self.is_unsynced() {
            return StepOutcome::Idle;
        }
        if let Err(error) = self.sync(&mut locked(&self.committer)) {
            self.failed(error);
        }
        StepOutcome::Worked
    }

    /// Whether anything is in the log and not synced.
    pub(super) fn is_unsynced(&self) -> bool {
        position(&self.synced) < position(&self.written)
    }

    /// Writes to the tables of a running store. What it takes from the overlays and heads is synced
    /// before the tables have it. Otherwise these would be ahead of the log after a loss of power.
    pub(super) fn write_tables<T>(
        &self,
        write: impl FnOnce(&TablesTransaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.tables.write(|writer| {
            let written = write(writer)?;
            if self.is_unsynced() {
                self.sync(&mut locked(&self.committer))?;
            }
            Ok(written)
        })
    }

    /// Makes batches that are in the log seen.
    fn apply(&self, committer: &Committer, verdicts: Vec<(usize, CommitVerdict)>) -> Vec<CommitOutcome> {
        let mut outcomes = Vec::with_capacity(verdicts.len());
        for (index, verdict) in verdicts {
            outcomes.push(match verdict {
                CommitVerdict::Apply(prepared, position) => {
                    self.recorded_now.fetch_max(prepared.head.now.0, Ordering::AcqRel);
                    self.partitions[index].apply(prepared, position);
                    CommitOutcome::Durable
                }
                CommitVerdict::Repeated => CommitOutcome::Durable,
                CommitVerdict::Gap => CommitOutcome::Fenced,
            });
        }
        self.applied.store(committer.log.written().0, Ordering::Release);
        self.measure_log(committer);
        outcomes
    }

    /// Claims in the log all that is durable; for when nothing was committed for a while, and for
    /// the end.
    pub fn idle_step(&self) -> StepOutcome {
        let mut committer = locked(&self.committer);
        if self.health.failure().is_some() {
            return StepOutcome::Idle;
        }
        let synced = if self.is_unsynced() { self.sync(&mut committer) } else { Ok(()) };
        if let Err(error) = synced.and_then(|()| committer.log.append_claim().map_err(log_failure)) {
            self.failed(error);
        }
        StepOutcome::Idle
    }

    /// Frees the log behind what the tables cover.
    pub(super) fn free_log(&self) -> Result<(), StoreError> {
        let mut committer = locked(&self.committer);
        committer.log.free_through(position(&self.covered)).map_err(log_failure)?;
        self.measure_log(&committer);
        Ok(())
    }

    /// The log measures in steps; what is all covered has no length.
    fn measure_log(&self, committer: &Committer) {
        let covered = position(&self.covered);
        let is_all_covered = covered >= position(&self.applied);
        let bytes = if is_all_covered { 0 } else { committer.log.bytes_since(covered) };
        self.log_bytes.store(bytes, Ordering::Release);
    }

    /// How long nothing is to be committed after a commit that took `worked`; see [`backpressure`].
    pub(super) fn pause_after(&self, worked: Duration) -> Duration {
        let of = |is: f64, begins_checkpoints: f64| is / begins_checkpoints.max(1.0);
        let log_bytes = self.log_bytes.load(Ordering::Acquire);
        let log = of(log_bytes as f64, self.options.checkpoint_log_bytes as f64);
        let memory = of(self.overlay_memory.bytes() as f64, self.options.checkpoint_memory_bytes as f64);
        backpressure::pause(worked, log.max(memory))
    }

    fn log_is_full(&self) -> bool {
        let bytes_max = self.options.checkpoint_log_bytes.saturating_mul(LOG_BYTES_FACTOR_MAX);
        self.log_bytes.load(Ordering::Acquire) >= bytes_max
    }
}
