//! The oldest blocks go: for their age, or because a stream holds too much. Whatever leads to their
//! messages is swept behind them.

use std::time::Duration;

use ::streams::retention::{SpaceRequest, StreamRoom, expired, expires_at, room};
use ::streams::tail::drop_block;
use ::streams::{ChunkWriter, FreeSpace};
use base::{Incarnation, PartitionId, Problem};
use records::{Op, StreamBlock, WhenFull};
use store::StoreError;

use super::loaded::LoadedStream;
use super::{StreamPartition, StreamsStep};
use crate::streams::NewMessage;
use crate::streams::block_worker::{BlockFile, BlockWork};
use crate::streams::effect::{HandledBlocks, HandledBy, StreamsEffect, TailChange};

/// Blocks of a stream that go in a step at most.
const BLOCKS_PER_STEP: usize = 64;
/// Rows of one kind that are swept in a step at most.
const SWEPT_PER_STEP: usize = 500;
/// After how long blocks are looked for that are not durable yet.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl StreamPartition {
    /// Has blocks go whose time has come, and notes when the next one does.
    pub(super) fn expire_what_is_due(
        &mut self,
        stream: Incarnation,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(loaded) = self.loaded.get_mut(&stream) else { return Ok(()) };
        let settings = loaded.stream.settings.clone();
        let asked = SpaceRequest { kept_bytes: loaded.bytes(), appended_bytes: 0, room: FreeSpace::Enough };
        let is_too_large = settings.keep.bytes.is_some_and(|most| asked.kept_bytes > most);
        if loaded.tail.blocks == 0 {
            // The last ones may have made room: nothing is waited for.
            loaded.expires_at = None;
        }
        let is_due = loaded.expires_at.is_some_and(|at| at <= step.now);
        if loaded.tail.blocks == 0 || !(is_due || is_too_large) {
            return Ok(());
        }
        // Those that are stored in a batch on its way are not shown, and are the last ones.
        let found = step.fetch.view()?.stream_blocks(stream, loaded.tail.first, BLOCKS_PER_STEP + 1)?;
        let found = loaded.as_moved(found);
        let too_old = expired(&settings.keep, &found, loaded.untaken_from(), step.now);
        let too_many = match room(&settings, asked, &found) {
            StreamRoom::AfterDropping(blocks) => blocks,
            StreamRoom::Enough | StreamRoom::Full => 0,
        };
        let (gone, kept) = found.split_at(too_old.max(too_many).min(BLOCKS_PER_STEP));
        let is_held_up = kept.first().is_some_and(|next| loaded.keeps(&settings.keep, next));
        loaded.subscriptions.holds_up = is_held_up;
        loaded.expires_at = match kept.first() {
            // It is looked at again when the push has moved on.
            Some(_) if is_held_up => None,
            Some(next) => expires_at(&settings.keep, next),
            None if found.len() < loaded.tail.blocks as usize => Some(step.now.after(LOOK_AGAIN_AFTER)),
            None => None,
        };
        if let Some(last) = gone.last() {
            loaded.drop_blocks(self.id, gone, kept.first(), step);
            debug_assert!(loaded.tail.first > last.last, "what is gone is before what is kept");
        }
        Ok(())
    }

    /// Takes out rows that lead to messages which are gone, as many as one step may. It takes only
    /// what is durable, so a step follows each batch.
    pub(super) fn sweep_ids(
        &mut self,
        stream: Incarnation,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(loaded) = self.loaded.get_mut(&stream).filter(|loaded| loaded.is_sweeping) else {
            return Ok(());
        };
        if loaded.swept > self.durable {
            self.to_settle.insert((loaded.swept, stream));
            return Ok(());
        }
        let (gone, view) = (loaded.tail.first - 1, step.fetch.view()?);
        let (spans, texts) = (
            view.spans_up_to(stream, gone, SWEPT_PER_STEP)?,
            view.texts_up_to(stream, gone, SWEPT_PER_STEP)?,
        );
        if spans.is_empty() && texts.is_empty() && !loaded.is_tail_dirty {
            loaded.is_sweeping = false;
            return Ok(());
        }
        spans.into_iter().for_each(|span| step.push(Op::DeleteExternalSpan(Box::new(span))));
        texts.into_iter().for_each(|text| step.push(Op::DeleteExternalText(Box::new(text))));
        (loaded.written, loaded.swept, loaded.is_tail_dirty) = (step.seq, step.seq, true);
        self.to_settle.insert((step.seq, stream));
        Ok(())
    }
}

impl StreamPartition {
    /// The disk with the data has another room left.
    pub(super) fn disk_has(&mut self, room: FreeSpace, step: &mut StreamsStep<'_>) {
        self.free_space = room;
        for (stream, loaded) in &mut self.loaded {
            loaded.freed_bytes = 0;
            if !loaded.stream.settings.moves.is_empty() {
                loaded.look_for_moves(step.now);
                step.own.touched.insert(*stream);
            }
        }
    }

