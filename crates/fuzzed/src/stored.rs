//! Bytes that claim to be what the store wrote: the batch in a frame, and a blob of readings.
//!
//! A checksum keeps most damage from these readers; here they get it without one. What they read must be what they write again,
//! and may not be out of proportion to the bytes it was read from.

use store::codec::{decode_batch, encode_batch};
use store::sealed;

/// Readings for each byte of a blob, at most, and some more: a run says "the same again" of many at once.
const READINGS_PER_BYTE: usize = 256;
/// What a batch takes in memory for each byte of its frame, at most.
const WEIGHT_PER_BYTE: usize = 512;

/// Reads the bytes as a batch, and as a blob with the right checksum.
pub fn run(data: &[u8]) {
    check_batch(data);
    let mut blob = data.to_vec();
    blob.extend_from_slice(&crc32c::crc32c(data).to_le_bytes());
    check_blob(&blob);
    if crc32c::crc32c(data) != 0 {
        assert!(sealed::unseal(&[data, &[0; 4]].concat()).is_err(), "a wrong checksum is seen");
    }
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
    let mut expect = readings;
    expect.sort_by_key(|(within, reading)| (*within, reading.ts, reading.number));
    let mut found = sealed::unseal(&written).expect("what is written is read");
    // Readings of one moment and number have no order.
    found.sort_by_key(|(within, reading)| (*within, reading.ts, reading.number));
    assert_eq!(found.len(), expect.len());
    for within in [0, 7, 255] {
        let of_device = sealed::readings_of(&written, within).expect("what is written is read");
        let expect = found.iter().filter(|(place, _)| *place == within).map(|(_, reading)| reading.clone());
        assert_eq!(of_device, expect.collect::<Vec<_>>(), "of one device");
    }
}
