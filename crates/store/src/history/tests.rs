//! Chunks, blobs and pages against plain lists of readings.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;

use base::random::Random;
use base::{Timestamp, Value};
use records::Reading;

use super::*;
use crate::codec::Stored;
use crate::port::{Page, ReadingKey};

const NOW: i64 = 1_800_000_000_000;

fn value(random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Number(random.below(100) as f64 / 4.0),
        1 => Value::from_canonical(&format!("\"{}\"", random.below(3))),
        _ => Value::Number(random.below(2) as f64),
    }
}

/// Readings of a few devices, a quarter of them late, some with times that nothing can be near to.
fn readings(random: &mut Random, count: u32) -> Vec<SliceReading> {
    let mut numbers = [0; 256];
    let mut now = NOW;
    let mut make = |random: &mut Random| {
        now += random.below(5_000) as i64;
        let within = random.below(6) as u8 * 50;
        numbers[usize::from(within)] += 1;
        let ts = match random.below(40) {
            0 => random.next_u64() as i64,
            1..=10 => now - random.below(300_000_000) as i64,
            _ => now,
        };
        let number = numbers[usize::from(within)];
        let changed = random.below(3) == 0;
        SliceReading { within, reading: Reading { number, ts: Timestamp(ts), value: value(random), changed } }
    };
    (0..count).map(|_| make(random)).collect()
}

fn chunk_of(readings: &[SliceReading]) -> Chunk {
    let mut chunk = Chunk::new();
    readings.iter().for_each(|reading| chunk.push(reading.within, &reading.reading));
    chunk
}

fn all(chunk: &Chunk) -> Vec<SliceReading> {
    chunk.readings(chunk.len(), None).collect::<Result<_, _>>().expect("readable")
}

#[test]
fn a_chunk_gives_back_what_was_pushed_and_any_prefix_of_it() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let readings = readings(&mut random, 300);
        let prefix = chunk_of(&readings[..100]).len();
        let chunk = chunk_of(&readings);
        assert_eq!(all(&chunk), readings, "seed {seed}");
        let first: Vec<_> = chunk.readings(prefix, None).map(|reading| reading.expect("readable")).collect();
        assert_eq!(first, readings[..100], "seed {seed}");
        let one: Vec<_> = chunk.readings(chunk.len(), Some(50)).map(|r| r.expect("readable")).collect();
        assert!(one.iter().eq(readings.iter().filter(|reading| reading.within == 50)), "seed {seed}");
    }
}

#[test]
fn a_blob_gives_back_every_reading_by_device() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut readings = readings(&mut random, [1, 2, 20, 500][seed as usize % 4]);
        let blob = encode_blob(&mut readings);
        let opened = Blob::open(&blob).expect("opens");
        assert_eq!(opened.all(), Ok(readings.clone()), "seed {seed}");
        for within in 0..=u8::MAX {
            let expect = readings.iter().filter(|reading| reading.within == within);
            let expect: Vec<_> = expect.map(|reading| reading.reading.clone()).collect();
            assert_eq!(opened.device(within), Ok(expect), "seed {seed} device {within}");
        }
    }
}

/// Split, merged in any grouping, split again: the readings are the same.
#[test]
fn merged_blobs_hold_the_same_readings() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut all = readings(&mut random, [3, 60, 900, 4_000][seed as usize % 4]);
        let size = 1 + random.below(all.len() as u64) as usize;
        let blobs: Vec<_> = all.chunks(size).map(|some| encode_blob(&mut some.to_vec())).collect();
        let (early, late) = blobs.split_at(random.below(blobs.len() as u64) as usize);
        let early = if early.is_empty() { Vec::new() } else { vec![merge_blobs(early).expect("merges")] };
        let merged = merge_blobs(&[early, late.to_vec()].concat()).expect("merges");
        all.sort_by_key(SliceReading::order);
        assert_eq!(Blob::open(&merged).and_then(|blob| blob.all()), Ok(all), "seed {seed}");
    }
}

