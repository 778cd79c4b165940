//! The committer: what waits goes to the log, is synced once, is applied, and only then are its callers told.

use std::sync::atomic::Ordering;
use std::time::Instant;

use blocklog::{Log, Position};

use super::change::Prepared;
use super::inbox::Waiting;
use super::locks::locked;
use super::{EmbeddedStore, LOG_BYTES_FACTOR_MAX, Progress, log_failure, position};
use crate::port::{CommitDone, CommitOutcome, StoreError};

/// The log, and what is in it.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) log: Log,
    /// The number of the latest batch of each partition in the log.
    pub(super) appended: Vec<u64>,
}

/// What becomes of a batch once the log is synced.
enum Verdict {
    /// It is new, at this position.
    Apply(Prepared, Position),
    /// It was written earlier.
    Repeated,
    /// One before it was not written: whoever made it does not know that.
    Gap,
}

impl EmbeddedStore {
    /// Commits every batch that waits, with one sync.
    pub fn commit_step(&self) -> Progress {
        if self.log_is_full() && self.health.failure().is_none() {
            return if self.inbox.is_empty() { Progress::Idle } else { Progress::Full };
        }
        let mut committer = locked(&self.committer);
        let waiting = self.inbox.take();
        if waiting.is_empty() {
            return Progress::Idle;
        }
        let (batches, done): (Vec<_>, Vec<CommitDone>) = waiting
            .into_iter()
            .map(|Waiting { index, prepared, frame, done }| ((index, prepared, frame), done))
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
        Progress::Worked
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

    /// Appends and syncs.
    fn write(
        &self,
        committer: &mut Committer,
        batches: Vec<(usize, Prepared, Vec<u8>)>,
    ) -> Result<Vec<(usize, Verdict)>, StoreError> {
        self.health.check()?;
        let mut verdicts = Vec::with_capacity(batches.len());
        for (index, prepared, frame) in batches {
            let last = &mut committer.appended[index];
            let verdict = match prepared.head.seq {
                seq if seq <= *last => Verdict::Repeated,
                seq if seq > *last + 1 => Verdict::Gap,
                seq => {
                    *last = seq;
                    self.counters.frame(frame.len());
                    Verdict::Apply(prepared, committer.log.append(&frame).map_err(log_failure)?)
                }
            };
            verdicts.push((index, verdict));
        }
        let began = Instant::now();
        committer.log.sync().map_err(log_failure)?;
        self.counters.sync(began.elapsed(), verdicts.len());
        Ok(verdicts)
    }

    /// Makes durable batches seen.
    fn apply(&self, committer: &Committer, verdicts: Vec<(usize, Verdict)>) -> Vec<CommitOutcome> {
        let mut outcomes = Vec::with_capacity(verdicts.len());
        for (index, verdict) in verdicts {
            outcomes.push(match verdict {
                Verdict::Apply(prepared, position) => {
                    self.recorded_now.fetch_max(prepared.head.now.0, Ordering::AcqRel);
                    self.partitions[index].apply(prepared, position);
                    CommitOutcome::Durable
                }
                Verdict::Repeated => CommitOutcome::Durable,
                Verdict::Gap => CommitOutcome::Fenced,
            });
        }
        self.applied.store(committer.log.durable().0, Ordering::Release);
        self.measure_log(committer);
        outcomes
    }

    /// Claims in the log all that is durable; for when nothing was committed for a while, and for the end.
    pub fn idle_step(&self) -> Progress {
        let mut committer = locked(&self.committer);
        if self.health.failure().is_some() {
            return Progress::Idle;
        }
        if let Err(error) = committer.log.append_claim() {
            self.failed(log_failure(error));
        }
        Progress::Idle
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

    fn log_is_full(&self) -> bool {
        let bytes_max = self.options.checkpoint_log_bytes.saturating_mul(LOG_BYTES_FACTOR_MAX);
        self.log_bytes.load(Ordering::Acquire) >= bytes_max
    }
}
