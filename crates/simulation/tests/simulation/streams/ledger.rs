//! What callers were answered, whatever batch says what.

use std::collections::{BTreeMap, BTreeSet};

use base::Incarnation;

use super::message::GivenMessage;
use super::model::{Model, StreamModel};
use crate::harness::violation::{Checked, Invariant};

/// Messages that were answered.
#[derive(Default)]
pub(crate) struct Ledger {
    streams: BTreeMap<Incarnation, AnsweredMessages>,
}

/// Messages of a stream that were answered.
#[derive(Default)]
struct AnsweredMessages {
    by_id: BTreeMap<u64, AnsweredMessage>,
    /// Ids whose messages a crash took.
    lost: BTreeSet<u64>,
}

/// A message that was answered.
#[derive(Clone, Debug)]
pub(crate) struct AnsweredMessage {
    pub(crate) given: GivenMessage,
    /// The latest batch that was durable when it was answered.
    seq: u64,
    /// It was to be durable by then.
    is_promised: bool,
}

impl Ledger {
    /// A caller is told that its message has this id.
    pub(crate) fn answered(
        &mut self,
        stream: Incarnation,
        id: u64,
        (given, is_promised, seq): (GivenMessage, bool, u64),
    ) -> Checked {
        self.check_given(stream, id, &given)?;
        let of_stream = self.streams.entry(stream).or_default();
        of_stream.by_id.insert(id, AnsweredMessage { given, seq, is_promised });
        Ok(())
    }

    /// A message is about to have this id.
    pub(crate) fn check_given(&self, stream: Incarnation, id: u64, given: &GivenMessage) -> Checked {
        let Some(of_stream) = self.streams.get(&stream) else { return Ok(()) };
        Invariant::IDS_ARE_GIVEN_ONCE.check(!of_stream.lost.contains(&id), || {
            format!("{id} of stream {} was that of a message that a crash took", stream.0)
        })?;
        let before = of_stream.by_id.get(&id);
        Invariant::IDS_ARE_GIVEN_ONCE.check(before.is_none_or(|before| before.given == *given), || {
            format!("{id} of stream {} is {given:?}, and was {before:?}", stream.0)
        })
    }

    /// Answered messages of a stream, those that were lost left out.
    pub(crate) fn of(&self, stream: Incarnation) -> impl Iterator<Item = (u64, &GivenMessage)> {
        let of_stream = self.streams.get(&stream).into_iter();
        of_stream.flat_map(|answered| answered.by_id.iter().map(|(id, one)| (*id, &one.given)))
    }

    /// The power took what was answered after that batch.
    pub(crate) fn forget_after(&mut self, kept: u64) {
        for of_stream in self.streams.values_mut() {
            of_stream.by_id.retain(|_, answered| answered.seq <= kept);
        }
    }

    /// The partition was loaded, and this is what is there. How many answered messages are lost.
    pub(crate) fn loaded(&mut self, model: &Model) -> Checked<u64> {
        let mut lost = 0;
        for (stream, answered) in &mut self.streams {
            match model.streams.get(stream) {
                Some(found) if !found.is_deleted => lost += answered.loaded(*stream, found)?,
                _ => answered.gone(*stream, model.deleted.contains(stream) || model.has_deleted(*stream))?,
            }
        }
        self.streams.retain(|stream, _| model.streams.get(stream).is_some_and(|found| !found.is_deleted));
        Ok(lost)
    }

    /// Everything that was answered is there.
    pub(crate) fn check_all_there(&self, model: &Model) -> Checked {
        for (stream, answered) in &self.streams {
            let Some(found) = model.streams.get(stream).filter(|found| !found.is_deleted) else { continue };
            let missing = answered.by_id.iter().find(|(id, _)| !found.had(**id));
            Invariant::DURABLE_BEFORE_ACKNOWLEDGED.check(missing.is_none(), || {
                format!("a clean stop loses {missing:?} of stream {}", stream.0)
            })?;
        }
        Ok(())
    }
}

impl AnsweredMessages {
    fn loaded(&mut self, stream: Incarnation, found: &StreamModel) -> Checked<u64> {
        let gone: Vec<u64> = self.by_id.keys().copied().filter(|id| !found.had(*id)).collect();
        for id in &gone {
            let answered = self.by_id.remove(id);
            Invariant::NO_HOLES.check(*id > found.last, || {
                format!("{id} of stream {} is missing, and {} is there", stream.0, found.last)
            })?;
            let is_promised = answered.as_ref().is_some_and(|answered| answered.is_promised);
            Invariant::DURABLE_BEFORE_ACKNOWLEDGED.check(!is_promised, || {
                format!("{id} of stream {} was answered as durable, and is lost: {answered:?}", stream.0)
            })?;
            self.lost.insert(*id);
        }
        Ok(gone.len() as u64)
    }

    /// The stream is not there.
    fn gone(&self, stream: Incarnation, is_deleted: bool) -> Checked {
        let is_promised = self.by_id.values().any(|answered| answered.is_promised);
        Invariant::DURABLE_BEFORE_ACKNOWLEDGED.check(is_deleted || !is_promised, || {
            format!("stream {} is lost, and messages of it were answered as durable", stream.0)
        })
    }
}
