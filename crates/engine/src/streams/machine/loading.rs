//! The partition as an earlier process left it, and streams that are brought into memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ::streams::own_origins::begin_origin;
use ::streams::saving::UnsavedMessages;
use ::streams::tail::next_after_load;
use ::streams::{ExternalNumbers, FreeSpace};
use base::{Incarnation, PartitionId, Timestamp};
use records::{Op, Stream, StreamDue, StreamTail};
use store::{Store, StoreError, View};

use super::copies::CopySet;
use super::deleting::DeletedStream;
use super::loaded::{LoadedStream, UnreadIds, UnstoredBlock, UnstoredChunk};
use super::move_scheduler::MoveScheduler;
use super::moving::StreamMoves;
use super::stored_numbers::IdBytes;
use super::subscriptions::SubscriptionSet;
use super::{StreamPartition, StreamsStep};
use crate::kernel::hashed::HashMap;
use crate::kernel::idempotency::KeptAnswers;
use crate::kernel::pending_writes::PendingWrites;
use crate::streams::StreamName;
use crate::streams::append_run::AppendRuns;
use crate::streams::copy::CopyKey;
use crate::streams::effect::{StreamsEffect, TailChange};
use crate::streams::node_identity::NodeIdentity;
use crate::streams::running_copies::LoadedCopy;
use crate::streams::stream_metrics::StreamsNow;

/// Bytes of chunks that are read at a time.
const CHUNK_BYTES_PER_READ: usize = 1 << 20;
/// Bytes of chunks that are read at once, or one block: a storage that failed for long leaves many.
const UNSTORED_BYTES_PER_LOAD: usize = 8 << 20;
/// Rows of due streams that are read at a time.
const DUES_PER_READ: usize = usize::MAX;

