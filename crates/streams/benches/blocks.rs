//! Messages of 100 B: how fast they are encoded, made into a block of 10,000, and read by 1,000.
//! And how fast external ids are noted: of 1,000 sources in turn, ascending; and in random order.
//!
//! `cargo bench --package streams --bench blocks`. Times are of one thread.
#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark is no library, and prints its figures")]

use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use base::random::Random;
use base::{Incarnation, Timestamp};
use records::StreamChunk;
use streams::{
    BlockIndex, BlockName, BlockOrigins, BlockWriter, ChunkWriter, ClosedBlock, ExternalId, ExternalNumbers,
    MessageHeaders, MessageOrigin, MessageReader, NumberInterval, StoredIntervals, StreamMessage,
    StreamPayload,
};

const STREAM: Incarnation = Incarnation(7);
const MESSAGES: u64 = 10_000;
const PAGE: usize = 1_000;
const SOURCES: u64 = 1_000;
const ROUNDS: usize = 200;

/// What 10,000 messages carry, with and without the names that their senders give.
struct Messages {
    payloads: Vec<String>,
    sources: Vec<String>,
    has_origins: bool,
}

impl Messages {
    fn new(has_origins: bool) -> Self {
        let payload = |number| format!("{{\"order\":{number:010},\"note\":\"{:0<75}\"}}", "x");
        let source = |number| format!("device-{number:06}");
        let (payloads, sources) = ((0..MESSAGES).map(payload).collect(), (0..SOURCES).map(source).collect());
        Self { payloads, sources, has_origins }
    }

    fn message(&self, place: usize) -> StreamMessage<'_> {
        let number = place as u64;
        let origin = self.has_origins.then(|| MessageOrigin {
            source: &self.sources[place % self.sources.len()],
            external_id: ExternalId::Number(number / SOURCES),
        });
        let at = Timestamp(1_700_000_000_000 + number.cast_signed() / 10);
        StreamMessage {
            id: number + 1,
            received_at: at,
            ts: at,
            origin,
            segment: None,
            headers: MessageHeaders::NONE,
            payload: StreamPayload::Json(self.payloads[place].as_bytes()),
        }
    }

    /// As steps of 500 messages make them.
    fn chunks(&self) -> Vec<StreamChunk> {
        let steps = (0..self.payloads.len()).step_by(500);
        let chunk = |start: usize| {
            let first = self.message(start);
            let mut writer = ChunkWriter::new(first.id, first.received_at);
            (start..start + 500).for_each(|place| writer.push(&self.message(place)));
            writer.finish(STREAM)
        };
        steps.map(chunk).collect()
    }
}

fn main() {
    for (has_origins, what) in [(false, "without origins"), (true, "with origins")] {
        let messages = Messages::new(has_origins);
        println!("payload: {} B", messages.payloads[0].len());
        measure(&format!("encode, {what}"), MESSAGES, || {
            black_box(messages.chunks());
        });
        let chunks = messages.chunks();
        measure(&format!("make a block, {what}"), MESSAGES, || {
            black_box(closed(&chunks));
        });
        let block = closed(&chunks);
        let index_bytes = block.row.stored_bytes - block.row.bytes;
        println!("block {what}: {} B, of which index {index_bytes} B", block.row.stored_bytes);
        measure(&format!("read the index, {what}"), 1, || drop(black_box(index_of(&block))));
        let index = index_of(&block);
        println!("index in memory {what}: {} B", index.bytes());
        let mut after = 0;
        measure(&format!("read a page of {PAGE} from a block, {what}"), PAGE as u64, || {
            after = (after + 997) % (MESSAGES - PAGE as u64);
            assert_eq!(read_page(&index, &block.bytes, after), PAGE, "a page is full");
        });
        measure(&format!("read a page of {PAGE} from chunks, {what}"), PAGE as u64, || {
            let messages = chunks.iter().flat_map(MessageReader::of).take(PAGE);
            black_box(messages.flatten().map(|message| message.payload.bytes().len()).sum::<usize>());
        });
    }
    note_external_ids();
}

fn closed(chunks: &[StreamChunk]) -> ClosedBlock {
    let mut writer = BlockWriter::default();
    chunks.iter().for_each(|chunk| writer.add(chunk).expect("chunks are in order"));
    writer.finish(STREAM).expect("there are messages")
}

fn index_of(block: &ClosedBlock) -> BlockIndex {
    let name = BlockName { stream: STREAM, first: block.row.first };
    BlockIndex::parse(name, &block.bytes, block.row.stored_bytes).expect("a whole file")
}

/// Reads what comes behind `after`, checksums included. How many messages it found.
fn read_page(index: &BlockIndex, file: &[u8], after: u64) -> usize {
    let mut count = 0;
    for slice in index.slice_for(after + 1).unwrap_or(0)..index.slices() {
        let range = index.range(slice).expect("below the count");
        let bytes = &file[range.start as usize..range.end as usize];
        for message in index.read_slice(slice, bytes).expect("whole") {
            let message = black_box(message.expect("whole"));
            count += usize::from(message.id > after);
            if count == PAGE {
                return count;
            }
        }
    }
    count
}

/// No row is durable.
struct NoRows;

impl StoredIntervals for NoRows {
    type Error = Infallible;

    fn up_to(&self, _: &str, _: u64, _: &dyn Fn(u64) -> bool) -> Result<Option<NumberInterval>, Infallible> {
        Ok(None)
    }

    fn starting_at(&self, _: &str, _: u64) -> Result<Option<NumberInterval>, Infallible> {
        Ok(None)
    }
}

fn note_external_ids() {
    let names: Vec<String> = (0..SOURCES).map(|number| format!("device-{number:06}")).collect();
    let (mut numbers, mut origins) = (ExternalNumbers::default(), BlockOrigins::default());
    let mut next = 0;
    measure("note ascending external ids of one source", MESSAGES, || {
        for _ in 0..MESSAGES {
            assert_eq!(numbers.insert(&names[0], next, &NoRows), Ok(true), "it is new");
            next += 1;
        }
        black_box(numbers.take_changes(STREAM, 1));
    });
    let mut id = 0;
    measure("note ascending external ids of 1,000 sources, and their messages", MESSAGES, || {
        for place in 0..MESSAGES as usize {
            id += 1;
            let (source, number) = (&names[place % names.len()], 1_000_000_000 + id / SOURCES);
            assert!(numbers.insert(source, number, &NoRows).is_ok());
            let external_id = ExternalId::Number(number);
            origins.add(MessageOrigin { source, external_id }, id);
        }
        black_box(numbers.take_changes(STREAM, 2));
    });
    let mut numbers = ExternalNumbers::default();
    let random = &mut Random::new(7);
    let before = resident_bytes();
    measure("note random external ids", MESSAGES, || {
        for _ in 0..MESSAGES {
            assert!(numbers.insert(&names[0], random.below(1 << 40), &NoRows).is_ok());
        }
        drop(numbers.take_changes(STREAM, 1));
        numbers.settle(1);
    });
    let resident = resident_bytes().saturating_sub(before);
    println!("random external ids: counted {} B, resident {resident} B", numbers.bytes());
}

/// What the process has of memory now.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4_096)
}

fn measure(what: &str, things: u64, mut act: impl FnMut()) {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            act();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    let (half, most) = (times[ROUNDS / 2], times[ROUNDS * 99 / 100]);
    let per_second = things as f64 / half.as_secs_f64() / 1e6;
    println!("{what}: p50 {half:?}, p99 {most:?}, {per_second:.2} M/s");
}
