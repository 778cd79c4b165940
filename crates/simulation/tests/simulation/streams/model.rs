//! The naive model: every message of every stream, as the batches tell it.
//!
//! It does not say what comes next: it looks at each change and says whether it may be.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{Incarnation, Timestamp};
use engine::streams::OwnedExternalId;
use records::{
    Batch, Op, SaveMode, Stream, StreamBlock, StreamChunk, StreamCopy, StreamSettings, StreamSubscription,
    StreamTail,
};
use streams::MessageReader;

use super::cold_storage::ColdStorage;
use super::copies::DroppedUncopied;
use super::counts::Counts;
use super::ledger::Ledger;
use super::message::{GivenMessage, Origin};
use super::subscriptions::SubscriptionId;
use crate::harness::violation::{Checked, Invariant};

/// A partition of streams.
#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) streams: BTreeMap<Incarnation, Rc<StreamModel>>,
    /// Streams that are not deleted.
    pub(crate) names: BTreeMap<Box<str>, Incarnation>,
    /// Copies, by stream and name.
    pub(crate) copies: BTreeMap<(Incarnation, Box<str>), StreamCopy>,
    pub(crate) subscriptions: BTreeMap<SubscriptionId, StreamSubscription>,
    /// Streams of which nothing is left.
    pub(crate) deleted: BTreeSet<Incarnation>,
    /// As the inputs so far have it, by name; what is not here has the default.
    pub(crate) modes: BTreeMap<Box<str>, SaveMode>,
    pub(crate) counts: Counts,
    /// The other storage.
    pub(crate) cold: Arc<ColdStorage>,
}

/// A stream.
#[derive(Clone)]
pub(crate) struct StreamModel {
    pub(crate) row: Stream,
    pub(crate) is_deleted: bool,
    pub(crate) tail: Option<StreamTail>,
    /// Messages that are kept.
    pub(crate) messages: BTreeMap<u64, GivenMessage>,
    /// How many messages each chunk has, by its first.
    pub(crate) chunks: BTreeMap<u64, u64>,
    pub(crate) blocks: BTreeMap<u64, StreamBlock>,
    /// The newest message that ever was durable.
    pub(crate) last: u64,
    /// Messages up to this one were dropped.
    pub(crate) gone_to: u64,
    /// Every number that a source ever gave.
    pub(crate) numbers: BTreeSet<(Box<str>, u64)>,
}

impl StreamModel {
    fn new(row: Stream) -> Self {
        Self {
            row,
            is_deleted: false,
            tail: None,
            messages: BTreeMap::new(),
            chunks: BTreeMap::new(),
            blocks: BTreeMap::new(),
            last: 0,
            gone_to: 0,
            numbers: BTreeSet::new(),
        }
    }

    /// Whether a message is there, or was dropped.
    pub(crate) fn had(&self, id: u64) -> bool {
        id <= self.gone_to || self.messages.contains_key(&id)
    }

    /// The first message that is kept with an id of a source.
    pub(crate) fn first_with(&self, origin: &Origin) -> Option<(u64, &GivenMessage)> {
        let mut all = self.messages.iter();
        all.find(|(_, given)| given.origin.as_ref() == Some(origin)).map(|(id, given)| (*id, given))
    }

    fn take_chunk(&mut self, chunk: &StreamChunk, ledger: &Ledger) -> Checked {
        for message in MessageReader::of(chunk) {
            let message =
                message.map_err(|bad| Invariant::AS_THE_MODEL.broken(format!("{bad}: {chunk:?}")))?;
            let (id, given) = (message.id, GivenMessage::of(&message));
            Invariant::IDS_ARE_GIVEN_ONCE
                .check(id > self.last, || format!("{id} comes behind {}: {given:?}", self.last))?;
            ledger.check_given(chunk.stream, id, &given)?;
            self.note_origin(id, &given)?;
            self.messages.insert(id, given);
            self.last = id;
        }
        let messages = u64::from(chunk.messages);
        Invariant::AS_THE_MODEL.check(self.last + 1 == chunk.first + messages, || format!("{chunk:?}"))?;
        self.chunks.insert(chunk.first, messages);
        Ok(())
    }

