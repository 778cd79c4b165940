//! Blocks go to other storages as they grow old. A worker brings one there, then its row names the
//! new place. Once that is durable, the first file goes.
//!
//! A partition has few moves under way to each storage, one of a stream. Other streams wait, in
//! memory or not, until their move is the next to its storage. A storage that fails is tried again
//! with one move after a pause.

use std::time::Duration;

use ::streams::FreeSpace;
use ::streams::moving::{goes_to, moves_at};
use ::streams::tail;
use base::{Incarnation, Timestamp};
use records::{Op, StreamBlock};
use store::StoreError;

use super::loaded::LoadedStream;
use super::move_scheduler::{MOVES_PER_STORAGE, RETRY_MAX, RETRY_MIN};
use super::{StreamPartition, StreamsStep};
use crate::streams::block_moving::{BlockToMove, MoveFailedAt, MovedBlock};
use crate::streams::block_worker::{BlockFile, BlockWork};
use crate::streams::effect::{HandledBlocks, HandledBy, StreamsEffect, TailChange};

/// Rows of blocks that a step looks at for one stream.
const ROWS_PER_LOOK: usize = 64;

/// A block that is on its way.
#[derive(Clone, Debug)]
pub(super) struct MovingBlock {
    first: u64,
    to: Box<str>,
}

/// A block whose new row is in a batch that may not be durable: rows that are read may be the old
/// one.
#[derive(Clone, Debug)]
pub(super) struct MovedRow {
    pub(super) seq: u64,
    row: StreamBlock,
}

/// What a stream has to do with moves.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamMoves {
    /// When its blocks are looked at.
    pub(super) at: Option<Timestamp>,
    pub(super) under_way: Option<MovingBlock>,
    pub(super) moved: Option<MovedRow>,
    /// The batch with the newest block's row. Until it is durable, a look does not see the block.
    pub(super) stored: Option<u64>,
    /// It waits until its move is the next to its storage.
    pub(super) waits: bool,
    /// Its move is the next to its storage.
    is_next: bool,
    /// After how long it is tried again where the storage that has a block fails.
    pause: Option<Duration>,
}

impl StreamMoves {
    /// When they are to be looked at, unless something else brings the look. That may be the
    /// scheduler, the end of a move, or the batch with its row.
    pub(super) fn looked_at(&self) -> Option<Timestamp> {
        self.at.filter(|_| !self.waits && self.under_way.is_none() && self.moved.is_none())
    }
}

impl StreamPartition {
    /// Streams go on, to storages that are free, in the order of the storages' names. Those that
    /// waited longest for a storage are first there.
    pub(super) fn start_waiting_moves(&mut self, step: &mut StreamsStep<'_>) -> Result<(), StoreError> {
        for _ in 0..MOVES_PER_STORAGE {
            if !step.has_room() {
                return Ok(());
            }
            let Some(stream) = self.move_scheduler.next(step.now) else { return Ok(()) };
            if !self.loaded.contains_key(&stream) {
                self.load_due(step.now, stream, step)?;
            }
            if let Some(loaded) = self.loaded.get_mut(&stream) {
                (loaded.moves.waits, loaded.moves.is_next) = (false, true);
                loaded.moves.at = Some(step.now);
                step.own.touched.insert(stream);
            }
        }
        Ok(())
    }

