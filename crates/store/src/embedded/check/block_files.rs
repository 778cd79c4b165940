//! The files of blocks of streams: each row has its own, as it was written, and each file a row.

use std::collections::BTreeSet;
use std::io;

use records::StreamBlock;

use super::Telling;
use crate::blocks::BlockStorage;
use crate::codec::Stored;
use crate::embedded::EmbeddedStore;
use crate::embedded::tables::{Snapshot, Table};
use crate::key_range::KeyRange;
use crate::port::{Store, StoreError};

/// Bytes of a file that are read at a time.
const READ_BYTES: u64 = 1 << 20;

/// Looks at the files of all blocks.
pub(super) fn all(store: &EmbeddedStore, telling: &mut Telling<'_>) {
    let storage = store.blocks();
    let mut names = match storage.list() {
        Ok(names) => names.into_iter().collect::<BTreeSet<_>>(),
        Err(source) => {
            let what = "listing the files of blocks".to_owned();
            return telling.found(StoreError::Disk { what, source });
        }
    };
    let mut looked_at = 0;
    match store.cut() {
        Ok((snapshot, _)) => {
            for block in blocks_of(store, &snapshot) {
                looked_at += 1;
                names.remove(&block.file_name());
                if let Err(error) = file(&*storage, &block) {
                    telling.found(error);
                }
            }
        }
        Err(error) => telling.found(error),
    }
    telling.counted("files of blocks", looked_at);
    if !names.is_empty() {
        let first = names.first().map_or("", String::as_str);
        let text = format!(
            "{} files of blocks have no row, {first} is one: the next start deletes them",
            names.len()
        );
        telling.noted(text);
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
    let damaged =
        |at: u64, what: String| StoreError::Damaged { file: name.clone(), at: format!("offset {at}"), what };
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