    fn note_origin(&mut self, id: u64, given: &GivenMessage) -> Checked {
        let Some(origin) = &given.origin else { return Ok(()) };
        let is_new = match &origin.1 {
            OwnedExternalId::Number(number) => self.numbers.insert((origin.0.clone(), *number)),
            OwnedExternalId::Text(_) => self.first_with(origin).is_none(),
        };
        Invariant::ONCE_ONLY.check(is_new, || format!("{id} is {given:?}, which was there before"))
    }

    fn drop_block(&mut self, first: u64, now: Timestamp, before: Option<&StreamSettings>) -> Checked {
        let oldest = self.blocks.first_key_value().map(|(first, _)| *first);
        let Some(block) = self.blocks.remove(&first).filter(|_| oldest == Some(first) || self.is_deleted)
        else {
            return Err(
                Invariant::KEPT_AS_SET.broken(format!("block {first} goes, and {oldest:?} is the oldest"))
            );
        };
        self.messages.retain(|id, _| *id > block.last || *id < block.first);
        if self.is_deleted {
            return Ok(());
        }
        self.gone_to = block.last;
        let may_go = |settings: &StreamSettings| {
            let is_old = |ms| block.last_at.after(Duration::from_millis(ms)) <= now;
            settings.keep.bytes.is_some() || settings.keep.age_ms.is_some_and(is_old)
        };
        let may_go = may_go(&self.row.settings) || before.is_some_and(may_go);
        Invariant::KEPT_AS_SET.check(may_go, || format!("{block:?} goes at {now:?}"))
    }

    /// Every message is in a chunk or in a block, and the tail counts them.
    fn check_whole(&self) -> Checked {
        let in_chunks = self.chunks.iter().flat_map(|(first, messages)| *first..first + messages);
        let in_blocks = self.blocks.values().flat_map(|block| block.first..=block.last);
        let places: BTreeSet<u64> = in_chunks.chain(in_blocks).collect();
        let homeless = self.messages.keys().find(|id| !places.contains(id));
        Invariant::AS_THE_MODEL.check(homeless.is_none(), || format!("{homeless:?} is nowhere"))?;
        for block in self.blocks.values() {
            let messages = self.messages.range(block.first..=block.last).count();
            Invariant::AS_THE_MODEL.same("messages of a block", &messages, &(block.messages as usize))?;
        }
        let Some(tail) = &self.tail else { return Ok(()) };
        // Ids that a crash left out may be before the first message.
        let first = self.messages.keys().next().copied().unwrap_or(tail.next);
        let is_right = tail.messages as usize == self.messages.len()
            && (self.gone_to + 1..=first).contains(&tail.first)
            && tail.next > self.last;
        Invariant::AS_THE_MODEL.check(is_right, || {
            let kept = (self.messages.len(), first, self.last, self.gone_to);
            format!("messages, the first, the last and the last one gone are {kept:?}: {tail:?}")
        })
    }
}

impl Model {
    /// Whether a stream is deleted and still swept.
    pub(crate) fn has_deleted(&self, stream: Incarnation) -> bool {
        self.streams.get(&stream).is_some_and(|found| found.is_deleted)
    }

    /// The stream of a name.
    pub(crate) fn named(&self, name: &str) -> Option<(Incarnation, &StreamModel)> {
        let stream = self.names.get(name)?;
        self.streams.get(stream).map(|found| (*stream, &**found))
    }

    /// The partition made a batch. With `any_room` blocks may go for room that only the disk knows.
    pub(crate) fn made(&mut self, batch: &Batch, ledger: &Ledger, any_room: bool) -> Checked {
        let mut touched = BTreeSet::new();
        let mut uncopied = DroppedUncopied::new(self);
        let mut before: BTreeMap<Incarnation, StreamSettings> = BTreeMap::new();
        for op in &batch.ops {
            if let Op::PutStream(row) = op
                && let Some(known) = self.streams.get(&row.incarnation)
            {
                before.entry(row.incarnation).or_insert_with(|| known.row.settings.clone());
            }
            let for_room = any_room || self.had_bounds(op, &before);
            uncopied.look_at(op, self, for_room)?;
            let is_untaken = self.goes_untaken(op);
            touched.extend(self.change(op, ledger, (batch.head.now, &before, any_room))?);
            self.change_subscription(op)?;
            if is_untaken {
                self.check_untaken(op, for_room)?;
            }
        }
        for stream in touched {
            if let Some(found) = self.streams.get(&stream).filter(|found| !found.is_deleted) {
                found.check_whole()?;
            }
            self.count_held(stream, batch.head.now);
        }
        self.check_positions_are_given(batch)?;
        uncopied.check(self)
    }

