//! Appends with an `Idempotency-Key`: a repeat is answered as the first was, and appends nothing.
//!
//! What an append did is kept in the batch that makes its messages durable: a crash loses both or
//! neither. Until then a repeat finds it in memory. A key belongs to the stream, not to its name:
//! one that is made again knows nothing of it. This is no `Idempotent` machine: an append is
//! answered in a later step than that in which it is done.

use std::sync::Arc;

use base::Incarnation;
use records::AnswerKey;
use store::StoreError;

use super::loaded::{LoadedStream, WaitingCaller};
use super::{StreamPartition, StreamsStep};
use crate::kernel::idempotency::{IdempotencyKey, reused};
use crate::kernel::reply::{Answered, answered};
use crate::streams::NewMessage;
use crate::streams::effect::StreamsEffect;
use crate::streams::input::{AppendCall, AppendOutcome};

/// Bytes of what an append did, beside its marks: as a row, and in the map until then.
pub(super) const ANSWER_BYTES: usize = 160;
/// How the marks of a message are written: a duplicate, or a new one.
const MARKS: [u8; 2] = [0, 1];

/// What an append did whose messages are not durable.
#[derive(Debug)]
pub(super) struct UnkeptAppend {
    /// A hash of the request's body.
    body: u128,
    written: Arc<[u8]>,
}

impl StreamPartition {
    /// Answers a call that was done before; gives back any other.
    pub(super) fn answer_repeat(
        &mut self,
        call: AppendCall,
        step: &mut StreamsStep<'_>,
    ) -> Result<Option<AppendCall>, StoreError> {
        let Some(idempotency) = call.idempotency else { return Ok(Some(call)) };
        let Some(stream) = self.load_stream(&call.stream, step)? else { return Ok(Some(call)) };
        let written = match self.recall_append(stream, idempotency, step)? {
            Ok(written) => written,
            Err(refused) => {
                step.emit(StreamsEffect::Appended(call.reply, Err(refused)));
                return Ok(None);
            }
        };
        let Some(outcomes) = written.and_then(|written| outcomes_in(&written, &call.messages)) else {
            return Ok(Some(call));
        };
        step.own.touched.insert(stream);
        if let Some(loaded) = self.loaded.get_mut(&stream) {
            loaded.used_at = step.now;
            loaded.is_urgent |= call.is_durable;
            loaded.waiting.push(WaitingCaller { reply: call.reply, outcomes, run: call.run });
        }
        Ok(None)
    }

    /// What an append with this key did, if there was one.
    fn recall_append(
        &mut self,
        stream: Incarnation,
        idempotency: IdempotencyKey,
        step: &mut StreamsStep<'_>,
    ) -> Result<Answered<Option<Arc<[u8]>>>, StoreError> {
        let idempotency = of_stream(idempotency, stream);
        let unkept = self.loaded.get(&stream).and_then(|loaded| loaded.unkept.get(&idempotency.key));
        match unkept {
            Some(unkept) if unkept.body != idempotency.body => Ok(Err(reused())),
            Some(unkept) => Ok(Ok(Some(Arc::clone(&unkept.written)))),
            None => answered(self.answers.recall(idempotency, step)),
        }
    }

    /// Keeps what appends did whose messages are durable with this step's batch, or were before.
    pub(super) fn keep_answers(&mut self, stream: Incarnation, step: &mut StreamsStep<'_>) {
        let Some(loaded) = self.loaded.get_mut(&stream) else { return };
        let mut unkept: Vec<(AnswerKey, UnkeptAppend)> = loaded.unkept.drain().collect();
        loaded.unkept_bytes = 0;
        unkept.sort_unstable_by_key(|(key, _)| *key);
        for (key, UnkeptAppend { body, written }) in unkept {
            self.answers.remember(IdempotencyKey { key, body }, written, step);
        }
    }
}

impl LoadedStream {
    /// Has what an append did kept with the next save.
    pub(super) fn keep_with_save(&mut self, idempotency: IdempotencyKey, outcomes: &[AppendOutcome]) {
        let IdempotencyKey { key, body } = of_stream(idempotency, self.incarnation());
        let written = written(outcomes);
        self.unkept_bytes += ANSWER_BYTES + written.len();
        self.unkept.insert(key, UnkeptAppend { body, written });
    }
}

/// The key for one stream of a name: digests differ in more bits than streams do.
fn of_stream(idempotency: IdempotencyKey, stream: Incarnation) -> IdempotencyKey {
    IdempotencyKey { key: AnswerKey(idempotency.key.0 ^ u128::from(stream.0)), body: idempotency.body }
}

/// The first new id, and a mark for each message: new ones of a call follow each other.
fn written(outcomes: &[AppendOutcome]) -> Arc<[u8]> {
    let new = |outcome: &AppendOutcome| match outcome {
        AppendOutcome::Appended(id) => Some(*id),
        AppendOutcome::Duplicate(_) => None,
    };
    let first = outcomes.iter().find_map(new).unwrap_or_default();
    let marks = outcomes.iter().map(|outcome| MARKS[usize::from(new(outcome).is_some())]);
    first.to_le_bytes().into_iter().chain(marks).collect()
}

/// What became of these messages when they came first; `None` if it was of other ones.
fn outcomes_in(written: &[u8], messages: &[NewMessage]) -> Option<Vec<AppendOutcome>> {
    let (first, marks) = written.split_first_chunk()?;
    if marks.len() != messages.len() {
        return None;
    }
    let mut next = u64::from_le_bytes(*first);
    let mut all = Vec::with_capacity(messages.len());
    for (mark, message) in marks.iter().zip(messages) {
        all.push(match *mark == MARKS[1] {
            true => AppendOutcome::Appended(next),
            false => AppendOutcome::Duplicate(Box::new(message.clone())),
        });
        next += u64::from(*mark == MARKS[1]);
    }
    Some(all)
}
