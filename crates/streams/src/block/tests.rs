//! Blocks as files: what is written is found again by id, time, segment and external id.

mod damage;

use base::{Incarnation, Timestamp};
use proptest::prelude::*;
use records::StreamChunk;

use super::*;
use crate::codec::MessageReader;
use crate::message::{ExternalId, StreamMessage};
use crate::sample::{SampleMessage, chunk_behind, chunk_of, samples};
use crate::text_hash;

const STREAM: Incarnation = Incarnation(1);

/// A block of these chunks.
fn closed(chunks: &[StreamChunk]) -> ClosedBlock {
    let mut writer = BlockWriter::default();
    chunks.iter().for_each(|chunk| writer.add(chunk).expect("chunks are whole, and in order"));
    writer.finish(STREAM).expect("there is a message")
}

fn name_of(block: &ClosedBlock) -> BlockName {
    BlockName { stream: block.row.stream, first: block.row.first }
}

fn index_of(block: &ClosedBlock) -> BlockIndex {
    BlockIndex::parse(name_of(block), &block.bytes, block.row.stored_bytes).expect("a whole file")
}

/// The messages of some slices of a file.
fn messages_of<'a>(
    index: &BlockIndex,
    file: &'a [u8],
    slices: impl IntoIterator<Item = usize>,
) -> Result<Vec<StreamMessage<'a>>, BlockError> {
    let mut messages = Vec::new();
    for slice in slices {
        let range = index.range(slice).expect("there is one of this number");
        let bytes = file.get(range.start as usize..range.end as usize).unwrap_or_default();
        for message in index.read_slice(slice, bytes)? {
            messages.push(message?);
        }
    }
    Ok(messages)
}

fn all_of<'a>(index: &BlockIndex, file: &'a [u8]) -> Result<Vec<StreamMessage<'a>>, BlockError> {
    messages_of(index, file, 0..index.slices())
}

/// Messages of the default form. Each is received as many milliseconds after the beginning as its
/// id says.
fn plain(first: u64, count: usize) -> StreamChunk {
    let samples = vec![SampleMessage { after_ms: 1, ..SampleMessage::default() }; count];
    let at = first.cast_signed();
    chunk_behind(Timestamp(at - 1), first, Timestamp(at), &samples)
}

#[test]
fn a_slice_has_64_messages_at_most_and_no_gap() {
    let block = closed(&[plain(5, 100), plain(105, 10), plain(200, 1)]);
    let index = index_of(&block);
    let found: Vec<_> = [0, 5, 68, 69, 114, 115, 199, 200, 201].map(|id| index.slice_for(id)).to_vec();
    let expect = [Some(0), Some(0), Some(0), Some(1), Some(1), Some(2), Some(2), Some(2), None];
    assert_eq!((found, index.slices(), index.last()), (expect.to_vec(), 3, 200));
    assert_eq!(
        (block.row.messages, block.row.last, block.row.stored_bytes),
        (111, 200, block.bytes.len() as u64)
    );
    let times: Vec<_> =
        all_of(&index, &block.bytes).expect("whole").iter().map(|of| of.received_at.0).collect();
    assert_eq!(times, (5..115).chain([200]).collect::<Vec<_>>(), "also where a chunk begins in a slice");
    assert_eq!(index.range(3), None);
    assert_eq!(index.read_slice(3, b"").err(), Some(BlockError::DamagedSlice(3)));
}

#[test]
fn a_chunk_that_does_not_follow_begins_a_slice() {
    let elsewhere = chunk_of(8, Timestamp(99), &vec![SampleMessage::default(); 3]);
    let block = closed(&[plain(5, 3), elsewhere, plain(11, 2)]);
    let index = index_of(&block);
    let all = all_of(&index, &block.bytes).expect("whole");
    let times: Vec<_> = all.iter().map(|message| (message.id, message.received_at.0)).collect();
    assert_eq!(times, [(5, 5), (6, 6), (7, 7), (8, 99), (9, 99), (10, 99), (11, 11), (12, 12)]);
    assert_eq!(index.slices(), 3, "a time that falls is kept as it is");
}

