//! Streams as the edges hold them: calls become inputs, and answers come as the save mode has it.

mod appending;
mod copies;
mod receipts;
mod subscriptions;
mod transfers;

use ::streams::FreeSpace;
use ::streams::tail::by_storage;
use std::sync::Arc;

use base::limits::{COPIES_PER_STREAM_MAX, STREAMS_MAX};
use base::{Incarnation, PartitionId, Problem};
use records::{LOCAL_STORAGE, Stream, StreamMove, StreamSettings, StreamTail};
use tokio::task::spawn_blocking;

pub use subscriptions::PushPage;
pub use transfers::{AppendTerms, OriginPage, TransferAppended, decode_transfer};

use super::block_worker::BlockFile;
use super::effect::HandledBlocks;
use super::input::StreamsInput;
use super::reading::{FoundStream, StreamReader};
use super::tails::OpenTail;
use super::{
    BlockStatus, HandlerKind, HandlerState, HandlerStatus, OwnedMessage, StreamList, StreamName, StreamPage,
    StreamRead, StreamStatus,
};
use crate::Engine;
use crate::kernel::partition_handle::PartitionHandle;
use crate::queries::unreadable;

/// The calls about streams. Cheap to clone.
///
/// Those that are not `async` read from disk: run them where that may block. A call fails with 503
/// when the server is not accepting; then nothing is known of what it asked for.
#[derive(Clone, Debug)]
pub struct StreamCalls {
    engine: Engine,
}

impl StreamCalls {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Whether a stream gathers reports for a copy of kind `reports`.
    #[must_use]
    pub fn gathers_reports(&self, stream: &StreamName) -> bool {
        self.engine.context().devices.gatherings.gathers_in(stream)
    }

    /// Gives a stream these settings; makes it if it is not there.
    ///
    /// # Errors
    /// 422 for what is out of range, or a storage that is not there, 429 `too_many_streams`.
    pub async fn put_settings(&self, stream: &StreamName, settings: StreamSettings) -> Result<(), Problem> {
        ::streams::settings::check(&settings)?;
        self.check_storages(&settings)?;
        self.check_count(stream).await?;
        let (name, settings) = (stream.clone(), Box::new(settings));
        let input = |reply| StreamsInput::PutSettings { stream: name, settings, reply };
        self.partition(stream).ask(input).await?
    }

    /// Deletes a stream with all its messages.
    ///
    /// # Errors
    /// 404 `unknown_stream`.
    pub async fn delete(&self, stream: &StreamName) -> Result<(), Problem> {
        let input = |reply| StreamsInput::Delete { stream: stream.clone(), reply };
        self.partition(stream).ask(input).await?
    }

    /// Tells all streams what the disk with the data has left. Where that is little, an append
    /// makes room of what is oldest, or is refused, as its stream is set. After `look_after_bytes`
    /// of new messages the disk is to be looked at again: see [`StreamCalls::disk_look_is_due`].
    ///
    /// # Errors
    /// 503 only.
    pub async fn disk_has(&self, room: FreeSpace, look_after_bytes: u64) -> Result<(), Problem> {
        let context = &self.engine.context().streams;
        context.growth.begin_anew(look_after_bytes);
        if context.disk_has(room) {
            for partition in self.engine.stream_partitions() {
                partition.send(StreamsInput::Disk { room }).await?;
            }
        }
        Ok(())
    }

    /// Returns when streams have grown so much that the disk is to be looked at.
    pub async fn disk_look_is_due(&self) {
        self.engine.context().streams.growth.look_is_due().await;
    }

    /// Messages, oldest first. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream`, 503 `storage_unavailable`.
    pub fn read(&self, stream: &StreamName, query: &StreamRead) -> Result<StreamPage, Problem> {
        self.reader().read(stream, query)
    }

    /// One message. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream`, `unknown_message` or `message_gone`, 503 `storage_unavailable`.
    pub fn message(&self, stream: &StreamName, id: u64) -> Result<OwnedMessage, Problem> {
        self.reader().message(stream, id)
    }

    /// A stream. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream`.
    pub fn stream(&self, stream: &StreamName) -> Result<StreamStatus, Problem> {
        let found = self.reader().find(stream)?;
        let row = found.view.stream(found.stream).map_err(unreadable)?;
        let row = row.ok_or_else(|| super::machine::unknown_stream(stream))?;
        self.shown(&row)
    }

