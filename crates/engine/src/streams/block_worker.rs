//! Files of blocks, apart from the machines: a worker writes those of closed blocks and tells their
//! partitions, and deletes those that nobody needs. Each storage has a worker of its own, so that
//! one that is slow or away holds up no other.

use std::sync::Arc;
use std::time::Duration;

use ::streams::{BlockName, BlockWriter};
use base::{Incarnation, Lineage, PartitionId};
use records::{ExternalSpan, LOCAL_STORAGE, StreamBlock};
use store::{Store, StoreError};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::block_moving::{BlockToMove, MovedBlock, move_block};
use super::block_sweep::{row_of, sweep_files, sweep_storage};
use super::context::StreamsContext;
use super::input::StreamsInput;
use crate::kernel::context::KernelContext;

/// Bytes of chunks that are read at a time.
const CHUNK_BYTES_PER_READ: usize = 4 << 20;
/// Stored blocks of which their partitions are not told yet.
const UNTOLD_MAX: usize = 256;
/// How often a storage is looked at that can be used, and one that cannot.
const LOOKED_AT_EVERY: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(5)];

/// What is to be done with files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockWork {
    /// A closed block is to be stored.
    Store(BlockToStore),
    /// A stored block is to go to another storage.
    Move(Box<BlockToMove>),
    /// The row of a block that went to another storage is durable: its first file is gone.
    Moved {
        /// The file that is gone.
        from: BlockFile,
        /// The file that takes its place.
        to: BlockFile,
    },
    /// A block is gone.
    Delete(BlockFile),
    /// A partition was loaded again: files of the local storage go that no row has.
    Sweep,
}

/// A closed block, whose messages are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockToStore {
    /// Whose it is.
    pub partition: PartitionId,
    /// The stream.
    pub stream: Incarnation,
    /// Its first message.
    pub first: u64,
    /// Its last one.
    pub last: u64,
}

/// A file of a block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockFile {
    /// The stream.
    pub stream: Incarnation,
    /// Its first message.
    pub first: u64,
    /// The storage that it is in.
    pub storage: Box<str>,
    /// The data directory that brought it there; 0 in the local storage.
    pub brought_by: Lineage,
}

impl BlockToStore {
    /// Its file.
    #[must_use]
    pub fn file(&self) -> BlockFile {
        BlockFile::local(self.stream, self.first)
    }
}

impl BlockFile {
    /// That of a row.
    #[must_use]
    pub fn of(block: &StreamBlock) -> Self {
        let StreamBlock { stream, first, brought_by, .. } = *block;
        let brought_by = if block.is_local() { Lineage(0) } else { brought_by };
        Self { stream, first, storage: block.storage.clone(), brought_by }
    }

    /// One in the local storage.
    #[must_use]
    pub fn local(stream: Incarnation, first: u64) -> Self {
        Self { stream, first, storage: LOCAL_STORAGE.into(), brought_by: Lineage(0) }
    }

    /// Which block it is.
    #[must_use]
    pub fn block_name(&self) -> BlockName {
        BlockName { stream: self.stream, first: self.first }
    }

    /// Its name in its storage.
    fn name(&self) -> String {
        let name = self.block_name();
        match *self.storage == *LOCAL_STORAGE {
            true => name.to_string(),
            false => format!("{}/{name}", records::block_folder(self.brought_by)),
        }
    }
}

/// What came of storing a block.
#[derive(Debug)]
pub struct StoredBlock {
    /// Which it was.
    pub block: BlockToStore,
    /// The rows for it, or why it could not be stored.
    pub result: Result<MadeBlock, Box<str>>,
}

/// The rows of a block whose file is durable.
#[derive(Debug)]
pub struct MadeBlock {
    /// The block's own.
    pub block: StreamBlock,
    /// Numbers of sources in it.
    pub spans: Vec<ExternalSpan>,
}