/// A page of one device takes the blocks that its readings are in, and the first.
#[test]
fn a_device_is_read_without_the_others() {
    struct Counted<'a>(&'a [u8], &'a RefCell<BTreeSet<usize>>);
    impl BlobSource for Counted<'_> {
        type Error = crate::codec::CodecError;
        fn blob_bytes(&self) -> usize {
            self.0.len()
        }
        fn block(&self, number: usize) -> Result<Cow<'_, [u8]>, Self::Error> {
            self.1.borrow_mut().insert(number);
            let end = self.0.len().min((number + 1) * BLOCK_BYTES);
            Ok(Cow::Borrowed(&self.0[number * BLOCK_BYTES..end]))
        }
        fn damaged(&self, error: Self::Error) -> Self::Error {
            error
        }
    }
    let text = |n: u32| Value::from_canonical(&format!("\"{}\"", n % 7_000));
    let all = (0..60_000_u32).map(|n| {
        let ts = Timestamp(NOW + i64::from(n) * 700);
        SliceReading { within: n as u8, reading: Reading { number: n, ts, value: text(n), changed: true } }
    });
    let all: Vec<_> = all.collect();
    let blob = encode_blob(&mut all.clone());
    assert!(blob.len() > 50 * BLOCK_BYTES, "{}", blob.len());
    let read = RefCell::default();
    let opened = Blob::open(Counted(&blob, &read)).expect("opens");
    let expect: Vec<_> = all.iter().filter(|r| r.within == 200).map(|r| r.reading.clone()).collect();
    assert_eq!(opened.device(200), Ok(expect));
    assert!(read.borrow().len() <= 4, "{read:?}");
}

#[test]
fn every_flipped_bit_of_a_blob_is_noticed() {
    let mut readings = readings(&mut Random::new(1), 60);
    let blob = encode_blob(&mut readings);
    for at in 0..blob.len() * 8 {
        let mut flipped = blob.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        assert!(Blob::open(&flipped).is_err(), "bit {at}");
    }
    assert!((0..blob.len()).all(|end| Blob::open(&blob[..end]).is_err()));
}

/// Noise behind a right checksum, as a defect in an older build could have left it.
#[test]
fn a_blob_that_makes_no_sense_is_refused_without_a_panic() {
    let mut random = Random::new(2);
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut readings = readings(&mut random, 12);
        let mut blob = encode_blob(&mut readings);
        blob.truncate(blob.len() - 4);
        for _ in 0..=random.below(3) {
            let at = random.below(blob.len() as u64) as usize;
            blob[at] = random.next_u64() as u8;
        }
        let number = 0_u64;
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), &blob);
        blob.extend_from_slice(&checksum.to_le_bytes());
        let read = Blob::open(&blob).and_then(|opened| opened.device(100).and_then(|_| opened.all()));
        refused += u32::from(read.is_err());
    }
    assert!(refused > 5_000, "{refused}");
}

fn bytes_per_reading(devices: u64, count: u32, step_ms: u64) -> f64 {
    let mut random = Random::new(7);
    let mut last = [false; 256];
    let mut readings: Vec<_> = (0..count)
        .map(|n| {
            let within = (u64::from(n) % devices) as u8;
            let flip = random.below(20) == 0;
            last[usize::from(within)] ^= flip;
            let ts = NOW + (u64::from(n) * step_ms + random.below(step_ms)) as i64;
            let number = 10_000 + n / devices as u32;
            let value = Value::Number(f64::from(u8::from(last[usize::from(within)])));
            SliceReading { within, reading: Reading { number, ts: Timestamp(ts), value, changed: flip } }
        })
        .collect();
    encode_blob(&mut readings).len() as f64 / f64::from(count)
}

#[test]
fn a_reading_takes_few_bytes() {
    // one each of 256 locks within a minute; 40 each; 4,000 of one lock
    let sizes = [
        bytes_per_reading(256, 256, 234),
        bytes_per_reading(256, 10_240, 6),
        bytes_per_reading(1, 4_000, 900),
    ];
    assert!(sizes[0] < 8.0 && sizes[1] < 4.0 && sizes[2] < 3.0, "{sizes:?}");
    let mut random = Random::new(5);
    let mut chunk = Chunk::new();
    for number in 0..10_000_u32 {
        let ts = Timestamp(NOW + i64::from(number / 4) * 5);
        let value = Value::Number(random.below(2) as f64);
        chunk.push(number as u8, &Reading { number: number / 256, ts, value, changed: false });
    }
    assert!(chunk.len() < 10_000 * 5, "{}", chunk.len());
}

