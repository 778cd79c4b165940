//! Subscriptions: a place that outlives `kill -9`, one reader at a time, and posts in order.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::{S, append_numbers, numbers, refused};
use crate::contract::rig::{PATIENCE, Rig};
use crate::wire::Answer;

const BILL: &str = "/v1/streams/shop/orders/subscriptions/bill";

async fn put(rig: &Rig, terms: &Value) -> Value {
    let answer = rig.json("PUT", BILL, &terms.to_string()).await;
    assert!([200, 201].contains(&answer.status), "{terms}: {answer:?}");
    answer.json()
}

async fn try_read(rig: &Rig, reader: &str) -> Answer {
    read_for(rig, reader, "1s").await
}

async fn read_for(rig: &Rig, reader: &str, ttl: &str) -> Answer {
    let body = json!({"reader": reader, "limit": 1000, "ttl": ttl});
    rig.json("POST", &format!("{BILL}/read"), &body.to_string()).await
}

/// The ids that a reader is given.
async fn read(rig: &Rig, reader: &str) -> Vec<u64> {
    let answer = try_read(rig, reader).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    numbers(answer.json()["items"].as_array().expect("items"), "id")
}

async fn commit(rig: &Rig, commit: &Value) -> Answer {
    rig.json("POST", &format!("{BILL}/commit"), &commit.to_string()).await
}

async fn committed(rig: &Rig, reader: &str, id: u64) {
    let answer = commit(rig, &json!({"reader": reader, "id": id.to_string()})).await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{answer:?}");
}

#[tokio::test]
async fn a_reader_goes_on_where_it_was_after_kills() {
    let mut rig = Rig::start(&[]).await;
    assert_eq!(put(&rig, &json!({})).await["position"], "0", "it makes the stream too");
    append_numbers(&rig, 1, 5).await;
    assert_eq!(read(&rig, "a").await, [1, 2, 3, 4, 5]);
    committed(&rig, "a", 2).await;
    assert_eq!(read(&rig, "a").await, [3, 4, 5]);
    rig.restart().await;
    assert_eq!(read(&rig, "a").await, [3, 4, 5], "what was read and not committed comes again");
    committed(&rig, "a", 5).await;
    rig.restart().await;
    assert!(read(&rig, "b").await.is_empty(), "after a restart any reader goes on");
    append_numbers(&rig, 6, 1).await;
    assert_eq!(read_for(&rig, "b", "1h").await.status, 200);
    let shown = rig.get(BILL).await;
    assert_eq!(json!([shown["position"], shown["lag"], shown["reader"]]), json!(["5", 1, "b"]), "{shown}");
    assert!(shown["oldest_unread_at"].is_string(), "{shown}");
    assert_eq!(rig.items(&format!("{S}/subscriptions")).await.len(), 1);
    assert_eq!(rig.json("DELETE", BILL, "").await.status, 204);
    assert_eq!(refused(&try_read(&rig, "b").await), (404, "unknown_subscription".to_owned()));
}

#[tokio::test]
async fn one_reader_reads_at_a_time_until_it_is_silent_for_its_ttl() {
    let rig = Rig::start(&[]).await;
    put(&rig, &json!({})).await;
    append_numbers(&rig, 1, 3).await;
    assert_eq!(read_for(&rig, "a", "1h").await.status, 200);
    let busy = (409, "subscription_busy".to_owned());
    assert_eq!(refused(&try_read(&rig, "b").await), busy);
    assert_eq!(refused(&commit(&rig, &json!({"reader": "b", "id": "1"})).await), busy);
    committed(&rig, "a", 1).await;
    assert_eq!(read(&rig, "a").await, [2, 3]);
    rig.api.until(BILL, PATIENCE, |shown: &Value| shown["reader"].is_null()).await.expect("its ttl is over");
    assert_eq!(read(&rig, "b").await, [2, 3]);
}