    /// Streams in order of namespace and name. Reads from disk.
    ///
    /// # Errors
    /// 503 only.
    pub fn list(&self, query: &StreamList) -> Result<Vec<StreamStatus>, Problem> {
        let after = query.after.as_ref().map(|after| (after.namespace(), after.stream()));
        let mut all = Vec::new();
        for index in 0..self.engine.store().partitions() {
            let view = self.engine.store().view(PartitionId::of_streams(index)).map_err(unreadable)?;
            all.extend(view.streams(query.namespace.as_deref(), after, query.limit).map_err(unreadable)?);
        }
        all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        all.truncate(query.limit);
        let shown = all.iter().map(|row| match self.shown(row) {
            // It went since its row was read.
            Err(problem) if problem.status == 404 => Ok(None),
            shown => shown.map(Some),
        });
        shown.filter_map(Result::transpose).collect()
    }

    /// The blocks of a stream behind the one that begins with the id `after`, oldest first. Reads
    /// from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream`.
    pub fn blocks(
        &self,
        stream: &StreamName,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<BlockStatus>, Problem> {
        let found = self.reader().find(stream)?;
        let from = after.map_or(0, |after| after.saturating_add(1)).max(found.tail.first);
        let rows = found.view.stream_blocks(found.stream, from, limit).map_err(unreadable)?;
        let rows = rows.into_iter().filter(|block| after.is_none_or(|after| block.first > after));
        let context = &self.engine.context().streams;
        let in_tail = |last: u64| found.open.as_ref().is_some_and(|open| open.has_before(last));
        let mut all: Vec<BlockStatus> = rows
            .map(|block| BlockStatus {
                first_id: block.first,
                last_id: block.last,
                bytes: block.bytes,
                messages: block.messages.into(),
                loaded: in_tail(block.last) || context.indexes.has(BlockFile::of(&block).block_name()),
                storage: Some(block.storage),
                saved: true,
                created_at: block.created_at,
            })
            .collect();
        if all.len() < limit {
            let open = self.unstored(&found)?;
            all.extend(open.filter(|open| after.is_none_or(|after| open.first_id > after)));
        }
        Ok(all)
    }

    /// What the server does with the blocks of a stream by itself. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream`.
    pub fn handlers(&self, stream: &StreamName) -> Result<Vec<HandlerStatus>, Problem> {
        let found = self.reader().find(stream)?;
        let row = found.view.stream(found.stream).map_err(unreadable)?;
        let settings = row.map(|row| row.settings).unwrap_or_default();
        let is_kept_for_ever = settings.keep.age_ms.is_none() && settings.keep.bytes.is_none();
        let stands = found.open.as_deref().map(OpenTail::stands);
        let handled = self.engine.context().streams.tails.handled.of(found.stream);
        let is_open = stands.is_some_and(|stands| stands.next > found.tail.first);
        let deletes = found.tail.blocks > 0 && !is_kept_for_ever;
        let shown = |handler, name: Option<&str>, state, handled: Option<&HandledBlocks>| HandlerStatus {
            handler,
            name: name.map(Box::from),
            state,
            last_run_at: handled.map(|handled| handled.at),
            blocks: handled.map_or(0, |handled| handled.blocks),
            bytes: handled.map_or(0, |handled| handled.bytes),
            error: handled.and_then(|handled| handled.error.clone()),
        };
        let waits = |has_work| if has_work { HandlerState::Waiting } else { HandlerState::Idle };
        let mut all = vec![shown(HandlerKind::Unload, None, waits(is_open), handled.unloaded.as_ref())];
        for (place, one) in settings.moves.iter().enumerate() {
            let state = match handled.moving.as_ref().is_some_and(|moving| *moving == one.to) {
                true => HandlerState::Running,
                false => waits(has_blocks_before(&found.tail, &settings.moves[place..])),
            };
            all.push(shown(HandlerKind::Move, Some(&one.to), state, handled.moved.get(&one.to)));
        }
        all.push(shown(HandlerKind::Delete, None, waits(deletes), handled.deleted.as_ref()));
        let copies = self.copies(stream, None, COPIES_PER_STREAM_MAX)?;
        all.extend(copies.into_iter().map(HandlerStatus::from));
        Ok(all)
    }

    /// Returns when there may be a message behind that id: at once if there is one. Also when the
    /// stream is deleted.
    pub async fn appended(&self, stream: &StreamName, after: u64) {
        let waiter = self.engine.context().streams.tails.wait(stream);
        let mut known = None;
        loop {
            let told = waiter.told.notified();
            tokio::pin!(told);
            // Before it is looked at: what comes behind the look is told.
            told.as_mut().enable();
            match self.end(stream).await {
                // Another one of that name is not the one that was asked about.
                Some((of, next)) if next <= after.saturating_add(1) && *known.get_or_insert(of) == of => {
                    told.await;
                }
                _ => return,
            }
        }
    }

    /// Which stream has a name, and what is behind its last message that may be seen; `None` if
    /// there is no stream.
    async fn end(&self, stream: &StreamName) -> Option<(Incarnation, u64)> {
        if let Some(open) = self.engine.context().streams.tails.get(stream) {
            return Some((open.stream, open.next()));
        }
        let context = Arc::clone(&self.engine.context().streams);
        let _permit = context.look_ups.acquire(stream).await;
        let (streams, stream) = (self.clone(), stream.clone());
        let find = move || streams.reader().find(&stream).map(|found| (found.stream, found.next));
        spawn_blocking(find).await.ok().and_then(Result::ok)
    }

    /// Storages that cannot be used, as they were last looked at, and why.
    #[must_use]
    pub fn storages_away(&self) -> Vec<(Box<str>, Box<str>)> {
        self.engine.context().streams.watch.all_away()
    }

    fn reader(&self) -> StreamReader<'_> {
        StreamReader { store: self.engine.store(), context: &self.engine.context().streams }
    }

