//! Bytes that claim to be a block of a stream: its messages, and its file.
//!
//! Checksums keep most damage from these readers; here they get it under checksums that are right,
//! too. Messages that are read are written again to the same bytes, and an index leads to nothing
//! outside of its file.

use base::{Incarnation, Timestamp};
use streams::{BlockError, BlockIndex, BlockName, ChunkWriter, MessageReader};

/// Where a footer has what, from its beginning: see `crates/streams/src/block.rs`.
const FOOTER_BYTES: usize = 52;
const INDEX_CHECKSUM_AT: usize = 32;
const CHECKSUM_AT: usize = 40;
/// What an index takes in memory for each byte of its file, at most, and some more.
const MEMORY_PER_BYTE: usize = 256;
/// A name that no file of the corpus has.
const NOBODY: BlockName = BlockName { stream: Incarnation(u64::MAX), first: 0 };

/// Reads the bytes as messages, as a file, and as a file with the right checksums.
pub fn run(data: &[u8]) {
    check_messages(data);
    check_file(data);
    check_file(&with_checksums(data));
}

fn check_messages(data: &[u8]) {
    let mut reader = MessageReader::new(1, Timestamp(0), data);
    let mut writer = ChunkWriter::new(1, Timestamp(0));
    let mut end = 0;
    while let Some(message) = reader.next() {
        let Ok(message) = message else { break };
        assert_eq!(message.id, writer.next(), "ids are consecutive");
        writer.push(&message);
        end = reader.bytes_read();
    }
    assert!(reader.next().is_none(), "nothing is read behind what is bad");
    // The time of the first message is given beside the run.
    if data.get(1) == Some(&0) {
        assert_eq!(writer.finish(Incarnation(1)).bytes[..], data[..end], "one way only");
    }
}

/// The same file, once its footer agrees with what is before it.
fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut file = data.to_vec();
    let Some(footer) = file.len().checked_sub(FOOTER_BYTES) else { return file };
    let mut message_bytes = [0; 8];
    message_bytes.copy_from_slice(&file[footer + 16..footer + 24]);
    let start = usize::try_from(u64::from_le_bytes(message_bytes)).unwrap_or(usize::MAX).min(footer);
    file[footer + 16..footer + 24].copy_from_slice(&(start as u64).to_le_bytes());
    file[footer + 24..footer + 32].copy_from_slice(&((footer - start) as u64).to_le_bytes());
    let index = crc32c::crc32c(&file[start..footer]);
    file[footer + INDEX_CHECKSUM_AT..footer + 36].copy_from_slice(&index.to_le_bytes());
    file[footer + 36..footer + CHECKSUM_AT].copy_from_slice(&1_u32.to_le_bytes());
    let checksum = crc32c::crc32c(&file[footer..footer + CHECKSUM_AT]);
    file[footer + CHECKSUM_AT..footer + 44].copy_from_slice(&checksum.to_le_bytes());
    file[footer + 44..].copy_from_slice(b"FPSTRBLK");
    file
}

fn check_file(file: &[u8]) {
    let bytes = file.len() as u64;
    let Err(BlockError::OtherBlock(name)) = BlockIndex::parse(NOBODY, file, bytes) else { return };
    let Ok(index) = BlockIndex::parse(name, file, bytes) else { return };
    assert!(BlockIndex::parse(name, file, bytes + 1).is_err(), "a file that is too short is seen");
    assert!(index.bytes() <= 4_096 + MEMORY_PER_BYTE * file.len(), "{} from {bytes}", index.bytes());
    assert_eq!((index.name(), index.slice_for(name.first)), (name, Some(0)));
    assert_eq!(index.slice_for(index.last() + 1), None, "nothing is behind the last message");
    let mut end = 0;
    for slice in 0..index.slices() {
        let range = index.range(slice).expect("it is below the count");
        assert_eq!(range.start, end, "no byte is between two slices");
        end = range.end;
        check_slice(&index, slice, &file[range.start as usize..range.end as usize]);
    }
    let is_there = |id: u64| (name.first..=index.last()).contains(&id);
    for (source, from, to) in index.origins().spans() {
        let found = [from, to].map(|number| index.origins().number(source, number));
        assert!(found.into_iter().all(|id| id.is_some_and(is_there)), "{source}: {found:?}");
    }
    for (source, hash, id) in index.origins().texts() {
        assert!(is_there(id) && index.origins().text(source, hash).any(|found| found == id), "{source}");
    }
}

fn check_slice(index: &BlockIndex, slice: usize, bytes: &[u8]) {
    let Ok(messages) = index.read_slice(slice, bytes) else { return };
    let ids: Vec<u64> = messages.map_while(Result::ok).map(|message| message.id).collect();
    assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{ids:?}");
    if let Some(changed) = bytes.split_first().map(|(first, rest)| [&[!*first], rest].concat()) {
        assert!(index.read_slice(slice, &changed).is_err(), "another byte is seen");
    }
}
