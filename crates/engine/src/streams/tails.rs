//! The ends of streams that are in memory, as readers see them: what callers were answered, and
//! nothing else. Effects change them, so they are never ahead of what may be shown.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use base::{Incarnation, PartitionId};
use records::StreamChunk;
use tokio::sync::Notify;

use super::StreamName;
use super::effect::TailChange;
use super::handler_log::HandlerLog;
use crate::kernel::hashed::HashMap;

/// What a chunk takes beside its messages.
const CHUNK_BYTES: usize = 128;

/// The ends of all streams that are in memory.
#[derive(Debug)]
pub(crate) struct OpenTails {
    /// Bytes of messages that they hold at most, beside those that are not durable.
    bytes_max: usize,
    tails: RwLock<HashMap<StreamName, (PartitionId, Arc<OpenTail>)>>,
    recent: Mutex<RecentChunks>,
    waiting: Mutex<HashMap<StreamName, (usize, Arc<Notify>)>>,
    pub(super) handled: HandlerLog,
}

/// Durable chunks in the order in which they became so, those of streams that left memory too: they
/// go when it is their turn.
#[derive(Debug, Default)]
struct RecentChunks {
    order: VecDeque<(Weak<OpenTail>, u64, usize)>,
    bytes: usize,
}

/// The end of a stream.
#[derive(Debug)]
pub(crate) struct OpenTail {
    pub(super) stream: Incarnation,
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
    bytes: usize,
    /// Bytes of memory of external ids.
    id_bytes: usize,
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
            handled: HandlerLog::default(),
        }
    }

    pub(super) fn get(&self, name: &StreamName) -> Option<Arc<OpenTail>> {
        let tails = self.tails.read().unwrap_or_else(PoisonError::into_inner);
        tails.get(name).map(|(_, tail)| Arc::clone(tail))
    }

    /// A machine was loaded anew: what its readers saw that is not durable never was there.
    pub(super) fn partition_loaded(&self, partition: PartitionId) {
        let mut tails = self.tails.write().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<StreamName> =
            tails.iter().filter(|(_, (of, _))| *of == partition).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| drop(tails.remove(name)));
        drop(tails);
        gone.iter().for_each(|name| self.tell(name));
    }

    pub(super) fn change(&self, partition: PartitionId, name: &StreamName, change: TailChange) {
        match change {
            TailChange::Opened { stream, next } => {
                let end = TailEnd { start: next, next, saved: next, queued: next, ..TailEnd::default() };
                let tail = Arc::new(OpenTail { stream, end: Mutex::new(end) });
                let mut tails = self.tails.write().unwrap_or_else(PoisonError::into_inner);
                tails.insert(name.clone(), (partition, tail));
                drop(tails);
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
                    tail.locked().id_bytes = bytes;
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
                self.tails.write().unwrap_or_else(PoisonError::into_inner).remove(name);
                self.tell(name);
            }
        }
    }

    fn grew(&self, tail: &Arc<OpenTail>, chunk: Arc<StreamChunk>) {
        let (first, bytes) = (chunk.first, CHUNK_BYTES + chunk.bytes.len());
        let mut end = tail.locked();
        end.next = first + u64::from(chunk.messages);
        end.bytes += bytes;
        end.chunks.push_back(chunk);
    }

    /// What is durable may leave memory, when it is its turn.
    fn saved(&self, tail: &Arc<OpenTail>, saved: u64) {
        let newly = tail.take_saved(saved);
        let mut recent = self.recent();
        for (first, bytes) in newly {
            recent.bytes += bytes;
            recent.order.push_back((Arc::downgrade(tail), first, bytes));
        }
        drop(recent);
        self.shrink();
    }

    /// Lets go of the oldest chunks that are durable, where all hold too much.
    fn shrink(&self) {
        let mut recent = self.recent();
        while recent.bytes > self.bytes_max {
            let Some((tail, first, bytes)) = recent.order.front().cloned() else { return };
            if let Some(tail) = tail.upgrade() {
                tail.let_first_go(first);
            }
            recent.order.pop_front();
            recent.bytes -= bytes;
        }
    }

    fn recent(&self) -> MutexGuard<'_, RecentChunks> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever waits for a stream.
    fn tell(&self, name: &StreamName) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, told)) = waiting.get(name) {
            told.notify_waiters();
        }
    }

    /// Where to wait for a stream to change.
    pub(super) fn wait(&self, name: &StreamName) -> TailWaiter<'_> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut waiting = self.tails.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = waiting.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.name);
            }
        }
    }
}

impl OpenTail {
    fn locked(&self) -> MutexGuard<'_, TailEnd> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chunks that are durable and were not before: their first messages, and their bytes.
    fn take_saved(&self, saved: u64) -> Vec<(u64, usize)> {
        let mut end = self.locked();
        end.saved = end.saved.max(saved);
        let (from, until) = (end.queued, end.saved);
        let is_saved = |chunk: &&Arc<StreamChunk>| chunk.first + u64::from(chunk.messages) <= until;
        // Far fewer than there are in memory.
        let newly = end.chunks.iter().rev().take_while(|chunk| chunk.first >= from).filter(is_saved);
        let mut newly: Vec<_> = newly.map(|chunk| (chunk.first, CHUNK_BYTES + chunk.bytes.len())).collect();
        newly.reverse();
        end.queued = until;
        newly
    }

    /// Lets go of the first chunk, if it is this one.
    fn let_first_go(&self, first: u64) {
        let mut end = self.locked();
        let Some(chunk) = end.chunks.pop_front_if(|chunk| chunk.first == first) else { return };
        end.bytes -= CHUNK_BYTES + chunk.bytes.len();
        // Ids that a crash left out behind it are nobody's.
        end.start = chunk.first + u64::from(chunk.messages);
    }

    pub(super) fn next(&self) -> u64 {
        self.locked().next
    }

    /// All before is durable.
    pub(super) fn saved(&self) -> u64 {
        self.locked().saved
    }

    /// Messages from `from` on, until they hold so many bytes.
    pub(super) fn read(&self, from: u64, bytes_max: usize) -> TailRead {
        let end = self.locked();
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
        let end = self.locked();
        let unsaved = end.chunks.iter().rev().take_while(|chunk| chunk.first >= end.saved);
        let unsaved = unsaved.fold((0, 0), |(messages, bytes), chunk| {
            (messages + u64::from(chunk.messages), bytes + chunk.bytes.len() as u64)
        });
        TailStands { next: end.next, bytes: end.bytes + end.id_bytes, unsaved }
    }
}
