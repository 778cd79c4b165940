//! Reading a backup from front to back: every checksum, the order of the pieces, and that the end
//! is there.
//!
//! What a row means is looked at by whoever takes it. Bounded memory: one piece at a time.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Read};

use base::{PartitionId, Timestamp};
use records::StreamBlock;

use super::piece::{
    BackupEnd, BackupHead, FilePart, HEADER_BYTES, Header, PieceHeaderError, PieceKind, RowsRead,
};
use crate::codec::{CodecError, Stored};
use crate::embedded::directory::DataDirectory;
use crate::embedded::tables::Table;
use crate::port::StoreError;

/// What a whole backup was found to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// The latest time that any batch in it recorded.
    pub recorded_now: Timestamp,
    /// Rows of tables.
    pub rows: u64,
    /// Pieces, each under a checksum.
    pub pieces: u64,
    /// Its length.
    pub bytes: u64,
    /// Blocks of streams that are not in it, because they lie in other storages: how many, by
    /// storage.
    pub elsewhere: BTreeMap<Box<str>, u64>,
}

/// Reads every piece of a backup and looks at its checksum.
///
/// # Errors
/// [`StoreError::Refused`] for one that was cut off, of a later version or no backup at all.
/// [`StoreError::Damaged`] with the offset for one that is not what was written.
pub fn verify_backup(read: impl Read, name: &str) -> Result<BackupSummary, StoreError> {
    let mut reader = BackupReader::open(read, name.to_owned())?;
    while reader.next_rows(|_, _, _, _| Ok(()), |_| Ok(()))? {}
    Ok(reader.summary())
}

/// A backup that is being read.
pub(in crate::embedded) struct BackupReader<R> {
    pieces: PieceReader<R>,
    pub(in crate::embedded) directory: DataDirectory,
    now: Timestamp,
    rows: u64,
    elsewhere: BTreeMap<Box<str>, u64>,
}

impl<R: Read> BackupReader<R> {
    /// Reads the head.
    pub(in crate::embedded) fn open(read: R, name: String) -> Result<Self, StoreError> {
        let mut pieces = PieceReader { read, name, stamp: None, offset: 0, count: 0, body: Vec::new() };
        let (kind, at) = pieces.next()?;
        if kind != PieceKind::Head {
            return Err(pieces.damaged(at, "it does not begin with its head"));
        }
        let head = BackupHead::decode(&pieces.body).map_err(|error| pieces.damaged(at, error))?;
        let directory =
            DataDirectory::from_row(&head.directory).map_err(|error| pieces.foreign(at, &error))?;
        Ok(Self { pieces, directory, now: head.now, rows: 0, elsewhere: BTreeMap::new() })
    }

