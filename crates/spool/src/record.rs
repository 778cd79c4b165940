//! A record as it is stored: what was accepted, and the number under which it takes effect once.
//!
//! Each begins with a marker, so that reading goes on behind a damaged one, and carries its length
//! and a checksum. Layout, numbers little-endian: marker (4 bytes), length of the content (4),
//! CRC-32C of length and content (4), content. The content: version (1), identity (8), number (8),
//! time of receipt (8), items (4). Then destination and key (length 2, text, each), the position in
//! a followed file (1, then 24 if it is 1), and the body.
//!
//! To change the format, give the content another version and read both.

use base::Timestamp;
use bytes::Bytes;

use crate::destination::Destination;

/// Largest record, in bytes: a request of the largest size, with what is around it.
pub(crate) const RECORD_BYTES_MAX: usize = 17 * 1_024 * 1_024;
/// Marker, length and checksum.
pub(crate) const HEAD_BYTES: usize = 12;
/// Numbers stay below it: they are external ids, whole numbers of 63 bits.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

const MARKER: [u8; 4] = [0xf1, 0x5e, 0xd0, 0x9c];
const VERSION: u8 = 1;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpoolRecord {
    /// The spool that gave the number.
    pub(crate) identity: u64,
    /// Rises with every record; never used twice by one identity.
    pub(crate) number: u64,
    /// When it was accepted, by the spool's clock.
    pub(crate) received: Timestamp,
    /// What was accepted.
    pub(crate) entry: SpoolEntry,
}

/// What was accepted, before it has a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpoolEntry {
    /// Where it goes.
    pub(crate) destination: Destination,
    /// How many reports, jobs or messages it is.
    pub(crate) items: u32,
    /// The caller's `Idempotency-Key`: the body is then its whole request.
    pub(crate) key: Option<Box<str>>,
    /// How far a followed file is read with this line.
    pub(crate) follow: Option<FollowPosition>,
    /// The JSON of one report, job or message, or a whole request.
    pub(crate) body: Bytes,
}

/// How far a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FollowPosition {
    /// Which file: its device and inode, mixed. Where there was none, the device alone.
    pub(crate) file: u64,
    /// Bytes that are read. Where there was no file, when it was first missed, in milliseconds.
    pub(crate) offset: u64,
    /// So many of its first bytes ..
    pub(crate) head_bytes: u32,
    /// .. have this CRC-32C: a file that was cut and written anew has another.
    pub(crate) head_checksum: u32,
}

/// What a place in a segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordFound {
    /// A record, and its length on disk.
    Record(SpoolRecord, usize),
    /// A record that is not all there: it needs so many bytes.
    Cut(usize),
    /// No record.
    Damaged,
}

impl SpoolRecord {
    /// Appends its stored form to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        out.push(VERSION);
        out.extend_from_slice(&self.identity.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.received.0.to_le_bytes());
        out.extend_from_slice(&self.entry.items.to_le_bytes());
        put_text(out, self.entry.destination.as_str());
        put_text(out, self.entry.key.as_deref().unwrap_or_default());
        match &self.entry.follow {
            None => out.push(0),
            Some(follow) => {
                out.push(1);
                follow.encode(out);
            }
        }
        out.extend_from_slice(&self.entry.body);
        let length = (out.len() - start - HEAD_BYTES) as u32;
        out[start..start + 4].copy_from_slice(&MARKER);
        out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        let checksum = checksum(length, &out[start + HEAD_BYTES..]);
        out[start + 8..start + 12].copy_from_slice(&checksum.to_le_bytes());
    }

    /// What `bytes` begins with.
    #[must_use]
    pub(crate) fn decode(bytes: &[u8]) -> RecordFound {
        let known = bytes.len().min(MARKER.len());
        if bytes[..known] != MARKER[..known] {
            return RecordFound::Damaged;
        }
        let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
            return RecordFound::Cut(HEAD_BYTES);
        };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = word(4);
        if length as usize > RECORD_BYTES_MAX {
            return RecordFound::Damaged;
        }
        let Some(content) = rest.get(..length as usize) else {
            return RecordFound::Cut(HEAD_BYTES + length as usize);
        };
        if checksum(length, content) != word(8) {
            return RecordFound::Damaged;
        }
        let record = Self::read(&mut ContentReader(content));
        record
            .map_or(RecordFound::Damaged, |record| RecordFound::Record(record, HEAD_BYTES + length as usize))
    }

    fn read(fields: &mut ContentReader<'_>) -> Option<Self> {
        if fields.take(1)? != [VERSION] {
            return None;
        }
        let (identity, number) = (fields.u64()?, fields.u64()?);
        if number >= NUMBER_MAX {
            return None;
        }
        let received = Timestamp(fields.u64()?.cast_signed());
        let items = fields.u32()?;
        let destination = Destination::parse(fields.text()?)?;
        let key = Some(fields.text()?).filter(|key| !key.is_empty()).map(Into::into);
        let follow = match fields.take(1)? {
            [0] => None,
            _ => Some(FollowPosition::decode(fields)?),
        };
        let body = Bytes::copy_from_slice(fields.0);
        let entry = SpoolEntry { destination, items, key, follow, body };
        Some(Self { identity, number, received, entry })
    }
}

