//! Blocks that are closed are stored, one of a stream at a time and in order. A worker writes the
//! file, then its row takes the place of its messages' rows.

use std::time::Duration;

use ::streams::retention::expires_at;
use ::streams::tail;
use base::PartitionId;
use records::Op;
use store::StoreError;

use super::loaded::LoadedStream;
use super::{StreamPartition, StreamsStep};
use crate::streams::block_worker::{BlockToStore, BlockWork, StoredBlock};
use crate::streams::effect::{HandledBlocks, HandledBy, StreamsEffect, TailChange};

/// After how long a block is stored again that could not be, at first.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest such time.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Has the oldest block stored, if it is closed and its messages are durable with this step's
/// batch.
pub(super) fn store_next(id: PartitionId, loaded: &mut LoadedStream, step: &mut StreamsStep<'_>) {
    let waits = loaded.retry.is_some_and(|(at, _)| at > step.now);
    if loaded.storing.is_some() || waits {
        return;
    }
    let Some(block) = loaded.blocks.front().filter(|block| block.is_closed && block.is_saved()) else {
        return;
    };
    if let Some((_, after)) = loaded.retry.take() {
        // Kept for the next failure; far enough away to be no time.
        loaded.retry = Some((base::Timestamp::MAX, after));
    }
    loaded.storing = Some(block.first());
    let work = BlockToStore {
        partition: id,
        stream: loaded.incarnation(),
        first: block.first(),
        last: block.last(),
    };
    step.emit(StreamsEffect::Block(BlockWork::Store(work)));
}

impl StreamPartition {
    /// A block was stored, or could not be.
    pub(super) fn stored(
        &mut self,
        stored: StoredBlock,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let StoredBlock { block, result } = stored;
        if let Some(deleted) = self.sweeping.get_mut(&block.stream) {
            deleted.storing = false;
            step.emit(StreamsEffect::Block(BlockWork::Delete(block.file())));
            return self.sweep_deleted(block.stream, step);
        }
        let Some(loaded) = self.loaded.get_mut(&block.stream) else {
            return self.delete_if_gone(&block, step);
        };
        let is_it = loaded.storing == Some(block.first)
            && loaded
                .blocks
                .front()
                .is_some_and(|front| (front.first(), front.last()) == (block.first, block.last));
        if !is_it {
            // Of a machine that was dropped since. The file has a row, or is that of the oldest
            // block, and is written again with it.
            return Ok(());
        }
        step.own.touched.insert(block.stream);
        loaded.storing = None;
        let mut handled =
            HandledBlocks { by: HandledBy::Unload, at: step.now, blocks: 0, bytes: 0, error: None };
        match result {
            Ok(made) => {
                let (last, bytes) = (made.block.last, made.block.bytes);
                let stored = TailChange::Stored { last, bytes };
                step.emit(StreamsEffect::Tail(self.id, loaded.name.clone(), stored));
                let chunks = loaded.blocks.pop_front().map(|block| block.chunks).unwrap_or_default();
                for chunk in chunks {
                    step.push(Op::DeleteStreamChunk(block.stream, chunk.first));
                }
                step.own.counted.blocks_stored += 1;
                if loaded.expires_at.is_none() {
                    loaded.expires_at = expires_at(&loaded.stream.settings.keep, &made.block);
                }
                tail::store(&mut loaded.tail, &made.block);
                step.push(Op::PutStreamBlock(Box::new(made.block)));
                step.batch.ops.extend(made.spans.into_iter().map(|span| Op::PutExternalSpan(Box::new(span))));
                (loaded.is_tail_dirty, loaded.retry) = (true, None);
                loaded.moves.stored = Some(step.seq);
                if loaded.unread.is_some() {
                    loaded.load_next_unstored(step.fetch.view()?)?;
                }
            }
            Err(error) => {
                step.own.counted.blocks_failed += 1;
                let after = loaded.retry.map_or(RETRY_MIN, |(_, after)| (after * 2).min(RETRY_MAX));
                loaded.retry = Some((step.now.after(after), after));
                handled.error = Some(error);
            }
        }
        let name = loaded.name.clone();
        step.emit(StreamsEffect::Tail(self.id, name, TailChange::Handled(handled)));
        Ok(())
    }

    /// A block was stored of a stream that is not in memory, by a machine that was dropped since:
    /// its file goes with the stream.
    fn delete_if_gone(&self, block: &BlockToStore, step: &mut StreamsStep<'_>) -> Result<(), StoreError> {
        let row = step.fetch.view()?.stream(block.stream)?;
        if row.is_none_or(|row| row.deleted) {
            step.emit(StreamsEffect::Block(BlockWork::Delete(block.file())));
        }
        Ok(())
    }
}
