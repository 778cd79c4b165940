//! Reads the records of a segment in order, in bounded memory, and goes on behind damaged places.

use std::io;
use std::sync::Arc;

use blocklog::DiskFile;

use crate::record::{RecordFound, SpoolRecord, next_marker};

/// Bytes that are read at a time; more for a longer record.
const CHUNK_BYTES: usize = 64 * 1_024;
/// What a disk that fails is read in, so that little is lost.
const PAGE_BYTES: usize = 4_096;

/// What comes next.
#[derive(Debug)]
pub(crate) enum SegmentStep {
    /// A record, the place where it begins, and its length.
    Record(SpoolRecord, u64, usize),
    /// Bytes from one place to another that are no record.
    Damaged(u64, u64),
}

/// A segment that is read.
pub(crate) struct SegmentReader {
    file: Arc<dyn DiskFile>,
    length: u64,
    /// Where `buffer` begins.
    start: u64,
    buffer: Vec<u8>,
    /// How far `buffer` is read.
    at: usize,
    /// What the disk cannot read is damaged, and no error.
    is_lenient: bool,
}

impl SegmentReader {
    /// From `offset` up to `length`.
    pub(crate) fn new(file: Arc<dyn DiskFile>, offset: u64, length: u64) -> Self {
        Self { file, length, start: offset, buffer: Vec::new(), at: 0, is_lenient: false }
    }

    /// What the disk cannot read is taken for zeros, which are damaged.
    pub(crate) fn lenient(self) -> Self {
        Self { is_lenient: true, ..self }
    }

    /// Where the next step begins.
    pub(crate) fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    /// The next record or damaged place; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<SegmentStep>> {
        let offset = self.offset();
        if offset >= self.length {
            return Ok(None);
        }
        if let Some((record, bytes)) = self.decode()? {
            self.at += bytes;
            return Ok(Some(SegmentStep::Record(record, offset, bytes)));
        }
        loop {
            self.skip_to_marker()?;
            if self.offset() >= self.length || self.decode()?.is_some() {
                return Ok(Some(SegmentStep::Damaged(offset, self.offset())));
            }
        }
    }

    /// The record that begins here, if there is one.
    fn decode(&mut self) -> io::Result<Option<(SpoolRecord, usize)>> {
        loop {
            match SpoolRecord::decode(&self.buffer[self.at..]) {
                RecordFound::Record(record, bytes) => return Ok(Some((record, bytes))),
                RecordFound::Cut(needed) if self.offset() + needed as u64 <= self.length => {
                    self.fill(needed)?;
                }
                RecordFound::Cut(_) | RecordFound::Damaged => return Ok(None),
            }
        }
    }

    /// Moves on by one byte at least, to where a record may begin, or to the end.
    fn skip_to_marker(&mut self) -> io::Result<()> {
        self.at += 1;
        loop {
            if let Some(at) = next_marker(&self.buffer, self.at) {
                self.at = at;
                return Ok(());
            }
            let end = self.start + self.buffer.len().max(self.at) as u64;
            if end >= self.length {
                self.at = (self.length - self.start) as usize;
                return Ok(());
            }
            // A marker may have begun in the last three bytes.
            self.at = self.at.max(self.buffer.len().saturating_sub(3));
            self.fill(4)?;
        }
    }

    /// Holds at least so many bytes from here on; there are so many.
    fn fill(&mut self, needed: usize) -> io::Result<()> {
        self.start += self.at as u64;
        // A file that is too short for a record was never read.
        self.buffer.drain(..self.at.min(self.buffer.len()));
        self.at = 0;
        let held = self.buffer.len();
        let left = self.length - self.start;
        let wanted = (needed.max(CHUNK_BYTES) as u64).min(left) as usize;
        if wanted > held {
            self.buffer.resize(wanted, 0);
            let read = self.read(held);
            if read.is_err() {
                self.buffer.truncate(held);
            }
            return read;
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads the buffer from there on.
    fn read(&mut self, from: usize) -> io::Result<()> {
        let at = self.start + from as u64;
        let read = self.file.read_at(at, &mut self.buffer[from..]);
        if read.is_ok() || !self.is_lenient {
            return read;
        }
        for (page, bytes) in self.buffer[from..].chunks_mut(PAGE_BYTES).enumerate() {
            if self.file.read_at(at + (page * PAGE_BYTES) as u64, bytes).is_err() {
                bytes.fill(0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use blocklog::{Disk, SimulatedDisk};
    use proptest::prelude::*;

    use super::*;
    use crate::destination::Destination;
    use crate::record::SpoolEntry;

    fn record(number: u64, bytes: usize) -> SpoolRecord {
        let entry = SpoolEntry {
            destination: Destination::reports(),
            items: 1,
            key: None,
            follow: None,
            body: vec![b'x'; bytes].into(),
        };
        SpoolRecord { identity: 1, number, received: Timestamp(0), entry }
    }

    /// The numbers of the records that are read, and how many places are damaged.
    fn read(bytes: &[u8]) -> (Vec<u64>, usize) {
        let disk = SimulatedDisk::new(1);
        let file = disk.open("segment", true).expect("made");
        file.write_at(0, bytes).expect("written");
        let mut reader = SegmentReader::new(file, 0, bytes.len() as u64);
        let (mut numbers, mut damaged, mut end) = (Vec::new(), 0, 0);
        while let Some(step) = reader.next().expect("readable") {
            let (from, to) = match step {
                SegmentStep::Record(record, offset, bytes) => {
                    numbers.push(record.number);
                    (offset, offset + bytes as u64)
                }
                SegmentStep::Damaged(from, to) => {
                    damaged += 1;
                    (from, to)
                }
            };
            assert_eq!(from, end, "no byte is left out");
            end = to;
        }
        assert_eq!(end, bytes.len() as u64);
        (numbers, damaged)
    }

    #[test]
    fn records_of_all_sizes_are_read_in_order() {
        let mut bytes = Vec::new();
        for (number, size) in [(1, 0), (2, CHUNK_BYTES), (3, 10), (4, 3 * CHUNK_BYTES), (5, CHUNK_BYTES - 70)]
        {
            record(number, size).encode(&mut bytes);
        }
        assert_eq!(read(&bytes), (vec![1, 2, 3, 4, 5], 0));
        assert_eq!(read(&[]), (vec![], 0));
        assert_eq!(read(&vec![0; 2 * CHUNK_BYTES]), (vec![], 1));
        bytes.extend_from_slice(&[0; 100]);
        assert_eq!(read(&bytes), (vec![1, 2, 3, 4, 5], 1));
        assert_eq!(read(&bytes[..bytes.len() - 110]), (vec![1, 2, 3, 4], 1));
    }

    proptest! {
        #[test]
        fn one_damaged_byte_costs_one_record(sizes in prop::collection::vec(0_usize..9_000, 1..30), at: usize, xor in 1_u8..) {
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            for (number, size) in sizes.iter().enumerate() {
                record(number as u64, *size).encode(&mut bytes);
                ends.push(bytes.len());
            }
            let at = at % bytes.len();
            bytes[at] ^= xor;
            let hit = ends.iter().position(|end| at < *end).expect("within") as u64;
            let expect: Vec<u64> = (0..sizes.len() as u64).filter(|number| *number != hit).collect();
            prop_assert_eq!(read(&bytes), (expect, 1));
        }
    }
}
