//! The head of the file: the library's first bytes, overwritten in place, two slots in two copies.

use std::io;

use blocklog::DiskFile;

use super::{DamagedPage, PAGE};

/// Bytes of a slot: a sector, which no crash tears.
const SLOT: usize = 512;
const SLOTS: u64 = 2;
const COPIES: u64 = 2;
const MAGIC: &[u8; 4] = b"FPTB";
/// The form of the file. To change it: give it the next number and let [`PageHead::read`] say what
/// to do with this one.
const FORMAT: u32 = 1;
const NUMBER_AT: usize = 8;
const CONTENT_AT: usize = 16;
const CHECKSUM_AT: usize = SLOT - 4;
/// Bytes of the library's head that are kept; it uses 320.
const CONTENT: usize = CHECKSUM_AT - CONTENT_AT;

#[derive(Clone)]
pub(super) struct PageHead {
    content: [u8; CONTENT],
    /// Counts the writes; its lowest bit is the slot.
    number: u64,
    /// Whether the latest write is durable: only then may the other slot be overwritten.
    is_durable: bool,
}

impl PageHead {
    /// The newest head of the file, or that of an empty file.
    pub(super) fn read(file: &dyn DiskFile, name: &str) -> io::Result<Self> {
        let empty = Self { content: [0; CONTENT], number: 0, is_durable: true };
        if file.len()? < (super::HEAD_PAGES as usize * PAGE) as u64 {
            return if file.is_empty()? { Ok(empty) } else { Err(damaged(name, "it is too short")) };
        }
        let mut newest: Option<Self> = None;
        let mut is_blank = true;
        for copy in 0..COPIES {
            for slot in 0..SLOTS {
                let mut bytes = [0; SLOT];
                file.read_at(offset(copy, slot), &mut bytes)?;
                is_blank &= bytes.iter().all(|byte| *byte == 0);
                let found = Self::decode(&bytes, name)?;
                newest = found.into_iter().chain(newest).max_by_key(|head| head.number);
            }
        }
        match newest {
            Some(head) => head.settled(file),
            None if is_blank => Ok(empty),
            None => Err(damaged(name, "no copy of its head is whole")),
        }
    }

    /// What was read may be in the memory of the operating system alone, if an earlier process
    /// failed to sync it. Writing the same bytes again changes nothing, whatever a crash leaves of
    /// it.
    fn settled(self, file: &dyn DiskFile) -> io::Result<Self> {
        self.put(file)?;
        file.sync()?;
        Ok(self)
    }

    fn decode(bytes: &[u8; SLOT], name: &str) -> io::Result<Option<Self>> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if &bytes[..4] != MAGIC || crc32c::crc32c(&bytes[..CHECKSUM_AT]) != number(CHECKSUM_AT) {
            return Ok(None);
        }
        if number(4) != FORMAT {
            let found = number(4);
            let text = format!(
                "{name} has form {found}, this build reads form {FORMAT}: start the version that wrote it"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let mut content = [0; CONTENT];
        content.copy_from_slice(&bytes[CONTENT_AT..CHECKSUM_AT]);
        let write = u64::from(number(NUMBER_AT)) | u64::from(number(NUMBER_AT + 4)) << 32;
        Ok(Some(Self { content, number: write, is_durable: true }))
    }

    fn encode(&self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..8].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[NUMBER_AT..CONTENT_AT].copy_from_slice(&self.number.to_le_bytes());
        bytes[CONTENT_AT..CHECKSUM_AT].copy_from_slice(&self.content);
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a part of the library's first page.
    pub(super) fn copy_to(&self, within: usize, out: &mut [u8]) {
        let content = self.content.iter().copied().chain(std::iter::repeat(0));
        out.iter_mut().zip(content.skip(within)).for_each(|(out, byte)| *out = byte);
    }

    /// Changes a part of the library's first page; behind what is kept it holds zeros only.
    pub(super) fn write(&mut self, file: &dyn DiskFile, within: usize, data: &[u8]) -> io::Result<()> {
        let kept = data.len().min(CONTENT.saturating_sub(within));
        if data[kept..].iter().any(|byte| *byte != 0) || within + data.len() > PAGE {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the library's head is larger than known",
            ));
        }
        self.content[within..within + kept].copy_from_slice(&data[..kept]);
        self.number += if self.is_durable { 1 } else { SLOTS };
        self.is_durable = false;
        self.put(file)
    }

    fn put(&self, file: &dyn DiskFile) -> io::Result<()> {
        let bytes = self.encode();
        (0..COPIES).try_for_each(|copy| file.write_at(offset(copy, self.number % SLOTS), &bytes))
    }

    /// The latest write.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The writes up to `number` are durable.
    pub(super) fn synced(&mut self, number: u64) {
        self.is_durable |= self.number == number;
    }
}

fn offset(copy: u64, slot: u64) -> u64 {
    copy * PAGE as u64 + slot * SLOT as u64
}

fn damaged(name: &str, what: &'static str) -> io::Error {
    let damaged = DamagedPage { file: name.to_owned(), offset: 0, what };
    io::Error::new(io::ErrorKind::InvalidData, damaged)
}