impl FollowPosition {
    /// Stands for a checksum where no file was there: that of no bytes is 0.
    const NO_FILE: u32 = 1;

    /// No file was there yet, only the file system in which it was missing, and since when.
    pub(crate) fn of_no_file(device: u64, since: Timestamp) -> Self {
        let offset = since.0.max(0).cast_unsigned();
        Self { file: device, offset, head_bytes: 0, head_checksum: Self::NO_FILE }
    }

    /// The file system in which the file was missing, and since when; `None` where it was there.
    pub(crate) fn missing_in(&self) -> Option<(u64, Timestamp)> {
        let is_missing = self.head_bytes == 0 && self.head_checksum == Self::NO_FILE;
        is_missing.then_some((self.file, Timestamp(self.offset.cast_signed())))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.head_bytes.to_le_bytes());
        out.extend_from_slice(&self.head_checksum.to_le_bytes());
    }

    pub(crate) fn decode(fields: &mut ContentReader<'_>) -> Option<Self> {
        let (file, offset) = (fields.u64()?, fields.u64()?);
        Some(Self { file, offset, head_bytes: fields.u32()?, head_checksum: fields.u32()? })
    }
}

/// The next place at or behind `from` where a record may begin.
#[must_use]
pub(crate) fn next_marker(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memmem::find(bytes.get(from..)?, &MARKER).map(|at| from + at)
}

fn checksum(length: u32, content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length.to_le_bytes()), content)
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    debug_assert!(text.len() <= usize::from(u16::MAX), "names and keys are short");
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Reads from the front of what a checksum has vouched for.
pub(crate) struct ContentReader<'a>(pub(crate) &'a [u8]);

impl<'a> ContentReader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length: [u8; 2] = self.take(2)?.try_into().ok()?;
        std::str::from_utf8(self.take(u16::from_le_bytes(length).into())?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(number: u64, body: Vec<u8>, key: Option<&str>, followed: bool) -> SpoolRecord {
        let follow = FollowPosition { file: 7, offset: 9, head_bytes: 3, head_checksum: 4 };
        let entry = SpoolEntry {
            destination: Destination::queue("ns", "q").expect("right names"),
            items: 3,
            key: key.map(Into::into),
            follow: followed.then_some(follow),
            body: body.into(),
        };
        SpoolRecord { identity: 5, number, received: Timestamp(-1), entry }
    }

    fn encoded(record: &SpoolRecord) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn a_record_is_read_back(
            number in 0..NUMBER_MAX,
            body in prop::collection::vec(any::<u8>(), 0..200),
            key in prop::option::of("[a-z]{1,9}"),
            followed: bool,
        ) {
            let record = record(number, body, key.as_deref(), followed);
            let bytes = encoded(&record);
            let length = bytes.len();
            prop_assert_eq!(SpoolRecord::decode(&[&bytes[..], b"rest"].concat()), RecordFound::Record(record, length));
        }

        #[test]
        fn no_flipped_bit_and_no_cut_goes_unseen(
            body in prop::collection::vec(any::<u8>(), 0..60), at in 0_usize..200, bit in 0_u32..8,
        ) {
            let mut bytes = encoded(&record(1, body, None, false));
            let at = at % bytes.len();
            let cut = SpoolRecord::decode(&bytes[..at]);
            prop_assert!(matches!(cut, RecordFound::Cut(needed) if needed > at), "{:?}", cut);
            bytes[at] ^= 1 << bit;
            let found = SpoolRecord::decode(&bytes);
            prop_assert!(!matches!(found, RecordFound::Record(..)), "{:?}", found);
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let marked = [&MARKER[..], &bytes].concat();
            prop_assert!(!matches!(SpoolRecord::decode(&marked), RecordFound::Record(..)));
        }
    }

    #[test]
    fn reading_goes_on_at_the_next_marker() {
        let bytes = [b"xx".to_vec(), encoded(&record(1, vec![], None, false))].concat();
        assert_eq!(next_marker(&bytes, 0), Some(2));
        assert_eq!(next_marker(&bytes, 3), None);
        assert_eq!(next_marker(&bytes, 1_000), None);
    }
}
