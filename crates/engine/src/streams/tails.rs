//! The ends of streams that are in memory, as readers see them: what callers were answered, and
//! nothing else. Effects change them, so they are never ahead of what may be shown.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};

use base::locks::{locked, read_locked, write_locked};
use base::{Incarnation, PartitionId, Timestamp};
use records::StreamChunk;
use tokio::sync::Notify;

use super::StreamName;
use super::effect::TailChange;
use super::handler_log::{HandlerLog, UnloadedBlocks};
use crate::kernel::hashed::HashMap;

/// What a chunk takes beside its messages.
const CHUNK_BYTES: usize = 128;

/// Bytes of memory that a chunk counts for.
fn bytes_of(chunk: &StreamChunk) -> usize {
    CHUNK_BYTES + chunk.bytes.len()
}

/// The ends of all streams that are in memory.
#[derive(Debug)]
pub(crate) struct OpenTails {
    /// Bytes of messages that they hold at most, beside those that are not durable.
    bytes_max: usize,
    tails: RwLock<HashMap<StreamName, (PartitionId, Arc<OpenTail>)>>,
    recent: Mutex<RecentChunks>,
    waiting: Mutex<HashMap<StreamName, (usize, Arc<Notify>)>>,
    /// Told when a block is stored whose messages are here.
    pub(super) stored: Notify,
    pub(super) handled: HandlerLog,
}

/// Durable chunks in the order in which they became so. Chunks that left memory before their turn
/// stay until most are such, or their turn comes.
#[derive(Debug, Default)]
struct RecentChunks {
    order: VecDeque<RecentChunk>,
    bytes: usize,
    /// Chunks in `order` that left memory before their turn: they are in `bytes` no more.
    unloaded: usize,
}

#[derive(Clone, Debug)]
struct RecentChunk {
    tail: Weak<OpenTail>,
    /// The tail's, which may be gone before this.
    unloaded_to: Arc<AtomicU64>,
    first: u64,
    bytes: usize,
}

/// The end of a stream.
#[derive(Debug)]
pub(crate) struct OpenTail {
    pub(super) stream: Incarnation,
    /// All before left memory: with their time, or with the stream.
    unloaded_to: Arc<AtomicU64>,
    end: Mutex<TailEnd>,
}

#[derive(Debug, Default)]
struct TailEnd {
    /// What is before is read from the store.
    start: u64,
    /// Behind the last message.
    next: u64,
    /// All before is durable.
    saved: u64,
    /// Chunks before are among the recent ones.
    queued: u64,
    chunks: VecDeque<Arc<StreamChunk>>,
    /// Blocks that are stored and have messages here: the last one of each, and the block's bytes.
    stored: VecDeque<(u64, u64)>,
    bytes: usize,
    /// Bytes of memory of external ids.
    id_bytes: usize,
    /// The stream has left memory: nothing here counts, but readers may have it yet.
    has_left: bool,
}

/// How the end of a stream stands.
#[derive(Clone, Debug)]
pub(super) struct TailStands {
    /// Behind the last message.
    pub(super) next: u64,
    /// Bytes of it in memory.
    pub(super) bytes: usize,
    /// Messages and bytes of these that are not durable.
    pub(super) unsaved: (u64, u64),
}

/// The messages of the end of a stream from somewhere on.
#[derive(Debug)]
pub(super) struct TailRead {
    /// What is before is read from the store.
    pub(super) start: u64,
    pub(super) chunks: Vec<Arc<StreamChunk>>,
}