    /// Hands out the rows of the next piece, or what it has of a file; false at the end, which is
    /// checked.
    pub(in crate::embedded) fn next_rows(
        &mut self,
        mut take: impl FnMut(Table, PartitionId, &[u8], &[u8]) -> Result<(), StoreError>,
        take_file: impl FnOnce(FilePart<'_>) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let (kind, at) = self.pieces.next()?;
        let damaged = |error: CodecError| self.pieces.damaged(at, error);
        match kind {
            PieceKind::Head => Err(self.pieces.damaged(at, "it has a second head")),
            PieceKind::End => {
                let end = BackupEnd::decode(&self.pieces.body).map_err(damaged)?;
                // the end does not count itself
                if end != (BackupEnd { rows: self.rows, pieces: self.pieces.count - 1 }) {
                    let what = format!("it should have {} rows in {} pieces", end.rows, end.pieces);
                    return Err(self.pieces.damaged(at, what));
                }
                self.pieces.end().map(|()| false)
            }
            PieceKind::File => {
                let part = FilePart::decode(&self.pieces.body).map_err(damaged)?;
                take_file(part).map(|()| true)
            }
            PieceKind::Rows => {
                let mut rows = RowsRead::decode(&self.pieces.body).map_err(damaged)?;
                let partition = PartitionId(rows.partition);
                while let Some((key, value)) = rows.next().map_err(damaged)? {
                    self.rows += 1;
                    if rows.table == Table::StreamBlocks {
                        let block = StreamBlock::from_row(value).ok().filter(|block| !block.is_local());
                        block
                            .into_iter()
                            .for_each(|one| *self.elsewhere.entry(one.storage).or_default() += 1);
                    }
                    take(rows.table, partition, key, value)?;
                }
                Ok(true)
            }
        }
    }

    /// What was read, once the end was.
    pub(in crate::embedded) fn summary(&self) -> BackupSummary {
        let PieceReader { count: pieces, offset: bytes, .. } = self.pieces;
        BackupSummary {
            recorded_now: self.now,
            rows: self.rows,
            pieces,
            bytes,
            elsewhere: self.elsewhere.clone(),
        }
    }
}

/// The pieces of a backup, one after the other.
struct PieceReader<R> {
    read: R,
    name: String,
    /// That of the first piece.
    stamp: Option<u64>,
    /// Bytes read.
    offset: u64,
    /// Pieces read.
    count: u64,
    /// Of the latest piece.
    body: Vec<u8>,
}

impl<R: Read> PieceReader<R> {
    /// Reads one piece; its kind, and where it begins.
    fn next(&mut self) -> Result<(PieceKind, u64), StoreError> {
        let at = self.offset;
        let mut bytes = [0; HEADER_BYTES];
        self.fill(Part::Header(&mut bytes))?;
        let header = Header::decode(&bytes).map_err(|bad| self.bad_header(at, bad))?;
        self.body.resize(header.length, 0);
        self.fill(Part::Body)?;
        if !header.agrees(&bytes, &self.body) {
            return Err(self.damaged(at, "the piece does not agree with its checksum"));
        }
        let stamp = *self.stamp.get_or_insert(header.stamp);
        if (header.stamp, header.number) != (stamp, self.count) {
            let what = format!(
                "piece {} stands where piece {} should, or is of another backup",
                header.number, self.count
            );
            return Err(self.damaged(at, what));
        }
        self.count += 1;
        Ok((header.kind, at))
    }

    fn fill(&mut self, part: Part<'_>) -> Result<(), StoreError> {
        let out = match part {
            Part::Header(bytes) => &mut bytes[..],
            Part::Body => &mut self.body[..],
        };
        let length = out.len() as u64;
        match self.read.read_exact(out) {
            Ok(()) => {
                self.offset += length;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(StoreError::Refused(format!(
                "{} ends within the piece at offset {} and without its last one: it was cut off while it was made or copied; \
                     make another",
                self.name, self.offset
            ))),
            Err(source) => Err(StoreError::Disk { what: format!("reading {}", self.name), source }),
        }
    }

    /// Nothing follows.
    fn end(&mut self) -> Result<(), StoreError> {
        let mut behind = [0];
        match self.read.read(&mut behind) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.damaged(self.offset, "it goes on behind its end")),
            Err(source) => Err(StoreError::Disk { what: format!("reading {}", self.name), source }),
        }
    }

    fn bad_header(&self, at: u64, bad: PieceHeaderError) -> StoreError {
        match bad {
            PieceHeaderError::NoPiece if at == 0 => {
                StoreError::Refused(format!("{} is no backup", self.name))
            }
            PieceHeaderError::NoPiece => self.damaged(at, "a piece should begin here"),
            PieceHeaderError::Form(found) => StoreError::Refused(format!(
                "{} has pieces of form {found} at offset {at}, and this build reads form 1: use the version that wrote it, or a \
                 later one",
                self.name
            )),
        }
    }

    fn foreign(&self, at: u64, error: &CodecError) -> StoreError {
        match error {
            CodecError::Version { found, known, .. } => StoreError::Refused(format!(
                "{} is of format {found}, this build reads formats up to {known}: use the version that wrote it, or a later one",
                self.name
            )),
            error => self.damaged(at, error),
        }
    }

    fn damaged(&self, at: u64, what: impl Display) -> StoreError {
        StoreError::Damaged { file: self.name.clone(), at: format!("offset {at}"), what: what.to_string() }
    }
}

enum Part<'a> {
    Header(&'a mut [u8; HEADER_BYTES]),
    Body,
}
