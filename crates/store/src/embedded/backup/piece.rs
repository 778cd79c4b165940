//! The pieces that a backup consists of. Each is numbered and under a checksum, so that one that is
//! damaged, lost, repeated or of another backup is seen. The end has a piece of its own.
//!
//! ```text
//! piece    magic "FPBP", kind, form (1 byte), zeros (2), stamp (8), number (8), bytes of the body
//!          (4), CRC-32C of all else (4), body. Numbers are little-endian.
//! stamp    drawn for each backup; the same in all its pieces
//! head     the row of the data directory, the partition's clocks at the cut: position (varint),
//!          time (varint)
//! rows     name of the table, partition (2 bytes), rows: key and value, each behind its length
//! end      rows in all (varint), pieces before it (varint)
//! file     name of a block, where the bytes stand (varint), bytes behind their length
//! ```
//!
//! Rows are those of the tables, byte for byte: their forms have versions of their own. To change
//! the form of pieces: give it the next number and go on reading this one.

use base::Timestamp;
use blocklog::Position;

use crate::codec::{ByteReader, CodecError, put_bytes, put_i64, put_u64};
use crate::embedded::tables::Table;

const MAGIC: &[u8; 4] = b"FPBP";
const FORM: u8 = 1;
/// Bytes before the body.
pub(in crate::embedded) const HEADER_BYTES: usize = 32;
const STAMP_AT: usize = 8;
const NUMBER_AT: usize = 16;
const LENGTH_AT: usize = 24;
const CHECKSUM_AT: usize = 28;
/// The longest body: the largest row there can be, a batch of the log that is one record, and some
/// more.
pub(in crate::embedded) const BODY_BYTES_MAX: usize = blocklog::PAYLOAD_BYTES_MAX + (1 << 20);

/// What a piece holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum PieceKind {
    Head,
    Rows,
    End,
    File,
}

const KINDS: [PieceKind; 4] = [PieceKind::Head, PieceKind::Rows, PieceKind::End, PieceKind::File];

/// What stands before a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Header {
    pub(in crate::embedded) kind: PieceKind,
    pub(in crate::embedded) stamp: u64,
    pub(in crate::embedded) number: u64,
    pub(in crate::embedded) length: usize,
    checksum: u32,
}

/// Why bytes are not the header of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum PieceHeaderError {
    NoPiece,
    Form(u8),
}

/// The bytes of a piece. A body is at most [`BODY_BYTES_MAX`] long.
pub(in crate::embedded) fn encode(kind: PieceKind, stamp: u64, number: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[kind as u8, FORM, 0, 0]);
    out.extend_from_slice(&stamp.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    let checksum = checksum_of(&out, body);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(body);
    out
}

fn checksum_of(before: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(before), body)
}

impl Header {
    pub(in crate::embedded) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, PieceHeaderError> {
        let narrow = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let wide = |at: usize| u64::from(narrow(at)) | u64::from(narrow(at + 4)) << 32;
        if &bytes[..4] != MAGIC {
            return Err(PieceHeaderError::NoPiece);
        }
        if bytes[5] != FORM {
            return Err(PieceHeaderError::Form(bytes[5]));
        }
        let kind = KINDS.get(usize::from(bytes[4])).ok_or(PieceHeaderError::NoPiece)?;
        let length = narrow(LENGTH_AT) as usize;
        if length > BODY_BYTES_MAX {
            return Err(PieceHeaderError::NoPiece);
        }
        Ok(Self {
            kind: *kind,
            stamp: wide(STAMP_AT),
            number: wide(NUMBER_AT),
            length,
            checksum: narrow(CHECKSUM_AT),
        })
    }

    /// Whether `body` is what followed `bytes`, this header, when the piece was made.
    pub(in crate::embedded) fn agrees(&self, bytes: &[u8; HEADER_BYTES], body: &[u8]) -> bool {
        checksum_of(&bytes[..CHECKSUM_AT], body) == self.checksum
    }
}

/// The body of the first piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct BackupHead {
    /// The row of the data directory, which says which forms all others have.
    pub(in crate::embedded) directory: Vec<u8>,
    /// Where it was cut.
    pub(in crate::embedded) position: Position,
    /// The latest time that any batch recorded.
    pub(in crate::embedded) now: Timestamp,
}