/// What came of work that a partition waits for.
#[derive(Debug)]
pub enum DoneWork {
    /// A block was stored, or not.
    Stored(StoredBlock),
    /// A block was moved, or not.
    Moved(MovedBlock),
}

impl DoneWork {
    /// Who is told.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        match self {
            Self::Stored(stored) => stored.block.partition,
            Self::Moved(moved) => moved.moved.partition,
        }
    }

    /// How it is told.
    #[must_use]
    pub fn into_input(self) -> StreamsInput {
        match self {
            Self::Stored(stored) => StreamsInput::Stored(Box::new(stored)),
            Self::Moved(moved) => StreamsInput::Moved(Box::new(moved)),
        }
    }
}

/// Does what partitions of streams have to be done with files of the local storage, until the
/// inboxes are closed.
pub(crate) async fn work_on_blocks(
    kernel: Arc<KernelContext>,
    context: Arc<StreamsContext>,
    inboxes: Vec<mpsc::Sender<StreamsInput>>,
) {
    let (store, sweeping) = (Arc::clone(&kernel), Arc::clone(&context));
    // A panic of the task stops the process, not this.
    let _ended = spawn_blocking(move || sweep_files(&*store.store, &sweeping)).await;
    let mut worker = BlockWorker { kernel, context, inboxes, telling: JoinSet::new() };
    while let Some(work) = worker.next(LOCAL_STORAGE, None).await {
        worker.work(work).await;
    }
}

/// The same of another storage; it is also looked at now and then.
pub(crate) async fn work_on_storage(
    kernel: Arc<KernelContext>,
    context: Arc<StreamsContext>,
    inboxes: Vec<mpsc::Sender<StreamsInput>>,
    storage: Box<str>,
) {
    let mut worker = BlockWorker { kernel, context, inboxes, telling: JoinSet::new() };
    let mut look_at = Instant::now();
    loop {
        if Instant::now() >= look_at {
            let (kernel, context, name) =
                (Arc::clone(&worker.kernel), Arc::clone(&worker.context), storage.clone());
            let looked = spawn_blocking(move || context.look_at_storage(&*kernel.store, &name)).await;
            let is_usable = looked.unwrap_or(false);
            look_at = Instant::now() + LOOKED_AT_EVERY[usize::from(!is_usable)];
        }
        match worker.next(&storage, Some(look_at)).await {
            Some(Some(work)) => worker.work(Some(work)).await,
            Some(None) => {}
            None => return,
        }
    }
}

/// Does one thing with files after the other.
struct BlockWorker {
    kernel: Arc<KernelContext>,
    context: Arc<StreamsContext>,
    inboxes: Vec<mpsc::Sender<StreamsInput>>,
    telling: JoinSet<Result<(), ()>>,
}

impl BlockWorker {
    /// The next thing to be done; none where nothing is until a time. `None` when the server stops:
    /// what is stored without a row is found after the next start.
    async fn next(&mut self, storage: &str, until: Option<Instant>) -> Option<Option<BlockWork>> {
        let has_room = self.telling.len() < UNTOLD_MAX;
        let wait = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(told) = self.telling.join_next(), if !self.telling.is_empty() => match told {
                Ok(Ok(())) => Some(None),
                _ => None,
            },
            work = self.context.blocks.next(storage), if has_room => Some(Some(work)),
            () = wait => Some(None),
        }
    }

    async fn work(&mut self, work: Option<BlockWork>) {
        let Some(work) = work else { return };
        let (kernel, context) = (Arc::clone(&self.kernel), Arc::clone(&self.context));
        let Ok(done) = spawn_blocking(move || do_work(&*kernel.store, &context, work)).await else { return };
        let Some(done) = done else { return };
        let index = done.partition().streams_index().map_or(0, usize::from);
        let Some(inbox) = self.inboxes.get(index).cloned() else { return };
        // A partition whose inbox is full keeps no other waiting.
        self.telling.spawn(async move { inbox.send(done.into_input()).await.map_err(drop) });
    }
}

