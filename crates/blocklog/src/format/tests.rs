//! Round trips, single changed bits, and the very bytes of version 1.

use super::*;

const PLACE: SegmentId = SegmentId { log: LogId(0x0123_4567_89ab_cdef), sequence: 7 };

fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, PLACE, Position(42), Position(40), payload);
    bytes
}

#[test]
fn a_frame_reads_back_as_it_was_written() {
    for length in [0, 1, 7, 8, 9, 1000] {
        let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let bytes = frame(&payload);
        assert_eq!(bytes.len() % FRAME_ALIGNMENT, 0);
        let verified = verify_frame(&bytes, PLACE).unwrap();
        let expected =
            Verified { position: Position(42), synced_through: Position(40), payload: payload.as_slice() };
        assert_eq!(verified, expected);
        assert_eq!(verified.bytes(), bytes.len());
        assert_eq!(verified.is_claim(), length == 0);
    }
}

#[test]
fn a_frame_with_any_bit_changed_does_not_verify() {
    let good = frame(b"thirteen chars");
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(verify_frame(&bad, PLACE), None, "bit {bit}");
    }
}

#[test]
fn a_frame_cut_short_does_not_verify() {
    let good = frame(b"payload");
    for length in 0..good.len() {
        assert_eq!(verify_frame(&good[..length], PLACE), None, "length {length}");
    }
}

#[test]
fn a_frame_of_another_log_or_segment_does_not_verify() {
    let bytes = frame(b"payload");
    assert_eq!(verify_frame(&bytes, SegmentId { log: LogId(1), ..PLACE }), None);
    assert_eq!(verify_frame(&bytes, SegmentId { sequence: 8, ..PLACE }), None);
}

#[test]
fn a_frame_with_any_byte_changed_still_leaves_traces_and_an_old_one_none() {
    let positions = 42..=60;
    let good = frame(b"thirteen chars");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        assert!(traces_of_frame(&bad, PLACE, &positions).is_some(), "byte {at}");
    }
    assert_eq!(traces_of_frame(&good, PLACE, &positions), Some(good.len()));
    let later = SegmentId { sequence: PLACE.sequence + 3, ..PLACE };
    assert_eq!(traces_of_frame(&good, later, &(43..=60)), None);
    assert_eq!(traces_of_frame(&[0; 200], PLACE, &positions), None);
    assert_eq!(traces_of_frame(&good[..30], PLACE, &positions), None);
}

const HEADER: SegmentHeader =
    SegmentHeader { place: PLACE, first: Position(9), previous_bytes: 4096, earlier_bytes: 0 };

#[test]
fn a_segment_header_reads_back_and_any_changed_bit_is_damage() {
    let good = HEADER.encode();
    assert_eq!(SegmentHeader::decode(&good), Ok(HEADER));
    let again = SegmentHeader { earlier_bytes: 1 << 24, ..HEADER };
    assert_eq!(SegmentHeader::decode(&again.encode()), Ok(again));
    for bit in 0..good.len() * 8 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(SegmentHeader::decode(&bad), Err(SegmentHeaderError::Damaged), "bit {bit}");
    }
}

#[test]
fn a_header_of_a_later_version_is_told_from_a_damaged_one() {
    let mut bytes = HEADER.encode();
    bytes[8] = 9;
    let checksum = crc32c::crc32c(&bytes[..SEGMENT_CHECKSUM_AT]);
    bytes[SEGMENT_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(SegmentHeader::decode(&bytes), Err(SegmentHeaderError::Version(9)));
}

/// Logs with these bytes exist: a change of them is a new format version.
#[test]
fn the_bytes_of_version_1_never_change() {
    let header = "46504c4f47534547 0100000007000000 efcdab8967452301 0900000000000000 \
         0010000000000000 0000000000000000 0000000000000000 00000000508471f7";
    assert_eq!(hex(&HEADER.encode()), header);
    let fixed = "4650460105000000 efcdab8967452301 2a00000000000000 \
         2800000000000000 070000006565e95d 6669786564000000";
    assert_eq!(hex(&frame(b"fixed")), fixed);
}

/// In groups of 8 bytes.
fn hex(bytes: &[u8]) -> String {
    let group = |group: &[u8]| group.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(8).map(group).collect::<Vec<_>>().join(" ")
}
