//! Files of blocks that no row has are deleted. A crash came between the file and its row, or
//! between the end of the row and that of the file. Or the storage was away, or a batch was lost
//! with what it was to delete.

use ::streams::BlockName;
use base::{Incarnation, PartitionId};
use records::{LOCAL_STORAGE, StreamBlock, block_folder};
use store::{BLOCK_SUFFIX, Store, StoreError, View};
use tracing::{info, warn};

use super::block_worker::{BlockFile, NotStored};
use super::context::StreamsContext;

/// Names that are remembered at a time.
const LEFT_PER_LISTING: usize = 10_000;

/// Deletes files of the local storage that no row has. Before anything is stored. Whether none is
/// left.
pub fn sweep_files(store: &dyn Store, context: &StreamsContext) -> bool {
    context.blocks.begin_sweep();
    match sweep(store, context, (LOCAL_STORAGE, true)) {
        Ok(()) => true,
        Err(error) => {
            warn!(%error, "files of blocks that no row has are left until the next start");
            false
        }
    }
}

/// Deletes files of a storage that no row has and none will have: those of this data directory.
/// Nothing else is done in the storage meanwhile.
///
/// # Errors
/// When some may be left.
pub fn sweep_storage(store: &dyn Store, context: &StreamsContext, storage: &str) -> Result<(), NotStored> {
    sweep(store, context, (storage, false))
}

/// The first sweep comes before anything is stored: no row is on its way.
fn sweep(
    store: &dyn Store,
    context: &StreamsContext,
    (storage, is_first): (&str, bool),
) -> Result<(), NotStored> {
    let reached = context.storage(store, storage).ok_or(NotStored::UnknownStorage)?;
    let lineage = if storage == LOCAL_STORAGE { base::Lineage(0) } else { store.lineage() };
    let folder = if storage == LOCAL_STORAGE { String::new() } else { block_folder(lineage) };
    let (mut deleted, mut before) = (0_u64, Vec::new());
    loop {
        let (mut left, mut failed) = (Vec::new(), None);
        reached.list(&folder, &mut |name| {
            if left.len() >= LEFT_PER_LISTING || failed.is_some() {
                return;
            }
            let flat = name.rsplit_once('/').map_or(&*name, |(_, flat)| flat);
            match is_left(store, context, flat, (storage, lineage, is_first)) {
                Ok(true) => left.push(name),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        // A backup holds what it reads: that goes when the backup has ended.
        if left == before {
            break;
        }
        // A row whose end is not durable could come back, without its file.
        store.sync_committed()?;
        for name in &left {
            reached.delete(name)?;
            deleted += 1;
        }
        if left.len() < LEFT_PER_LISTING {
            break;
        }
        before = left;
    }
    if deleted > 0 {
        info!(storage, deleted, "files of blocks that no row has were deleted");
    }
    Ok(())
}

/// Whether a file is one of a block that has no row there and gets none, or was being written.
fn is_left(
    store: &dyn Store,
    context: &StreamsContext,
    name: &str,
    (storage, brought_by, is_first): (&str, base::Lineage, bool),
) -> Result<bool, StoreError> {
    let Some(BlockName { stream, first }) = BlockName::of_file(name) else {
        // One that was being written; whatever else has such a name is nobody's to delete.
        return Ok(!name.ends_with(BLOCK_SUFFIX));
    };
    let file = BlockFile { stream, first, storage: storage.into(), brought_by };
    // Asked before the rows are read: what is settled in between has one.
    let is_unsettled = context.blocks.is_unsettled(&file);
    let Some(view) = view_of(store, stream)? else { return Ok(true) };
    match view.stream_block(stream, first)? {
        Some(row) => Ok(BlockFile::of(&row) != file && !is_unsettled),
        // Only what has a row is brought from one storage to another.
        None if is_first || storage != LOCAL_STORAGE => Ok(true),
        None => Ok(!is_unstored(&*view, stream, first)?),
    }
}

/// Whether the messages of a block are rows, whose place its own row is to take.
fn is_unstored(view: &dyn View, stream: Incarnation, first: u64) -> Result<bool, StoreError> {
    let is_kept = view.stream(stream)?.is_some_and(|row| !row.deleted);
    let chunks = view.stream_chunks(stream, first..first.saturating_add(1), 1)?;
    Ok(is_kept && chunks.iter().any(|chunk| chunk.first == first))
}

/// The row of a block, wherever its file is.
pub(super) fn row_of(store: &dyn Store, block: BlockName) -> Result<Option<StreamBlock>, StoreError> {
    let BlockName { stream, first } = block;
    view_of(store, stream)?.map_or(Ok(None), |view| view.stream_block(stream, first))
}

/// What is stored of the partition of a stream, if there is one.
fn view_of(store: &dyn Store, stream: Incarnation) -> Result<Option<Box<dyn View>>, StoreError> {
    let index = stream.partition_index();
    let exists = index < store.partitions();
    exists.then(|| store.view(PartitionId::of_streams(index))).transpose()
}