    /// Whether an append fits. On a disk that is nearly full the oldest blocks go in its favour,
    /// where the stream is set so. On one without any room nothing fits until their files are gone.
    pub(super) fn make_room(
        &mut self,
        stream: Incarnation,
        messages: &[NewMessage],
        step: &mut StreamsStep<'_>,
    ) -> Result<Result<(), Problem>, StoreError> {
        let free_space = self.free_space;
        let Some(loaded) = self.loaded.get_mut(&stream) else { return Ok(Ok(())) };
        let settings = loaded.stream.settings.clone();
        let mut asked = loaded.space_asked(messages);
        // Blocks that leave the disk early make room, and nothing is lost.
        let needs_disk = free_space != FreeSpace::Enough
            && loaded.freed_bytes < asked.appended_bytes
            && !self.move_scheduler.free_local(&settings);
        let memory_room = asked.room;
        if needs_disk {
            asked.room = asked.room.max(free_space);
        }
        let may_drop = settings.when_full == WhenFull::DropOldest && loaded.tail.blocks > 0;
        let found = match asked.room != FreeSpace::Enough && may_drop {
            true => step.fetch.view()?.stream_blocks(stream, loaded.tail.first, BLOCKS_PER_STEP + 1)?,
            false => Vec::new(),
        };
        let found = loaded.as_moved(found);
        if needs_disk && found.first().is_some_and(|oldest| !oldest.is_local()) {
            // What is dropped elsewhere makes no room here.
            if free_space == FreeSpace::Exhausted {
                return Ok(Err(disk_full()));
            }
            asked.room = memory_room;
        }
        match room(&settings, asked, &found) {
            StreamRoom::Enough => {}
            StreamRoom::Full if needs_disk => return Ok(Err(disk_full())),
            StreamRoom::Full => return Ok(Err(stream_full(asked, settings.keep.bytes))),
            StreamRoom::AfterDropping(blocks) => {
                let (gone, kept) = found.split_at(blocks.min(BLOCKS_PER_STEP));
                loaded.drop_blocks(self.id, gone, kept.first(), step);
                loaded.freed_bytes += gone.iter().map(|block| block.bytes).sum::<u64>();
                step.own.touched.insert(stream);
            }
        }
        if free_space == FreeSpace::Exhausted {
            // Every append lengthens the log; only a checkpoint shortens it.
            return Ok(Err(disk_full()));
        }
        loaded.freed_bytes = loaded.freed_bytes.saturating_sub(asked.appended_bytes);
        Ok(Ok(()))
    }
}

fn disk_full() -> Problem {
    let detail = "the disk is nearly full: make room, have the oldest messages dropped, or lower \
                  streams.disk_free";
    Problem::new(503, "stream_full", detail)
}

fn stream_full(asked: SpaceRequest, bytes_max: Option<u64>) -> Problem {
    let SpaceRequest { kept_bytes, appended_bytes, .. } = asked;
    let of_most = bytes_max.map_or_else(String::new, |most| format!(" of {most}"));
    let detail = format!(
        "the stream holds {kept_bytes}{of_most} bytes, and {appended_bytes} more came: raise keep.bytes, or \
         have the oldest messages dropped"
    );
    Problem::new(503, "stream_full", detail)
}

impl LoadedStream {
    /// What it takes, and what an append adds. Blocks that cannot be stored cannot be dropped
    /// either.
    fn space_asked(&self, messages: &[NewMessage]) -> SpaceRequest {
        let written = self.writer.as_ref().map_or(0, ChunkWriter::bytes) as u64;
        let kept_bytes = self.bytes() + written;
        let is_over = self.stream.settings.keep.bytes.is_some_and(|most| kept_bytes > most);
        SpaceRequest {
            kept_bytes,
            appended_bytes: messages.iter().map(NewMessage::chunk_bytes).sum(),
            room: if is_over && self.retry.is_some() { FreeSpace::Exhausted } else { FreeSpace::Enough },
        }
    }

    /// Blocks go, the oldest ones; `next` is the one behind them, if it is known.
    fn drop_blocks(
        &mut self,
        id: PartitionId,
        gone: &[StreamBlock],
        next: Option<&StreamBlock>,
        step: &mut StreamsStep<'_>,
    ) {
        let mut handled =
            HandledBlocks { by: HandledBy::Delete, at: step.now, blocks: 0, bytes: 0, error: None };
        // What is not saved yet is behind `next` of the tail.
        let saved = self.blocks.front().and_then(|block| block.chunks.first());
        let unstored = saved.filter(|chunk| chunk.unsaved.is_none()).map(|chunk| chunk.first);
        for (place, block) in gone.iter().enumerate() {
            let is_last = self.tail.blocks == 1;
            // Behind it may be a block whose row is on its way.
            let behind = gone.get(place + 1).or(next).map(|block| block.first);
            let behind = behind.or(if is_last { unstored } else { Some(block.last + 1) });
            drop_block(&mut self.tail, block, behind);
            step.push(Op::DeleteStreamBlock(block.stream, block.first));
            step.emit(StreamsEffect::Block(BlockWork::Delete(BlockFile::of(block))));
            step.own.counted.dropped += u64::from(block.messages);
            handled.blocks += 1;
            handled.bytes += block.bytes;
        }
        self.count_dropped(gone, step);
        (self.is_sweeping, self.is_tail_dirty, self.swept) = (true, true, step.seq);
        step.emit(StreamsEffect::Tail(id, self.name.clone(), TailChange::Handled(handled)));
    }
}