impl StreamsContext {
    /// The next thing to be done with a file, for whoever runs partitions without an engine.
    #[must_use]
    pub fn take_block_work(&self) -> Option<BlockWork> {
        self.blocks.take()
    }
}

/// Does one thing with a file. What came of it, if a partition waits for that.
#[must_use]
pub fn do_work(store: &dyn Store, context: &StreamsContext, work: BlockWork) -> Option<DoneWork> {
    match work {
        BlockWork::Store(block) => {
            let result = store_block(store, &block).map_err(|error| {
                warn!(stream = block.stream.0, first = block.first, %error, "a block could not be stored");
                error.to_string().into_boxed_str()
            });
            Some(DoneWork::Stored(StoredBlock { block, result }))
        }
        BlockWork::Move(moved) => {
            let result = move_block(store, context, &moved);
            let target = moved.target(store.lineage());
            Some(DoneWork::Moved(MovedBlock { moved: *moved, target, result }))
        }
        BlockWork::Delete(file) | BlockWork::Moved { from: file, .. } => {
            if let Err(error) = delete_block(store, context, &file) {
                let (storage, name) = (&file.storage, file.name());
                warn!(%storage, name, %error, "the file of a block stays for now");
                context.blocks.needs_sweep(storage, true);
            }
            None
        }
        BlockWork::Sweep => {
            if let Err(error) = sweep_storage(store, context, LOCAL_STORAGE) {
                warn!(%error, "files of blocks that a lost batch was to delete stay until the next start");
            }
            None
        }
    }
}

/// Why a block could not be stored, or its file not deleted.
#[derive(Debug, thiserror::Error)]
pub enum NotStored {
    /// Its rows cannot be read, or are not durable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its messages are damaged.
    #[error(transparent)]
    Block(#[from] ::streams::BlockError),
    /// The storage says why.
    #[error("its file: {0}")]
    File(#[from] std::io::Error),
    /// It is not there any more.
    #[error("its messages are gone")]
    Gone,
    /// Its storage is not among the settings.
    #[error("there is no such storage among the settings")]
    UnknownStorage,
}

/// Deletes a file once its row is gone for good. Else, where syncs come later than answers, a loss
/// of power would bring back the row without its file. One that a row has stays, and so does one
/// that another data directory brought to its storage: a server was restored from its backup. With
/// a block that is gone, files of it go that were on their way to other storages.
fn delete_block(store: &dyn Store, context: &StreamsContext, file: &BlockFile) -> Result<(), NotStored> {
    store.sync_committed()?;
    context.blocks.settle(file);
    let row = row_of(store, file.block_name())?;
    if row.is_none() {
        context.blocks.block_gone(file.block_name());
    }
    let is_of_another = *file.storage != *LOCAL_STORAGE && file.brought_by != store.lineage();
    if is_of_another || row.is_some_and(|row| BlockFile::of(&row) == *file) {
        return Ok(());
    }
    let storage = context.storage(store, &file.storage).ok_or(NotStored::UnknownStorage)?;
    Ok(storage.delete(&file.name())?)
}

fn store_block(store: &dyn Store, of: &BlockToStore) -> Result<MadeBlock, NotStored> {
    let view = store.view(of.partition)?;
    let (mut writer, mut from) = (BlockWriter::default(), of.first);
    while from <= of.last {
        let chunks = view.stream_chunks(of.stream, from..of.last + 1, CHUNK_BYTES_PER_READ)?;
        let Some(last) = chunks.last() else { break };
        chunks.iter().try_for_each(|chunk| writer.add(chunk))?;
        from = last.first + u64::from(last.messages);
    }
    let made = writer.finish(of.stream).ok_or(NotStored::Gone)?;
    if (made.row.first, made.row.last) != (of.first, of.last) {
        return Err(NotStored::Gone);
    }
    store.blocks().put(&of.file().name(), &made.bytes)?;
    Ok(MadeBlock { block: made.row, spans: made.spans })
}
