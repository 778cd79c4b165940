//! A backup: what was durable at one moment, as a sequence of checksummed pieces.
//!
//! [`EmbeddedStore::backup`] brings the tables to a cut and pins them; [`Backup::next_piece`] then
//! reads row after row, and commits and checkpoints go on meanwhile. What the rows mean is not
//! known here, nor where the pieces go. Behind the rows come the files of blocks of streams; none
//! of them goes while a backup is under way. Meanwhile the file of the tables keeps what changes.
//! It grows by as much, and the room is used again afterwards.

pub(super) mod piece;
pub(super) mod reader;

use std::fmt;

use base::random::unguessable;
use base::{PartitionId, Timestamp};
use records::StreamBlock;

use super::EmbeddedStore;
use super::tables::{RowIter, Snapshot, Table};
use super::view::damaged_row;
use crate::blocks::{BlockHold, BlockStorage, DiskBlocks};
use crate::codec::Stored;
use crate::key_range::KeyRange;
use crate::port::{Store, StoreError};
use piece::{BackupEnd, BackupHead, FilePart, PieceKind, RowsBody};

/// A piece is sent once it has this many bytes: large enough that its header is nothing, small
/// enough to be kept twice.
const PIECE_BYTES: usize = 256 << 10;

/// A backup under way.
pub struct Backup {
    snapshot: Snapshot,
    head: BackupHead,
    stamp: u64,
    /// Where rows are still to be read, the next one last.
    places: Vec<(Table, PartitionId)>,
    reading: Option<BackupTable>,
    /// Partitions whose files are still to be read, the next one last.
    files_of: Vec<PartitionId>,
    blocks: Option<RowIter>,
    file: Option<ReadFile>,
    storage: DiskBlocks,
    _held: BlockHold,
    step: BackupStep,
    pieces: u64,
    rows: u64,
}

struct BackupTable {
    table: Table,
    partition: PartitionId,
    rows: RowIter,
}

/// A file that is being read, and how far.
struct ReadFile {
    name: String,
    offset: u64,
    length: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackupStep {
    Head,
    Rows,
    Files,
    Done,
}

impl EmbeddedStore {
    /// Begins a backup of everything that is durable now: all partitions at the same position of
    /// the log.
    ///
    /// # Errors
    /// When the store has failed, or fails now.
    pub fn backup(&self) -> Result<Backup, StoreError> {
        let stamp = unguessable::<8>().map(u64::from_le_bytes).map_err(|error| {
            StoreError::Refused(format!("the operating system gives no random numbers: {error}"))
        })?;
        // Before the cut: whatever its rows name stays.
        let held = self.blocks.hold();
        let (snapshot, position) = self.cut()?;
        let head = BackupHead { directory: self.directory.to_row(), position, now: self.recorded_now() };
        let partitions = || self.partitions.iter().map(|partition| partition.id);
        let tables = Table::ALL.into_iter().filter(|table| *table != Table::Directory);
        let mut places: Vec<_> =
            tables.flat_map(|table| partitions().map(move |partition| (table, partition))).collect();
        places.reverse();
        let files_of = partitions().filter(|partition| partition.streams_index().is_some()).collect();
        Ok(Backup {
            snapshot,
            head,
            stamp,
            places,
            reading: None,
            files_of,
            blocks: None,
            file: None,
            storage: self.blocks.clone(),
            _held: held,
            step: BackupStep::Head,
            pieces: 0,
            rows: 0,
        })
    }
}

impl Backup {
    /// The latest time that any batch in it recorded.
    #[must_use]
    pub fn recorded_now(&self) -> Timestamp {
        self.head.now
    }