#[test]
fn equal_texts_are_stored_once_for_a_device_and_short_ones_once_for_all() {
    let bytes = |length| {
        let text = Value::from_canonical(&format!("\"{}\"", "a".repeat(length)));
        let reading = |number| Reading { number, ts: Timestamp(NOW), value: text.clone(), changed: false };
        let mut readings: Vec<_> = (0..50)
            .map(|number| SliceReading { within: number as u8 % 5, reading: reading(number) })
            .collect();
        encode_blob(&mut readings).len()
    };
    let (long, short) = (bytes(1_000), bytes(50));
    assert!(long < 5 * 1_100 && short < 400, "{long} {short}");
}

#[test]
fn an_index_row_survives_and_knows_what_is_in_its_blob() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let readings = readings(&mut random, 200);
        let chunk = chunk_of(&readings);
        let sealed =
            seal(chunk.readings(chunk.len(), None), 20_000, |reading| reading.within != 0).expect("seals");
        let mut count = 0;
        for Sealed { day, index, blocks } in &sealed {
            assert_eq!(BlobIndex::from_row(&index.to_row()).as_ref(), Ok(index));
            let blob = index.inline.as_ref().unwrap_or(blocks);
            let all = Blob::open(blob).and_then(|blob| blob.all()).expect("opens");
            assert!(all.iter().all(|reading| day_of(reading.reading.ts) == *day));
            assert!(all.iter().all(|reading| index.devices.contains(reading.within) && reading.within != 0));
            assert_eq!(index.span.min, all.iter().map(|r| r.reading.ts).min().expect("not empty"));
            assert_eq!(index.span.max, all.iter().map(|r| r.reading.ts).max().expect("not empty"));
            assert_eq!((index.count as usize, index.bytes as usize), (all.len(), blob.len()));
            count += all.len();
        }
        assert_eq!(count, readings.iter().filter(|reading| reading.within != 0).count());
    }
}

/// Reads a page as the store does: chunks and blobs in any order, those that the page does not want
/// left out.
fn page_of(
    sources: &[Vec<SliceReading>],
    within: u8,
    page: Page<ReadingKey>,
    skipped: &mut u32,
) -> Vec<Reading> {
    let mut result = ReadingPage::new(page);
    for (at, source) in sources.iter().enumerate() {
        let mut span = ReadingSpan::EMPTY;
        source.iter().for_each(|reading| span.cover(reading.reading.ts));
        if !result.wants(span) {
            *skipped += 1;
        } else if at % 2 == 0 {
            let chunk = chunk_of(source);
            result.add(chunk.readings(chunk.len(), Some(within)).map(|r| r.expect("readable").reading));
        } else {
            let blob = encode_blob(&mut source.clone());
            result.add(Blob::open(&blob).and_then(|blob| blob.device(within)).expect("readable"));
        }
    }
    result.finish()
}

#[test]
fn pages_give_every_reading_once_in_order_whatever_the_sources() {
    let mut skipped = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let all = readings(&mut random, 400);
        let sources: Vec<_> = all.chunks(1 + random.below(60) as usize).map(<[_]>::to_vec).collect();
        let from =
            Timestamp(if random.below(2) == 0 { i64::MIN } else { NOW - random.below(100_000_000) as i64 });
        let to =
            Timestamp(if random.below(2) == 0 { i64::MAX } else { NOW + random.below(1_000_000) as i64 });
        for ascending in [true, false] {
            let limit = 1 + random.below(30) as usize;
            let mut expect: Vec<_> = all
                .iter()
                .filter(|r| r.within == 100 && from <= r.reading.ts && r.reading.ts < to)
                .map(|r| r.reading.clone())
                .collect();
            expect.sort_by_key(|reading| (reading.ts, reading.number));
            if !ascending {
                expect.reverse();
            }
            let mut pages = Vec::new();
            let mut after = None;
            loop {
                let page = Page { from, to, ascending, after, limit };
                let found = page_of(&sources, 100, page, &mut skipped);
                let Some(last) = found.last() else { break };
                assert!(found.len() <= limit);
                after = Some(ReadingKey { ts: last.ts, number: last.number });
                pages.extend(found);
            }
            assert_eq!(pages, expect, "seed {seed} ascending {ascending}");
        }
    }
    assert!(skipped > 1_000, "{skipped}");
}
