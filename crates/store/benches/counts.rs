//! Instructions of the stored forms: a batch as a frame, and readings as a blob.
//!
//! `make bench-counts` holds these against `benches/counts`. Counts, not times: they are the same
//! on a busy machine.
#![allow(missing_docs, reason = "the harness makes items of its own")]

use std::hint::black_box;

use base::{PartitionId, Timestamp, Value, WayIn};
use gungraun::{library_benchmark, library_benchmark_group, main};
use records::{Batch, DeviceSlot, Op, Reading, Sign, SignReading};
use store::codec::{decode_batch, encode_batch};
use store::sealed;

const REPORTS: u32 = 64;
const DEVICES: u8 = 16;
const READINGS_EACH: u32 = 64;
const NOW: i64 = 1_795_219_200_000;

/// What a slice of equal reports becomes.
fn batch() -> Batch {
    let mut batch = Batch::new(PartitionId(3));
    batch.ops.extend((0..REPORTS).map(|number| {
        let value = Value::Number(f64::from(number % 2));
        let reading = Some(SignReading { ts: None, value, changed: false });
        let slot = DeviceSlot(number * 151);
        Op::Sign(Sign { slot, way: WayIn::Mqtt, readings: 1_000 + number, newest_ts: None, reading })
    }));
    batch
}

fn frame() -> Vec<u8> {
    encode_batch(&batch())
}

/// Locks that report once a minute and change now and then, beside a meter.
fn readings() -> Vec<(u8, Reading)> {
    let mut readings = Vec::new();
    for within in 0..DEVICES {
        for number in 0..READINGS_EACH {
            let ts = Timestamp(NOW + i64::from(number) * 60_000 + i64::from(within) * 137);
            let value = match within {
                0 => f64::from(number) * 0.25,
                _ => f64::from(number / 10 % 2),
            };
            let changed = within == 0 || number % 10 == 0;
            readings.push((within, Reading { number, ts, value: Value::Number(value), changed }));
        }
    }
    readings
}

fn blob() -> Vec<u8> {
    sealed::seal(readings())
}

#[library_benchmark]
#[bench::equal_reports(setup = batch)]
fn encode_batch_of_64(batch: Batch) -> (Batch, Vec<u8>) {
    let frame = encode_batch(black_box(&batch));
    (batch, frame)
}

#[library_benchmark]
#[bench::equal_reports(setup = frame)]
fn decode_batch_of_64(frame: Vec<u8>) -> Batch {
    decode_batch(black_box(&frame)).expect("a frame")
}

#[library_benchmark]
#[bench::sixteen_devices(setup = readings)]
fn seal_1024_readings(readings: Vec<(u8, Reading)>) -> Vec<u8> {
    sealed::seal(black_box(readings))
}

#[library_benchmark]
#[bench::sixteen_devices(setup = blob)]
fn unseal_1024_readings(blob: Vec<u8>) -> Vec<(u8, Reading)> {
    sealed::unseal(black_box(&blob)).expect("a blob")
}

#[library_benchmark]
#[bench::the_last(setup = blob)]
fn readings_of_one_device(blob: Vec<u8>) -> Vec<Reading> {
    sealed::readings_of(black_box(&blob), DEVICES - 1).expect("a blob")
}

library_benchmark_group!(
    name = forms,
    benchmarks = [
        encode_batch_of_64,
        decode_batch_of_64,
        seal_1024_readings,
        unseal_1024_readings,
        readings_of_one_device
    ]
);
main!(library_benchmark_groups = forms);
