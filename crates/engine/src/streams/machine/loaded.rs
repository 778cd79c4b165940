//! A stream in memory: how far it has come, and the blocks that are not stored yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ::streams::open_block::OpenBlock;
use ::streams::saving::{AnswerTime, UnsavedMessages, answer_time};
use ::streams::{ChunkWriter, ExternalNumbers, settings};
use base::{Incarnation, Timestamp};
use records::{AnswerKey, BlockBounds, SaveMode, Stream, StreamChunk, StreamTail};

use super::super::StreamName;
use super::super::append_run::PlaceInRun;
use super::super::input::AppendOutcome;
use super::copies::CopySet;
use super::idempotency::UnkeptAppend;
use super::moving::StreamMoves;
use super::stored_numbers::IdBytes;
use super::subscriptions::SubscriptionSet;
use crate::kernel::hashed::HashMap;
use crate::kernel::reply::{Answered, Reply};

/// A text of a source: both.
pub(super) type SourceText = (Box<str>, Box<str>);

/// A caller that is answered with the next save, and how.
pub(super) struct WaitingCaller {
    pub(super) reply: Reply<Answered<Vec<AppendOutcome>>>,
    pub(super) outcomes: Vec<AppendOutcome>,
    /// If the messages are lost before, those behind them are refused.
    pub(super) run: Option<PlaceInRun>,
}

/// A stream in memory.
pub(super) struct LoadedStream {
    pub(super) stream: Stream,
    pub(super) name: StreamName,
    /// As its row is, or is about to be.
    pub(super) tail: StreamTail,
    /// Its row has to be written.
    pub(super) is_tail_dirty: bool,
    /// The id of the next message.
    pub(super) next: u64,
    /// The id of the newest message; 0 before the first.
    pub(super) last: u64,
    /// When the newest message was received.
    pub(super) last_at: Timestamp,
    /// Messages of this step.
    pub(super) writer: Option<ChunkWriter>,
    /// Blocks that are not stored, the oldest first; the last one may be open.
    pub(super) blocks: VecDeque<UnstoredBlock>,
    /// Messages that are durable and in none of these: the oldest block is before them.
    pub(super) unread: Option<UnreadIds>,
    pub(super) numbers: ExternalNumbers,
    /// Texts of messages that are not saved.
    pub(super) texts: HashMap<SourceText, u64>,
    /// Memory of these.
    pub(super) text_bytes: usize,
    /// Memory of external ids, as it was counted last, and as readers were told.
    pub(super) counted_ids: IdBytes,
    pub(super) told_id_bytes: usize,
    /// Callers that are answered with the next save.
    pub(super) waiting: Vec<WaitingCaller>,
    /// What appends under a key did, to be kept with the next save.
    pub(super) unkept: HashMap<AnswerKey, UnkeptAppend>,
    pub(super) unkept_bytes: usize,
    pub(super) unsaved: UnsavedMessages,
    pub(super) unsaved_bytes: usize,
    /// The batch that wrote last of it.
    pub(super) written: u64,
    /// The block that is being stored: its first message.
    pub(super) storing: Option<u64>,
    /// When a block is stored that could not be, and after how long it is tried then.
    pub(super) retry: Option<(Timestamp, Duration)>,
    /// Bytes that went to make room on a disk that is nearly full, and that no append took yet.
    pub(super) freed_bytes: u64,
    /// When the oldest stored block goes.
    pub(super) expires_at: Option<Timestamp>,
    /// Blocks that go to other storages.
    pub(super) moves: StreamMoves,
    /// Who reads it, and how far they have come.
    pub(super) subscriptions: SubscriptionSet,
    /// Where its messages are copied to, or come from.
    pub(super) copies: CopySet,
    /// The stream's row has to be written before messages are appended.
    pub(super) is_row_dirty: bool,
    /// A caller waits for the save, whatever the mode.
    pub(super) is_urgent: bool,
    /// Whatever leads to messages before `tail.first` is to be swept.
    pub(super) is_sweeping: bool,
    /// The batch that swept last.
    pub(super) swept: u64,
    pub(super) used_at: Timestamp,
    /// When it stands among the timers.
    pub(super) timer: Option<Timestamp>,
}

/// Messages by their ids, `until` not among them.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnreadIds {
    pub(super) from: u64,
    pub(super) until: u64,
}

/// A block that is not stored.
#[derive(Debug)]
pub(super) struct UnstoredBlock {
    pub(super) chunks: Vec<UnstoredChunk>,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) is_closed: bool,
}

/// Messages of a block that is not stored.
#[derive(Clone, Debug)]
pub(super) struct UnstoredChunk {
    pub(super) first: u64,
    pub(super) messages: u32,
    pub(super) at: Timestamp,
    pub(super) bytes: usize,
    /// What is to be written; `None` once it is.
    pub(super) unsaved: Option<Arc<StreamChunk>>,
    /// Readers see it, or will as soon as the step's effects are let go.
    pub(super) is_shown: bool,
}