    fn change(
        &mut self,
        op: &Op,
        ledger: &Ledger,
        (now, before, any_room): (Timestamp, &BTreeMap<Incarnation, StreamSettings>, bool),
    ) -> Checked<Option<Incarnation>> {
        let stream = match op {
            Op::PutStream(row) => return self.put(row).map(Some),
            Op::DeleteStream(row) => return self.swept(row.incarnation).map(|()| None),
            Op::PutStreamTail(tail) => tail.stream,
            Op::PutStreamChunk(chunk) => chunk.stream,
            Op::PutStreamBlock(block) => block.stream,
            Op::PutStreamCopy(copy) => {
                self.copies.insert((copy.stream, copy.name.clone()), (**copy).clone());
                return Ok(None);
            }
            Op::DeleteStreamCopy(stream, name) => {
                self.copies.remove(&(*stream, name.clone()));
                return Ok(None);
            }
            Op::DeleteStreamTail(stream)
            | Op::DeleteStreamChunk(stream, _)
            | Op::DeleteStreamBlock(stream, _) => *stream,
            _ => return Ok(None),
        };
        let Some(found) = self.streams.get_mut(&stream).map(Rc::make_mut) else {
            return Err(Invariant::AS_THE_MODEL.broken(format!("there is no stream for {op:?}")));
        };
        match op {
            Op::PutStreamTail(tail) => found.tail = Some((**tail).clone()),
            Op::DeleteStreamTail(_) => found.tail = None,
            Op::PutStreamChunk(chunk) => found.take_chunk(chunk, ledger)?,
            Op::DeleteStreamChunk(_, first) => {
                let messages = found.chunks.remove(first).unwrap_or(0);
                if found.is_deleted {
                    found.messages.retain(|id, _| *id < *first || *id >= *first + messages);
                }
            }
            Op::PutStreamBlock(block) => {
                let before = found.blocks.insert(block.first, (**block).clone());
                match before {
                    None => self.counts.blocks_stored += 1,
                    Some(before) => {
                        self.counts.blocks_moved += 1;
                        let again = StreamBlock {
                            storage: before.storage.clone(),
                            brought_by: before.brought_by,
                            ..(**block).clone()
                        };
                        Invariant::AS_THE_MODEL.same("a block that moves", &again, &before)?;
                    }
                }
            }
            Op::DeleteStreamBlock(_, first) => {
                self.counts.blocks_dropped += u64::from(!found.is_deleted);
                let checked = found.drop_block(*first, now, before.get(&stream));
                if !any_room {
                    checked?;
                }
            }
            _ => {}
        }
        Ok(Some(stream))
    }

    fn put(&mut self, row: &Stream) -> Checked<Incarnation> {
        let stream = row.incarnation;
        let found = self.streams.entry(stream).or_insert_with(|| Rc::new(StreamModel::new(row.clone())));
        let found = Rc::make_mut(found);
        found.row = row.clone();
        found.is_deleted = row.deleted;
        if row.deleted {
            self.names.remove(&row.name);
            self.counts.deleted += 1;
            return Ok(stream);
        }
        let other = self.names.insert(row.name.clone(), stream).filter(|other| *other != stream);
        Invariant::AS_THE_MODEL.check(other.is_none(), || format!("{row:?} takes the place of {other:?}"))?;
        Ok(stream)
    }

    fn swept(&mut self, stream: Incarnation) -> Checked {
        let found = self.streams.remove(&stream);
        self.deleted.insert(stream);
        let is_swept = found.as_ref().is_some_and(|found| {
            found.is_deleted
                && found.messages.is_empty()
                && found.blocks.is_empty()
                && found.chunks.is_empty()
        });
        Invariant::ROWS_AGREE.check(is_swept, || format!("stream {} goes with something in it", stream.0))
    }
}
