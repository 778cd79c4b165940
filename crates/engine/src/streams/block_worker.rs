//! Files of blocks, apart from the machines: a worker writes those of closed blocks and tells their
//! partitions, and deletes those that nobody needs. It does one thing after the other, so that of
//! two files of one name the later one stays.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ::streams::{BlockName, BlockWriter};
use base::{Incarnation, PartitionId};
use records::{ExternalSpan, StreamBlock};
use store::{BLOCK_SUFFIX, Store, StoreError};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinSet, spawn_blocking};
use tracing::{info, warn};

use super::context::StreamsContext;
use super::input::StreamsInput;
use crate::kernel::context::KernelContext;

/// The storage that every server has.
pub const LOCAL_STORAGE: &str = "local";
/// Bytes of chunks that are read at a time.
const CHUNK_BYTES_PER_READ: usize = 4 << 20;
/// Stored blocks of which their partitions are not told yet.
const UNTOLD_MAX: usize = 256;

/// What is to be done with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockWork {
    /// A closed block is to be stored.
    Store(BlockToStore),
    /// A block is gone.
    Delete(BlockFile),
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

/// A stored block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFile {
    /// The stream.
    pub stream: Incarnation,
    /// Its first message.
    pub first: u64,
}

impl BlockToStore {
    /// Its file.
    #[must_use]
    pub fn file(&self) -> BlockFile {
        BlockFile { stream: self.stream, first: self.first }
    }
}

impl BlockFile {
    /// That of a row.
    #[must_use]
    pub fn of(block: &StreamBlock) -> Self {
        Self { stream: block.stream, first: block.first }
    }

    /// The name of the file.
    #[must_use]
    pub fn block_name(self) -> BlockName {
        BlockName { stream: self.stream, first: self.first }
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

/// Work that waits. Of each stream in memory one block is being stored at most.
#[derive(Debug, Default)]
pub(crate) struct BlockQueue {
    waiting: Mutex<VecDeque<BlockWork>>,
    added: Notify,
}

impl BlockQueue {
    pub(super) fn add(&self, work: BlockWork) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(work);
        self.added.notify_one();
    }

    pub(super) fn take(&self) -> Option<BlockWork> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    async fn next(&self) -> BlockWork {
        loop {
            let added = self.added.notified();
            if let Some(work) = self.take() {
                return work;
            }
            added.await;
        }
    }
}

/// Does what partitions of streams have to be done with files, until the inboxes are closed.
pub(crate) async fn work_on_blocks(
    kernel: Arc<KernelContext>,
    context: Arc<StreamsContext>,
    inboxes: Vec<mpsc::Sender<StreamsInput>>,
) {
    let sweeping = Arc::clone(&kernel);
    // A panic of the task stops the process, not this.
    let _ended = spawn_blocking(move || sweep_files(&*sweeping.store)).await;
    let mut telling = JoinSet::new();
    loop {
        let work = tokio::select! {
            Some(told) = telling.join_next(), if !telling.is_empty() => match told {
                Ok(Ok(())) => continue,
                // The server stops: what is stored without a row is found after the next start.
                _ => return,
            },
            work = context.blocks.next(), if telling.len() < UNTOLD_MAX => work,
        };
        let kernel = Arc::clone(&kernel);
        let Ok(done) = spawn_blocking(move || do_work(&*kernel.store, work)).await else { continue };
        let Some(stored) = done else { continue };
        let index = stored.block.partition.streams_index().map_or(0, usize::from);
        let Some(inbox) = inboxes.get(index).cloned() else { continue };
        // A partition whose inbox is full keeps no other waiting.
        telling.spawn(async move { inbox.send(StreamsInput::Stored(Box::new(stored))).await.map_err(drop) });
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
pub fn do_work(store: &dyn Store, work: BlockWork) -> Option<StoredBlock> {
    match work {
        BlockWork::Store(block) => {
            let result = store_block(store, &block).map_err(|error| {
                warn!(stream = block.stream.0, first = block.first, %error, "a block could not be stored");
                error.to_string().into_boxed_str()
            });
            Some(StoredBlock { block, result })
        }
        BlockWork::Delete(file) => {
            let name = file.block_name().to_string();
            if let Err(error) = delete_block(store, &name) {
                warn!(name, %error, "the file of a block stays until the next start");
            }
            None
        }
    }
}

/// Why a block could not be stored, or its file not deleted.
#[derive(Debug, thiserror::Error)]
enum NotStored {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Block(#[from] ::streams::BlockError),
    #[error("its file: {0}")]
    File(#[from] std::io::Error),
    #[error("its messages are gone")]
    Gone,
}

/// Deletes a file whose row is gone for good: a loss of power would else bring back the row without
/// it, where syncs come later than answers.
fn delete_block(store: &dyn Store, name: &str) -> Result<(), NotStored> {
    store.sync_committed()?;
    Ok(store.blocks().delete(name)?)
}

fn store_block(store: &dyn Store, of: &BlockToStore) -> Result<MadeBlock, NotStored> {
    let view = store.view(of.partition)?;
    let (mut writer, mut from) = (BlockWriter::default(), of.first);
    while from <= of.last {
        let chunks = view.stream_chunks(of.stream, from, CHUNK_BYTES_PER_READ)?;
        let within = chunks.iter().filter(|chunk| chunk.first <= of.last);
        let Some(last) = within.clone().next_back() else { break };
        within.clone().try_for_each(|chunk| writer.add(chunk))?;
        from = last.first + u64::from(last.messages);
    }
    let made = writer.finish(of.stream, LOCAL_STORAGE).ok_or(NotStored::Gone)?;
    if (made.row.first, made.row.last) != (of.first, of.last) {
        return Err(NotStored::Gone);
    }
    store.blocks().put(&of.file().block_name().to_string(), &made.bytes)?;
    Ok(MadeBlock { block: made.row, spans: made.spans })
}

/// Deletes files that no row has: a crash came between the file and its row, or between the end of
/// the row and that of the file. Before anything is stored. Whether none is left.
pub fn sweep_files(store: &dyn Store) -> bool {
    let blocks = store.blocks();
    let names = match blocks.list() {
        Ok(names) => names,
        Err(error) => {
            warn!(%error, "the files of blocks cannot be listed");
            return false;
        }
    };
    let (mut deleted, mut left) = (0_u64, 0_u64);
    for name in names {
        match has_row(store, &name) {
            Ok(true) => {}
            Ok(false) => match blocks.delete(&name) {
                Ok(()) => deleted += 1,
                Err(error) => {
                    left += 1;
                    warn!(name, %error, "the file of a block cannot be deleted");
                }
            },
            Err(error) => {
                warn!(%error, "files of blocks are not compared with their rows");
                return false;
            }
        }
    }
    if deleted > 0 {
        info!(deleted, "files of blocks that no row has were deleted");
    }
    left == 0
}

fn has_row(store: &dyn Store, name: &str) -> Result<bool, StoreError> {
    let Some(BlockName { stream, first }) = BlockName::of_file(name) else {
        // One that was being written; whatever else has such a name is nobody's to delete.
        return Ok(name.ends_with(BLOCK_SUFFIX));
    };
    let index = stream.partition_index();
    if index >= store.partitions() {
        return Ok(false);
    }
    Ok(store.view(PartitionId::of_streams(index))?.stream_block(stream, first)?.is_some())
}