impl BackupHead {
    pub(in crate::embedded) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, &self.directory);
        put_u64(&mut out, self.position.0);
        put_i64(&mut out, self.now.0);
        out
    }

    pub(in crate::embedded) fn decode(body: &[u8]) -> Result<Self, CodecError> {
        let mut reader = ByteReader::new(body);
        let head = Self {
            directory: reader.bytes("a data directory")?.to_vec(),
            position: Position(reader.u64("a position")?),
            now: Timestamp(reader.i64("a time")?),
        };
        reader.end().map(|()| head)
    }
}

/// The body of a piece of rows, while it is filled.
#[derive(Debug)]
pub(in crate::embedded) struct RowsBody {
    bytes: Vec<u8>,
    pub(in crate::embedded) rows: u64,
}

impl RowsBody {
    pub(in crate::embedded) fn of(table: Table, partition: u16) -> Self {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, table.name().as_bytes());
        bytes.extend_from_slice(&partition.to_le_bytes());
        Self { bytes, rows: 0 }
    }

    pub(in crate::embedded) fn add(&mut self, key: &[u8], value: &[u8]) {
        put_bytes(&mut self.bytes, key);
        put_bytes(&mut self.bytes, value);
        self.rows += 1;
    }

    pub(in crate::embedded) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A row as a piece has it: its key and its value.
type Row<'a> = (&'a [u8], &'a [u8]);

/// The rows of a piece: which table, which partition, and key and value of each.
pub(in crate::embedded) struct RowsRead<'a> {
    pub(in crate::embedded) table: Table,
    pub(in crate::embedded) partition: u16,
    rows: ByteReader<'a>,
}

impl<'a> RowsRead<'a> {
    pub(in crate::embedded) fn decode(body: &'a [u8]) -> Result<Self, CodecError> {
        let mut rows = ByteReader::new(body);
        let name = rows.bytes("a table")?;
        let table = Table::ALL.into_iter().find(|table| table.name().as_bytes() == name);
        let table =
            table.filter(|table| *table != Table::Directory).ok_or_else(|| rows.invalid("a table"))?;
        let partition = u16::from_le_bytes(rows.array("a partition")?);
        Ok(Self { table, partition, rows })
    }

    pub(in crate::embedded) fn next(&mut self) -> Result<Option<Row<'a>>, CodecError> {
        if self.rows.is_at_end() {
            return Ok(None);
        }
        Ok(Some((self.rows.bytes("a key")?, self.rows.bytes("a row")?)))
    }
}

/// The body of a piece with bytes of a block's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct FilePart<'a> {
    pub(in crate::embedded) name: &'a str,
    pub(in crate::embedded) offset: u64,
    pub(in crate::embedded) bytes: &'a [u8],
}

impl<'a> FilePart<'a> {
    pub(in crate::embedded) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + 64);
        put_bytes(&mut out, self.name.as_bytes());
        put_u64(&mut out, self.offset);
        put_bytes(&mut out, self.bytes);
        out
    }

    pub(in crate::embedded) fn decode(body: &'a [u8]) -> Result<Self, CodecError> {
        let mut reader = ByteReader::new(body);
        let part = Self {
            name: reader.text("the name of a file")?,
            offset: reader.u64("an offset")?,
            bytes: reader.bytes("bytes of a file")?,
        };
        reader.end().map(|()| part)
    }
}

/// The body of the last piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct BackupEnd {
    pub(in crate::embedded) rows: u64,
    pub(in crate::embedded) pieces: u64,
}

impl BackupEnd {
    pub(in crate::embedded) fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        put_u64(&mut out, self.rows);
        put_u64(&mut out, self.pieces);
        out
    }

    pub(in crate::embedded) fn decode(body: &[u8]) -> Result<Self, CodecError> {
        let mut reader = ByteReader::new(body);
        let end = Self { rows: reader.u64("a count")?, pieces: reader.u64("a count")? };
        reader.end().map(|()| end)
    }
}
