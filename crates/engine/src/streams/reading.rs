//! Reading a stream: blocks, then what is durable and in no block yet, then what is in memory.
//!
//! The end in memory is looked at first, and the store afterwards: whatever leaves memory is in the
//! store before. So nothing between both is missed.

mod blocks;
mod first_messages;
pub(super) mod subscriptions;

use std::sync::Arc;
use std::time::Instant;

use ::streams::tail::skipped;
use ::streams::{BadMessage, MessageReader, StreamMessage};
use base::{Incarnation, PartitionId, Problem};
use records::{LOCAL_STORAGE, StreamChunk, StreamTail};
use store::{Store, View};
use tracing::error;

use super::context::StreamsContext;
use super::machine::unknown_stream;
use super::tails::OpenTail;
use super::{AppendedMessage, NewMessage, OwnedMessage, StreamName, StreamPage, StreamRead};
use crate::queries::unreadable;

/// Bytes of files and chunks that one page looks at, at most: then it ends where it has come to.
const LOOKED_AT_BYTES_MAX: usize = 64 << 20;
/// Blocks that one page reads.
const BLOCKS_PER_PAGE: usize = 1_024;
/// Blocks of which one page reads the row.
const ROWS_PER_PAGE: usize = 100_000;
/// How often one page asks other storages than the local one, which answer slowly.
const READS_ELSEWHERE_PER_PAGE: usize = 64;
/// How often a page is begun where blocks go meanwhile.
const TURNS: usize = 4;
/// Bytes of chunks that are read at a time.
const CHUNK_BYTES_PER_READ: usize = 1 << 20;
/// The same for a page, which may want few messages, at first; then twice as many each time.
const CHUNK_BYTES_FIRST_READ: usize = 64 << 10;

/// What reading a stream needs.
#[derive(Clone, Copy)]
pub(super) struct StreamReader<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) context: &'a StreamsContext,
}

/// A stream as it stands for a reader.
pub(super) struct FoundStream {
    pub(super) stream: Incarnation,
    pub(super) open: Option<Arc<OpenTail>>,
    pub(super) view: Box<dyn View>,
    pub(super) tail: StreamTail,
    /// Behind the last message that may be seen.
    pub(super) next: u64,
}

