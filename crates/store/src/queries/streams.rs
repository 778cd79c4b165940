//! Streams, what they hold, and the ids that their sources gave.

use std::ops::{Bound, Range};

use base::Incarnation;
use records::{
    ExternalInterval, ExternalSpan, ExternalText, Stream, StreamBlock, StreamChunk, StreamDue, StreamTail,
};

use super::index_of;
use crate::codec::key;
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};
use crate::record::Record;
use crate::table::Table;

/// Blocks that may have a number, at most: those of ascending numbers do not overlap, and the first
/// is the one.
const SPANS_PER_NUMBER_MAX: usize = 64;
/// Spans that are looked at for them.
const SPANS_LOOKED_AT_MAX: usize = 4_096;

impl dyn View + '_ {
    /// The stream of a name.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every query.
    pub fn stream_of(&self, namespace: &str, name: &str) -> Result<Option<Stream>, StoreError> {
        let (index, key) = (index_of::<Stream>(Table::StreamsByName), key::stream_name(namespace, name));
        let row = self.get(index.table, &key)?;
        row.map(|row| self.surely_named(index, &key, &row)).transpose()
    }

    /// A stream, also one that is deleted and still swept.
    pub fn stream(&self, stream: Incarnation) -> Result<Option<Stream>, StoreError> {
        self.record(&key::incarnation(stream))
    }

    /// Streams in order of namespace and name: those of a namespace, or all.
    pub fn streams(
        &self,
        namespace: Option<&str>,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Stream>, StoreError> {
        let range = KeyRange::of(&namespace.map(key::streams_of).unwrap_or_default());
        let after = after.map(|(namespace, name)| key::stream_name(namespace, name));
        // One that stands before the namespace begins nothing.
        let after = after.filter(|after| namespace.is_none_or(|of| *after > key::streams_of(of)));
        let (index, range) = (index_of::<Stream>(Table::StreamsByName), range.after(after));
        if limit == 0 || range.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.rows(index.table, range, true)?.take(limit);
        rows.map(|row| row.and_then(|(key, row)| self.surely_named(index, &key, &row))).collect()
    }

    /// How many streams there are, those that are swept not counted.
    pub fn count_streams(&self) -> Result<usize, StoreError> {
        self.rows(Table::StreamsByName, KeyRange::all(), true)?.try_fold(0, |all, row| row.map(|_| all + 1))
    }

    /// How far a stream has come.
    pub fn stream_tail(&self, stream: Incarnation) -> Result<Option<StreamTail>, StoreError> {
        self.record(&key::incarnation(stream))
    }

    /// Gives how far each stream has come.
    pub fn each_stream_tail(&self, each: &mut dyn FnMut(StreamTail)) -> Result<(), StoreError> {
        self.records(KeyRange::all(), true)?.try_for_each(|tail| tail.map(&mut *each))
    }

    /// The streams to which time does something, the next one first.
    pub fn streams_due(&self, limit: usize) -> Result<Vec<StreamDue>, StoreError> {
        self.records(KeyRange::all(), true)?.take(limit).collect()
    }

    /// Chunks of a stream in order, until they hold `bytes_max` or the messages end. The first is
    /// the one that has the first of these messages, or the next one. There is one, if any is left
    /// of them.
    pub fn stream_chunks(
        &self,
        stream: Incarnation,
        messages: Range<u64>,
        bytes_max: usize,
    ) -> Result<Vec<StreamChunk>, StoreError> {
        let Range { start, end } = messages;
        let all = KeyRange::of(&key::incarnation(stream));
        let mut chunks =
            self.records::<StreamChunk>(all.from(key::in_stream(stream, start)), true)?.peekable();
        // Most reads begin where a chunk does.
        let is_aligned = matches!(chunks.peek(), Some(Ok(chunk)) if chunk.first == start);
        let before = if is_aligned { None } else { self.chunk_over(stream, start)? };
        let mut bytes = 0;
        let within = |chunk: &Result<StreamChunk, StoreError>| {
            let Ok(chunk) = chunk else { return true };
            let is_within = bytes < bytes_max && chunk.first < end;
            bytes += chunk.bytes.len();
            is_within
        };
        before.map(Ok).into_iter().chain(chunks).take_while(within).collect()
    }

    /// The chunk that has a message and began before it. What is in front of the end of a block is
    /// not looked at. Rows that went when a block was stored stay in the tables until a checkpoint.
    fn chunk_over(&self, stream: Incarnation, id: u64) -> Result<Option<StreamChunk>, StoreError> {
        let all = KeyRange::of(&key::incarnation(stream));
        let blocks = KeyRange { high: Bound::Included(key::in_stream(stream, id)), ..all };
        let block = self.records::<StreamBlock>(blocks, false)?.next().transpose()?;
        let floor = match block {
            Some(block) if block.last < id => block.last + 1,
            Some(block) => block.first,
            None => 0,
        };
        let before = KeyRange {
            low: Bound::Included(key::in_stream(stream, floor)),
            high: Bound::Excluded(key::in_stream(stream, id)),
        };
        if floor >= id {
            return Ok(None);
        }
        let last = self.records::<StreamChunk>(before, false)?.next().transpose()?;
        Ok(last.filter(|chunk| chunk.first + u64::from(chunk.messages) > id))
    }

    /// Blocks of a stream in order, from the one that has the message `from`, or the next one.
    pub fn stream_blocks(
        &self,
        stream: Incarnation,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StreamBlock>, StoreError> {
        let (all, at) = (KeyRange::of(&key::incarnation(stream)), key::in_stream(stream, from));
        let before = KeyRange { high: Bound::Excluded(at.clone()), ..all.clone() };
        let over = self.records::<StreamBlock>(before, false)?.next().transpose()?;
        let over = over.filter(|block| block.last >= from);
        let blocks = self.records(all.from(at), true)?;
        over.map(Ok).into_iter().chain(blocks).take(limit).collect()
    }

    /// The first message of a stream that is in no block: chunks in front of it that are there yet
    /// have messages that blocks have.
    pub fn end_of_blocks(&self, stream: Incarnation) -> Result<u64, StoreError> {
        let all = KeyRange::of(&key::incarnation(stream));
        let last = self.records::<StreamBlock>(all, false)?.next().transpose()?;
        Ok(last.map_or(0, |block| block.last + 1))
    }

    /// The block of a stream that begins with a message.
    pub fn stream_block(&self, stream: Incarnation, first: u64) -> Result<Option<StreamBlock>, StoreError> {
        self.record(&key::in_stream(stream, first))
    }

    /// Of the intervals of a source that begin with this number or lower, the one that begins
    /// highest. Those that begin with a number that `is_left_out` do not count.
    pub fn interval_up_to(
        &self,
        stream: Incarnation,
        source: &str,
        number: u64,
        is_left_out: &dyn Fn(u64) -> bool,
    ) -> Result<Option<ExternalInterval>, StoreError> {
        let high = key::external_number(stream, source, number);
        let range = KeyRange { high: Bound::Included(high), ..KeyRange::of(&key::of_source(stream, source)) };
        let mut below = self.records::<ExternalInterval>(range, false)?;
        below.find(|one| one.as_ref().map_or(true, |one| !is_left_out(one.from))).transpose()
    }

    /// The interval of a source that begins with a number.
    pub fn interval_at(
        &self,
        stream: Incarnation,
        source: &str,
        from: u64,
    ) -> Result<Option<ExternalInterval>, StoreError> {
        self.record(&key::external_number(stream, source, from))
    }

    /// Intervals of all sources of a stream.
    pub fn intervals_of_stream(
        &self,
        stream: Incarnation,
        limit: usize,
    ) -> Result<Vec<ExternalInterval>, StoreError> {
        self.records(KeyRange::of(&key::incarnation(stream)), true)?.take(limit).collect()
    }

    /// Blocks that may have a number of a source, the one with the highest numbers first.
    pub fn blocks_with_number(
        &self,
        stream: Incarnation,
        source: &str,
        number: u64,
    ) -> Result<Vec<u64>, StoreError> {
        let high = key::external_span(stream, source, number, u64::MAX);
        let range = KeyRange { high: Bound::Included(high), ..KeyRange::of(&key::of_source(stream, source)) };
        let spans = self.records(range, false)?.take(SPANS_LOOKED_AT_MAX);
        let has = |span: ExternalSpan| (span.to >= number).then_some(span.block);
        spans.filter_map(|span| span.map(has).transpose()).take(SPANS_PER_NUMBER_MAX).collect()
    }

    /// Spans of numbers that a block has, and blocks before it.
    pub fn spans_up_to(
        &self,
        stream: Incarnation,
        block: u64,
        limit: usize,
    ) -> Result<Vec<ExternalSpan>, StoreError> {
        self.named_up_to::<ExternalSpan>(Table::SpansByBlock, stream, block, limit)
    }

    /// Texts of messages up to one.
    pub fn texts_up_to(
        &self,
        stream: Incarnation,
        id: u64,
        limit: usize,
    ) -> Result<Vec<ExternalText>, StoreError> {
        self.named_up_to::<ExternalText>(Table::TextsByMessage, stream, id, limit)
    }

    fn named_up_to<R: Record>(
        &self,
        table: Table,
        stream: Incarnation,
        last: u64,
        limit: usize,
    ) -> Result<Vec<R>, StoreError> {
        let all = KeyRange::of(&key::incarnation(stream));
        let behind = last.checked_add(1).map(|behind| key::in_stream(stream, behind));
        let (index, range) = (index_of::<R>(table), all.before(behind));
        let rows = self.rows(table, range, true)?.take(limit);
        rows.map(|row| row.and_then(|(key, row)| self.surely_named(index, &key, &row))).collect()
    }

    /// Messages to which a source gave this text, the oldest first; those that are gone and not
    /// swept yet too.
    pub fn external_texts(
        &self,
        stream: Incarnation,
        source: &str,
        text: &str,
    ) -> Result<Vec<u64>, StoreError> {
        let range = KeyRange::of(&key::texts(stream, source, text));
        let is_it = |found: ExternalText| (*found.text == *text).then_some(found.id);
        self.records(range, true)?.filter_map(|found| found.map(is_it).transpose()).collect()
    }
}
