//! Which message had an external id first: for callers that appended it again.
//!
//! Memory is looked at first, and the store afterwards. A call looks at a bounded number of blocks.
//! What lies beyond that, or in a storage that is away, is not told: that is another thing than
//! gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::streams::MessageReader;
use ::streams::own_origins::own_id;
use base::Problem;
use records::StreamBlock;

use super::blocks::NotRead;
use super::{CHUNK_BYTES_PER_READ, FoundStream, LOOKED_AT_BYTES_MAX, StreamReader};
use crate::kernel::hashed::HashMap;
use crate::queries::unreadable;
use crate::streams::{
    AppendedMessage, MessagePayload, NewMessage, OwnedExternalId, OwnedMessage, StreamName,
};

/// Blocks whose messages are read for one call, and blocks of storages elsewhere, which answer
/// slowly.
const BLOCKS_PER_CALL: usize = 256;
/// Local blocks whose indexes are read for one call, for ids alone. That is enough for a call of
/// duplicates that each lie in a few blocks that may have them.
const INDEXES_PER_CALL: usize = 4 * base::limits::MESSAGES_PER_CALL_MAX;

/// A source and an id that it gave.
type Origin = (Box<str>, OwnedExternalId);

/// What became of a message that a stream had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::streams) struct FirstFound {
    /// As it is answered.
    pub(in crate::streams) appended: AppendedMessage,
    /// Why its first message may be there although no id is known.
    pub(in crate::streams) untold: Option<Problem>,
}

/// The first message with an external id, as far as it was found.
#[derive(Default)]
struct FirstMessage {
    id: Option<u64>,
    message: Option<OwnedMessage>,
    untold: Option<Problem>,
}

type Wanted = HashMap<Origin, FirstMessage>;

impl StreamReader<'_> {
    /// What became of messages that a stream had before: the ids of the first ones, where these are
    /// kept and told. Also whether they carry the same.
    pub(in crate::streams) fn first_messages(
        &self,
        name: &StreamName,
        duplicates: &[NewMessage],
    ) -> Result<Vec<FirstFound>, Problem> {
        let wanted = duplicates.iter().filter_map(origin_of);
        let mut wanted: Wanted = wanted.map(|origin| (origin, FirstMessage::default())).collect();
        let open = self.context.tails.get(name);
        let read = open.as_ref().map(|open| open.read(0, LOOKED_AT_BYTES_MAX));
        let found = self.find(name)?;
        let of_this = read.filter(|_| open.is_some_and(|open| open.stream == found.stream));
        for chunk in of_this.into_iter().flat_map(|read| read.chunks) {
            look_in(MessageReader::of(&chunk), &chunk.bytes, found.tail.first, &mut wanted);
        }
        self.look_in_chunks(&found, &mut wanted)?;
        self.look_in_blocks(&found, &mut wanted)?;
        self.own_messages(&found, &mut wanted)?;
        let became = |message: &NewMessage| {
            let first = origin_of(message).and_then(|origin| wanted.get(&origin));
            let id = first.and_then(|first| first.id);
            let conflict = first
                .and_then(|first| first.message.as_ref())
                .is_some_and(|first| !carries_the_same(message, first));
            let untold = first.and_then(|first| first.untold.clone()).filter(|_| id.is_none());
            FirstFound { appended: AppendedMessage { id, duplicate: true, conflict }, untold }
        };
        Ok(duplicates.iter().map(became).collect())
    }

    /// Those that the stream gave without a source are known by their ids.
    fn own_messages(&self, found: &FoundStream, wanted: &mut Wanted) -> Result<(), Problem> {
        let row = found.view.stream(found.stream).map_err(unreadable)?;
        let Some(row) = row else { return Ok(()) };
        let origins = self.context.node(self.store).origins(&row, &found.tail);
        for ((source, external_id), first) in wanted.iter_mut().filter(|(_, first)| first.id.is_none()) {
            if let OwnedExternalId::Number(number) = external_id {
                let own = own_id(&origins, found.next, source, *number);
                first.id = own.filter(|id| *id >= found.tail.first);
            }
        }
        Ok(())
    }

    fn look_in_chunks(&self, found: &FoundStream, wanted: &mut Wanted) -> Result<(), Problem> {
        let (mut from, mut bytes) = (found.view.end_of_blocks(found.stream).map_err(unreadable)?, 0);
        while bytes < LOOKED_AT_BYTES_MAX && wanted.values().any(|first| first.id.is_none()) {
            let read = found.view.stream_chunks(found.stream, from..u64::MAX, CHUNK_BYTES_PER_READ);
            let chunks = read.map_err(unreadable)?;
            let Some(last) = chunks.last() else { break };
            from = last.first + u64::from(last.messages);
            for chunk in &chunks {
                bytes += chunk.bytes.len();
                look_in(MessageReader::of(chunk), &chunk.bytes, found.tail.first, wanted);
            }
        }
        if bytes >= LOOKED_AT_BYTES_MAX {
            let untold = not_told("too much of the stream is in no block yet: try again");
            wanted.values_mut().for_each(|first| first.untold = Some(untold.clone()));
        }
        Ok(())
    }

    /// Goes once through the blocks that may have what is wanted, the newest first.
    fn look_in_blocks(&self, found: &FoundStream, wanted: &mut Wanted) -> Result<(), Problem> {
        let mut by_block: BTreeMap<u64, Vec<Origin>> = BTreeMap::new();
        for (origin, first) in wanted.iter_mut().filter(|(_, first)| first.id.is_none()) {
            let blocks = match &origin.1 {
                OwnedExternalId::Number(number) => {
                    found.view.blocks_with_number(found.stream, &origin.0, *number).map_err(unreadable)?
                }
                OwnedExternalId::Text(text) => {
                    let ids = found.view.external_texts(found.stream, &origin.0, text).map_err(unreadable)?;
                    first.id = ids.into_iter().find(|id| *id >= found.tail.first);
                    let Some(id) = first.id else { continue };
                    let rows = found.view.stream_blocks(found.stream, id, 1).map_err(unreadable)?;
                    rows.iter().filter(|row| row.first <= id).map(|row| row.first).collect()
                }
            };
            for block in blocks.into_iter().filter(|block| *block >= found.tail.first) {
                by_block.entry(block).or_default().push(origin.clone());
            }
        }
        let mut reads = BlockReads::default();
        for (block, mut origins) in by_block.into_iter().rev() {
            origins.retain(|origin| wanted.get(origin).is_some_and(|first| first.message.is_none()));
            if origins.is_empty() {
                continue;
            }
            let row = found.view.stream_block(found.stream, block).map_err(unreadable)?;
            let Some(row) = row else { continue };
            let read = match reads.begin(&row) {
                Ok(with_messages) => self.look_in_block(&row, &origins, with_messages, wanted),
                Err(untold) => Err(NotRead::Failed(untold)),
            };
            if let Err(NotRead::Failed(untold)) = read {
                reads.failed(&row, &untold);
                for origin in &origins {
                    wanted.entry(origin.clone()).or_default().untold.get_or_insert_with(|| untold.clone());
                }
            }
        }
        Ok(())
    }

    fn look_in_block(
        &self,
        block: &StreamBlock,
        origins: &[Origin],
        with_messages: bool,
        wanted: &mut Wanted,
    ) -> Result<(), NotRead> {
        let index = self.index(block)?;
        let mut by_slice: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for origin in origins {
            let Some(first) = wanted.get_mut(origin) else { continue };
            if let OwnedExternalId::Number(number) = &origin.1 {
                first.id = first.id.or(index.origins().number(&origin.0, *number));
            }
            let id = first.id.filter(|id| (block.first..=block.last).contains(id));
            if let Some((id, slice)) = id.and_then(|id| Some((id, index.slice_for(id)?))) {
                by_slice.entry(slice).or_default().push(id);
            }
        }
        if !with_messages {
            return Ok(());
        }
        for slice in by_slice.into_keys() {
            let bytes: Arc<[u8]> = self.slice_bytes(block, &index, slice)?.into();
            let messages =
                index.read_slice(slice, &bytes).map_err(|error| self.damaged_block(block, &error))?;
            look_in(messages, &bytes, block.first, wanted);
        }
        Ok(())
    }
}

