//! What a check says of streams.

use records::{Stream, StreamDue, StreamTail};

use super::*;
use crate::codec::key::TableKey;
use crate::conformance::{block, block_file, chunk, copy, interval, span, stream, subscription, tail, text};

/// The only one of streams.
pub(super) const PARTITION: PartitionId = PartitionId(0b11 << 14);

const STREAM: Incarnation = Incarnation(1);

/// A stream with two blocks and two chunks, and one that is deleted and not swept yet.
pub(super) fn everything() -> Vec<Op> {
    let due = StreamDue { at: Timestamp(50), stream: STREAM };
    let held = StreamTail {
        messages: 11,
        bytes: 11,
        blocks: 2,
        block_messages: 7,
        block_bytes: 7,
        stored_bytes: 198,
        due: due.at,
        ..tail(1, 20)
    };
    let gone = Stream { deleted: true, ..stream(2, "shop", "gone") };
    vec![
        Op::PutStream(Box::new(stream(1, "shop", "orders"))),
        Op::PutStream(Box::new(gone)),
        Op::PutStreamTail(Box::new(held)),
        Op::PutStreamDue(due),
        Op::PutStreamBlock(Box::new(block(1, 4))),
        Op::PutStreamBlock(Box::new(block(7, 9))),
        Op::PutStreamChunk(Box::new(chunk(10, 3))),
        Op::PutStreamChunk(Box::new(chunk(15, 1))),
        Op::PutExternalInterval(Box::new(interval(0, 9))),
        Op::PutExternalInterval(Box::new(interval(20, 25))),
        Op::PutExternalSpan(Box::new(span(0, 5, 7))),
        Op::PutExternalText(Box::new(text("x", 2))),
        Op::PutSubscription(Box::new(subscription(1, "pushed", true))),
        Op::PutSubscription(Box::new(subscription(1, "read", false))),
        Op::PutStreamCopy(Box::new(copy(1, "centre"))),
    ]
}

#[test]
fn what_streams_lack_is_told() {
    let name = key::stream_name("shop", "orders");
    let pushed = key::subscription(STREAM, "pushed");
    let cases: [(Table, TableKey, &str); 9] = [
        (Table::Streams, key::incarnation(STREAM), "there is no stream 1"),
        (Table::StreamsByName, name, "its row in streams_by_name is missing"),
        (Table::StreamTails, key::incarnation(STREAM), "its row in stream_tails is missing"),
        (Table::StreamsByDue, key::stream_due(Timestamp(50), STREAM), "its row in streams_by_due is missing"),
        (Table::StreamChunks, key::in_stream(STREAM, 10), "blocks, their figures, messages and bytes"),
        (Table::StreamBlocks, key::in_stream(STREAM, 7), "its row in stream_blocks is missing"),
        (Table::SpansByBlock, key::span_of_block(STREAM, 7, "till", 0), "its row in external_spans_by_block"),
        (Table::TextsByMessage, key::in_stream(STREAM, 2), "its row in external_texts_by_message"),
        (Table::PushedSubscriptions, pushed, "its row in pushed_subscriptions is missing"),
    ];
    for (table, key, expect) in cases {
        let directory = directory();
        change(directory.path(), |writer| {
            let mut rows = writer.table(table)?;
            assert!(rows.get(PARTITION, &key)?.is_some(), "{table:?} has it");
            rows.remove(PARTITION, &key)
        });
        let (found, _) = check(directory.path());
        assert!(found.iter().any(|text| text.contains(expect)), "{table:?}: {found:?}");
    }
}

#[test]
fn streams_that_do_not_agree_are_told() {
    let cases: [(Op, &str); 7] = [
        (Op::PutStreamBlock(Box::new(block(3, 5))), "it does not follow the messages before 5"),
        (Op::PutStreamChunk(Box::new(chunk(8, 1))), "it does not follow the messages before 10"),
        (Op::PutStreamTail(Box::new(tail(1, 20))), "blocks, their figures, messages and bytes"),
        (Op::PutExternalInterval(Box::new(interval(10, 12))), "it is none, or meets the one before"),
        (Op::PutExternalText(Box::new(text("y", 99))), "there never was its message"),
        (Op::PutSubscription(Box::new(subscription(2, "r", false))), "its stream 2 is deleted"),
        (Op::PutSubscription(Box::new(subscription(3, "r", true))), "there is no stream 3"),
    ];
    for (op, expect) in cases {
        let directory = directory();
        let store = open_real(directory.path()).expect("opens");
        put(&store, PARTITION, 2, vec![op]);
        drop(store);
        let (found, _) = check(directory.path());
        assert!(found.iter().any(|text| text.contains(expect)), "{expect}: {found:?}");
    }
}