impl UnstoredChunk {
    /// One that is durable.
    pub(super) fn saved(chunk: &StreamChunk) -> Self {
        let StreamChunk { first, messages, at, .. } = *chunk;
        Self { first, messages, at, bytes: chunk.bytes.len(), unsaved: None, is_shown: true }
    }

    /// One that is to be written.
    pub(super) fn unsaved(chunk: &Arc<StreamChunk>) -> Self {
        Self { is_shown: false, unsaved: Some(Arc::clone(chunk)), ..Self::saved(chunk) }
    }

    pub(super) fn last(&self) -> u64 {
        self.first + u64::from(self.messages) - 1
    }
}

impl UnstoredBlock {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), messages: 0, bytes: 0, is_closed: false }
    }

    pub(super) fn push(&mut self, chunk: UnstoredChunk) {
        self.messages += u64::from(chunk.messages);
        self.bytes += chunk.bytes as u64;
        self.chunks.push(chunk);
    }

    pub(super) fn first(&self) -> u64 {
        self.chunks.first().map_or(0, |chunk| chunk.first)
    }

    pub(super) fn last(&self) -> u64 {
        self.chunks.last().map_or(0, UnstoredChunk::last)
    }

    /// When its first message was received.
    pub(super) fn opened_at(&self) -> Timestamp {
        self.chunks.first().map_or(Timestamp::MAX, |chunk| chunk.at)
    }

    pub(super) fn is_saved(&self) -> bool {
        self.unsaved_from() == self.chunks.len()
    }

    /// The place of the first chunk that is not saved: all behind it are not.
    pub(super) fn unsaved_from(&self) -> usize {
        self.chunks.iter().rposition(|chunk| chunk.unsaved.is_none()).map_or(0, |saved| saved + 1)
    }

    /// As the rules see it, with so many messages and bytes more.
    pub(super) fn as_open(&self, messages: u32, bytes: usize) -> OpenBlock {
        let mut open = OpenBlock::new(self.first(), self.opened_at());
        open.add(u32::try_from(self.messages).unwrap_or(u32::MAX), self.bytes);
        open.add(messages, bytes as u64);
        open
    }
}

impl LoadedStream {
    pub(super) fn incarnation(&self) -> Incarnation {
        self.stream.incarnation
    }

    pub(super) fn mode(&self) -> SaveMode {
        self.stream.settings.save
    }

    /// Whether callers are answered before their messages are durable.
    pub(super) fn answers_at_once(&self) -> bool {
        answer_time(self.mode()) == AnswerTime::AtOnce
    }

    /// When its open block is closed.
    pub(super) fn block_bounds(&self) -> BlockBounds {
        settings::block_bounds(&self.stream.settings)
    }

    /// The block that is open, or could be.
    pub(super) fn open_block(&mut self) -> &mut UnstoredBlock {
        if self.blocks.back().is_none_or(|block| block.is_closed) {
            self.blocks.push_back(UnstoredBlock::new());
        }
        let last = self.blocks.len() - 1;
        &mut self.blocks[last]
    }

    /// Bytes of its messages, durable or not.
    pub(super) fn bytes(&self) -> u64 {
        self.tail.bytes + self.unsaved_bytes as u64
    }

    /// When the open block is closed for its age.
    pub(super) fn closes_at(&self) -> Option<Timestamp> {
        let open = self.blocks.back().filter(|block| !block.is_closed && !block.chunks.is_empty())?;
        Some(open.as_open(0, 0).closes_at(&self.block_bounds()))
    }

    /// When what is not saved is.
    pub(super) fn saves_at(&self) -> Option<Timestamp> {
        self.unsaved.due_at(&self.stream.settings)
    }

    /// When it goes out of memory, if nobody uses it.
    pub(super) fn unloads_at(&self) -> Timestamp {
        self.used_at.after(Duration::from_millis(self.stream.settings.unload_after_ms))
    }

    /// The first time at which something is to be done with it, be it in memory or not.
    pub(super) fn due_at(&self) -> Timestamp {
        self.due_with(self.moves_due())
    }

    /// The same, moves left out.
    pub(super) fn due_without_moves(&self) -> Timestamp {
        self.due_with(None)
    }

    fn due_with(&self, moves: Option<Timestamp>) -> Timestamp {
        let oldest = self.blocks.front().filter(|block| !block.chunks.is_empty());
        let unstored = oldest.map(|block| {
            if block.is_closed {
                block.opened_at()
            } else {
                block.as_open(0, 0).closes_at(&self.block_bounds())
            }
        });
        let sweeps = self.is_sweeping.then_some(Timestamp(0));
        [unstored, self.expires_at, sweeps, moves].into_iter().flatten().min().unwrap_or(Timestamp::MAX)
    }
}