    fn partition(&self, stream: &StreamName) -> &PartitionHandle<StreamsInput> {
        let partitions = self.engine.stream_partitions();
        let count = u16::try_from(partitions.len()).unwrap_or(u16::MAX);
        let index = stream.partition(count).streams_index().unwrap_or_default();
        &partitions[usize::from(index)]
    }

    /// Whether there may be another stream, if this one is not there.
    async fn check_count(&self, stream: &StreamName) -> Result<(), Problem> {
        if self.engine.context().streams.counts.streams() < STREAMS_MAX || self.end(stream).await.is_some() {
            return Ok(());
        }
        let detail = format!("there are {STREAMS_MAX} streams: delete some that nobody needs");
        Err(Problem::new(429, "too_many_streams", detail))
    }

    fn check_storages(&self, settings: &StreamSettings) -> Result<(), Problem> {
        let context = &self.engine.context().streams;
        let Some(unknown) = settings.moves.iter().find(|one| !context.knows_storage(&one.to)) else {
            return Ok(());
        };
        let names: Vec<&str> =
            [LOCAL_STORAGE].into_iter().chain(context.storages.iter().map(|(name, _)| name)).collect();
        let detail = format!("move: there is no storage {:?}; there is {}", unknown.to, names.join(", "));
        Err(Problem::not_allowed("unknown_storage", detail))
    }

    fn shown(&self, row: &Stream) -> Result<StreamStatus, Problem> {
        let name = StreamName::unchecked(&row.namespace, &row.name);
        let found = self.reader().find(&name)?;
        if found.stream != row.incarnation {
            return Err(super::machine::unknown_stream(&name));
        }
        let stands = found.open.as_deref().map(OpenTail::stands);
        let (messages, bytes) = stands.as_ref().map_or((0, 0), |stands| stands.unsaved);
        let tail = found.tail;
        let has_open = tail.messages + messages > tail.block_messages;
        Ok(StreamStatus {
            name,
            first_id: tail.first.min(found.next),
            last_id: found.next.max(1) - 1,
            messages: tail.messages + messages,
            bytes: tail.bytes + bytes,
            blocks: u64::from(tail.blocks) + u64::from(has_open),
            bytes_in_memory: stands.map_or(0, |stands| stands.bytes as u64),
            storages: by_storage(&tail),
            settings: row.settings.clone(),
        })
    }

    /// What is in no stored block, shown as one that is open.
    fn unstored(&self, found: &FoundStream) -> Result<Option<BlockStatus>, Problem> {
        let stands = found.open.as_deref().map(OpenTail::stands);
        let (messages, bytes) = stands.as_ref().map_or((0, 0), |stands| stands.unsaved);
        let (view, stream) = (&found.view, found.stream);
        let start = view.end_of_blocks(stream).map_err(unreadable)?;
        let durable = view.stream_chunks(stream, start..u64::MAX, 1).map_err(unreadable)?;
        let in_memory = found.open.as_ref().map(|open| open.read(found.tail.next, 1).chunks);
        let first_unsaved = in_memory.iter().flatten().next().map(|chunk| (chunk.first, chunk.at));
        let first = durable.first().map(|chunk| (chunk.first, chunk.at)).or(first_unsaved);
        Ok(first.map(|(first_id, created_at)| BlockStatus {
            first_id,
            last_id: found.next - 1,
            bytes: found.tail.bytes.saturating_sub(found.tail.block_bytes) + bytes,
            messages: found.tail.messages.saturating_sub(found.tail.block_messages) + messages,
            storage: None,
            loaded: stands.is_some(),
            saved: messages == 0,
            created_at,
        }))
    }
}

/// Whether there are blocks that are not as far as the first of these moves.
fn has_blocks_before(tail: &StreamTail, moves: &[StreamMove]) -> bool {
    let is_as_far = |storage: &str| moves.iter().any(|one| *one.to == *storage);
    by_storage(tail).iter().any(|(storage, blocks, _)| *blocks > 0 && !is_as_far(storage))
}