impl OpenTails {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            tails: RwLock::default(),
            recent: Mutex::default(),
            waiting: Mutex::default(),
            stored: Notify::new(),
            handled: HandlerLog::default(),
        }
    }

    pub(super) fn get(&self, name: &StreamName) -> Option<Arc<OpenTail>> {
        let tails = read_locked(&self.tails);
        tails.get(name).map(|(_, tail)| Arc::clone(tail))
    }

    /// A machine was loaded anew: what its readers saw that is not durable never was there.
    pub(super) fn partition_loaded(&self, partition: PartitionId) {
        let mut tails = write_locked(&self.tails);
        let gone: Vec<_> = tails.extract_if(|_, (of, _)| *of == partition).collect();
        drop(tails);
        for (name, (_, tail)) in &gone {
            self.left(tail);
            self.tell(name);
        }
    }

    pub(super) fn change(&self, partition: PartitionId, name: &StreamName, change: TailChange) {
        match change {
            TailChange::Opened { stream, next } => {
                let end = TailEnd { start: next, next, saved: next, queued: next, ..TailEnd::default() };
                let (unloaded_to, end) = (Arc::default(), Mutex::new(end));
                let tail = Arc::new(OpenTail { stream, unloaded_to, end });
                let mut tails = write_locked(&self.tails);
                let before = tails.insert(name.clone(), (partition, tail));
                drop(tails);
                before.iter().for_each(|(_, tail)| self.left(tail));
                self.tell(name);
            }
            TailChange::Grew(chunk) => {
                if let Some(tail) = self.get(name) {
                    self.grew(&tail, chunk);
                }
                self.tell(name);
            }
            TailChange::Saved(saved) => {
                if let Some(tail) = self.get(name) {
                    self.saved(&tail, saved);
                }
                // Copies wait for what is durable.
                self.tell(name);
            }
            TailChange::Ids(bytes) => {
                if let Some(tail) = self.get(name) {
                    locked(&tail.end).id_bytes = bytes;
                }
            }
            TailChange::Stored { last, bytes } => {
                if let Some(tail) = self.get(name) {
                    locked(&tail.end).stored.push_back((last, bytes));
                    self.handled.unloaded(tail.stream, tail.take_unloaded());
                    self.stored.notify_one();
                }
            }
            TailChange::MoveBegan(to) => {
                if let Some(tail) = self.get(name) {
                    self.handled.began(tail.stream, to);
                }
            }
            TailChange::Handled(handled) => {
                if let Some(tail) = self.get(name) {
                    self.handled.add(tail.stream, handled);
                }
            }
            TailChange::Closed => {
                let closed = write_locked(&self.tails).remove(name);
                if let Some((_, tail)) = closed {
                    self.left(&tail);
                    let unloaded = locked(&tail.end).take_unloaded_before(u64::MAX);
                    self.handled.unloaded(tail.stream, unloaded);
                }
                self.tell(name);
            }
        }
    }

    /// A stream has left memory, with all that it had there.
    fn left(&self, tail: &OpenTail) {
        let mut recent = locked(&self.recent);
        recent.took_out(tail.leave());
    }

    fn grew(&self, tail: &Arc<OpenTail>, chunk: Arc<StreamChunk>) {
        let (first, bytes) = (chunk.first, bytes_of(&chunk));
        let mut end = locked(&tail.end);
        end.next = first + u64::from(chunk.messages);
        end.bytes += bytes;
        end.chunks.push_back(chunk);
    }

    /// What is durable may leave memory, when it is its turn.
    fn saved(&self, tail: &Arc<OpenTail>, saved: u64) {
        let newly = tail.take_saved(saved);
        let mut recent = locked(&self.recent);
        for (first, bytes) in newly {
            recent.bytes += bytes;
            let (tail, unloaded_to) = (Arc::downgrade(tail), Arc::clone(&tail.unloaded_to));
            recent.order.push_back(RecentChunk { tail, unloaded_to, first, bytes });
        }
        drop(recent);
        self.shrink();
    }

    /// Lets go of the oldest chunks that are durable, where all hold too much.
    fn shrink(&self) {
        let mut recent = locked(&self.recent);
        while recent.bytes > self.bytes_max {
            let Some(oldest) = recent.order.pop_front() else { return };
            if oldest.is_unloaded() {
                recent.unloaded -= 1;
                continue;
            }
            if let Some(tail) = oldest.tail.upgrade() {
                tail.let_first_go(oldest.first);
                self.handled.unloaded(tail.stream, tail.take_unloaded());
            }
            recent.bytes -= oldest.bytes;
        }
    }

    /// Lets go of chunks of stored blocks that are in memory for longer than their stream says.
    /// `kept_since` says from when on chunks of a stream are kept.
    pub(super) fn unload(&self, mut kept_since: impl FnMut(Incarnation) -> Timestamp) {
        for tail in self.with_stored() {
            // With all of a stream's chunks in one piece: what one counts the other must see.
            let mut recent = locked(&self.recent);
            recent.took_out(tail.unload_before(kept_since(tail.stream)));
            drop(recent);
            self.handled.unloaded(tail.stream, tail.take_unloaded());
        }
    }

    /// The streams of which messages of stored blocks are in memory.
    pub(super) fn streams_with_stored(&self) -> BTreeSet<Incarnation> {
        self.with_stored().iter().map(|tail| tail.stream).collect()
    }

    /// Whether there are chunks that time may have leave memory.
    pub(super) fn has_stored(&self) -> bool {
        let tails = read_locked(&self.tails);
        tails.values().any(|(_, tail)| tail.has_stored())
    }

    fn with_stored(&self) -> Vec<Arc<OpenTail>> {
        let tails = read_locked(&self.tails);
        tails.values().map(|(_, tail)| tail).filter(|tail| tail.has_stored()).cloned().collect()
    }

    /// Wakes whoever waits for a stream.
    fn tell(&self, name: &StreamName) {
        let waiting = locked(&self.waiting);
        if let Some((_, told)) = waiting.get(name) {
            told.notify_waiters();
        }
    }

    /// Where to wait for a stream to change.
    pub(super) fn wait(&self, name: &StreamName) -> TailWaiter<'_> {
        let mut waiting = locked(&self.waiting);
        let (count, told) = waiting.entry(name.clone()).or_default();
        *count += 1;
        TailWaiter { tails: self, name: name.clone(), told: Arc::clone(told) }
    }
}

