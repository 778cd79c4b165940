//! Messages are appended: they get their ids, duplicates are left out, and the open block is closed
//! when it is full.

use std::sync::Arc;

use ::streams::own_origins::{is_ahead, own_id};
use ::streams::{ChunkWriter, ExternalId, MessageOrigin};
use base::{Incarnation, Problem, Timestamp};
use records::Op;
use store::StoreError;

use super::deleting::unknown_stream;
use super::loaded::{LoadedStream, SourceText, UnstoredChunk, WaitingCaller};
use super::stored_numbers::{NumberRows, TEXT_BYTES};
use super::{StreamPartition, StreamsStep};
use crate::kernel::reply::Answered;
use crate::streams::copy::other_stream;
use crate::streams::effect::{StreamsEffect, TailChange};
use crate::streams::input::{AppendCall, AppendOutcome};
use crate::streams::{NewMessage, StreamName};

impl StreamPartition {
    /// All messages or none: what could refuse the call is looked at first. What it did is kept for
    /// a repeat.
    pub(super) fn append(&mut self, call: AppendCall, step: &mut StreamsStep<'_>) -> Result<(), StoreError> {
        let AppendCall {
            stream,
            messages,
            run,
            expect_last_id,
            is_durable,
            is_gathered,
            taken_by,
            idempotency,
            reply,
        } = call;
        if let Err(refused) = self.runs.check(run) {
            step.emit(StreamsEffect::Appended(reply, Err(refused)));
            return Ok(());
        }
        if let Some(expected) = taken_by.as_ref().and_then(|taken_by| taken_by.get().copied())
            && self.load_stream(&stream, step)? != Some(expected)
        {
            self.runs.refused(run);
            step.emit(StreamsEffect::Appended(reply, Err(other_stream(&stream))));
            return Ok(());
        }
        if is_gathered && self.load_stream(&stream, step)?.is_none() {
            step.emit(StreamsEffect::Appended(reply, Err(unknown_stream(&stream))));
            return Ok(());
        }
        // A copy brings what others call so: of a stream that was set back it may be new.
        let is_copied = taken_by.is_some() || is_gathered;
        if !is_copied && let Some(refused) = self.reserved_source(&stream, &messages, step)? {
            self.runs.refused(run);
            step.emit(StreamsEffect::Appended(reply, Err(refused)));
            return Ok(());
        }
        let stream = match self.admit(&stream, &messages, expect_last_id, step)? {
            Ok(stream) => stream,
            Err(refused) => {
                self.runs.refused(run);
                step.emit(StreamsEffect::Appended(reply, Err(refused)));
                return Ok(());
            }
        };
        self.runs.taken(run);
        if let Some(taken_by) = taken_by {
            let _first = taken_by.set(stream);
        }
        step.own.touched.insert(stream);
        let mut outcomes = Vec::with_capacity(messages.len());
        for message in messages {
            step.own.taken += message.weight();
            let outcome = self.append_one(stream, message, step)?;
            outcomes.push(outcome);
        }
        if let Some(loaded) = self.loaded.get_mut(&stream) {
            loaded.used_at = step.now;
            loaded.is_urgent |= is_durable;
            if let Some(idempotency) = idempotency {
                loaded.keep_with_save(idempotency, &outcomes);
            }
            loaded.waiting.push(WaitingCaller { reply, outcomes, run });
        }
        Ok(())
    }

