//! What was appended is written, and its callers are answered: when, the save mode says.

use std::sync::Arc;

use ::streams::tail::{self, SavedMessages};
use ::streams::{ChunkWriter, IntervalRowChange, MessageReader};
use base::Incarnation;
use records::{ExternalText, Op, StreamChunk};

use super::loaded::{LoadedStream, UnstoredBlock, UnstoredChunk, WaitingCaller};
use super::{StreamPartition, StreamsStep};
use crate::kernel::step_context::STEP_BYTES_MAX;
use crate::streams::effect::{StreamsEffect, TailChange};

/// Bytes of a stream that wait for a save at most: all that waits is one batch.
const UNSAVED_BYTES_MAX: usize = 4 << 20;

/// Chunks are merged while they have fewer bytes together.
const MERGED_BYTES_MAX: usize = 256 << 10;

impl StreamPartition {
    /// Saves a stream that the step touched if it is time to, and answers whom it can.
    pub(super) fn save_what_is_due(&mut self, stream: Incarnation, step: &mut StreamsStep<'_>) {
        let Some(loaded) = self.loaded.get_mut(&stream) else { return };
        self.unsaved_bytes += loaded.flush(self.id, step);
        if loaded.closes_at().is_some_and(|at| at <= step.now) {
            loaded.open_block().is_closed = true;
        }
        let is_closed = loaded.blocks.iter().any(|block| block.is_closed && !block.is_saved());
        let unloads = loaded.unloads_at() <= step.now;
        let is_urgent = std::mem::take(&mut loaded.is_urgent);
        let is_due = loaded.unsaved.is_due(&loaded.stream.settings, step.now, is_closed)
            || loaded.unsaved_bytes + loaded.counted_ids.unsaved >= UNSAVED_BYTES_MAX
            || is_urgent
            || unloads
            || self.is_closing;
        if !loaded.unsaved.is_empty() && is_due {
            self.save(stream, step);
        }
        let Some(loaded) = self.loaded.get_mut(&stream) else { return };
        if loaded.unsaved.is_empty() && !loaded.unkept.is_empty() {
            // What they name was durable before.
            self.keep_answers(stream, step);
        }
        let Some(loaded) = self.loaded.get_mut(&stream) else { return };
        if loaded.answers_at_once() && !loaded.unsaved.is_empty() {
            loaded.is_tail_dirty |= tail::reserve(&mut loaded.tail, loaded.next);
        }
        if loaded.answers_at_once() || loaded.unsaved.is_empty() {
            loaded.answer(step);
        }
        if self.is_closing {
            loaded.is_tail_dirty |= tail::close(&mut loaded.tail, loaded.next);
        }
    }

    /// Everything of a stream that is not saved is written with this step's batch. So are the ids
    /// that its sources gave: one whose message a crash loses was never there.
    pub(super) fn save(&mut self, stream: Incarnation, step: &mut StreamsStep<'_>) {
        let Some(loaded) = self.loaded.get_mut(&stream) else { return };
        self.unsaved_bytes += loaded.flush(self.id, step);
        let first_unsaved = loaded.blocks.iter().find_map(|block| block.chunks.get(block.unsaved_from()));
        let Some(first) = first_unsaved.map(|chunk| chunk.first) else { return };
        let (last, last_at) = (loaded.last, loaded.last_at);
        let mut saved = SavedMessages { first, last, messages: 0, bytes: 0, last_at };
        let (id, name) = (self.id, loaded.name.clone());
        for block in &mut loaded.blocks {
            for chunk in save_block(block) {
                saved.messages += u64::from(chunk.chunk.messages);
                saved.bytes += chunk.chunk.bytes.len() as u64;
                step.push(Op::PutStreamChunk(Box::new((*chunk.chunk).clone())));
                if !chunk.is_shown {
                    let grew = TailChange::Grew(chunk.chunk);
                    step.emit(StreamsEffect::Tail(id, name.clone(), grew));
                }
            }
        }
        for change in loaded.numbers.take_changes(stream, step.seq) {
            step.push(match change {
                IntervalRowChange::Put(row) => Op::PutExternalInterval(Box::new(row)),
                IntervalRowChange::Delete(source, from) => Op::DeleteExternalInterval(stream, source, from),
            });
        }
        let mut texts: Vec<_> = loaded.texts.drain().collect();
        loaded.text_bytes = 0;
        texts.sort_unstable_by_key(|(_, id)| *id);
        for ((source, text), message) in texts {
            let row = ExternalText { stream, source: source.clone(), text: text.clone(), id: message };
            step.push(Op::PutExternalText(Box::new(row)));
            self.texts.put(step.seq, (stream, (source, text)), Some(message));
        }
        self.unsaved_bytes -= loaded.unsaved_bytes;
        tail::save(&mut loaded.tail, &saved);
        loaded.unsaved.save();
        (loaded.unsaved_bytes, loaded.is_tail_dirty) = (0, true);
        step.emit(StreamsEffect::Tail(id, name, TailChange::Saved(loaded.tail.next)));
        loaded.answer(step);
        self.keep_answers(stream, step);
    }

