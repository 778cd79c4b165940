//! Settings: kept, shown, and in force at once.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{S, append, append_numbers, set, stream, until};
use crate::contract::rig::Rig;

#[tokio::test]
async fn settings_are_exactly_those_that_were_given_and_survive_a_kill() {
    let mut rig = Rig::start(&[]).await;
    let given = json!({
        "save": "periodic",
        "save_interval": "250ms",
        "block": {"bytes": "64KiB", "age": "10s", "messages": 500},
        "keep": {"age": null, "bytes": "1GB", "until_copied": false},
        "when_full": "reject",
        "unload_after": "2m",
        "move": [],
    });
    set(&rig, &given).await;
    assert_eq!(stream(&rig).await["settings"], given, "setting makes the stream");
    rig.restart().await;
    assert_eq!(stream(&rig).await["settings"], given);
    set(&rig, &json!({"save": "wait"})).await;
    let now = stream(&rig).await["settings"].clone();
    assert_eq!(
        json!([now["save"], now["keep"]["age"], now["when_full"]]),
        json!(["wait", "7d", "drop_oldest"])
    );
}

#[tokio::test]
async fn a_smaller_block_is_in_force_at_once() {
    let rig = Rig::start(&[]).await;
    append_numbers(&rig, 1, 30).await;
    assert_eq!(stream(&rig).await["blocks"], 1);
    set(&rig, &json!({"block": {"messages": 10}})).await;
    append_numbers(&rig, 31, 1).await;
    let more =
        |stream: &Value| stream["storages"]["local"]["blocks"].as_u64().is_some_and(|blocks| blocks > 0);
    until(&rig, more).await;
    set(&rig, &json!({})).await;
    let blocks = stream(&rig).await["blocks"].as_u64();
    append_numbers(&rig, 32, 100).await;
    let after = stream(&rig).await["blocks"].as_u64();
    assert!(after <= blocks.map(|blocks| blocks + 1), "{after:?} behind {blocks:?}");
}

#[tokio::test]
async fn a_block_is_closed_by_its_age_too() {
    let rig = Rig::start(&[]).await;
    set(&rig, &json!({"block": {"age": "1s"}})).await;
    append_numbers(&rig, 1, 3).await;
    let shown = until(&rig, |stream| stream["storages"]["local"]["blocks"] == 1).await;
    assert_eq!((&shown["messages"], &shown["last_id"]), (&json!(3), &json!("3")));
}

#[tokio::test]
async fn a_mode_that_saves_now_and_then_answers_once_in_its_interval() {
    let rig = Rig::start(&[]).await;
    set(&rig, &json!({"save": "wait", "save_interval": "300ms"})).await;
    append(&rig, &json!({"payload": 1})).await;
    let began = Instant::now();
    let calls = (0..20).map(|number| {
        let rig = &rig;
        async move { append(rig, &json!({"payload": number})).await }
    });
    futures_util::future::join_all(calls).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "one save answers many: {took:?}");
    set(&rig, &json!({"save": "sync"})).await;
    append(&rig, &json!({"payload": 2})).await;
    assert_eq!(stream(&rig).await["messages"], 22);
}

#[tokio::test]
async fn a_change_of_the_mode_loses_nothing() {
    let mut rig = Rig::start(&[]).await;
    for (round, mode) in ["memory", "periodic", "wait", "sync", "memory", "sync"].into_iter().enumerate() {
        set(&rig, &json!({"save": mode, "save_interval": "20ms"})).await;
        append_numbers(&rig, round as u64 * 10, 10).await;
    }
    // What was appended in the last mode is durable, and so is all before it.
    let last = append(&rig, &json!({"payload": 60})).await;
    rig.restart().await;
    let all = super::read_all(&rig).await;
    assert_eq!(super::numbers(&all, "payload"), (0..=60).collect::<Vec<_>>());
    assert_eq!(all.last().map(|message| &message["id"]), Some(&last[0]["id"]));
    assert_eq!(rig.json("GET", &format!("{S}/messages/61"), "").await.status, 200);
}
