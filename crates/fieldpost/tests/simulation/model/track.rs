//! A model that can go back: what it was after each batch that may yet be lost.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::Settings;

use crate::violation::{Checked, Invariant};

/// A model of one partition over time.
pub(crate) struct Track<S> {
    /// After every step so far.
    pub(crate) present: S,
    /// After each batch, from the latest one that is surely durable on.
    after: VecDeque<(u64, S)>,
}

impl<S: Clone> Track<S> {
    pub(crate) fn new(present: S) -> Self {
        let after = VecDeque::from([(0, present.clone())]);
        Self { present, after }
    }

    /// The number of the latest batch.
    pub(crate) fn latest(&self) -> u64 {
        self.after.back().map_or(0, |(seq, _)| *seq)
    }

    /// The number of the latest batch that must never be lost.
    pub(crate) fn surely_durable(&self) -> u64 {
        self.after.front().map_or(0, |(seq, _)| *seq)
    }

    /// What there was after that batch.
    pub(crate) fn durable(&self) -> &S {
        self.after.front().map_or(&self.present, |(_, state)| state)
    }

    /// A step made a batch.
    pub(crate) fn made(&mut self, seq: u64) -> Checked {
        let expected = self.latest() + 1;
        Invariant::OneEffectPerCause.same("number of a batch", &seq, &expected)?;
        self.after.push_back((seq, self.present.clone()));
        Ok(())
    }

    /// Somebody outside may know of batch `seq`: it must survive from now on.
    pub(crate) fn shown(&mut self, seq: u64) {
        while self.after.len() > 1 && self.after.front().is_some_and(|(first, _)| *first < seq) {
            self.after.pop_front();
        }
    }

    /// What there was after batch `seq`.
    pub(crate) fn at(&self, seq: u64) -> Checked<&S> {
        let found = self.after.iter().find(|(number, _)| *number == seq);
        found.map(|(_, state)| state).ok_or_else(|| {
            Invariant::DurableBeforeAcknowledged.broken(format!(
                "the store is at batch {seq}; what was shown reaches {}, what was made {}",
                self.surely_durable(),
                self.latest()
            ))
        })
    }

    /// The partition was loaded at batch `seq`: what came after it never happened.
    pub(crate) fn back_to(&mut self, seq: u64) -> Checked {
        self.present = self.at(seq)?.clone();
        self.after.retain(|(number, _)| *number <= seq);
        // Whoever loads it may show it.
        self.shown(seq);
        Ok(())
    }
}

impl Track<super::partition::Partition> {
    /// A partition was loaded at batch `seq`: its clocks stand at what was recorded, and run again after the grace; one that has
    /// never written has nothing to forgive.
    pub(crate) fn load(
        &mut self,
        seq: u64,
        now: base::Timestamp,
        process: (u64, &Arc<Settings>),
        attended: [bool; 3],
    ) -> Checked {
        let (process, settings) = process;
        let listened = self.present.listening.listened;
        self.back_to(seq)?;
        self.present.settings = Arc::clone(settings);
        self.present.unfinished = None;
        self.present.looked_at = base::Timestamp(0);
        let now = now.max(self.present.now);
        let grace_ms = if seq == 0 { 0 } else { settings.restart_grace.as_millis() as i64 };
        let ways = (settings.ways_configured, attended);
        self.present.listening.start(now, grace_ms, listened, ways);
        self.present.loaded_by(process, now);
        Ok(())
    }
}
