//! What goes, when, and what is told of it.

use serde_json::{Value, json};

use super::{S, append, append_numbers, numbers, read, refused, set, stream, until};
use crate::contract::rig::Rig;

fn first_id(stream: &Value) -> u64 {
    stream["first_id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
}

#[tokio::test]
async fn the_oldest_make_room_and_readers_are_told() {
    let mut rig = Rig::start(&[]).await;
    set(&rig, &json!({"block": {"messages": 10}, "keep": {"bytes": "20KB"}})).await;
    let fill: Vec<_> = (0..500).map(|_| json!({"payload": "x".repeat(200)})).collect();
    append(&rig, &json!({"messages": fill})).await;
    let kept = |stream: &Value| first_id(stream) > 1 && stream["bytes"].as_u64().is_some_and(|b| b <= 20_000);
    let mut shown = until(&rig, kept).await;
    for round in ["at once", "after a kill"] {
        let first = first_id(&shown);
        assert_eq!(shown["messages"].as_u64(), Some(501 - first), "{round}");
        let page = read(&rig, "").await;
        assert_eq!(page["skipped"].as_u64(), Some(first - 1), "{round}");
        assert_eq!(numbers(page["items"].as_array().expect("items"), "id")[0], first, "{round}");
        let page = read(&rig, &format!("?after={first}")).await;
        assert_eq!(page["skipped"], 0, "{round}");
        for id in [1, first - 1] {
            let answer = rig.json("GET", &format!("{S}/messages/{id}"), "").await;
            assert_eq!(refused(&answer), (404, "message_gone".to_owned()), "{round}: {id}");
        }
        let answer = rig.json("GET", &format!("{S}/messages/501"), "").await;
        assert_eq!(refused(&answer), (404, "unknown_message".to_owned()), "{round}");
        let blocks = rig.items(&format!("{S}/blocks")).await;
        assert_eq!(numbers(&blocks, "first_id")[0], first, "{round}: blocks go whole");
        rig.restart().await;
        shown = stream(&rig).await;
    }
    let handlers = rig.get(&format!("{S}/handlers")).await;
    let deletes = |handler: &&Value| handler["handler"] == "delete";
    assert!(
        handlers["items"].as_array().expect("items").iter().any(|handler| deletes(&handler)),
        "{handlers}"
    );
}

#[tokio::test]
async fn what_is_too_old_goes_and_its_ids_do_not_come_again() {
    let mut rig = Rig::start(&[]).await;
    set(&rig, &json!({"block": {"age": "1s"}, "keep": {"age": "2s"}})).await;
    append_numbers(&rig, 1, 20).await;
    let shown = until(&rig, |stream| stream["messages"] == 0).await;
    assert_eq!((first_id(&shown), &shown["last_id"]), (21, &json!("20")), "{shown}");
    rig.restart().await;
    let page = read(&rig, "").await;
    assert_eq!((&page["items"], &page["skipped"]), (&json!([]), &json!(20)), "{page}");
    assert_eq!(append_numbers(&rig, 21, 1).await[0]["id"], "21");
}

#[tokio::test]
async fn a_full_stream_may_refuse() {
    let rig = Rig::start(&[]).await;
    set(&rig, &json!({"when_full": "reject", "block": {"messages": 10}, "keep": {"bytes": "20KB"}})).await;
    let body = json!({"payload": "x".repeat(1_000)}).to_string();
    let path = format!("{S}/messages");
    let mut taken = 0;
    let full = loop {
        let answer = rig.json("POST", &path, &body).await;
        if answer.status != 201 {
            break answer;
        }
        taken += 1;
        assert!(taken < 100, "it has a bound");
    };
    assert_eq!(refused(&full), (503, "stream_full".to_owned()), "{full:?}");
    assert!(full.headers.contains_key("retry-after"), "{full:?}");
    let shown = stream(&rig).await;
    assert_eq!(json!([shown["first_id"], shown["messages"]]), json!(["1", taken]), "nothing was dropped");
    let lines = rig.ask("POST", &path, "application/x-ndjson", &body).await;
    assert_eq!(refused(&lines), (503, "stream_full".to_owned()), "{lines:?}");
    set(&rig, &json!({"block": {"messages": 10}})).await;
    assert_eq!(rig.json("POST", &path, &body).await.status, 201, "there is room at once");
}