    /// Has the next block of a stream go to another storage, if its time has come, and notes when
    /// the one behind it does.
    pub(super) fn move_what_is_due(
        &mut self,
        stream: Incarnation,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let frees_local = self.free_space != FreeSpace::Enough;
        let Some(loaded) = self.loaded.get_mut(&stream) else { return Ok(()) };
        if loaded.moves.under_way.is_some() || self.is_closing {
            return Ok(());
        }
        if let Some(moved) = loaded.moves.moved.take_if(|moved| moved.seq > self.durable) {
            self.to_settle.insert((moved.seq, stream));
            loaded.moves.moved = Some(moved);
            return Ok(());
        }
        loaded.moves.moved = None;
        if let Some(stored) = loaded.moves.stored {
            if stored > self.durable {
                self.to_settle.insert((stored, stream));
            } else {
                loaded.moves.stored = None;
                loaded.look_for_moves(step.now);
            }
        }
        if loaded.stream.settings.moves.is_empty() || loaded.tail.blocks == 0 {
            loaded.moves.at = None;
        }
        let is_next = std::mem::take(&mut loaded.moves.is_next);
        if loaded.moves.waits || loaded.moves.at.is_none_or(|at| at > step.now) {
            return Ok(());
        }
        let found = loaded.next_move(frees_local, step)?;
        let Some(block) = found else {
            if loaded.moves.at.is_some_and(|at| at <= step.now) {
                // More rows are to be looked at.
                self.to_settle.insert((self.durable, stream));
                step.own.is_behind = true;
            }
            return Ok(());
        };
        let moves = &loaded.stream.settings.moves;
        let Some(to) = goes_to(moves, &block, step.now, frees_local).map(Box::<str>::from) else {
            return Ok(());
        };
        loaded.moves.at = None;
        if !self.move_scheduler.try_begin(&to, is_next, step.now) {
            self.move_scheduler.wait(stream, &to);
            loaded.moves.waits = true;
            return Ok(());
        }
        loaded.moves.under_way = Some(MovingBlock { first: block.first, to: to.clone() });
        let began = TailChange::MoveBegan(to.clone());
        step.emit(StreamsEffect::Tail(self.id, loaded.name.clone(), began));
        let work = BlockToMove { partition: self.id, block, to };
        step.emit(StreamsEffect::Block(BlockWork::Move(Box::new(work))));
        Ok(())
    }

    /// A block was brought to another storage, or could not be.
    pub(super) fn moved(&mut self, ended: MovedBlock, step: &mut StreamsStep<'_>) {
        let MovedBlock { moved, target, result } = ended;
        let stream = moved.block.stream;
        let is_target_away = matches!(&result, Err(failure) if failure.at == MoveFailedAt::Target);
        self.move_scheduler.end(&moved.to, is_target_away, step.now);
        let is_it = |block: &MovingBlock| block.first == moved.block.first && block.to == moved.to;
        let loaded = self.loaded.get_mut(&stream).filter(|of| of.moves.under_way.as_ref().is_some_and(is_it));
        let Some(loaded) = loaded else {
            // The stream or the machine is another one: a file that has a row stays.
            step.emit(StreamsEffect::Block(BlockWork::Delete(target)));
            return;
        };
        step.own.touched.insert(stream);
        loaded.moves.under_way = None;
        loaded.moves.at = Some(step.now);
        let by = HandledBy::Move(moved.to.clone());
        let mut handled = HandledBlocks { by, at: step.now, blocks: 0, bytes: 0, error: None };
        let is_gone = moved.block.first < loaded.tail.first;
        let counted = match result {
            Ok(row) if !is_gone => {
                (handled.blocks, handled.bytes) = (1, row.bytes);
                let stored_bytes = row.stored_bytes;
                tail::move_block(&mut loaded.tail, &moved.block, &row.storage);
                loaded.is_tail_dirty = true;
                loaded.moves.pause = None;
                loaded.moves.moved = Some(MovedRow { seq: step.seq, row: row.clone() });
                step.push(Op::PutStreamBlock(Box::new(row)));
                let from = BlockFile::of(&moved.block);
                step.emit(StreamsEffect::Block(BlockWork::Moved { from, to: target }));
                Some(Some(stored_bytes))
            }
            Ok(_) => {
                step.emit(StreamsEffect::Block(BlockWork::Delete(target)));
                None
            }
            Err(failure) => {
                step.emit(StreamsEffect::Block(BlockWork::Delete(target)));
                match failure.at {
                    MoveFailedAt::Target => {}
                    MoveFailedAt::Source => {
                        let pause = loaded.moves.pause.map_or(RETRY_MIN, |pause| (pause * 2).min(RETRY_MAX));
                        loaded.moves.pause = Some(pause);
                        loaded.moves.at = Some(step.now.after(pause));
                    }
                    MoveFailedAt::Block => loaded.give_up(&moved),
                }
                handled.error = Some(failure.text).filter(|_| !is_gone);
                (!is_gone).then_some(None)
            }
        };
        let name = loaded.name.clone();
        if let Some(bytes) = counted {
            step.emit(StreamsEffect::BlockMoved(moved.to, bytes));
        }
        step.emit(StreamsEffect::Tail(self.id, name, TailChange::Handled(handled)));
    }
}