impl StreamReader<'_> {
    /// The stream of a name.
    pub(super) fn find(&self, name: &StreamName) -> Result<FoundStream, Problem> {
        let partition = name.partition(self.store.partitions());
        let open = self.context.tails.get(name);
        let next = open.as_ref().map(|open| open.next());
        let view = self.store.view(partition).map_err(unreadable)?;
        let found = view.stream_of(name.namespace(), name.stream()).map_err(unreadable)?;
        let stream = found.ok_or_else(|| unknown_stream(name))?.incarnation;
        // Another one of that name meanwhile: what is durable of it is what there is.
        let open = open.filter(|open| open.stream == stream);
        let tail = view.stream_tail(stream).map_err(unreadable)?.ok_or_else(|| unknown_stream(name))?;
        let next = next.filter(|_| open.is_some()).unwrap_or(tail.next);
        Ok(FoundStream { stream, open, view, tail, next })
    }

    /// The stream of a name, and how many messages are kept of it, or more: what is saved while it
    /// is looked at counts twice.
    pub(super) fn find_counted(&self, name: &StreamName) -> Result<(FoundStream, u64), Problem> {
        let unsaved = self.context.tails.get(name).map_or(0, |open| open.stands().unsaved.0);
        let found = self.find(name)?;
        let kept = found.tail.messages + unsaved;
        Ok((found, kept))
    }

    /// Messages, oldest first.
    pub(super) fn read(&self, name: &StreamName, query: &StreamRead) -> Result<StreamPage, Problem> {
        for _ in 0..TURNS {
            let found = self.find(name)?;
            let first = query.after.saturating_add(1);
            let mut page = PageMaker::new(query, first.max(found.tail.first));
            if page.next < found.next {
                self.fill(&found, &mut page)?;
            }
            if page.has_lost && page.items.is_empty() {
                // A block went meanwhile: what is left is looked at anew.
                continue;
            }
            let is_end = page.next >= found.next;
            return Ok(StreamPage {
                // Nothing is behind what is to come; more may have come since the end was looked
                // at.
                next_after: query.after.max(page.next - 1),
                skipped: skipped(&found.tail, query.after),
                items: page.items,
                is_end,
            });
        }
        Err(Problem::unavailable(format!(
            "the oldest messages of stream {name} go faster than they are read"
        )))
    }

    fn fill(&self, found: &FoundStream, page: &mut PageMaker<'_>) -> Result<(), Problem> {
        let in_memory = |from| found.open.as_ref().map(|open| open.read(from, LOOKED_AT_BYTES_MAX));
        let start = in_memory(page.next).map_or(u64::MAX, |read| read.start);
        if page.next < start {
            self.blocks(found, page)?;
            if !page.has_lost {
                self.chunks(found, page)?;
            }
        }
        // What left memory since the store was looked at is not read: whoever reads on finds it.
        let read = in_memory(page.next).filter(|read| page.next >= read.start && !page.has_lost);
        for chunk in read.into_iter().flat_map(|read| read.chunks) {
            if page.is_full() {
                break;
            }
            self.chunk(&chunk, page)?;
        }
        Ok(())
    }

    /// Durable messages that are in no block.
    fn chunks(&self, found: &FoundStream, page: &mut PageMaker<'_>) -> Result<(), Problem> {
        let mut bytes_max = CHUNK_BYTES_FIRST_READ;
        while !page.is_full() {
            let read = found.view.stream_chunks(found.stream, page.next..u64::MAX, bytes_max);
            bytes_max = (2 * bytes_max).min(CHUNK_BYTES_PER_READ);
            let chunks = read.map_err(unreadable)?;
            if chunks.is_empty() {
                if found.open.is_none() {
                    page.next = page.next.max(found.next);
                }
                return Ok(());
            }
            for chunk in chunks {
                if page.is_full() {
                    break;
                }
                self.chunk(&chunk, page)?;
            }
        }
        Ok(())
    }

    fn chunk(&self, chunk: &StreamChunk, page: &mut PageMaker<'_>) -> Result<(), Problem> {
        page.chunk(chunk).map_err(|error| self.damaged(chunk.stream, &error))
    }

    /// One message.
    pub(super) fn message(&self, stream: &StreamName, id: u64) -> Result<OwnedMessage, Problem> {
        let found = self.find(stream)?;
        let unknown = || Problem::unknown("unknown_message", format!("stream {stream} has no message {id}"));
        if id == 0 || id >= found.next {
            return Err(unknown());
        }
        if id < found.tail.first {
            let detail =
                format!("message {id} is gone: the oldest of stream {stream} is {}", found.tail.first);
            return Err(Problem::unknown("message_gone", detail));
        }
        drop(found);
        let query =
            StreamRead { after: id - 1, from: None, segments: Vec::new(), limit: 1, bytes_max: usize::MAX };
        let page = self.read(stream, &query)?;
        page.items.into_iter().find(|message| message.id == id).ok_or_else(unknown)
    }

    /// A line in the log, and what a caller is told.
    fn damaged(&self, stream: Incarnation, error: &dyn std::fmt::Display) -> Problem {
        self.unreadable_in(LOCAL_STORAGE, stream, error)
    }

    /// The same of a storage.
    fn unreadable_in(&self, storage: &str, stream: Incarnation, error: &dyn std::fmt::Display) -> Problem {
        let partition = PartitionId::of_streams(stream.partition_index());
        let row = self.store.view(partition).and_then(|view| view.stream(stream)).ok().flatten();
        let name = row.map(|row| format!("{}/{}", row.namespace, row.name));
        if let Some(left_out) = self.context.unreadable.take((), Instant::now()) {
            let name = name.as_deref();
            error!(name, stream = stream.0, storage, %error, left_out, "messages of a stream cannot be read");
        }
        let of = name.map(|name| format!(" {name}")).unwrap_or_default();
        let detail = format!("storage {storage:?}: messages of stream{of} cannot be read: {error}");
        Problem::new(503, "storage_unavailable", detail)
    }
}