    /// Why messages may not be appended that are called as the stream's own next ones will be.
    fn reserved_source(
        &mut self,
        name: &StreamName,
        messages: &[NewMessage],
        step: &mut StreamsStep<'_>,
    ) -> Result<Option<Problem>, StoreError> {
        if messages.iter().all(|message| message.source.is_none()) {
            return Ok(None);
        }
        let Some(stream) = self.load_stream(name, step)? else { return Ok(None) };
        let Some(loaded) = self.loaded.get(&stream) else { return Ok(None) };
        let is_reserved = |origin: &MessageOrigin<'_>| match origin.external_id {
            ExternalId::Number(number) => {
                is_ahead(&loaded.stream.origins, loaded.next, origin.source, number)
            }
            ExternalId::Text(_) => false,
        };
        let found = messages.iter().filter_map(NewMessage::origin).find(is_reserved);
        Ok(found.map(|MessageOrigin { source, .. }| {
            let detail = format!(
                "source {source:?} is what this stream calls its own messages, and it has not given that \
                 external_id yet; leave out both, or use a source of your own"
            );
            Problem::not_allowed("reserved_source", detail)
        }))
    }

    /// The stream that takes an append, in memory, or why none does.
    fn admit(
        &mut self,
        name: &StreamName,
        messages: &[NewMessage],
        expect_last_id: Option<u64>,
        step: &mut StreamsStep<'_>,
    ) -> Result<Answered<Incarnation>, StoreError> {
        let stream = match expect_last_id.filter(|last| *last > 0) {
            // Where there is no stream there is no such message, and none is made in vain.
            Some(expect) => match self.load_stream(name, step)? {
                Some(stream) => stream,
                None => return Ok(Err(tail_moved(expect, 0))),
            },
            None => self.load_or_make(name, step)?,
        };
        if self.are_repeats(stream, messages, step)? {
            return Ok(Ok(stream));
        }
        if let Err(refused) = self.check_expected(stream, expect_last_id) {
            return Ok(Err(refused));
        }
        Ok(self.make_room(stream, messages, step)?.map(|()| stream))
    }

    fn check_expected(&self, stream: Incarnation, expect_last_id: Option<u64>) -> Result<(), Problem> {
        let Some(loaded) = self.loaded.get(&stream) else { return Ok(()) };
        match expect_last_id.filter(|expect| *expect != loaded.last) {
            Some(expect) => Err(tail_moved(expect, loaded.last)),
            None => Ok(()),
        }
    }

    fn append_one(
        &mut self,
        stream: Incarnation,
        message: NewMessage,
        step: &mut StreamsStep<'_>,
    ) -> Result<AppendOutcome, StoreError> {
        if let Some(origin) = message.origin()
            && !self.note_number(stream, origin, step)?
        {
            step.own.counted.duplicates += 1;
            return Ok(AppendOutcome::Duplicate(Box::new(message)));
        }
        let Some(loaded) = self.loaded.get_mut(&stream) else {
            unreachable!("a stream that is appended to is in memory")
        };
        if std::mem::take(&mut loaded.is_row_dirty) {
            step.push(Op::PutStream(Box::new(loaded.stream.clone())));
            loaded.written = step.seq;
        }
        let (id, received_at) = (loaded.next, step.now.max(loaded.last_at));
        let writer = loaded.writer.get_or_insert_with(|| ChunkWriter::new(id, received_at));
        let before = writer.bytes();
        writer.push(&message.received(id, received_at));
        step.own.counted.appended_bytes += (writer.bytes() - before) as u64;
        step.own.counted.appended += 1;
        if let Some(MessageOrigin { source, external_id: ExternalId::Text(text) }) = message.origin() {
            loaded.text_bytes += TEXT_BYTES + source.len() + text.len();
            loaded.texts.insert((source.into(), text.into()), id);
        }
        loaded.next = id + 1;
        loaded.last = id;
        loaded.last_at = received_at;
        loaded.unsaved.append(loaded.stream.settings.save, step.now);
        self.close_if_full(stream, step);
        Ok(AppendOutcome::Appended(id))
    }

    /// Closes the open block, once it has as much as it may have.
    pub(super) fn close_if_full(&mut self, stream: Incarnation, step: &mut StreamsStep<'_>) {
        let Some(loaded) = self.loaded.get_mut(&stream) else { return };
        let bounds = loaded.block_bounds();
        let (messages, bytes) =
            loaded.writer.as_ref().map_or((0, 0), |writer| (writer.messages(), writer.bytes()));
        // For its age it is closed by the clock.
        let is_full = loaded.open_block().as_open(messages, bytes).closes(&bounds, Timestamp(i64::MIN));
        if is_full.is_some() {
            self.unsaved_bytes += loaded.flush(self.id, step);
            loaded.open_block().is_closed = true;
        }
    }

    /// Whether the stream has every message already: then nothing is appended, and nothing refused.
    fn are_repeats(
        &mut self,
        stream: Incarnation,
        messages: &[NewMessage],
        step: &StreamsStep<'_>,
    ) -> Result<bool, StoreError> {
        for message in messages {
            let Some(origin) = message.origin() else { return Ok(false) };
            if !self.is_known(stream, origin, step)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a source gave this id before, as far as messages are kept.
    fn is_known(
        &mut self,
        stream: Incarnation,
        origin: MessageOrigin<'_>,
        step: &StreamsStep<'_>,
    ) -> Result<bool, StoreError> {
        let Some(loaded) = self.loaded.get_mut(&stream) else { return Ok(false) };
        match origin.external_id {
            ExternalId::Number(number) => {
                if own_id(&loaded.stream.origins, loaded.next, origin.source, number).is_some() {
                    return Ok(true);
                }
                loaded.numbers.contains(origin.source, number, &NumberRows { stream, fetch: step.fetch })
            }
            ExternalId::Text(text) => {
                let key: SourceText = (origin.source.into(), text.into());
                if loaded.texts.contains_key(&key) {
                    return Ok(true);
                }
                let first = loaded.tail.first;
                if let Some(Some(id)) = self.texts.get(&(stream, key)) {
                    return Ok(*id >= first);
                }
                let ids = step.fetch.view()?.external_texts(stream, origin.source, text)?;
                Ok(ids.iter().any(|id| *id >= first))
            }
        }
    }

    /// Notes the number that a source gives. Whether the source gives this id, a number or not, for
    /// the first time, as far as messages are kept.
    fn note_number(
        &mut self,
        stream: Incarnation,
        origin: MessageOrigin<'_>,
        step: &StreamsStep<'_>,
    ) -> Result<bool, StoreError> {
        let (MessageOrigin { source, external_id: ExternalId::Number(number) }, Some(loaded)) =
            (origin, self.loaded.get_mut(&stream))
        else {
            return Ok(!self.is_known(stream, origin, step)?);
        };
        if own_id(&loaded.stream.origins, loaded.next, source, number).is_some() {
            return Ok(false);
        }
        loaded.numbers.insert(source, number, &NumberRows { stream, fetch: step.fetch })
    }
}

fn tail_moved(expect: u64, last: u64) -> Problem {
    let detail = format!("expect_last_id is {expect}, and the newest message is {last}");
    Problem::conflict("tail_moved", detail)
}

impl LoadedStream {
    /// Makes a chunk of the messages of this step. Where their callers are answered before it is
    /// durable, readers see it at once. How many bytes more are unsaved.
    pub(super) fn flush(&mut self, id: base::PartitionId, step: &mut StreamsStep<'_>) -> usize {
        let Some(writer) = self.writer.take() else { return 0 };
        let chunk = Arc::new(writer.finish(self.incarnation()));
        let bytes = chunk.bytes.len();
        let mut unsaved = UnstoredChunk::unsaved(&chunk);
        if self.answers_at_once() {
            unsaved.is_shown = true;
            step.emit(StreamsEffect::Tail(id, self.name.clone(), TailChange::Grew(chunk)));
        }
        self.unsaved_bytes += bytes;
        self.open_block().push(unsaved);
        bytes
    }

    /// When time does something to it is another time.
    pub(super) fn put_due(&mut self, due: Timestamp, step: &mut StreamsStep<'_>) {
        let stream = self.incarnation();
        let at = |at| (at != Timestamp::MAX).then_some(records::StreamDue { at, stream });
        at(self.tail.due).into_iter().for_each(|due| step.push(records::Op::DeleteStreamDue(due)));
        at(due).into_iter().for_each(|due| step.push(records::Op::PutStreamDue(due)));
        self.tail.due = due;
        self.is_tail_dirty = true;
    }
}
