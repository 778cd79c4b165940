//! Files that were changed or cut off: each is refused, or it shows that nothing of it counts.

use super::*;
use crate::sample::SampleId;
use crate::varint::put_number;

/// A block of three slices with ids left out, segments and external ids of both kinds.
fn small() -> ClosedBlock {
    let sample = |number: u64| SampleMessage {
        after_ms: 3,
        ts_less: -5,
        origin: Some((
            format!("s{}", number % 2),
            if number.is_multiple_of(5) {
                SampleId::Text(format!("t{number}"))
            } else {
                SampleId::Number(number)
            },
        )),
        segment: number.is_multiple_of(3).then(|| "eu".to_owned()),
        headers: vec![("k".into(), "v".into())],
        payload: b"[1]".to_vec(),
        is_json: true,
    };
    let samples: Vec<_> = (0..80).map(sample).collect();
    closed(&[chunk_of(9, Timestamp(50), &samples[..70]), chunk_of(90, Timestamp(400), &samples[70..])])
}

/// What a reader sees of a file whose row says that it has `file_bytes`.
fn seen(block: &ClosedBlock, file: &[u8], file_bytes: u64) -> Result<(BlockIndex, String), BlockError> {
    let index = BlockIndex::parse(name_of(block), file, file_bytes)?;
    let messages = all_of(&index, file)?;
    Ok((index, format!("{messages:?}")))
}

/// A file that was changed shows the same messages under the same index, or is refused.
fn check(block: &ClosedBlock, file: &[u8], file_bytes: u64, what: &str) {
    let whole = seen(block, &block.bytes, block.row.stored_bytes).expect("whole");
    if let Ok(seen) = seen(block, file, file_bytes) {
        assert_eq!(seen, whole, "{what}");
    }
}

#[test]
fn any_bit_that_is_flipped_is_found() {
    let block = small();
    for at in 0..block.bytes.len() {
        for bit in 0..8 {
            let mut file = block.bytes.clone();
            file[at] ^= 1 << bit;
            let seen = seen(&block, &file, block.row.stored_bytes);
            assert!(seen.is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn any_cut_is_found() {
    let block = small();
    for end in 0..block.bytes.len() {
        let file = &block.bytes[..end];
        for file_bytes in [end as u64, block.row.stored_bytes] {
            assert_eq!(seen(&block, file, file_bytes).err(), Some(BlockError::Footer), "cut at {end}");
        }
        // The end alone is what a reader asks for: the beginning is missed when it is read.
        let seen = seen(&block, &block.bytes[end..], block.row.stored_bytes);
        assert_eq!(seen.is_ok(), end == 0, "{end} bytes missing at the beginning");
    }
}

#[test]
fn a_later_version_is_named() {
    let mut file = small().bytes;
    let footer = file.len() - FOOTER_BYTES;
    file[footer + 36] = 2;
    let checksum = crc32c::crc32c(&file[footer..footer + 40]);
    file[footer + 40..footer + 44].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(seen(&small(), &file, file.len() as u64).err(), Some(BlockError::Version(2)));
}

/// A file with another index, under checksums that are right.
fn with_index(block: &ClosedBlock, index: &[u8]) -> Vec<u8> {
    let message_bytes = block.row.bytes;
    let mut file = block.bytes[..message_bytes as usize].to_vec();
    file.extend_from_slice(index);
    let index_bytes = index.len() as u64;
    let index_checksum = crc32c::crc32c(index);
    footer::BlockFooter { name: name_of(block), message_bytes, index_bytes, index_checksum }.write(&mut file);
    file
}

fn index_bytes(block: &ClosedBlock) -> &[u8] {
    &block.bytes[block.row.bytes as usize..block.bytes.len() - FOOTER_BYTES]
}

/// An index that is accepted leads to bytes of the file only, and to messages of the block.
fn check_index(block: &ClosedBlock, index: &[u8]) {
    let file = with_index(block, index);
    let Ok(parsed) = BlockIndex::parse(name_of(block), &file, file.len() as u64) else { return };
    for slice in 0..parsed.slices() {
        let range = parsed.range(slice).expect("it is below the count");
        assert!(range.end <= block.row.bytes);
        let bytes = &file[range.start as usize..range.end as usize];
        let read = parsed.read_slice(slice, bytes).map(|messages| messages.filter(Result::is_ok).count());
        assert!(read.is_err() || read.is_ok_and(|count| count <= bytes.len()));
    }
    assert!(parsed.slices_with(["eu"]).iter().all(|slice| *slice < parsed.slices()));
    for (source, from, to) in parsed.origins().spans() {
        for number in [from, to] {
            let id = parsed.origins().number(source, number).expect("both ends are there");
            assert!((block.row.first..=parsed.last()).contains(&id));
        }
    }
    assert!(parsed.origins().texts().all(|(.., id)| (block.row.first..=parsed.last()).contains(&id)));
}

#[test]
fn an_index_with_one_other_byte_panics_nowhere() {
    let block = small();
    let index = index_bytes(&block);
    for at in 0..index.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff, index[at] ^ 1] {
            let mut changed = index.to_vec();
            changed[at] = byte;
            check_index(&block, &changed);
        }
        check_index(&block, &index[..at]);
    }
    check_index(&block, &[index, &[0]].concat());
}

#[test]
fn an_index_with_impossible_numbers_is_refused() {
    let block = small();
    let slice = |messages: u64, left_out, bytes| {
        let mut index = Vec::new();
        for number in [1, messages, left_out, 0, bytes] {
            put_number(&mut index, number);
        }
        let (checksum, segments, sources) = ([0; 4], [0], [0]);
        [&index[..], &checksum, &segments, &sources].concat()
    };
    let parse = |index: &[u8]| {
        let file = with_index(&block, index);
        BlockIndex::parse(name_of(&block), &file, file.len() as u64).map(drop)
    };
    let bytes = block.row.bytes;
    assert_eq!(parse(&slice(0, 0, bytes)), Ok(()));
    for (why, index) in [
        ("65 messages in a slice", slice(64, 0, bytes)),
        ("another first message than its name says", slice(0, 1, bytes)),
        ("ids behind the last that there can be", slice(0, u64::MAX, bytes)),
        ("fewer bytes than there are messages", slice(0, 0, bytes - 1)),
        ("more bytes than any file has", slice(0, 0, u64::MAX)),
        ("no slice", vec![0, 0, 0]),
    ] {
        assert_eq!(parse(&index), Err(BlockError::Index), "{why}");
    }
}

proptest! {
    #[test]
    fn no_bytes_are_a_block_by_chance(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let block = small();
        prop_assert_eq!(seen(&block, &bytes, bytes.len() as u64).err(), Some(BlockError::Footer));
    }

    #[test]
    fn no_index_makes_a_reader_panic(index in proptest::collection::vec(any::<u8>(), 0..60)) {
        check_index(&small(), &index);
    }

    #[test]
    fn small_numbers_in_an_index_make_no_reader_panic(index in proptest::collection::vec(0..4_u8, 0..60)) {
        check_index(&small(), &index);
    }

    #[test]
    fn several_changes_show_nothing_else(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let block = small();
        let mut file = block.bytes.clone();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        check(&block, &file, block.row.stored_bytes, "changed");
    }
}