#[test]
fn a_long_slice_ends_early() {
    let sample = SampleMessage { payload: vec![7; 20_000], ..SampleMessage::default() };
    let block = closed(&[chunk_of(1, Timestamp(0), &vec![sample; 9])]);
    let index = index_of(&block);
    let starts: Vec<_> =
        (0..index.slices()).map(|at| messages_of(&index, &block.bytes, [at]).expect("whole")[0].id).collect();
    assert_eq!(starts, [1, 5, 9]);
}

#[test]
fn no_message_is_no_block() {
    assert_eq!(BlockWriter::default().finish(STREAM), None);
}

#[test]
fn a_chunk_that_is_damaged_or_comes_twice_is_no_part_of_a_block() {
    let mut writer = BlockWriter::default();
    assert_eq!(writer.add(&plain(5, 3)), Ok(()));
    let twice = BlockError::OutOfOrder { found: 7, next: 8 };
    assert_eq!(writer.add(&plain(7, 3)), Err(twice));
    let damaged = StreamChunk { bytes: b"\0\0\x05ab".as_slice().into(), ..plain(8, 1) };
    assert_eq!(writer.add(&damaged), Err(BlockError::Message(BadMessage { at: 0 })));
}

#[test]
fn the_row_names_up_to_64_segments() {
    for (segments, names) in [(64, 64), (65, 0)] {
        let of =
            |number| SampleMessage { segment: Some(format!("s{number:02}")), ..SampleMessage::default() };
        let samples: Vec<_> = (0..segments).map(of).collect();
        let block = closed(&[chunk_of(1, Timestamp(0), &samples)]);
        assert_eq!((block.row.segments.len(), block.row.any_segment), (names, names == 0));
    }
}

#[test]
fn a_short_tail_says_how_much_is_needed() {
    let block = closed(&[plain(1, 200)]);
    let (name, bytes) = (name_of(&block), block.row.stored_bytes);
    let tail = &block.bytes[block.bytes.len() - FOOTER_BYTES..];
    let Err(BlockError::ShortTail(needed)) = BlockIndex::parse(name, tail, bytes) else {
        panic!("the index is not in it");
    };
    let tail = &block.bytes[block.bytes.len() - needed as usize..];
    assert_eq!(BlockIndex::parse(name, tail, bytes), Ok(index_of(&block)));
    assert_eq!(BlockIndex::parse(name, &tail[1..], bytes), Err(BlockError::ShortTail(needed)));
    assert_eq!(
        BlockIndex::parse(name, &tail[tail.len() + 1 - FOOTER_BYTES..], bytes),
        Err(BlockError::Footer)
    );
}

#[test]
fn a_file_under_another_name_is_refused() {
    let block = closed(&[plain(1, 3)]);
    let name = name_of(&block);
    for other in [BlockName { first: 2, ..name }, BlockName { stream: Incarnation(2), ..name }] {
        let parsed = BlockIndex::parse(other, &block.bytes, block.row.stored_bytes);
        assert_eq!(parsed, Err(BlockError::OtherBlock(name)));
    }
}

