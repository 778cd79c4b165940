//! Streams as the edges hold them.

use std::sync::Arc;
use std::time::Duration;

use base::{Lineage, Problem, SystemClock, Timestamp};
use engine::streams::{
    AppendTerms, HandlerKind, MessagePayload, NewMessage, OwnedExternalId, StreamCalls, StreamList,
    StreamName, StreamRead,
};
use engine::{Engine, EngineSettings, records};
use records::{SaveMode, StreamSettings};
use store::MemoryStore;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

async fn start(store: &Arc<MemoryStore>) -> Engine {
    let store = Arc::<MemoryStore>::clone(store);
    Engine::start(EngineSettings::for_tests(), store, Arc::new(SystemClock::start(Timestamp(0))))
        .await
        .expect("loads")
}

fn orders() -> StreamName {
    StreamName::new("shop", "orders").expect("a name")
}

fn message(text: &str) -> NewMessage {
    NewMessage::new(MessagePayload::Json(format!("\"{text}\"").into_bytes().into()))
}

fn from_source(text: &str, id: &str) -> NewMessage {
    let external_id = Some(OwnedExternalId::from_text(id));
    NewMessage { source: Some("till".into()), external_id, ..message(text) }
}

fn all_after(after: u64) -> StreamRead {
    StreamRead { after, from: None, segments: Vec::new(), limit: 1_000, bytes_max: 1 << 20 }
}

fn ids(streams: &StreamCalls) -> Vec<u64> {
    let page = streams.read(&orders(), &all_after(0)).expect("is read");
    page.items.iter().map(|item| item.id).collect()
}

fn code<T: std::fmt::Debug>(answer: Result<T, Problem>) -> &'static str {
    answer.expect_err("is refused").code
}