    /// The next piece; `None` behind the last. A backup is complete when its last piece is there.
    ///
    /// # Errors
    /// When the tables cannot be read; the backup is worth nothing then.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        match self.step {
            BackupStep::Head => {
                self.step = BackupStep::Rows;
                Ok(Some(self.piece(PieceKind::Head, &self.head.encode())))
            }
            BackupStep::Rows => match self.next_rows()? {
                Some(rows) => {
                    self.rows += rows.rows;
                    Ok(Some(self.piece(PieceKind::Rows, rows.bytes())))
                }
                None => {
                    self.step = BackupStep::Files;
                    self.next_piece()
                }
            },
            BackupStep::Files => match self.next_file_part()? {
                Some(body) => Ok(Some(self.piece(PieceKind::File, &body))),
                None => {
                    self.step = BackupStep::Done;
                    let end = BackupEnd { rows: self.rows, pieces: self.pieces };
                    Ok(Some(self.piece(PieceKind::End, &end.encode())))
                }
            },
            BackupStep::Done => Ok(None),
        }
    }

    fn piece(&mut self, kind: PieceKind, body: &[u8]) -> Vec<u8> {
        let piece = piece::encode(kind, self.stamp, self.pieces, body);
        self.pieces += 1;
        piece
    }

    /// Rows of one table and partition; never none.
    fn next_rows(&mut self) -> Result<Option<RowsBody>, StoreError> {
        loop {
            if self.reading.is_none() {
                let Some((table, partition)) = self.places.pop() else { return Ok(None) };
                let rows = self.snapshot.range(table, partition, &KeyRange::all())?;
                self.reading = Some(BackupTable { table, partition, rows });
            }
            if let Some(body) = self.fill()? {
                return Ok(Some(body));
            }
        }
    }

    /// Bytes of one file. One that cannot be read is left out: a check of the backup tells of it.
    fn next_file_part(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        loop {
            if self.file.is_none() {
                self.file = self.next_file()?;
            }
            let Some(mut file) = self.file.take() else { return Ok(None) };
            let length = (file.length - file.offset).min(PIECE_BYTES as u64);
            match self.storage.get_range(&file.name, file.offset, length as usize) {
                Ok(bytes) => {
                    let part = FilePart { name: &file.name, offset: file.offset, bytes: &bytes };
                    let body = part.encode();
                    file.offset += length;
                    self.file = Some(file).filter(|file| file.offset < file.length);
                    return Ok(Some(body));
                }
                Err(error) => {
                    tracing::error!(file = file.name, %error, "the backup lacks a block of a stream");
                }
            }
        }
    }

    /// The file of the next block of the local storage: those that lie elsewhere stay there.
    fn next_file(&mut self) -> Result<Option<ReadFile>, StoreError> {
        loop {
            if let Some(row) = self.blocks.as_mut().and_then(Iterator::next) {
                let (key, value) = row?;
                let block = StreamBlock::from_row(&value)
                    .map_err(|error| damaged_row(self.snapshot.name(), Table::StreamBlocks, &key, &error))?;
                if !block.is_local() {
                    continue;
                }
                let (name, length) = (block.file_name(), block.stored_bytes);
                return Ok(Some(ReadFile { name, offset: 0, length }));
            }
            let Some(partition) = self.files_of.pop() else { return Ok(None) };
            self.blocks = Some(self.snapshot.range(Table::StreamBlocks, partition, &KeyRange::all())?);
        }
    }

    /// Fills a body from what is being read, and ends that when it is at its end.
    fn fill(&mut self) -> Result<Option<RowsBody>, StoreError> {
        let Some(BackupTable { table, partition, rows }) = &mut self.reading else { return Ok(None) };
        let mut body = RowsBody::of(*table, partition.0);
        while body.bytes().len() < PIECE_BYTES {
            let Some(row) = rows.next() else {
                self.reading = None;
                break;
            };
            let (key, value) = row?;
            body.add(&key, &value);
        }
        Ok((body.rows > 0).then_some(body))
    }
}

impl fmt::Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backup")
            .field("head", &self.head)
            .field("pieces", &self.pieces)
            .finish_non_exhaustive()
    }
}