/// Blocks that a call has looked at.
#[derive(Default)]
struct BlockReads {
    read: usize,
    elsewhere: usize,
    /// Storages that failed, and why: where one is away, what is elsewhere is told all the same.
    away: BTreeMap<Box<str>, Problem>,
}

impl BlockReads {
    /// Whether the messages of a block are read beside its index, or why nothing of it is.
    fn begin(&mut self, block: &StreamBlock) -> Result<bool, Problem> {
        if let Some(why) = self.away.get(&block.storage) {
            return Err(why.clone());
        }
        let is_elsewhere = !block.is_local();
        if self.read >= INDEXES_PER_CALL || (is_elsewhere && self.elsewhere >= BLOCKS_PER_CALL) {
            return Err(not_told("too many blocks may have it: ask for fewer at a time"));
        }
        self.read += 1;
        self.elsewhere += usize::from(is_elsewhere);
        Ok(is_elsewhere || self.read <= BLOCKS_PER_CALL)
    }

    /// Of the local storage each block is tried.
    fn failed(&mut self, block: &StreamBlock, why: &Problem) {
        if !block.is_local() && !self.away.contains_key(&block.storage) {
            tracing::warn!(storage = %block.storage, %why, "first messages of duplicates are not told");
            self.away.insert(block.storage.clone(), why.clone());
        }
    }
}

fn not_told(why: &str) -> Problem {
    Problem::new(503, "storage_unavailable", why)
}

fn origin_of(message: &NewMessage) -> Option<Origin> {
    Some((message.source.clone()?, message.external_id.clone()?))
}

/// Notes which of some messages are wanted. Those before `first_kept` are gone.
fn look_in(messages: MessageReader<'_>, bytes: &Arc<[u8]>, first_kept: u64, wanted: &mut Wanted) {
    for message in messages.map_while(Result::ok).filter(|message| message.id >= first_kept) {
        let Some(origin) = message.origin else { continue };
        let key = (Box::from(origin.source), OwnedExternalId::from(origin.external_id));
        let is_wanted =
            |first: &&mut FirstMessage| first.message.is_none() && first.id.is_none_or(|id| id == message.id);
        if let Some(first) = wanted.get_mut(&key).filter(is_wanted) {
            let message = OwnedMessage::of(&message, bytes);
            *first = FirstMessage { id: Some(message.id), message: Some(message), untold: None };
        }
    }
}

fn carries_the_same(message: &NewMessage, first: &OwnedMessage) -> bool {
    let is_json = matches!(message.payload, MessagePayload::Json(_));
    is_json == first.is_json && message.payload.as_bytes() == &*first.payload
}