impl StreamPartition {
    /// Loads a partition of streams that may hold so many bytes in memory. Of its streams only the
    /// times are loaded at which something is to be done with them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(store: &dyn Store, id: PartitionId, memory_max: usize) -> Result<Self, StoreError> {
        // Nothing of a stream is resident.
        let view = store.load(id)?;
        let head = view.head().clone();
        // Nothing was ever written: nothing is read.
        let (dues, streams, pushed, copies, answers) = match head.seq {
            0 => (BTreeSet::new(), 0, Vec::new(), Vec::new(), KeptAnswers::default()),
            _ => {
                let dues = view.streams_due(DUES_PER_READ)?;
                (
                    dues.into_iter().map(|due| (due.at, due.stream)).collect(),
                    view.count_streams()?,
                    pushed(&*view)?,
                    copies(&*view)?,
                    KeptAnswers::load(&*view)?,
                )
            }
        };
        Ok(Self {
            id,
            memory_max,
            durable: head.seq,
            head,
            names: HashMap::default(),
            loaded: BTreeMap::new(),
            deleted: PendingWrites::default(),
            texts: PendingWrites::default(),
            answers,
            pushed,
            copies,
            node: NodeIdentity::new(None, store.lineage()),
            dues,
            timers: BTreeSet::new(),
            to_settle: BTreeSet::new(),
            sweeping: BTreeMap::new(),
            runs: AppendRuns::default(),
            move_scheduler: MoveScheduler::default(),
            due_while_waiting: BTreeMap::new(),
            unfinished: BTreeSet::new(),
            streams,
            unsaved_bytes: 0,
            external_id_bytes: 0,
            unsaved_id_bytes: 0,
            evicted_at: Timestamp(0),
            is_closing: false,
            free_space: FreeSpace::Enough,
            now: StreamsNow { streams, ..StreamsNow::default() },
        })
    }

    /// The same on a disk that has so much room left.
    #[must_use]
    pub fn on_disk(self, free_space: FreeSpace) -> Self {
        Self { free_space, ..self }
    }

    /// The same on a node of this name; without, it is called by the lineage of its data.
    #[must_use]
    pub fn on_node(self, name: Option<&str>, store: &dyn Store) -> Self {
        Self { node: NodeIdentity::new(name, store.lineage()), ..self }
    }

    /// The same with a data directory that was given this number.
    #[must_use]
    pub fn marked(self, mark: Option<u64>) -> Self {
        Self { node: self.node.marked(mark), ..self }
    }

    /// How the partition stands, for the figures of all.
    #[must_use]
    pub fn stands(&self) -> super::StreamsNow {
        self.now
    }

    /// Subscriptions that were pushed when it was loaded, by stream and name.
    pub(crate) fn pushed(&self) -> &[(StreamName, Box<str>)] {
        &self.pushed
    }

    /// Copies that there were when it was loaded.
    pub(crate) fn copies(&self) -> &[LoadedCopy] {
        &self.copies
    }

    /// The stream of a name, in memory, if there is one.
    pub(super) fn load_stream(
        &mut self,
        name: &StreamName,
        step: &mut StreamsStep<'_>,
    ) -> Result<Option<Incarnation>, StoreError> {
        if let Some(stream) = self.names.get(name) {
            return Ok(Some(*stream));
        }
        if self.deleted.get(name).is_some() {
            return Ok(None);
        }
        let Some(stream) = step.fetch.view()?.stream_of(name.namespace(), name.stream())? else {
            return Ok(None);
        };
        let incarnation = stream.incarnation;
        self.bring_in(stream, step.now, step)?;
        Ok(Some(incarnation))
    }

    /// A stream that is not in memory is due since that time.
    pub(super) fn load_due(
        &mut self,
        at: Timestamp,
        stream: Incarnation,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(found) = step.fetch.view()?.stream(stream)? else {
            step.push(Op::DeleteStreamDue(StreamDue { at, stream }));
            return Ok(());
        };
        if found.deleted {
            self.sweeping.insert(stream, DeletedStream::found(found, at));
            return self.sweep_deleted(stream, step);
        }
        // Nobody uses it: once it is done it goes again.
        self.bring_in(found, Timestamp(0), step)
    }

    fn bring_in(
        &mut self,
        stream: Stream,
        used_at: Timestamp,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let view = step.fetch.view()?;
        let incarnation = stream.incarnation;
        let Some(tail) = view.stream_tail(incarnation)? else {
            unreachable!("a stream that is not deleted has a tail")
        };
        let name = StreamName::unchecked(&stream.namespace, &stream.name);
        let (next, blocks) = (tail.next, tail.blocks);
        let due = self.due_while_waiting.remove(&incarnation).unwrap_or(tail.due);
        let is_sweeping = leads_to_what_is_gone(view, &tail)?;
        let mut loaded = LoadedStream::new(stream, name.clone(), tail, used_at);
        loaded.load_unstored(view)?;
        loaded.subscriptions = SubscriptionSet::read(view, incarnation)?;
        loaded.copies = CopySet::read(view, incarnation)?;
        // Of a restored stream what comes next is called otherwise than what the node once had.
        let source = self.node.source(incarnation);
        loaded.is_row_dirty = begin_origin(&mut loaded.stream.origins, &source, next);
        loaded.expires_at = (blocks > 0).then_some(step.now);
        loaded.is_sweeping = is_sweeping;
        self.dues.remove(&(due, incarnation));
        loaded.look_for_moves(step.now);
        loaded.moves.waits = self.move_scheduler.is_waiting(incarnation);
        self.keep_in_memory(loaded);
        step.own.touched.insert(incarnation);
        let opened = TailChange::Opened { stream: incarnation, next };
        step.emit(StreamsEffect::Tail(self.id, name, opened));
        Ok(())
    }
}

/// Subscriptions that are pushed, by stream and name.
fn pushed(view: &dyn View) -> Result<Vec<(StreamName, Box<str>)>, StoreError> {
    let mut all = Vec::new();
    for subscription in view.pushed_subscriptions(usize::MAX)? {
        if let Some(stream) = view.stream(subscription.stream)? {
            all.push((StreamName::unchecked(&stream.namespace, &stream.name), subscription.name));
        }
    }
    Ok(all)
}

/// All copies.
fn copies(view: &dyn View) -> Result<Vec<LoadedCopy>, StoreError> {
    let mut all = Vec::new();
    for copy in view.stream_copies(usize::MAX)? {
        if let Some(stream) = view.stream(copy.stream)? {
            let stream = StreamName::unchecked(&stream.namespace, &stream.name);
            let key = CopyKey { stream, copy: copy.name };
            all.push(LoadedCopy { key, runs: !copy.paused, reports: copy.reports });
        }
    }
    Ok(all)
}

