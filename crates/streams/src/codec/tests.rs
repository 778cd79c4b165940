//! Messages as bytes: there and back, and bytes that are none.

use proptest::prelude::*;

use super::*;
use crate::sample::{SampleMessage, chunk_of, samples};

#[test]
fn version_1_is_these_bytes() {
    let headers = [("k".into(), "v".into())];
    let message = StreamMessage {
        id: 9,
        received_at: Timestamp(1_000),
        ts: Timestamp(998),
        origin: Some(MessageOrigin { source: "s", external_id: ExternalId::Number(200) }),
        segment: Some("eu"),
        headers: MessageHeaders::new(&headers),
        payload: StreamPayload::Json(b"{}"),
    };
    let plain = StreamMessage {
        id: 10,
        received_at: Timestamp(1_130),
        ts: Timestamp(1_130),
        origin: Some(MessageOrigin { source: "s", external_id: ExternalId::Text("x") }),
        segment: None,
        headers: MessageHeaders::NONE,
        payload: StreamPayload::Bytes(b"\xff"),
    };
    let mut writer = ChunkWriter::new(9, Timestamp(1_000));
    writer.push(&message);
    writer.push(&plain);
    let chunk = writer.finish(Incarnation(3));
    let first = b"\x36\0\x03\x01s\xc8\x01\x02eu\x01\x01k\x01v\x02{}";
    let second = b"\x0d\x82\x01\x01s\x01x\x01\xff";
    assert_eq!(&chunk.bytes[..], [&first[..], second].concat());
    assert_eq!((chunk.first, chunk.messages, chunk.at), (9, 2, Timestamp(1_000)));
    let read: Vec<_> = MessageReader::of(&chunk).collect();
    assert_eq!(read, [Ok(message), Ok(plain)]);
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    for (why, bytes) in [
        ("an unknown flag", &b"\x40\0\0"[..]),
        ("a text without a source", b"\x08\0\x01x\0"),
        ("the same time as that of receipt", b"\x02\0\0\0"),
        ("no headers at all", b"\x20\0\0\0"),
        ("more headers than there are", b"\x20\0\x02\x01k\x01v\0"),
        ("a source that is no UTF-8", b"\x04\0\x01\xff\x05\0"),
        ("an external number above 2^63 - 1", b"\x04\0\x01s\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\0"),
        ("a payload that ends too soon", b"\0\0\x05ab"),
        ("a number that is longer than it needs to be", b"\0\x80\0\0"),
    ] {
        let mut reader = MessageReader::new(1, Timestamp(0), bytes);
        assert_eq!(reader.next(), Some(Err(BadMessage { at: 0 })), "{why}");
        assert_eq!(reader.next(), None, "nothing is read behind it");
    }
}

#[test]
fn ids_and_times_beyond_their_end_are_refused() {
    let two = b"\0\0\0\0\x01\0";
    let bad = Some(Err(BadMessage { at: 3 }));
    assert_eq!(MessageReader::new(u64::MAX - 1, Timestamp(0), two).nth(1), bad);
    assert_eq!(MessageReader::new(1, Timestamp::MAX, two).nth(1), bad);
}

#[test]
fn a_message_is_received_no_earlier_than_the_one_before_it() {
    let mut writer = ChunkWriter::new(1, Timestamp(50));
    for received_at in [50, 70, 60] {
        writer.push(&SampleMessage::default().message(writer.next(), Timestamp(received_at)));
    }
    assert_eq!((writer.next(), writer.messages()), (4, 3));
    let chunk = writer.finish(Incarnation(1));
    let read = MessageReader::of(&chunk).map(|message| message.expect("whole"));
    let times: Vec<_> = read.map(|message| (message.received_at.0, message.ts.0)).collect();
    assert_eq!(times, [(50, 50), (70, 70), (70, 60)]);
}

/// Writes again what was read.
fn rewritten(first: u64, at: Timestamp, messages: &[StreamMessage<'_>]) -> Vec<u8> {
    let mut writer = ChunkWriter::new(first, at);
    messages.iter().for_each(|message| writer.push(message));
    writer.finish(Incarnation(1)).bytes.to_vec()
}

proptest! {
    #[test]
    fn messages_are_read_back(samples in samples(0..40), first in 1..u64::MAX / 2, at in -9_999..9_999_i64) {
        let chunk = chunk_of(first, Timestamp(at), &samples);
        let mut reader = MessageReader::of(&chunk);
        let mut received_at = Timestamp(at);
        for (id, (place, sample)) in (first..).zip(samples.iter().enumerate()) {
            if place > 0 {
                received_at = Timestamp(received_at.0 + i64::from(sample.after_ms));
            }
            prop_assert_eq!(reader.next(), Some(Ok(sample.message(id, received_at))));
        }
        prop_assert_eq!(reader.bytes_read(), chunk.bytes.len());
        prop_assert_eq!(reader.next(), None);
    }

    #[test]
    fn what_can_be_read_of_any_bytes_is_written_to_the_same(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut reader = MessageReader::new(1, Timestamp(0), &bytes);
        let mut read = Vec::new();
        let mut end = 0;
        while let Some(Ok(message)) = reader.next() {
            read.push(message);
            end = reader.bytes_read();
        }
        let written = rewritten(1, Timestamp(0), &read);
        // The first message's time is given beside the run.
        let is_first_time_given = bytes.get(1) == Some(&0);
        prop_assert!(!is_first_time_given || written == bytes[..end]);
    }

    #[test]
    fn what_is_cut_off_is_missed_or_bad(samples in samples(1..6), cut in 1..40_usize) {
        let chunk = chunk_of(1, Timestamp(0), &samples);
        let all: Vec<_> = MessageReader::of(&chunk).map(|message| message.expect("whole")).collect();
        let bytes = &chunk.bytes[..chunk.bytes.len().saturating_sub(cut)];
        let read: Vec<_> = MessageReader::new(1, Timestamp(0), bytes).map_while(Result::ok).collect();
        prop_assert!(read.len() < all.len() && all.starts_with(&read));
    }
}