/// Somebody who waits for a stream, until it is dropped.
pub(super) struct TailWaiter<'a> {
    tails: &'a OpenTails,
    name: StreamName,
    pub(super) told: Arc<Notify>,
}

impl Drop for TailWaiter<'_> {
    fn drop(&mut self) {
        let mut waiting = locked(&self.tails.waiting);
        if let Some((count, _)) = waiting.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.name);
            }
        }
    }
}

impl RecentChunks {
    /// Chunks left memory before their turn: they count no more.
    fn took_out(&mut self, (chunks, bytes): (usize, usize)) {
        self.bytes -= bytes;
        self.unloaded += chunks;
        if 2 * self.unloaded > self.order.len() {
            self.order.retain(|chunk| !chunk.is_unloaded());
            self.unloaded = 0;
        }
    }
}

impl RecentChunk {
    /// Whether it left memory before its turn.
    fn is_unloaded(&self) -> bool {
        self.first < self.unloaded_to.load(Ordering::Acquire)
    }
}

impl TailEnd {
    fn pop_first(&mut self, is_it: impl FnOnce(&StreamChunk) -> bool) -> Option<usize> {
        let chunk = self.chunks.pop_front_if(|chunk| is_it(chunk))?;
        let bytes = bytes_of(&chunk);
        self.bytes -= bytes;
        // Ids that a crash left out behind it are nobody's.
        self.start = chunk.first + u64::from(chunk.messages);
        Some(bytes)
    }

    fn take_unloaded_before(&mut self, start: u64) -> UnloadedBlocks {
        let mut unloaded = UnloadedBlocks::default();
        while let Some((_, bytes)) = self.stored.pop_front_if(|(last, _)| *last < start) {
            unloaded.add(bytes);
        }
        unloaded
    }
}

