//! A stream is deleted: its name is free at once, and what it held is swept in steps.

use base::{Incarnation, Problem, Timestamp};
use records::{Op, Stream, StreamDue};
use store::StoreError;

use super::{StreamPartition, StreamsStep};
use crate::kernel::reply::{Answered, Reply};
use crate::streams::StreamName;
use crate::streams::block_worker::{BlockFile, BlockWork};
use crate::streams::effect::{StreamsEffect, TailChange};

/// Rows of one kind that a step sweeps at most.
const SWEPT_PER_STEP: usize = 500;
/// Bytes of chunks that are looked at in a step.
const SWEPT_BYTES: usize = 4 << 20;

/// A stream that is deleted and not swept yet.
pub(super) struct DeletedStream {
    stream: Stream,
    /// Under which time it stands among those that are due.
    due: Timestamp,
    /// One of its blocks is being stored.
    pub(super) storing: bool,
    /// The batch that wrote last of it.
    written: u64,
}

impl DeletedStream {
    /// One that an earlier process deleted.
    pub(super) fn found(stream: Stream, due: Timestamp) -> Self {
        Self { stream, due, storing: false, written: 0 }
    }
}

/// There is no such stream.
pub(crate) fn unknown_stream(name: &StreamName) -> Problem {
    Problem::unknown("unknown_stream", format!("there is no stream {name}; an append makes one"))
}

impl StreamPartition {
    pub(super) fn delete(
        &mut self,
        name: &StreamName,
        reply: Reply<Answered<()>>,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(stream) = self.load_stream(name, step)? else {
            step.emit(StreamsEffect::Done(reply, Err(unknown_stream(name))));
            return Ok(());
        };
        let Some(mut loaded) = self.loaded.remove(&stream) else { return Ok(()) };
        self.forget(&loaded);
        self.move_scheduler.forget(stream);
        self.streams -= 1;
        self.delete_subscriptions_of(&mut loaded, step);
        self.delete_copies_of(&mut loaded, step);
        let row = Stream { deleted: true, ..loaded.stream };
        step.push(Op::PutStream(Box::new(row.clone())));
        step.push(Op::DeleteStreamTail(stream));
        if loaded.tail.due != Timestamp::MAX {
            step.push(Op::DeleteStreamDue(StreamDue { at: loaded.tail.due, stream }));
        }
        step.push(Op::PutStreamDue(StreamDue { at: step.now, stream }));
        self.deleted.put(step.seq, name.clone(), None);
        let storing = loaded.storing.is_some();
        if let Some(block) = loaded.blocks.front().filter(|_| !storing) {
            // It may have been written, and its row not.
            let file = BlockFile::local(stream, block.first());
            step.emit(StreamsEffect::Block(BlockWork::Delete(file)));
        }
        self.sweeping
            .insert(stream, DeletedStream { stream: row, due: step.now, storing, written: step.seq });
        self.to_settle.insert((step.seq, stream));
        step.emit(StreamsEffect::Tail(self.id, name.clone(), TailChange::Closed));
        for waiting in loaded.waiting {
            self.runs.refused(waiting.run);
            let detail = format!("stream {name} was deleted before the messages were saved; repeat the call");
            step.emit(StreamsEffect::Appended(waiting.reply, Err(Problem::unavailable(detail))));
        }
        step.emit(StreamsEffect::Done(reply, Ok(())));
        Ok(())
    }

    /// Sweeps some of what a deleted stream held: what is durable of it, so a step follows each
    /// batch.
    pub(super) fn sweep_deleted(
        &mut self,
        stream: Incarnation,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(deleted) = self.sweeping.get_mut(&stream) else { return Ok(()) };
        if deleted.written > self.durable {
            self.to_settle.insert((deleted.written, stream));
            return Ok(());
        }
        let (view, before) = (step.fetch.view()?, step.batch.ops.len());
        for chunk in view.stream_chunks(stream, 0..u64::MAX, SWEPT_BYTES)?.into_iter().take(SWEPT_PER_STEP) {
            step.push(Op::DeleteStreamChunk(stream, chunk.first));
        }
        for block in view.stream_blocks(stream, 0, SWEPT_PER_STEP)? {
            step.push(Op::DeleteStreamBlock(stream, block.first));
            step.emit(StreamsEffect::Block(BlockWork::Delete(BlockFile::of(&block))));
        }
        for span in view.spans_up_to(stream, u64::MAX, SWEPT_PER_STEP)? {
            step.push(Op::DeleteExternalSpan(Box::new(span)));
        }
        for text in view.texts_up_to(stream, u64::MAX, SWEPT_PER_STEP)? {
            step.push(Op::DeleteExternalText(Box::new(text)));
        }
        for one in view.intervals_of_stream(stream, SWEPT_PER_STEP)? {
            step.push(Op::DeleteExternalInterval(stream, one.source, one.from));
        }
        if step.batch.ops.len() > before {
            deleted.written = step.seq;
            self.to_settle.insert((step.seq, stream));
        } else if !deleted.storing {
            let DeletedStream { stream: row, due, .. } = &*deleted;
            step.push(Op::DeleteStreamDue(StreamDue { at: *due, stream }));
            step.push(Op::DeleteStream(Box::new(row.clone())));
            self.sweeping.remove(&stream);
        }
        Ok(())
    }
}
