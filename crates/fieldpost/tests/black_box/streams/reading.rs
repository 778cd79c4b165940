//! Reading from a place on: pages, segments, times, and waiting for what is not there yet.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{S, append, append_numbers, numbers, read, refused, set, stream};
use crate::contract::rig::{PATIENCE, Rig};

#[tokio::test]
async fn pages_go_on_where_the_last_one_ended() {
    let mut rig = Rig::start(&[]).await;
    append_numbers(&rig, 1, 250).await;
    for round in ["at once", "after a kill"] {
        let (mut found, mut after) = (Vec::new(), "0".to_owned());
        for items in [100, 100, 50, 0] {
            let page = read(&rig, &format!("?after={after}")).await;
            let page_items = page["items"].as_array().expect("items");
            assert_eq!((page_items.len(), &page["skipped"]), (items, &json!(0)), "{round}");
            found.extend(numbers(page_items, "id"));
            page["next_after"].as_str().expect("an id").clone_into(&mut after);
        }
        assert_eq!(found, (1..=250).collect::<Vec<_>>(), "{round}");
        let page = read(&rig, "?after=247&limit=2").await;
        assert_eq!(numbers(page["items"].as_array().expect("items"), "id"), [248, 249]);
        let behind = read(&rig, "?after=99999").await;
        assert_eq!(behind["items"], json!([]), "what is not there yet");
        rig.restart().await;
    }
}

#[tokio::test]
async fn segments_are_read_apart() {
    let mut rig = Rig::start(&[]).await;
    set(&rig, &json!({"block": {"messages": 10}})).await;
    // Blocks of ten: the first half of them has none of segment b.
    for n in 0..200_u64 {
        let segment = if n >= 100 && n % 3 == 0 { "b" } else { "a" };
        let segment = if n == 57 { Value::Null } else { json!(segment) };
        append(&rig, &json!({"payload": n, "segment": segment})).await;
    }
    let expect: Vec<u64> = (100..200).filter(|n| n % 3 == 0).collect();
    for round in ["at once", "after a kill"] {
        let (mut found, mut after) = (Vec::new(), "0".to_owned());
        loop {
            let page = read(&rig, &format!("?segment=b&limit=7&after={after}")).await;
            found.extend(numbers(page["items"].as_array().expect("items"), "payload"));
            let next = page["next_after"].as_str().expect("an id").to_owned();
            if next == after {
                break;
            }
            after = next;
        }
        assert_eq!(found, expect, "{round}");
        assert_eq!(after, "200", "it moves on past what is left out");
        let both = read(&rig, "?segment=a,b&limit=1000").await;
        assert_eq!(both["items"].as_array().map(Vec::len), Some(199), "without the one of no segment");
        let none = read(&rig, "?segment=c").await;
        assert_eq!(none["items"], json!([]));
        rig.restart().await;
    }
}

#[tokio::test]
async fn reading_begins_with_what_was_received_then() {
    let rig = Rig::start(&[]).await;
    append_numbers(&rig, 1, 3).await;
    let third = rig.get(&format!("{S}/messages/3")).await;
    let then = third["ts"].as_str().expect("a time");
    // Its own time says nothing about when a message was received.
    append(&rig, &json!({"payload": 4, "ts": "2001-01-01T00:00:00Z"})).await;
    append(&rig, &json!({"payload": 5, "ts": "2101-01-01T00:00:00Z"})).await;
    let page = read(&rig, &format!("?from={then}")).await;
    let found = numbers(page["items"].as_array().expect("items"), "payload");
    assert!(found.ends_with(&[3, 4, 5]), "{found:?}");
    let page = read(&rig, "?from=2001-01-01T00:00:00Z").await;
    assert_eq!(numbers(page["items"].as_array().expect("items"), "payload"), [1, 2, 3, 4, 5]);
    assert_eq!(read(&rig, "?from=2101-01-01T00:00:00Z").await["items"], json!([]));
    let page = read(&rig, &format!("?from={then}&after=4")).await;
    assert_eq!(numbers(page["items"].as_array().expect("items"), "payload"), [5]);
}

#[tokio::test]
async fn a_reader_waits_for_the_first_message() {
    let rig = Rig::start(&[]).await;
    append_numbers(&rig, 1, 1).await;
    let began = Instant::now();
    let there = read(&rig, "?wait=60s").await;
    assert_eq!(numbers(there["items"].as_array().expect("items"), "id"), [1], "what is there comes at once");
    let nothing = read(&rig, "?after=1&wait=300ms").await;
    assert_eq!((&nothing["items"], &nothing["next_after"]), (&json!([]), &json!("1")));
    assert!(began.elapsed() >= Duration::from_millis(300), "it waited");
    for mode in ["sync", "wait", "periodic", "memory"] {
        set(&rig, &json!({"save": mode, "save_interval": "50ms"})).await;
        let last = stream(&rig).await["last_id"].as_str().expect("an id").to_owned();
        let path = format!("?after={last}&wait=60s");
        let waiting = timeout(PATIENCE, read(&rig, &path));
        let message = json!({"payload": mode});
        let (page, appended) = tokio::join!(waiting, append(&rig, &message));
        let page = page.expect("it is woken");
        assert_eq!(page["items"][0]["payload"], mode, "{page}");
        assert_eq!(page["items"][0]["id"], appended[0]["id"], "{mode}");
    }
}

#[tokio::test]
async fn a_reader_of_a_segment_waits_past_what_is_left_out() {
    let rig = Rig::start(&[]).await;
    append(&rig, &json!({"payload": 0, "segment": "a"})).await;
    let waiting = timeout(PATIENCE, read(&rig, "?segment=b&wait=60s"));
    let appending = async {
        for n in 1..=5 {
            append(&rig, &json!({"payload": n, "segment": if n == 5 { "b" } else { "a" }})).await;
        }
    };
    let (page, ()) = tokio::join!(waiting, appending);
    let page = page.expect("it is woken");
    assert_eq!(json!([page["items"][0]["payload"], page["next_after"]]), json!([5, "6"]), "{page}");
}

#[tokio::test]
async fn many_readers_are_woken_by_one_append() {
    let rig = Rig::start(&[]).await;
    append_numbers(&rig, 1, 1).await;
    let readers = (0..100).map(|_| read(&rig, "?after=1&wait=60s"));
    let readers = timeout(PATIENCE, futures_util::future::join_all(readers));
    let (pages, _) = tokio::join!(readers, append_numbers(&rig, 2, 1));
    for page in pages.expect("all are woken") {
        assert_eq!(numbers(page["items"].as_array().expect("items"), "payload"), [2], "{page}");
    }
}

#[tokio::test]
async fn readers_that_wait_are_sent_home_when_the_server_stops_or_the_stream_goes() {
    let rig = Rig::start(&[]).await;
    append_numbers(&rig, 1, 1).await;
    let path = format!("{S}/messages?after=1&wait=60s");
    let (waiting, deleted) = tokio::join!(rig.json("GET", &path, ""), rig.json("DELETE", S, ""));
    assert_eq!(deleted.status, 204);
    assert_eq!(refused(&waiting), (404, "unknown_stream".to_owned()), "{waiting:?}");
}