impl LoadedStream {
    /// The next block that has to go, and when it, or the one behind it, is looked at.
    fn next_move(
        &mut self,
        frees_local: bool,
        step: &StreamsStep<'_>,
    ) -> Result<Option<StreamBlock>, StoreError> {
        let (moves, view) = (&self.stream.settings.moves, step.fetch.view()?);
        let (mut rows_left, mut next) = (ROWS_PER_LOOK, None::<Timestamp>);
        self.moves.at = None;
        if self.tail.moved.len() != moves.len() {
            self.tail.moved = vec![0; moves.len()];
        }
        for place in (0..moves.len()).rev() {
            let from = self.tail.moved[place].max(self.tail.first);
            let found = view.stream_blocks(self.tail.stream, from, rows_left + 1)?;
            let is_all = found.len() <= rows_left;
            for block in found.into_iter().take(rows_left) {
                let is_as_far = moves[place..].iter().any(|one| one.to == block.storage);
                let at = moves_at(moves, place, &block, frees_local);
                if !is_as_far && at > step.now {
                    next = Some(next.map_or(at, |next| next.min(at)));
                    break;
                }
                if !is_as_far && goes_to(moves, &block, step.now, frees_local).is_some() {
                    return Ok(Some(block));
                }
                rows_left -= 1;
                self.tail.moved[place] = block.last + 1;
                self.is_tail_dirty = true;
            }
            if rows_left == 0 && !is_all {
                self.moves.at = Some(step.now);
                return Ok(None);
            }
        }
        self.moves.at = next;
        Ok(None)
    }

    /// A block cannot be moved: the moves go on behind it.
    fn give_up(&mut self, moved: &BlockToMove) {
        let Some(place) = self.stream.settings.moves.iter().position(|one| one.to == moved.to) else {
            return;
        };
        for until in self.tail.moved.iter_mut().take(place + 1) {
            *until = (*until).max(moved.block.last + 1);
        }
        self.is_tail_dirty = true;
    }

    /// Other moves, or another storage: every block is looked at anew.
    pub(super) fn begin_moves(&mut self, now: Timestamp) {
        self.tail.moved.clear();
        self.is_tail_dirty = true;
        self.look_for_moves(now);
    }

    /// Has blocks looked at that may have to go.
    pub(super) fn look_for_moves(&mut self, now: Timestamp) {
        if !self.stream.settings.moves.is_empty() && self.tail.blocks > 0 {
            self.moves.at = Some(now);
        }
    }

    /// Rows that were read, with the one that is not durable as it is to be.
    pub(super) fn as_moved(&self, mut rows: Vec<StreamBlock>) -> Vec<StreamBlock> {
        if let Some(MovedRow { row, .. }) = &self.moves.moved {
            rows.iter_mut().filter(|one| one.first == row.first).for_each(|one| *one = row.clone());
        }
        rows
    }

    /// When the moves of a stream have it looked at, be it in memory or not.
    pub(super) fn moves_due(&self) -> Option<Timestamp> {
        let is_begun = self.moves.waits || self.moves.under_way.is_some();
        if is_begun { Some(Timestamp(0)) } else { self.moves.at }
    }
}
