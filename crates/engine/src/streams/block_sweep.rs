//! Files of blocks that no row has are deleted. A crash came between the file and its row, or
//! between the end of the row and that of the file. Or the storage was away.

use ::streams::BlockName;
use base::PartitionId;
use records::{LOCAL_STORAGE, block_folder};
use store::{BLOCK_SUFFIX, Store, StoreError};
use tracing::{info, warn};

use super::block_worker::{BlockFile, NotStored};
use super::context::StreamsContext;

/// Names that are remembered at a time.
const LEFT_PER_LISTING: usize = 10_000;

/// Deletes files of the local storage that no row has. Before anything is stored. Whether none is
/// left.
pub fn sweep_files(store: &dyn Store, context: &StreamsContext) -> bool {
    match sweep_storage(store, context, LOCAL_STORAGE) {
        Ok(()) => true,
        Err(error) => {
            warn!(%error, "files of blocks that no row has are left until the next start");
            false
        }
    }
}

/// Deletes files of a storage that no row has: those of this data directory. Nothing else is done
/// in the storage meanwhile.
///
/// # Errors
/// When some may be left.
pub fn sweep_storage(store: &dyn Store, context: &StreamsContext, storage: &str) -> Result<(), NotStored> {
    let reached = context.storage(store, storage).ok_or(NotStored::UnknownStorage)?;
    let lineage = if storage == LOCAL_STORAGE { base::Lineage(0) } else { store.lineage() };
    let folder = if storage == LOCAL_STORAGE { String::new() } else { block_folder(lineage) };
    // A row whose end is not durable could come back, without its file.
    store.sync_committed()?;
    let mut deleted = 0_u64;
    loop {
        let (mut left, mut failed) = (Vec::new(), None);
        reached.list(&folder, &mut |name| {
            if left.len() >= LEFT_PER_LISTING || failed.is_some() {
                return;
            }
            let flat = name.rsplit_once('/').map_or(&*name, |(_, flat)| flat);
            match is_left(store, context, flat, (storage, lineage)) {
                Ok(true) => left.push(name),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        for name in &left {
            reached.delete(name)?;
            deleted += 1;
        }
        if left.len() < LEFT_PER_LISTING {
            break;
        }
    }
    if deleted > 0 {
        info!(storage, deleted, "files of blocks that no row has were deleted");
    }
    Ok(())
}

/// Whether a file is one of a block that has no row, or was being written.
fn is_left(
    store: &dyn Store,
    context: &StreamsContext,
    name: &str,
    (storage, brought_by): (&str, base::Lineage),
) -> Result<bool, StoreError> {
    let Some(BlockName { stream, first }) = BlockName::of_file(name) else {
        // One that was being written; whatever else has such a name is nobody's to delete.
        return Ok(!name.ends_with(BLOCK_SUFFIX));
    };
    let file = BlockFile { stream, first, storage: storage.into(), brought_by };
    Ok(!context.blocks.is_unsettled(&file) && !has_row(store, &file)?)
}

/// Whether a row says that a block lies there.
pub(super) fn has_row(store: &dyn Store, file: &BlockFile) -> Result<bool, StoreError> {
    let index = file.stream.partition_index();
    if index >= store.partitions() {
        return Ok(false);
    }
    let row = store.view(PartitionId::of_streams(index))?.stream_block(file.stream, file.first)?;
    Ok(row.is_some_and(|row| BlockFile::of(&row) == *file))
}
