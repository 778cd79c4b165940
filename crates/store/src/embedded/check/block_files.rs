//! The files of blocks of streams: each row has its own, as it was written, and each file a row.
//! Storages beside the data directory are looked at as far as they can be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use records::{StreamBlock, block_folder};

use super::Findings;
use crate::blocks::{BlockStorage, BlockStorages};
use crate::codec::Stored;
use crate::embedded::EmbeddedStore;
use crate::embedded::tables::{Snapshot, Table};
use crate::key_range::KeyRange;
use crate::port::{Store, StoreError};

/// Bytes of a file that are read at a time.
const READ_BYTES: u64 = 1 << 20;

/// Looks at the files of all blocks.
pub(super) fn all(store: &EmbeddedStore, storages: &BlockStorages, findings: &mut Findings<'_>) {
    let (snapshot, _) = match store.cut() {
        Ok(cut) => cut,
        Err(error) => return findings.found(error),
    };
    let mut elsewhere: BTreeMap<Box<str>, BlocksElsewhere> = BTreeMap::new();
    elsewhere.extend(storages.iter().map(|(name, _)| (Box::from(name), BlocksElsewhere::default())));
    let local = || blocks_of(store, &snapshot).filter(StreamBlock::is_local);
    storage(&*store.blocks(), "", local(), findings);
    for block in blocks_of(store, &snapshot).filter(|block| !block.is_local()) {
        let of_storage = elsewhere.entry(block.storage.clone()).or_default();
        of_storage.blocks += 1;
        of_storage.of_others += u64::from(block.brought_by != store.lineage());
    }
    for (name, found) in elsewhere {
        let BlocksElsewhere { blocks, of_others } = found;
        if of_others > 0 {
            findings.noted(format!(
                "{of_others} blocks in storage {name:?} were brought there by the server that this one was \
                 restored from: they are read there, and never deleted"
            ));
        }
        let Some(reached) = storages.get(&name) else {
            findings.noted(format!(
                "{blocks} blocks are in storage {name:?}, which is not among the settings: they were not \
                 looked at, and cannot be read (--config names a file of settings)"
            ));
            continue;
        };
        if let Err(error) = reached.probe() {
            findings.noted(format!("storage {name:?}: {error}: its {blocks} blocks were not looked at"));
            continue;
        }
        let rows = blocks_of(store, &snapshot).filter(|block| *block.storage == *name);
        storage(&**reached, &block_folder(store.lineage()), rows, findings);
    }
}

/// Blocks in a storage that is not the local one.
#[derive(Default)]
struct BlocksElsewhere {
    blocks: u64,
    /// Of these, those that another data directory brought there.
    of_others: u64,
}

/// Looks at the files of one storage; those in `folder` have to have a row.
fn storage(
    storage: &dyn BlockStorage,
    folder: &str,
    rows: impl Iterator<Item = StreamBlock>,
    findings: &mut Findings<'_>,
) {
    let mut names = match storage.names(folder) {
        Ok(names) => names.into_iter().collect::<BTreeSet<_>>(),
        Err(source) => {
            let what = format!("listing the files of blocks of {storage:?}");
            return findings.found(StoreError::Disk { what, source });
        }
    };
    let mut looked_at = 0;
    for block in rows {
        looked_at += 1;
        names.remove(&block.file_name());
        if let Err(error) = file(storage, &block) {
            findings.found(error);
        }
    }
    let what = if folder.is_empty() { "files of blocks" } else { "files of blocks in other storages" };
    findings.counted(what, looked_at);
    if let Some(first) = names.first() {
        let count = names.len();
        findings.noted(format!(
            "{count} files of blocks have no row, {first} is one: the next start deletes them"
        ));
    }
}

/// The rows of all blocks, as far as they can be read: the check of rows has told of the others.
fn blocks_of<'a>(store: &'a EmbeddedStore, snapshot: &'a Snapshot) -> impl Iterator<Item = StreamBlock> + 'a {
    let of_streams = store.partitions.iter().filter(|partition| partition.id.streams_index().is_some());
    let rows = of_streams
        .filter_map(|partition| snapshot.range(Table::StreamBlocks, partition.id, &KeyRange::all()).ok());
    rows.flatten().filter_map(|row| StreamBlock::from_row(&row.ok()?.1).ok())
}

/// Whether the file of a block is as it was written.
fn file(storage: &dyn BlockStorage, block: &StreamBlock) -> Result<(), StoreError> {
    let name = block.file_name();
    let file = if block.is_local() { name.clone() } else { format!("{}: {name}", block.storage) };
    let damaged =
        |at: u64, what: String| StoreError::Damaged { file: file.clone(), at: format!("offset {at}"), what };
    let (mut offset, mut checksum) = (0, 0);
    while offset < block.stored_bytes {
        let length = (block.stored_bytes - offset).min(READ_BYTES);
        let bytes =
            storage.get_range(&name, offset, length as usize).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => damaged(0, "the file of a block is missing".to_owned()),
                _ => damaged(offset, format!("the file of a block cannot be read: {error}")),
            })?;
        checksum = crc32c::crc32c_append(checksum, &bytes);
        offset += length;
    }
    match checksum == block.checksum {
        true => Ok(()),
        false => Err(damaged(0, "the file does not agree with the checksum in its block's row".to_owned())),
    }
}