impl StreamsContext {
    /// Messages, oldest first, for whoever runs partitions without an engine.
    ///
    /// # Errors
    /// 404 `unknown_stream`, 503 `storage_unavailable`.
    pub fn read(
        &self,
        store: &dyn Store,
        name: &StreamName,
        query: &StreamRead,
    ) -> Result<StreamPage, Problem> {
        StreamReader { store, context: self }.read(name, query)
    }

    /// The first messages of duplicates, for whoever runs partitions without an engine.
    ///
    /// # Errors
    /// 404 `unknown_stream`, 503 `storage_unavailable`.
    pub fn first_messages(
        &self,
        store: &dyn Store,
        name: &StreamName,
        duplicates: &[NewMessage],
    ) -> Result<Vec<AppendedMessage>, Problem> {
        let firsts = StreamReader { store, context: self }.first_messages(name, duplicates)?;
        Ok(firsts.into_iter().map(|first| first.appended).collect())
    }
}

/// Gathers the messages of a page.
pub(super) struct PageMaker<'q> {
    query: &'q StreamRead,
    items: Vec<OwnedMessage>,
    bytes: usize,
    looked_at_bytes: usize,
    /// How often other storages were asked.
    read_elsewhere: usize,
    /// The id that is looked at next.
    pub(super) next: u64,
    is_full: bool,
    /// A block was gone when it was to be read: what is behind it is not looked at.
    has_lost: bool,
}

impl<'q> PageMaker<'q> {
    fn new(query: &'q StreamRead, next: u64) -> Self {
        let is_full = query.limit == 0;
        Self {
            query,
            items: Vec::new(),
            bytes: 0,
            looked_at_bytes: 0,
            read_elsewhere: 0,
            next,
            is_full,
            has_lost: false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Another storage was asked; too many times end the page.
    pub(super) fn read_elsewhere(&mut self) {
        self.read_elsewhere += 1;
        self.is_full |= self.read_elsewhere >= READS_ELSEWHERE_PER_PAGE;
    }

    /// Bytes were read; too many of them end the page.
    pub(super) fn looked_at(&mut self, bytes: usize) {
        self.looked_at_bytes += bytes;
        self.is_full |= self.looked_at_bytes >= LOOKED_AT_BYTES_MAX;
    }

    fn chunk(&mut self, chunk: &StreamChunk) -> Result<(), BadMessage> {
        for message in MessageReader::of(chunk) {
            if self.is_full {
                return Ok(());
            }
            self.message(&message?, &chunk.bytes);
        }
        self.looked_at(chunk.bytes.len());
        Ok(())
    }

    /// Takes a message that lies in `all`, if it is asked for.
    pub(super) fn message(&mut self, message: &StreamMessage<'_>, all: &Arc<[u8]>) {
        if message.id < self.next || self.is_full {
            return;
        }
        let is_wanted = self.query.from.is_none_or(|from| message.received_at >= from)
            && (self.query.segments.is_empty()
                || message.segment.is_some_and(|of| self.query.segments.iter().any(|one| **one == *of)));
        if is_wanted {
            let mut owned = OwnedMessage::of(message, all);
            if !self.query.segments.is_empty() {
                // Few of those that lie together are shown: they do not keep the others in memory.
                owned.payload = owned.payload.copied();
            }
            let bytes = owned.bytes();
            if !self.items.is_empty() && self.bytes + bytes > self.query.bytes_max {
                self.is_full = true;
                return;
            }
            self.bytes += bytes;
            self.items.push(owned);
            self.is_full |= self.items.len() >= self.query.limit;
        }
        self.next = message.id + 1;
    }
}
