//! A block is brought to another storage: read, written there, and read there again. Its row and
//! the file that it leaves behind are its partition's affair.

use std::io;

use base::{Lineage, PartitionId};
use records::{LOCAL_STORAGE, StreamBlock};
use store::{BlockStorage, Store};

use super::block_worker::BlockFile;
use super::context::StreamsContext;

/// Bytes that are read at a time.
const READ_BYTES: u64 = 8 << 20;

/// A block that is to go to another storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockToMove {
    /// Whose it is.
    pub partition: PartitionId,
    /// Its row, which says where it is.
    pub block: StreamBlock,
    /// The storage that it goes to.
    pub to: Box<str>,
}

/// What came of moving a block.
#[derive(Debug)]
pub struct MovedBlock {
    /// Which it was.
    pub moved: BlockToMove,
    /// Its file there, whether it was written or not.
    pub target: BlockFile,
    /// Its row from now on, or why it stays.
    pub result: Result<StreamBlock, MoveFailure>,
}

/// Why a block could not be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveFailure {
    /// What cannot be used.
    pub at: MoveFailedAt,
    /// What it says.
    pub text: Box<str>,
}

/// What keeps a block from being moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveFailedAt {
    /// The storage that has it.
    Source,
    /// The storage that it goes to.
    Target,
    /// The block: it is damaged or gone, and trying again does not help.
    Block,
}

impl BlockToMove {
    /// The row once it is there.
    fn row(&self, lineage: Lineage) -> StreamBlock {
        let is_local = *self.to == *LOCAL_STORAGE;
        let brought_by = if is_local { Lineage(0) } else { lineage };
        StreamBlock { storage: self.to.clone(), brought_by, ..self.block.clone() }
    }

    /// Its file there.
    pub(super) fn target(&self, lineage: Lineage) -> BlockFile {
        BlockFile::of(&self.row(lineage))
    }
}

/// Brings a block to another storage. On return it is durable there, as it was written at first.
pub(super) fn move_block(
    store: &dyn Store,
    context: &StreamsContext,
    moved: &BlockToMove,
) -> Result<StreamBlock, MoveFailure> {
    let row = moved.row(store.lineage());
    let known = |at, name: &str| context.storage(store, name).ok_or_else(|| unknown(at, name));
    let source = known(MoveFailedAt::Source, &moved.block.storage)?;
    let target = known(MoveFailedAt::Target, &moved.to)?;
    let bytes = read_whole(&*source, &moved.block)?;
    context.blocks.begin(&BlockFile::of(&row));
    let name = row.file_name();
    target.put(&name, &bytes).map_err(|error| failed(MoveFailedAt::Target, &moved.to, &error))?;
    drop(bytes);
    match checksum(&*target, &row, |_| {}) {
        Ok(checksum) if checksum == row.checksum => Ok(row),
        Ok(_) => Err(failed(MoveFailedAt::Target, &moved.to, &"it gives other bytes than were written")),
        Err(error) => Err(failed(MoveFailedAt::Target, &moved.to, &error)),
    }
}

fn read_whole(source: &dyn BlockStorage, block: &StreamBlock) -> Result<Vec<u8>, MoveFailure> {
    let mut bytes = Vec::new();
    let read = checksum(source, block, |part| bytes.extend_from_slice(part));
    match read {
        Ok(checksum) if checksum == block.checksum => Ok(bytes),
        Ok(_) => Err(failed(MoveFailedAt::Block, &block.storage, &damaged(block))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
            Err(failed(MoveFailedAt::Block, &block.storage, &damaged(block)))
        }
        Err(error) => Err(failed(MoveFailedAt::Source, &block.storage, &error)),
    }
}

/// The checksum of a block's file as a storage has it.
fn checksum(storage: &dyn BlockStorage, block: &StreamBlock, mut each: impl FnMut(&[u8])) -> io::Result<u32> {
    let (name, mut offset, mut checksum) = (block.file_name(), 0, 0);
    while offset < block.stored_bytes {
        let length = (block.stored_bytes - offset).min(READ_BYTES);
        let part = storage.get_range(&name, offset, length as usize)?;
        checksum = crc32c::crc32c_append(checksum, &part);
        each(&part);
        offset += length;
    }
    Ok(checksum)
}

fn damaged(block: &StreamBlock) -> String {
    format!("block {} is damaged or missing: it stays where it is", block.file_name())
}

fn unknown(at: MoveFailedAt, name: &str) -> MoveFailure {
    let text = format!("there is no storage {name:?} among the settings");
    MoveFailure { at, text: text.into() }
}

fn failed(at: MoveFailedAt, storage: &str, error: &dyn std::fmt::Display) -> MoveFailure {
    MoveFailure { at, text: format!("storage {storage:?}: {error}").into() }
}
