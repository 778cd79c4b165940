//! Bytes that claim to be what the store wrote: the batch in a frame, and a blob of readings.
//!
//! A checksum keeps most damage from these readers; here they get it without one. What they read
//! must be what they write again, and may not be out of proportion to the bytes it was read from.

use records::Reading;
use store::codec::{decode_batch, encode_batch};
use store::sealed;

/// Readings for each byte of a blob, at most, and some more: a run says "the same again" of many at
/// once.
const READINGS_PER_BYTE: usize = 256;
/// What a batch takes in memory for each byte of its frame, at most.
const WEIGHT_PER_BYTE: usize = 512;

/// A block of a blob holds so many bytes, and a checksum behind them.
const BLOCK_CONTENT_BYTES: usize = 4_062;

/// Reads the bytes as a batch, and as a blob with the right checksums.
pub fn run(data: &[u8]) {
    check_batch(data);
    check_blob(&in_blocks(data, 0));
    if !data.is_empty() {
        assert!(sealed::unseal(&in_blocks(data, 1)).is_err(), "a wrong checksum is seen");
    }
}

/// The contents in blocks; with `first` other than 0, every checksum is that of another block.
fn in_blocks(contents: &[u8], first: u64) -> Vec<u8> {
    let mut blob = Vec::new();
    for (number, content) in (first..).zip(contents.chunks(BLOCK_CONTENT_BYTES)) {
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), content);
        blob.extend_from_slice(content);
        blob.extend_from_slice(&checksum.to_le_bytes());
    }
    blob
}

fn check_batch(data: &[u8]) {
    let Ok(batch) = decode_batch(data) else { return };
    let weight: usize = batch.ops.iter().map(records::Op::weight).sum();
    assert!(weight <= 1_024 + WEIGHT_PER_BYTE * data.len(), "{weight} bytes from {}", data.len());
    let written = encode_batch(&batch);
    assert_eq!(decode_batch(&written).as_ref(), Ok(&batch), "what is written is read");
    assert_eq!(encode_batch(&batch), written, "in one way only");
    let cut = written.len() - 1;
    assert!(decode_batch(&written[..cut]).is_err(), "a frame that was cut is seen");
}

fn check_blob(blob: &[u8]) {
    let Ok(readings) = sealed::unseal(blob) else { return };
    assert!(readings.len() <= READINGS_PER_BYTE * blob.len(), "{} from {}", readings.len(), blob.len());
    if readings.is_empty() {
        return;
    }
    let written = sealed::seal(readings.clone());
    let found = in_order(sealed::unseal(&written).expect("what is written is read"));
    assert_eq!(found, in_order(readings), "what is written is read");
    for within in [0, 4, 9, 255] {
        let of_device = sealed::readings_of(&written, within).expect("what is written is read");
        let of_device = in_order(of_device.into_iter().map(|reading| (within, reading)).collect());
        let expect: Vec<_> = found.iter().filter(|(place, _)| *place == within).cloned().collect();
        assert_eq!(of_device, expect, "of one device");
    }
}

/// Readings of one moment and number have no order of their own.
fn in_order(mut readings: Vec<(u8, Reading)>) -> Vec<(u8, Reading)> {
    readings.sort_by_cached_key(|(within, reading)| {
        let Reading { number, ts, value, changed } = reading;
        (*within, *ts, *number, value.to_json(), *changed)
    });
    readings
}