#[tokio::test]
async fn what_is_appended_is_read_and_a_duplicate_has_the_id_of_the_first() {
    let engine = start(&Arc::new(MemoryStore::new(Lineage(7), 2))).await;
    let (streams, orders) = (engine.streams(), orders());
    let some = vec![from_source("a", "1"), message("b"), from_source("c", "x")];
    let appended = streams.append(&orders, some, None).await.expect("appended");
    assert_eq!(appended.iter().map(|one| one.id).collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
    let again = vec![from_source("a", "1"), from_source("other", "x"), message("d")];
    let again = streams.append(&orders, again, None).await.expect("appended");
    let shown: Vec<_> = again.iter().map(|one| (one.id, one.duplicate, one.conflict)).collect();
    assert_eq!(shown, [(Some(1), true, false), (Some(3), true, true), (Some(4), false, false)]);
    assert_eq!(ids(&streams), [1, 2, 3, 4]);
    assert_eq!(&*streams.message(&orders, 2).expect("is there").payload, b"\"b\"");
    assert_eq!(code(streams.message(&orders, 5)), "unknown_message");
    assert_eq!(code(streams.append(&orders, vec![message("e")], Some(3)).await), "tail_moved");
    let other = StreamName::new("shop", "others").expect("a name");
    assert_eq!(code(streams.read(&other, &all_after(0))), "unknown_stream");
    let shown = streams.stream(&orders).expect("is there");
    assert_eq!((shown.first_id, shown.last_id, shown.messages, shown.blocks), (1, 4, 4, 1));
    let listed = streams.list(&StreamList { limit: 9, ..StreamList::default() }).expect("is listed");
    assert_eq!(listed, [shown]);
    engine.stop().await;
}

#[tokio::test]
async fn duplicates_of_a_copy_with_another_payload_are_counted() {
    let engine = start(&Arc::new(MemoryStore::new(Lineage(7), 2))).await;
    let (streams, orders) = (engine.streams(), orders());
    let terms = AppendTerms { is_durable: true, ..AppendTerms::default() };
    let first = vec![from_source("a", "1"), from_source("b", "2")];
    let first = streams.append_transfer(&orders, first, terms, None).await.expect("appended");
    assert_eq!((first.appended, first.duplicates), (2, 0));
    let again = vec![from_source("a", "1"), from_source("other", "2"), from_source("c", "3")];
    let called = Some(&*first.identity.stream);
    let again = streams.append_transfer(&orders, again, terms, called).await.expect("appended");
    assert_eq!((again.appended, again.duplicates), (1, 2));
    let mut registry = prometheus_client::registry::Registry::default();
    engine.register_metrics(&mut registry);
    let is_counted = async {
        loop {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes all");
            if text.contains("fieldpost_streams_conflicts_total 1\n") {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    assert!(timeout(PATIENCE, is_counted).await.is_ok(), "it is not counted");
    let other = streams.append_transfer(&orders, vec![message("d")], terms, Some("dc1.z")).await;
    assert_eq!(code(other), "other_stream");
    streams.delete(&orders).await.expect("deleted");
    let gone = streams.append_transfer(&orders, vec![message("d")], terms, called).await;
    assert_eq!(code(gone), "other_stream");
    engine.stop().await;
}

#[tokio::test]
async fn whoever_waits_for_a_message_wakes_when_it_is_there() {
    let engine = start(&Arc::new(MemoryStore::new(Lineage(7), 2))).await;
    let (streams, orders) = (engine.streams(), orders());
    streams.append(&orders, vec![message("a")], None).await.expect("appended");
    assert!(timeout(PATIENCE, streams.appended(&orders, 0)).await.is_ok(), "it is there already");
    let waiting = tokio::spawn({
        let (streams, orders) = (streams.clone(), orders.clone());
        async move { streams.appended(&orders, 1).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    streams.append(&orders, vec![message("b")], None).await.expect("appended");
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "it sleeps on");
    let waiting = tokio::spawn({
        let (streams, orders) = (streams.clone(), orders.clone());
        async move { streams.appended(&orders, 2).await }
    });
    tokio::task::yield_now().await;
    streams.delete(&orders).await.expect("deleted");
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "it waits for a stream that is gone");
    engine.stop().await;
}

#[tokio::test]
async fn blocks_are_stored_and_everything_is_there_after_a_restart() {
    let store = Arc::new(MemoryStore::new(Lineage(7), 2));
    let engine = start(&store).await;
    let (streams, orders) = (engine.streams(), orders());
    let mut settings = StreamSettings { save: SaveMode::Memory, ..StreamSettings::default() };
    settings.block.messages = 10;
    streams.put_settings(&orders, settings).await.expect("done");
    for _ in 0..5 {
        let some = (0..5).map(|_| message("a")).collect();
        streams.append(&orders, some, None).await.expect("appended");
    }
    assert_eq!(ids(&streams).len(), 25);
    engine.stop().await;
    let engine = start(&store).await;
    let streams = engine.streams();
    assert_eq!(ids(&streams), (1..=25).collect::<Vec<_>>());
    let blocks = streams.blocks(&orders, None, 10).expect("are listed");
    assert_eq!(blocks.iter().map(|block| block.messages).sum::<u64>(), 25, "{blocks:?}");
    let handlers = streams.handlers(&orders).expect("are listed");
    assert_eq!(
        handlers.iter().map(|one| one.handler).collect::<Vec<_>>(),
        [HandlerKind::Unload, HandlerKind::Delete]
    );
    let appended = streams.append(&orders, vec![message("b")], None).await.expect("appended");
    assert_eq!(appended[0].id, Some(26), "a clean stop leaves no id out");
    engine.stop().await;
}

/// Reads with a few messages a page, while others append: everything once, in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_follows_a_writer_gets_every_message_once() {
    const MESSAGES: u64 = 300;
    let engine = start(&Arc::new(MemoryStore::new(Lineage(7), 2))).await;
    let (streams, orders) = (engine.streams(), orders());
    let mut settings = StreamSettings { save: SaveMode::Periodic, ..StreamSettings::default() };
    settings.block.messages = 7;
    settings.save_interval_ms = 10;
    streams.put_settings(&orders, settings).await.expect("done");
    let writing = tokio::spawn({
        let (streams, orders) = (streams.clone(), orders.clone());
        async move {
            for _ in 0..MESSAGES {
                streams.append(&orders, vec![message("a")], None).await.expect("appended");
            }
        }
    });
    let mut after = 0;
    while after < MESSAGES {
        let woken = timeout(PATIENCE, streams.appended(&orders, after)).await;
        assert!(woken.is_ok(), "nothing comes behind {after}");
        let page = streams.read(&orders, &StreamRead { limit: 5, ..all_after(after) }).expect("is read");
        for item in &page.items {
            assert_eq!(item.id, after + 1, "each once and in order");
            after = item.id;
        }
        assert_eq!(page.next_after, after, "{page:?}");
    }
    writing.await.expect("it ends");
    engine.stop().await;
}
