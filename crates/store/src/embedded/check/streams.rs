//! What streams say of themselves: how far each has come, its chunks, its blocks, and the ids that
//! their sources gave.

use std::collections::BTreeMap;

use base::Incarnation;
use base::hash::stream_partition;
use records::{
    ExternalInterval, ExternalSpan, ExternalText, Stream, StreamBlock, StreamChunk, StreamDue, StreamTail,
};

use super::rows::{CheckedPartition, RowCheck, Wrong};
use crate::codec::key;
use crate::table::Table;

/// What a stream holds.
#[derive(Clone, Debug, Default)]
struct HeldByStream {
    is_deleted: bool,
    blocks: u32,
    messages: u64,
    bytes: u64,
    block_messages: u64,
    block_bytes: u64,
    stored_bytes: u64,
    /// Blocks and bytes of files by storage, the local one left out.
    elsewhere: BTreeMap<Box<str>, (u32, u64)>,
    /// Behind the last message that was found.
    end: u64,
}

/// What each stream holds, from one table to the next.
type Known = BTreeMap<Incarnation, HeldByStream>;

impl RowCheck<'_, '_> {
    /// A stream is where its name leads to and has a tail. Its blocks and then its chunks follow
    /// each other, and are what the tail says.
    pub(super) fn partition_of_streams(&mut self, within: &CheckedPartition) {
        let (partition, mut known) = (within.partition, Known::default());
        self.indexed(partition, |check, stream: &Stream| {
            let held = HeldByStream { is_deleted: stream.deleted, ..HeldByStream::default() };
            known.insert(stream.incarnation, held);
            let right = stream_partition(&stream.namespace, &stream.name, check.partitions);
            if right != partition {
                return Err(format!("the stream belongs to partition {right}"));
            }
            let needed =
                if stream.deleted { Ok(()) } else { check.needs_tail(partition, stream.incarnation) };
            let number = stream.incarnation.0 & ((1 << Incarnation::IN_PARTITION_BITS) - 1);
            needed.and_then(|()| match number < within.head.next_incarnation {
                true => Ok(()),
                false => Err("its incarnation was never given".to_owned()),
            })
        });
        self.indexed(partition, |_, block: &StreamBlock| {
            let ids = (block.last + 1).saturating_sub(block.first);
            if ids < u64::from(block.messages) || block.messages == 0 {
                return Err("it has more messages than ids, or none".to_owned());
            }
            let held = follows(&mut known, block.stream, block.first, block.last + 1)?;
            held.blocks += 1;
            held.messages += u64::from(block.messages);
            held.bytes += block.bytes;
            held.block_messages += u64::from(block.messages);
            held.block_bytes += block.bytes;
            held.stored_bytes += block.stored_bytes;
            if !block.is_local() {
                let of_storage = held.elsewhere.entry(block.storage.clone()).or_default();
                *of_storage = (of_storage.0 + 1, of_storage.1 + block.stored_bytes);
            }
            Ok(())
        });
        self.indexed(partition, |_, chunk: &StreamChunk| {
            let end = chunk.first + u64::from(chunk.messages);
            let held = follows(&mut known, chunk.stream, chunk.first, end)?;
            held.messages += u64::from(chunk.messages);
            held.bytes += chunk.bytes.len() as u64;
            Ok(())
        });
        self.indexed(partition, |check, tail: &StreamTail| check.tail(within, &known, tail));
        self.indexed(partition, |_, due: &StreamDue| held(&known, due.stream).map(|_| ()));
        self.external_ids(within, &known);
        self.subscriptions(partition);
        self.copies(partition);
    }

    fn needs_tail(&self, partition: base::PartitionId, stream: Incarnation) -> Result<(), Wrong> {
        self.needs(Table::StreamTails, partition, &key::incarnation(stream))
    }

    fn tail(&self, within: &CheckedPartition, known: &Known, tail: &StreamTail) -> Result<(), Wrong> {
        let held = held(known, tail.stream)?;
        if held.is_deleted {
            return Ok(());
        }
        if tail.due != base::Timestamp::MAX {
            let due = key::stream_due(tail.due, tail.stream);
            self.needs(Table::StreamsByDue, within.partition, &due)?;
        }
        let found = [held.blocks.into(), held.block_messages, held.block_bytes, held.stored_bytes];
        let said = [tail.blocks.into(), tail.block_messages, tail.block_bytes, tail.stored_bytes];
        if (found, held.messages, held.bytes) != (said, tail.messages, tail.bytes) {
            let found = (found, held.messages, held.bytes);
            return Err(format!("it has blocks, their figures, messages and bytes {found:?}, not {said:?}"));
        }
        let said: BTreeMap<_, _> =
            tail.elsewhere.iter().map(|one| (one.storage.clone(), (one.blocks, one.bytes))).collect();
        if held.elsewhere != said {
            let found = &held.elsewhere;
            return Err(format!("it has blocks and bytes in other storages {found:?}, not {said:?}"));
        }
        let is_ordered = tail.first <= tail.next && tail.next <= tail.reserved && held.end <= tail.next;
        if is_ordered { Ok(()) } else { Err("its ids are in no order".to_owned()) }
    }

    fn external_ids(&mut self, within: &CheckedPartition, known: &Known) {
        let partition = within.partition;
        let mut last: Option<ExternalInterval> = None;
        self.indexed(partition, |_, interval: &ExternalInterval| {
            let before = last.replace(interval.clone());
            let before =
                before.filter(|one| (one.stream, &one.source) == (interval.stream, &interval.source));
            if interval.to < interval.from
                || before.is_some_and(|one| one.to.saturating_add(1) >= interval.from)
            {
                return Err("it is none, or meets the one before".to_owned());
            }
            held(known, interval.stream).map(|_| ())
        });
        self.indexed(partition, |check, span: &ExternalSpan| {
            let is_deleted = held(known, span.stream)?.is_deleted;
            let tail: Option<StreamTail> = check.record(partition, &key::incarnation(span.stream))?;
            // Those of a block that is gone are swept later.
            match is_deleted || tail.is_some_and(|tail| span.block < tail.first) {
                true => Ok(()),
                false => {
                    check.needs(Table::StreamBlocks, partition, &key::in_stream(span.stream, span.block))
                }
            }
        });
        self.indexed(partition, |check, text: &ExternalText| {
            let is_deleted = held(known, text.stream)?.is_deleted;
            let tail: Option<StreamTail> = check.record(partition, &key::incarnation(text.stream))?;
            match is_deleted || tail.is_some_and(|tail| text.id < tail.next) {
                true => Ok(()),
                false => Err("there never was its message".to_owned()),
            }
        });
    }
}

fn held(known: &Known, stream: Incarnation) -> Result<&HeldByStream, Wrong> {
    known.get(&stream).ok_or_else(|| format!("there is no stream {}", stream.0))
}

/// Notes that a stream has the ids from `first` until before `end`, behind those noted before.
fn follows(known: &mut Known, stream: Incarnation, first: u64, end: u64) -> Result<&mut HeldByStream, Wrong> {
    let held = known.get_mut(&stream).ok_or_else(|| format!("there is no stream {}", stream.0))?;
    if first < held.end || end <= first {
        return Err(format!("it does not follow the messages before {}", held.end));
    }
    held.end = end;
    Ok(held)
}