/// Whether there are rows that lead to messages which are gone.
fn leads_to_what_is_gone(view: &dyn View, tail: &StreamTail) -> Result<bool, StoreError> {
    let Some(gone) = tail.first.checked_sub(1).filter(|gone| *gone > 0) else { return Ok(false) };
    let has_spans = !view.spans_up_to(tail.stream, gone, 1)?.is_empty();
    Ok(has_spans || !view.texts_up_to(tail.stream, gone, 1)?.is_empty())
}

impl LoadedStream {
    /// A stream without anything that is not stored.
    pub(super) fn new(stream: Stream, name: StreamName, tail: StreamTail, used_at: Timestamp) -> Self {
        Self {
            stream,
            name,
            is_tail_dirty: false,
            // Those before may have been given to callers.
            next: next_after_load(&tail),
            last: tail.next - 1,
            last_at: tail.last_at,
            writer: None,
            blocks: VecDeque::new(),
            unread: Some(UnreadIds { from: 0, until: tail.next }),
            tail,
            numbers: ExternalNumbers::default(),
            texts: HashMap::default(),
            text_bytes: 0,
            counted_ids: IdBytes::default(),
            told_id_bytes: 0,
            waiting: Vec::new(),
            unkept: HashMap::default(),
            unkept_bytes: 0,
            unsaved: UnsavedMessages::default(),
            unsaved_bytes: 0,
            written: 0,
            storing: None,
            retry: None,
            freed_bytes: 0,
            expires_at: None,
            moves: StreamMoves::default(),
            subscriptions: SubscriptionSet::default(),
            copies: CopySet::default(),
            is_row_dirty: false,
            is_urgent: false,
            is_sweeping: false,
            swept: 0,
            used_at,
            timer: None,
        }
    }

    /// Brings in what is durable and in no stored block, as blocks: where one ended before is not
    /// known, and does not matter. Of very much the first blocks alone; the others follow when
    /// these are stored.
    pub(super) fn load_unstored(&mut self, view: &dyn View) -> Result<(), StoreError> {
        let Some(UnreadIds { mut from, until }) = self.unread.take() else { return Ok(()) };
        let (bounds, mut found, mut bytes) = (self.block_bounds(), VecDeque::<UnstoredBlock>::new(), 0);
        loop {
            let chunks = view.stream_chunks(self.incarnation(), from..until, CHUNK_BYTES_PER_READ)?;
            if chunks.is_empty() {
                break;
            }
            for chunk in &chunks {
                from = chunk.first + u64::from(chunk.messages);
                bytes += chunk.bytes.len();
                let goes_on =
                    |open: &&mut UnstoredBlock| open.as_open(0, 0).closes(&bounds, chunk.at).is_none();
                match found.back_mut().filter(goes_on) {
                    Some(open) => open.push(UnstoredChunk::saved(chunk)),
                    None => {
                        found.back_mut().into_iter().for_each(|full| full.is_closed = true);
                        let mut open = UnstoredBlock::new();
                        open.push(UnstoredChunk::saved(chunk));
                        found.push_back(open);
                    }
                }
            }
            if bytes >= UNSTORED_BYTES_PER_LOAD && found.len() > 1 {
                // It may go on with what is not read.
                let open = found.pop_back();
                self.unread = open.map(|open| UnreadIds { from: open.first(), until });
                break;
            }
        }
        if !self.blocks.is_empty() {
            found.back_mut().into_iter().for_each(|followed| followed.is_closed = true);
        }
        found.append(&mut self.blocks);
        self.blocks = found;
        Ok(())
    }

    /// Brings in the next blocks that are not stored, where all are that were.
    pub(super) fn load_next_unstored(&mut self, view: &dyn View) -> Result<(), StoreError> {
        let Some(UnreadIds { until, .. }) = self.unread else { return Ok(()) };
        match self.blocks.front().is_none_or(|block| block.first() >= until) {
            true => self.load_unstored(view),
            false => Ok(()),
        }
    }
}
