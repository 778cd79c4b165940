//! Blocks: closed, stored, and read back.

use serde_json::{Value, json};

use super::{MODES, S, append_numbers, numbers, read, read_all, set, until};
use crate::contract::rig::{PATIENCE, Rig};

/// Once all but the open block are stored.
async fn stored(rig: &Rig, blocks: u64) -> Value {
    until(rig, |stream| stream["storages"]["local"]["blocks"].as_u64().is_some_and(|stored| stored >= blocks))
        .await
}

#[tokio::test]
async fn blocks_are_closed_stored_and_read_back_in_every_mode() {
    for mode in MODES {
        let mut rig = Rig::start(&[]).await;
        set(&rig, &json!({"save": mode, "save_interval": "20ms", "block": {"messages": 100}})).await;
        for call in 0..35 {
            append_numbers(&rig, call * 30, 30).await;
        }
        let shown = stored(&rig, 10).await;
        assert_eq!((&shown["messages"], &shown["last_id"]), (&json!(1_050), &json!("1050")), "{mode}");
        let blocks = rig.items(&format!("{S}/blocks")).await;
        let mut next = 1;
        for block in &blocks {
            let [first, last, messages] = ["first_id", "last_id", "messages"]
                .map(|member| numbers(std::slice::from_ref(block), member)[0]);
            assert_eq!((first, last + 1 - first), (next, messages), "{mode}: {blocks:?}");
            next = last + 1;
            let is_stored = block["storage"] == "local";
            assert!(!is_stored || block["saved"] == true, "{mode}: {block}");
        }
        assert_eq!(next, 1_051, "{mode}: together they have everything");
        let expect: Vec<_> = (0..1_050).collect();
        assert_eq!(numbers(&read_all(&rig).await, "payload"), expect, "{mode}");
        let of_stored = blocks.iter().filter(|block| block["storage"] == "local");
        let durable: u64 = of_stored.map(|block| block["messages"].as_u64().unwrap_or(0)).sum();
        rig.restart().await;
        let all = numbers(&read_all(&rig).await, "payload");
        assert!(all.len() as u64 >= durable, "{mode}: stored blocks outlive a kill");
        assert_eq!(all, expect[..all.len()], "{mode}: what is left is a prefix");
        let page = read(&rig, "?after=399&limit=3").await;
        assert_eq!(numbers(page["items"].as_array().expect("items"), "payload"), [399, 400, 401], "{mode}");
    }
}

#[tokio::test]
async fn streams_that_nobody_uses_leave_memory_and_come_back() {
    let rig = Rig::start(&[]).await;
    set(&rig, &json!({"save": "memory", "unload_after": "1s"})).await;
    append_numbers(&rig, 1, 500).await;
    let shown = until(&rig, |stream| stream["bytes_in_memory"] == 0).await;
    assert_eq!((&shown["messages"], &shown["last_id"]), (&json!(500), &json!("500")), "{shown}");
    let blocks = rig.items(&format!("{S}/blocks")).await;
    assert!(blocks.iter().all(|block| block["saved"] == true), "what is unloaded is saved: {blocks:?}");
    assert_eq!(numbers(&read_all(&rig).await, "payload"), (1..=500).collect::<Vec<_>>());
    assert_eq!(append_numbers(&rig, 501, 1).await[0]["id"], "501");
}

#[tokio::test]
async fn blocks_that_nobody_uses_leave_memory_while_their_stream_goes_on() {
    let rig = Rig::start(&[]).await;
    let stays = json!({"block": {"messages": 100}, "unload_after": "1h"});
    let goes = json!({"block": {"messages": 100}, "unload_after": "1s"});
    set(&rig, &stays).await;
    let path = format!("{S}/blocks");
    append_numbers(&rig, 0, 100).await;
    let stored = |list: &Value| list["items"][0]["storage"] == "local";
    let list: Value = rig.api.until(&path, PATIENCE, stored).await.expect("it is stored");
    assert_eq!(list["items"][0]["loaded"], true, "it was just appended: {list}");
    set(&rig, &goes).await;
    // It is appended to all the time.
    let mut next = 100;
    let unloaded = async {
        while rig.get(&path).await["items"][0]["loaded"] == true {
            append_numbers(&rig, next, 1).await;
            next += 1;
        }
    };
    tokio::time::timeout(PATIENCE, unloaded).await.expect("it leaves memory");
    let has_unloaded = |list: &Value| {
        let items = list["items"].as_array().expect("items");
        items.iter().any(|one| one["handler"] == "unload" && one["blocks"].as_u64() > Some(0))
    };
    rig.api
        .until(&format!("{S}/handlers"), PATIENCE, has_unloaded)
        .await
        .map(|_: Value| ())
        .expect("it is told");
    set(&rig, &stays).await;
    read(&rig, "?after=0&limit=1").await;
    assert_eq!(rig.get(&path).await["items"][0]["loaded"], true, "it was read");
    set(&rig, &goes).await;
    let gone = |list: &Value| list["items"][0]["loaded"] == false;
    rig.api.until(&path, PATIENCE, gone).await.map(|_: Value| ()).expect("it goes again");
}

#[tokio::test]
async fn large_messages_fill_pages_of_their_own() {
    let mut rig = Rig::start(&[]).await;
    let large = "x".repeat(1_000_000);
    for n in 0..9 {
        super::append(&rig, &json!({"payload": {"n": n, "text": large}})).await;
    }
    rig.restart().await;
    let (mut found, mut after, mut pages) = (Vec::new(), "0".to_owned(), 0);
    while found.len() < 9 {
        let page = read(&rig, &format!("?after={after}")).await;
        let items = page["items"].as_array().expect("items");
        assert!(!items.is_empty(), "{after}");
        found.extend(items.iter().map(|item| item["payload"]["n"].as_u64().expect("a number")));
        page["next_after"].as_str().expect("an id").clone_into(&mut after);
        pages += 1;
    }
    assert_eq!(found, (0..9).collect::<Vec<_>>());
    assert!(pages > 1, "a page has a bound");
}
