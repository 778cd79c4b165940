//! A model that can go back: what it was after each batch that may yet be lost.

use std::collections::VecDeque;

use super::violation::{Checked, Invariant};

/// A model of one partition over time.
pub(crate) struct Track<S> {
    /// After every step so far.
    pub(crate) present: S,
    /// After each batch, from the latest one that nothing can take any more.
    after: VecDeque<(u64, S)>,
    /// The latest batch that somebody outside may know of: the death of the process must not take
    /// it.
    shown: u64,
    /// The latest batch that the power failing must not take either.
    kept: u64,
    /// What is shown is kept only once it was synced.
    syncs_later: bool,
}

/// What a store went through before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// Nothing, or the death of the process.
    Life,
    /// The power failed.
    LossOfPower,
}

impl<S: Clone> Track<S> {
    pub(crate) fn new(present: S, syncs_later: bool) -> Self {
        let after = VecDeque::from([(0, present.clone())]);
        Self { present, after, shown: 0, kept: 0, syncs_later }
    }

    /// Of a partition that is at a batch already, and durable.
    pub(crate) fn at_batch(seq: u64, present: S) -> Self {
        let after = VecDeque::from([(seq, present.clone())]);
        Self { present, after, shown: seq, kept: seq, syncs_later: false }
    }

    /// The number of the latest batch.
    pub(crate) fn latest(&self) -> u64 {
        self.after.back().map_or(0, |(seq, _)| *seq)
    }

    /// The number of the latest batch that somebody outside may know of.
    pub(crate) fn latest_shown(&self) -> u64 {
        self.shown
    }

    /// What there was after the latest batch that somebody outside may know of.
    pub(crate) fn durable(&self) -> &S {
        let found = self.after.iter().find(|(seq, _)| *seq >= self.shown);
        found.map_or(&self.present, |(_, state)| state)
    }

    /// A step made a batch.
    pub(crate) fn made(&mut self, seq: u64) -> Checked {
        let expected = self.latest() + 1;
        Invariant::ONE_EFFECT_PER_CAUSE.same("number of a batch", &seq, &expected)?;
        self.after.push_back((seq, self.present.clone()));
        Ok(())
    }

    fn forget(&mut self) {
        let oldest = self.shown.min(self.kept);
        while self.after.len() > 1 && self.after.front().is_some_and(|(first, _)| *first < oldest) {
            self.after.pop_front();
        }
    }

    /// What there was after batch `seq`.
    pub(crate) fn at(&self, seq: u64, past: Past) -> Checked<&S> {
        let least = match past {
            Past::Life => self.shown,
            Past::LossOfPower => self.kept,
        };
        let found = self.after.iter().find(|(number, _)| *number == seq && seq >= least);
        found.map(|(_, state)| state).ok_or_else(|| {
            Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken(format!(
                "the store is at batch {seq} after {past:?}; what must be there reaches {least}, what was made {}",
                self.latest()
            ))
        })
    }

    /// The partition was loaded at batch `seq`: what came after it never happened.
    pub(crate) fn back_to(&mut self, seq: u64) -> Checked {
        self.present = self.at(seq, Past::Life)?.clone();
        self.after.retain(|(number, _)| *number <= seq);
        // Whoever loads it may show it.
        self.shown(seq);
        Ok(())
    }
}

/// A model as the harness knows it, whatever it is a model of.
pub(crate) trait AnyTrack {
    /// Somebody outside may know of batch `seq`: it must survive from now on.
    fn shown(&mut self, seq: u64);

    /// What was shown so far was synced.
    fn synced(&mut self);

    /// The power failed: it may have taken what was not synced. The latest batch that nothing can
    /// take any more, and how many more were shown that the power has taken.
    fn power_failed(&mut self) -> (u64, u64);
}

impl<S: Clone> AnyTrack for Track<S> {
    fn shown(&mut self, seq: u64) {
        self.shown = self.shown.max(seq);
        if !self.syncs_later {
            self.kept = self.shown;
        }
        self.forget();
    }

    fn synced(&mut self) {
        self.kept = self.kept.max(self.shown);
        self.forget();
    }

    fn power_failed(&mut self) -> (u64, u64) {
        let taken = self.shown - self.kept;
        self.shown = self.kept;
        (self.kept, taken)
    }
}
