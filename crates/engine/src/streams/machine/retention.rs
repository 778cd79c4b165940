//! The oldest blocks go: for their age, or because a stream holds too much. Whatever leads to their
//! messages is swept behind them.

use std::time::Duration;

use ::streams::retention::{SpaceAsked, StreamRoom, expired, expires_at, room};
use ::streams::tail::drop_block;
use base::Incarnation;
use records::{Op, StreamBlock};
use store::StoreError;

use super::loaded::LoadedStream;
use super::{StreamPartition, StreamsStep};
use crate::streams::block_worker::{BlockFile, BlockWork};
use crate::streams::effect::{HandledBlocks, StreamsEffect, TailChange};

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
        let settings = loaded.stream.settings;
        let asked = SpaceAsked { kept_bytes: loaded.bytes(), appended_bytes: 0, is_nearly_full: false };
        let is_too_large = settings.keep.bytes.is_some_and(|most| asked.kept_bytes > most);
        let is_due = loaded.expires_at.is_some_and(|at| at <= step.now);
        if loaded.tail.blocks == 0 || !(is_due || is_too_large) {
            return Ok(());
        }
        // Those that are stored in a batch on its way are not shown, and are the last ones.
        let found = step.fetch.view()?.stream_blocks(stream, loaded.tail.first, BLOCKS_PER_STEP + 1)?;
        let too_old = expired(&settings.keep, &found, loaded.subscriptions.untaken_from(), step.now);
        let too_many = match room(&settings, asked, &found) {
            StreamRoom::AfterDropping(blocks) => blocks,
            StreamRoom::Enough | StreamRoom::Full => 0,
        };
        let (gone, kept) = found.split_at(too_old.max(too_many).min(BLOCKS_PER_STEP));
        let is_held_up = kept.first().is_some_and(|next| loaded.subscriptions.keeps(&settings.keep, next));
        loaded.subscriptions.holds_up = is_held_up;
        loaded.expires_at = match kept.first() {
            // It is looked at again when the push has moved on.
            Some(_) if is_held_up => None,
            Some(next) => expires_at(&settings.keep, next),
            None if found.len() < loaded.tail.blocks as usize => Some(step.now.after(LOOK_AGAIN_AFTER)),
            None => None,
        };
        if let Some(last) = gone.last() {
            let handled = drop_blocks(loaded, gone, kept.first().map(|block| block.first), step);
            debug_assert!(loaded.tail.first > last.last, "what is gone is before what is kept");
            (loaded.is_sweeping, loaded.is_tail_dirty, loaded.swept) = (true, true, step.seq);
            let name = loaded.name.clone();
            step.emit(StreamsEffect::Tail(self.id, name, TailChange::Handled(handled)));
        }
        Ok(())
    }

    /// Takes out rows that lead to messages which are gone: as many as one step may, and what is
    /// durable alone, so a step follows each batch.
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

/// Blocks go, the oldest ones; the message behind them has the id `next`, if it is in a block.
fn drop_blocks(
    loaded: &mut LoadedStream,
    gone: &[StreamBlock],
    next: Option<u64>,
    step: &mut StreamsStep<'_>,
) -> HandledBlocks {
    let mut handled = HandledBlocks { is_deletion: true, at: step.now, blocks: 0, bytes: 0, error: None };
    // What is not saved yet is behind `next` of the tail.
    let saved = loaded.blocks.front().and_then(|block| block.chunks.first());
    let unstored = saved.filter(|chunk| chunk.unsaved.is_none()).map(|chunk| chunk.first);
    for block in gone {
        let is_last = loaded.tail.blocks == 1;
        // Behind it may be a block whose row is on its way.
        let behind = next.or(if is_last { unstored } else { Some(block.last + 1) });
        drop_block(&mut loaded.tail, block, behind);
        step.push(Op::DeleteStreamBlock(block.stream, block.first));
        step.emit(StreamsEffect::Block(BlockWork::Delete(BlockFile::of(block))));
        step.own.counted.dropped += u64::from(block.messages);
        handled.blocks += 1;
        handled.bytes += block.bytes;
    }
    handled
}