#[tokio::test]
async fn a_position_goes_back_only_where_that_is_asked_for() {
    let rig = Rig::start(&[]).await;
    append_numbers(&rig, 1, 5).await;
    assert_eq!(put(&rig, &json!({"from": "3"})).await["position"], "3");
    assert_eq!(put(&rig, &json!({})).await["position"], "3", "it stays where it is");
    let behind = commit(&rig, &json!({"reader": "a", "id": "2"})).await;
    assert_eq!(refused(&behind), (409, "position_behind".to_owned()));
    let ahead = commit(&rig, &json!({"reader": "a", "id": "99"})).await;
    assert_eq!(refused(&ahead), (404, "unknown_message".to_owned()));
    assert_eq!(commit(&rig, &json!({"reader": "a", "id": "1", "rewind": true})).await.status, 204);
    assert_eq!(read(&rig, "a").await, [2, 3, 4, 5]);
    assert_eq!(put(&rig, &json!({"from": "end"})).await["position"], "5");
    assert_eq!(put(&rig, &json!({"from": "start"})).await["lag"], 5);
    assert_eq!(put(&rig, &json!({"from": "2000-01-01T00:00:00Z"})).await["position"], "0");
    assert_eq!(put(&rig, &json!({"from": "2100-01-01T00:00:00Z"})).await["position"], "5");
    let refusal = rig.json("PUT", BILL, &json!({"from": "99"}).to_string()).await;
    assert_eq!(refused(&refusal), (422, "invalid_from".to_owned()));
}

/// A post that came, answered with this status.
async fn take(listener: &TcpListener, status: &str) -> Value {
    let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.expect("in time").expect("a connection");
    let mut request = Vec::new();
    loop {
        // A connection of a server that was killed.
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return Value::Null;
        }
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if let Ok(body) = serde_json::from_str::<Value>(body) {
            assert!(head.to_lowercase().contains("webhook-signature: v1,"), "{head}");
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            // It may be gone meanwhile.
            stream.write_all(answer.as_bytes()).await.ok();
            return body;
        }
    }
}

#[tokio::test]
async fn pushes_come_in_order_over_failures_and_a_kill() {
    const COUNT: u64 = 40;
    let mut rig = Rig::start(&[
        ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true"),
        ("FIELDPOST_NOTIFY__RETRY_BASE", "50ms"),
        ("FIELDPOST_NOTIFY__RETRY_MAX", "50ms"),
    ])
    .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let made = put(&rig, &json!({"push": {"url": url, "max": 3}})).await;
    assert!(made["push"]["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{made}");
    assert_eq!(put(&rig, &json!({"push": {"url": url, "max": 3}})).await["push"].get("secret"), None);
    assert_eq!(refused(&try_read(&rig, "a").await), (409, "subscription_busy".to_owned()));
    append_numbers(&rig, 1, COUNT).await;
    let (mut taken, mut posts, mut seen) = (0, 0, BTreeSet::new());
    while taken < COUNT {
        posts += 1;
        // Every third one fails, and one is followed by a kill.
        let fails = posts % 3 == 0;
        let body = take(&listener, if fails { "500 No" } else { "204 Taken" }).await;
        let Some(items) = body["items"].as_array() else { continue };
        assert_eq!(
            json!([body["type"], body["stream"], body["subscription"]]),
            json!(["stream.messages", "shop/orders", "bill"])
        );
        let ids = numbers(items, "id");
        assert!((1..=3).contains(&ids.len()), "{ids:?}");
        assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{ids:?}");
        assert!(ids[0] <= taken + 1, "nothing is left out: {ids:?} behind {taken}");
        if !fails {
            taken = taken.max(ids[ids.len() - 1]);
            seen.extend(ids);
        }
        if posts == 7 {
            rig.restart().await;
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), (1..=COUNT).collect::<Vec<_>>());
    let done =
        rig.api.until(BILL, PATIENCE, |shown: &Value| shown["lag"] == 0).await.expect("it is committed");
    assert_eq!(json!([done["position"], done["push"]["failures"]]), json!([COUNT.to_string(), 0]), "{done}");
}

#[tokio::test]
async fn a_push_that_finds_nobody_shows_the_code_that_attempts_have() {
    let rig = Rig::start(&[("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true")]).await;
    append_numbers(&rig, 1, 1).await;
    put(&rig, &json!({"push": {"url": "http://127.0.0.1:1/"}})).await;
    let has_failed = |shown: &Value| shown["push"]["failures"] != 0;
    let shown = rig.api.until(BILL, PATIENCE, has_failed).await.expect("nobody listens there");
    assert_eq!(shown["push"]["error"], "connect_failed", "{shown}");
}