impl OpenTail {
    /// Chunks that are durable and were not before: their first messages and their bytes.
    fn take_saved(&self, saved: u64) -> Vec<(u64, usize)> {
        let mut end = locked(&self.end);
        end.saved = end.saved.max(saved);
        let (from, until) = (end.queued, end.saved);
        let is_saved = |chunk: &&Arc<StreamChunk>| chunk.first + u64::from(chunk.messages) <= until;
        // Far fewer than there are in memory.
        let newly = end.chunks.iter().rev().take_while(|chunk| chunk.first >= from).filter(is_saved);
        let newly = newly.map(|chunk| (chunk.first, bytes_of(chunk)));
        let mut newly: Vec<_> = newly.collect();
        newly.reverse();
        end.queued = until;
        newly
    }

    /// Lets go of the first chunk, if it is this one.
    fn let_first_go(&self, first: u64) {
        locked(&self.end).pop_first(|chunk| chunk.first == first);
    }

    /// Lets go of the first chunks that are of stored blocks and were received before a time: how
    /// many chunks and bytes.
    fn unload_before(&self, since: Timestamp) -> (usize, usize) {
        let mut end = locked(&self.end);
        if end.has_left {
            return (0, 0);
        }
        let stored = end.stored.back().map_or(0, |(last, _)| *last);
        let queued = end.queued;
        let (mut chunks, mut bytes) = (0, 0);
        let goes = |chunk: &StreamChunk| chunk.first <= stored && chunk.first < queued && chunk.at < since;
        while let Some(gone) = end.pop_first(goes) {
            (chunks, bytes) = (chunks + 1, bytes + gone);
        }
        self.unloaded_to.store(end.start, Ordering::Release);
        (chunks, bytes)
    }

    /// Nothing of it counts any more. Chunks and bytes that have counted.
    fn leave(&self) -> (usize, usize) {
        let mut end = locked(&self.end);
        end.has_left = true;
        self.unloaded_to.store(u64::MAX, Ordering::Release);
        let counted = end.chunks.iter().take_while(|chunk| chunk.first < end.queued);
        counted.fold((0, 0), |(chunks, bytes), chunk| (chunks + 1, bytes + bytes_of(chunk)))
    }

    fn has_stored(&self) -> bool {
        !locked(&self.end).stored.is_empty()
    }

    /// Blocks of which nothing is here any more.
    fn take_unloaded(&self) -> UnloadedBlocks {
        let mut end = locked(&self.end);
        let start = end.start;
        end.take_unloaded_before(start)
    }

    /// Whether messages up to this one are here, or some of them.
    pub(super) fn has_before(&self, last: u64) -> bool {
        let end = locked(&self.end);
        !end.chunks.is_empty() && end.start <= last
    }

    pub(super) fn next(&self) -> u64 {
        locked(&self.end).next
    }

    /// All before is durable.
    pub(super) fn saved(&self) -> u64 {
        locked(&self.end).saved
    }

    /// Messages from `from` on, until they hold so many bytes.
    pub(super) fn read(&self, from: u64, bytes_max: usize) -> TailRead {
        let end = locked(&self.end);
        let at = end.chunks.partition_point(|chunk| chunk.first + u64::from(chunk.messages) <= from);
        let mut bytes = 0;
        let within = |chunk: &&Arc<StreamChunk>| {
            let is_within = bytes < bytes_max;
            bytes += chunk.bytes.len();
            is_within
        };
        let chunks = end.chunks.range(at..).take_while(within).cloned().collect();
        TailRead { start: end.start, chunks }
    }

    pub(super) fn stands(&self) -> TailStands {
        let end = locked(&self.end);
        let unsaved = end.chunks.iter().rev().take_while(|chunk| chunk.first >= end.saved);
        let unsaved = unsaved.fold((0, 0), |(messages, bytes), chunk| {
            (messages + u64::from(chunk.messages), bytes + chunk.bytes.len() as u64)
        });
        TailStands { next: end.next, bytes: end.bytes + end.id_bytes, unsaved }
    }
}

#[cfg(test)]
mod tests;
