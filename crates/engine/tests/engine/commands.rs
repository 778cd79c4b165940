//! Commands as callers see them: pages whose filter leaves most of them out, and waits that are
//! over before their command is.

use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, Lineage, SystemClock, Timestamp};
use engine::queries::CommandFilter;
use engine::{Engine, NewCommand, NewDevice, Page};
use store::MemoryStore;

use crate::whole::settings;

/// Large commands, so that few are enough to end a page.
const PAYLOAD_BYTES: usize = 100 << 10;
const COMMANDS: usize = 200;

/// An engine with a device.
async fn engine() -> (Engine, DeviceId) {
    let (store, clock) = (MemoryStore::new(Lineage(1), 4), SystemClock::start(Timestamp(0)));
    let engine = Engine::start(settings(), Arc::new(store), Arc::new(clock)).await.expect("it loads");
    let device = DeviceId::new("0xA").expect("an id");
    let new = NewDevice { id: device.as_str().to_owned(), ..NewDevice::default() };
    engine.create_device(new).await.expect("registered");
    (engine, device)
}

#[tokio::test]
async fn a_wait_that_is_over_first_reads_nothing() {
    let (engine, device) = engine().await;
    let payload: Arc<[u8]> = b"1".as_slice().into();
    let sent = engine.commands().send(device, NewCommand::new(payload)).await.expect("sent").command.id;
    assert_eq!(engine.commands().ended(sent, Duration::from_millis(1)).await, Ok(None));
    engine.commands().cancel(sent).await.expect("cancelled");
    let ended = engine.commands().ended(sent, Duration::from_secs(60)).await.expect("known");
    assert_eq!(ended.map(|ended| ended.command.id), Some(sent));
}

#[tokio::test]
async fn a_page_passes_by_so_many_commands_and_says_where_it_goes_on() {
    let (engine, device) = engine().await;
    let payload: Arc<[u8]> = vec![b'1'; PAYLOAD_BYTES].into();
    let mut sent = Vec::new();
    for number in 0..COMMANDS {
        let mut command = NewCommand::new(Arc::clone(&payload));
        command.origin = Some(if number == 0 { "first" } else { "other" }.to_owned());
        sent.push(engine.commands().send(device.clone(), command).await.expect("sent").command.id);
    }
    let filter = CommandFilter { origin: Some("first".to_owned()), ..CommandFilter::default() };
    let (mut after, mut pages, mut found) = (None, 0, Vec::new());
    loop {
        let (from, to) = (Timestamp(i64::MIN), Timestamp::MAX);
        let page = Page { from, to, ascending: false, after, limit: 10 };
        let chunk = engine.queries().commands(&filter, page).expect("readable");
        found.extend(chunk.found.into_iter().map(|(_, tracked)| tracked.command.id));
        pages += 1;
        assert!(pages <= COMMANDS, "it comes to an end");
        match chunk.next {
            Some(place) => after = Some(place),
            None => break,
        }
    }
    assert_eq!(found, [sent[0]], "the oldest is found");
    assert!(pages > 1, "one page does not look through all of them");
}