/// Chunks of samples, with ids left out between them.
fn chunks() -> impl Strategy<Value = Vec<StreamChunk>> {
    let chunk = (samples(1..90), prop_oneof![3 => Just(0), 1 => 1..3_u64], 0..50_i64, any::<bool>());
    proptest::collection::vec(chunk, 1..5).prop_map(|parts| {
        let (mut next, mut at) = (7, 1_000);
        let mut chunks = Vec::new();
        for (samples, left_out, after_ms, follows) in parts {
            let before = if follows { at } else { at + after_ms };
            at += after_ms;
            let chunk = chunk_behind(Timestamp(before), next + left_out, Timestamp(at), &samples);
            next = chunk.first + samples.len() as u64;
            at += samples[1..].iter().map(|sample| i64::from(sample.after_ms)).sum::<i64>();
            chunks.push(chunk);
        }
        chunks
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_block_has_the_messages_of_its_chunks(chunks in chunks()) {
        let block = closed(&chunks);
        let index = index_of(&block);
        let messages: Vec<_> =
            chunks.iter().flat_map(MessageReader::of).map(|message| message.expect("whole")).collect();
        prop_assert_eq!(all_of(&index, &block.bytes), Ok(messages.clone()));
        let (first, last) = (messages[0], messages[messages.len() - 1]);
        let row = &block.row;
        prop_assert_eq!((row.first, row.created_at), (first.id, first.received_at));
        prop_assert_eq!((row.last, row.last_at), (last.id, last.received_at));
        prop_assert_eq!(row.messages as usize, messages.len());
        prop_assert_eq!(row.checksum, crc32c::crc32c(&block.bytes));
        prop_assert_eq!(row.bytes, chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum::<u64>());
        for id in first.id - 1..last.id + 2 {
            let from_there: Vec<_> = messages.iter().filter(|message| message.id >= id).copied().collect();
            let slice = index.slice_for(id).unwrap_or(index.slices());
            let read = messages_of(&index, &block.bytes, slice..index.slices()).expect("whole");
            prop_assert!(read.ends_with(&from_there), "what comes from {} on", id);
            prop_assert!(read.len() < from_there.len() + 64, "and less than a slice before it");
        }
    }

    #[test]
    fn messages_are_found_by_time(chunks in chunks(), from in 0..70_000_i64) {
        let block = closed(&chunks);
        let index = index_of(&block);
        let from = Timestamp(from);
        let is_later = |message: &StreamMessage<'_>| message.received_at >= from;
        let all = all_of(&index, &block.bytes).expect("whole");
        let slices = index.slice_from(from)..index.slices();
        let read = messages_of(&index, &block.bytes, slices).expect("whole");
        let first = read.iter().position(is_later);
        prop_assert_eq!(first.map(|at| read[at]), all.iter().copied().find(is_later));
        prop_assert!(first.is_none_or(|at| at < 128), "it is in this slice or in the next");
    }

    #[test]
    fn messages_are_found_by_segment(chunks in chunks(), asked in proptest::collection::vec("[a-e]", 0..3)) {
        let block = closed(&chunks);
        let index = index_of(&block);
        let is_asked = |message: &&StreamMessage<'_>| {
            message.segment.is_some_and(|segment| asked.iter().any(|name| name == segment))
        };
        let all = all_of(&index, &block.bytes).expect("whole");
        let slices = index.slices_with(asked.iter().map(String::as_str));
        for slice in &slices {
            let read = messages_of(&index, &block.bytes, [*slice]).expect("whole");
            prop_assert!(read.iter().any(|message| is_asked(&message)), "none is read in vain");
        }
        let read = messages_of(&index, &block.bytes, slices).expect("whole");
        let found: Vec<_> = read.iter().filter(is_asked).collect();
        prop_assert_eq!(found, all.iter().filter(is_asked).collect::<Vec<_>>());
        let named: Vec<_> = block.row.segments.iter().map(|name| &**name).collect();
        let mut segments: Vec<_> = all.iter().filter_map(|message| message.segment).collect();
        segments.sort_unstable();
        segments.dedup();
        prop_assert_eq!(named, segments);
    }

    #[test]
    fn messages_are_found_by_external_id(chunks in chunks()) {
        let block = closed(&chunks);
        let index = index_of(&block);
        let all = all_of(&index, &block.bytes).expect("whole");
        for message in &all {
            let Some(origin) = message.origin else { continue };
            let first = all.iter().find(|message| message.origin == Some(origin)).map(|message| message.id);
            match origin.external_id {
                ExternalId::Number(number) => {
                    prop_assert_eq!(index.origins().number(origin.source, number), first);
                    let span = block.spans.iter().find(|span| *span.source == *origin.source);
                    prop_assert!(span.is_some_and(|span| (span.from..=span.to).contains(&number)));
                }
                ExternalId::Text(text) => {
                    let found: Vec<_> = index.origins().text(origin.source, text_hash(text)).collect();
                    prop_assert!(found.first() == first.as_ref() && found.contains(&message.id));
                }
            }
        }
        prop_assert!(index.bytes() < 4_096 + 200 * all.len());
    }
}