    /// Saves early where too much waits for a save.
    pub(super) fn save_under_pressure(&mut self, step: &mut StreamsStep<'_>) {
        if self.unsaved_bytes + self.unsaved_id_bytes <= self.memory_max {
            return;
        }
        let unsaved = self.loaded.iter().filter(|(_, loaded)| !loaded.unsaved.is_empty());
        let streams: Vec<Incarnation> = unsaved.map(|(stream, _)| *stream).collect();
        for stream in streams {
            if step.weigh() >= STEP_BYTES_MAX {
                step.own.is_behind = true;
                return;
            }
            self.save(stream, step);
            if let Some(loaded) = self.loaded.get_mut(&stream) {
                super::closing::store_next(self.id, loaded, step);
                loaded.write_tail(step);
            }
            self.count_ids(stream, step);
            self.set_timer(stream, step.now);
        }
    }
}

impl LoadedStream {
    /// Writes how far the stream has come, where that is another place than its row says.
    pub(super) fn write_tail(&mut self, step: &mut StreamsStep<'_>) {
        if std::mem::take(&mut self.is_tail_dirty) {
            step.push(Op::PutStreamTail(Box::new(self.tail.clone())));
            self.written = step.seq;
        }
    }

    /// Answers every caller that waits.
    fn answer(&mut self, step: &mut StreamsStep<'_>) {
        for WaitingCaller { reply, outcomes, .. } in self.waiting.drain(..) {
            step.emit(StreamsEffect::Appended(reply, Ok(outcomes)));
        }
    }
}

/// A chunk that is written, and whether readers saw it before.
struct WrittenChunk {
    chunk: Arc<StreamChunk>,
    is_shown: bool,
}

/// The unsaved chunks of a block as one, if there are any. They follow each other, and a chunk for
/// each step would be many rows. Messages behind ids that a crash left out begin another.
fn save_block(block: &mut UnstoredBlock) -> Vec<WrittenChunk> {
    let mut written = Vec::new();
    let unsaved: Vec<UnstoredChunk> = block.chunks.drain(block.unsaved_from()..).collect();
    let mut bytes = 0;
    let follows = |a: &UnstoredChunk, b: &UnstoredChunk| {
        bytes += a.bytes;
        let is_one = a.last() + 1 == b.first && a.is_shown == b.is_shown && bytes < MERGED_BYTES_MAX;
        bytes = if is_one { bytes } else { 0 };
        is_one
    };
    for run in unsaved.chunk_by(follows) {
        let Some(chunk) = merged(run) else { continue };
        let is_shown = run.iter().all(|chunk| chunk.is_shown);
        let before: usize = run.iter().map(|chunk| chunk.bytes).sum();
        block.bytes = block.bytes + chunk.bytes.len() as u64 - before as u64;
        block.chunks.push(UnstoredChunk::saved(&chunk));
        written.push(WrittenChunk { chunk, is_shown });
    }
    written
}

fn merged(run: &[UnstoredChunk]) -> Option<Arc<StreamChunk>> {
    let first = run.first()?.unsaved.as_ref()?;
    if run.len() == 1 {
        return Some(Arc::clone(first));
    }
    let mut writer = ChunkWriter::new(first.first, first.at);
    for chunk in run.iter().filter_map(|chunk| chunk.unsaved.as_ref()) {
        for message in MessageReader::of(chunk) {
            match message {
                Ok(message) => writer.push(&message),
                Err(bad) => unreachable!("a chunk was just written: {bad}"),
            }
        }
    }
    Some(Arc::new(writer.finish(first.stream)))
}