/// The files of the blocks of [`everything`].
pub(super) fn files(store: &EmbeddedStore) {
    for block in [block(1, 4), block(7, 9)] {
        store.blocks().put(&block.file_name(), &block_file()).expect("is written");
    }
}

#[test]
fn files_of_blocks_that_are_missing_damaged_or_nobodys_are_told() {
    let directory = directory();
    let path = |block: &records::StreamBlock| directory.path().join(block.file_name());
    std::fs::remove_file(path(&block(1, 4))).expect("is there");
    let mut bytes = block_file();
    bytes[50] ^= 1;
    std::fs::write(path(&block(7, 9)), bytes).expect("is written");
    std::fs::write(path(&block(11, 12)), b"nobody's").expect("is written");
    let (mut found, mut noted) = (Vec::new(), Vec::new());
    let mut tell = |told| match told {
        Checked::Found(error) => found.push(error.to_string()),
        Checked::Noted(text) => noted.push(text),
        Checked::Counted(..) => {}
    };
    assert_eq!(
        check_directory(directory.path(), &crate::BlockStorages::default(), &mut tell)
            .expect("can be looked at"),
        2
    );
    assert!(found.iter().any(|text| text.contains("is missing")), "{found:?}");
    assert!(found.iter().any(|text| text.contains("does not agree with the checksum")), "{found:?}");
    assert!(noted.iter().any(|text| text.contains("1 files of blocks have no row")), "{noted:?}");
}

#[test]
fn blocks_in_other_storages_are_looked_at_as_far_as_they_can_be_reached() {
    let directory = directory();
    let store = open_real(directory.path()).expect("opens");
    let lineage = store.lineage();
    let elsewhere = |first, last| records::StreamBlock {
        storage: "cold".into(),
        brought_by: lineage,
        ..block(first, last)
    };
    let held = StreamTail {
        messages: 11,
        bytes: 11,
        blocks: 2,
        block_messages: 7,
        block_bytes: 7,
        stored_bytes: 198,
        due: Timestamp(50),
        elsewhere: vec![records::StoredElsewhere { storage: "cold".into(), blocks: 1, bytes: 99 }],
        ..tail(1, 20)
    };
    let ops = vec![Op::PutStreamBlock(Box::new(elsewhere(7, 9))), Op::PutStreamTail(Box::new(held))];
    put(&store, PARTITION, 2, ops);
    drop(store);
    std::fs::remove_file(directory.path().join(block(7, 9).file_name())).expect("is there");
    let cold = std::sync::Arc::new(crate::MemoryBlocks::default());
    let by_name = [("cold".into(), std::sync::Arc::clone(&cold) as std::sync::Arc<dyn crate::BlockStorage>)];
    let storages = crate::BlockStorages::new(by_name.into());
    let check = |storages: &crate::BlockStorages| {
        let (mut found, mut noted) = (Vec::new(), Vec::new());
        let mut tell = |told| match told {
            Checked::Found(error) => found.push(error.to_string()),
            Checked::Noted(text) => noted.push(text),
            Checked::Counted(..) => {}
        };
        check_directory(directory.path(), storages, &mut tell).expect("can be looked at");
        (found, noted)
    };
    let (found, noted) = check(&crate::BlockStorages::default());
    assert_eq!(found, [""; 0]);
    assert!(noted.iter().any(|text| text.contains("1 blocks are in storage \"cold\"")), "{noted:?}");
    let (found, _) = check(&storages);
    assert!(found.iter().any(|text| text.contains("cold") && text.contains("is missing")), "{found:?}");
    let reached: &dyn crate::BlockStorage = &*cold;
    reached.put(&elsewhere(7, 9).file_name(), &block_file()).expect("is written");
    reached.put(&elsewhere(90, 91).file_name(), &block_file()).expect("is written");
    let (found, noted) = check(&storages);
    assert_eq!(found, [""; 0]);
    assert!(noted.iter().any(|text| text.contains("1 files of blocks have no row")), "{noted:?}");
}
