//! Limits, the cache and channels: memory that is gone with the process.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{done, refused};
use crate::contract::rig::{PATIENCE, Rig};
use crate::wire;

#[tokio::test]
async fn a_limit_lets_so_much_through() {
    let rig = Rig::start(&[]).await;
    for kind in ["smooth", "window"] {
        let asked = |cost: u64| json!({"limit": 3, "per": "24h", "kind": kind, "cost": cost}).to_string();
        let path = format!("/v1/limits/shop/{kind}");
        let first = done(&rig, &path, &asked(2)).await;
        assert_eq!(first, json!({"allowed": true, "remaining": 1, "retry_after_ms": 0}));
        let refused = done(&rig, &path, &asked(2)).await;
        assert_eq!((&refused["allowed"], &refused["remaining"]), (&json!(false), &json!(1)));
        assert!(refused["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{refused}");
        assert_eq!(done(&rig, &path, &asked(1)).await["allowed"], true, "a refusal costs nothing");
    }
}

#[tokio::test]
async fn a_value_is_cached_with_its_type_and_gone_with_the_process() {
    let mut rig = Rig::start(&[]).await;
    let put = async |path: &str, kind: &str, body: &str| rig.ask("PUT", path, kind, body).await;
    assert_eq!(put("/v1/cache/shop/user:7", "text/csv", "a,b").await.status, 204);
    let got = rig.ask("GET", "/v1/cache/shop/user:7", "", "").await;
    assert_eq!(
        (got.status, got.body.as_str(), got.headers["content-type"].as_str()),
        (200, "a,b", "text/csv")
    );
    let taken = put("/v1/cache/shop/user:7?if_absent=true", "text/plain", "x").await;
    assert_eq!(refused(&taken), (409, "exists".to_owned()));
    assert_eq!(put("/v1/cache/shop/get", "text/plain", "1").await.status, 204, "a key like any other");
    let many = done(&rig, "/v1/cache/shop/get", r#"{"keys":["user:7","get","none"]}"#).await;
    assert_eq!(many, json!({"items": {"user:7": {"value_base64": "YSxi"}, "get": {"value_base64": "MQ=="}}}));
    assert_eq!(put("/v1/cache/shop/large", "", &"x".repeat((1 << 20) + 1)).await.status, 413);
    let deleted = done(&rig, "/v1/cache/shop/delete", r#"{"keys":["get","none"]}"#).await;
    assert_eq!(deleted, json!({"deleted": 1}));
    assert_eq!(rig.ask("DELETE", "/v1/cache/shop/get", "", "").await.status, 204);
    assert_eq!(rig.ask("GET", "/v1/cache/shop/get", "", "").await.status, 404);
    rig.restart().await;
    assert_eq!(rig.ask("GET", "/v1/cache/shop/user:7", "", "").await.status, 404);
}

#[tokio::test]
async fn a_value_that_could_not_be_given_back_as_it_was_put_is_refused() {
    let rig = Rig::start(&[("FIELDPOST_COORDINATION__CACHE", "1MB")]).await;
    let large = "x".repeat(1 << 20);
    let answer = rig.ask("PUT", "/v1/cache/shop/large", "text/plain", &large).await;
    assert_eq!(refused(&answer), (413, "body_too_large".to_owned()), "{answer:?}");
    assert!(answer.text("detail").contains("[coordination] cache"), "{answer:?}");
    assert_eq!(rig.ask("PUT", "/v1/cache/shop/large", "text/plain", &large[..900_000]).await.status, 204);
    assert_eq!(rig.ask("GET", "/v1/cache/shop/large", "", "").await.body.len(), 900_000);
    let answer = rig.ask("PUT", "/v1/cache/shop/typed", "text/pläin", "x").await;
    assert_eq!(refused(&answer), (422, "invalid_parameter".to_owned()), "{answer:?}");
    assert_eq!(rig.ask("GET", "/v1/cache/shop/typed", "", "").await.status, 404);
}

/// Reads until a listener was told this.
async fn until_told(listener: &mut TcpStream, told: &str) -> String {
    let (mut all, mut looked) = (Vec::new(), 0);
    let is_told = |bytes: &[u8]| bytes.windows(told.len()).any(|some| some == told.as_bytes());
    let read = async {
        while !is_told(&all[looked..]) {
            looked = (all.len() + 1).saturating_sub(told.len());
            let count = listener.read_buf(&mut all).await.expect("readable");
            assert!(count > 0, "it ended before {told:?}: {:?}", String::from_utf8_lossy(&all));
        }
    };
    timeout(PATIENCE, read).await.expect("it is told");
    String::from_utf8(all).expect("UTF-8")
}

async fn listen(rig: &Rig, channels: &str) -> TcpStream {
    let head = format!("GET /v1/channels/shop/{channels} HTTP/1.1\nHost: localhost");
    let mut listener = wire::begin(rig.site.http.address().await, &head, b"").await;
    until_told(&mut listener, ": listening").await;
    listener
}

#[tokio::test]
async fn who_listens_is_told_once_and_who_does_not_is_not() {
    let rig = Rig::start(&[]).await;
    let publish = async |channel: &str, message: &Value| {
        let path = format!("/v1/channels/shop/{channel}");
        done(&rig, &path, &serde_json::to_string_pretty(message).expect("JSON")).await["receivers"].clone()
    };
    assert_eq!(publish("orders", &json!(0)).await, 0);
    let (mut one, mut all) = (listen(&rig, "orders,ord*").await, listen(&rig, "*").await);
    assert_eq!(publish("orders", &json!({"n": [1, "x\n"]})).await, 2);
    assert_eq!(publish("bills", &json!(2)).await, 1);
    let told = until_told(&mut one, "}\n\n").await;
    let data = told.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
    let data: Value = serde_json::from_str(data).expect("JSON on a line");
    assert_eq!(data, json!({"channel": "orders", "message": {"n": [1, "x\n"]}}), "{told}");
    assert!(told.contains("event: message\n"), "{told}");
    until_told(&mut all, r#"{"channel":"bills","message":2}"#).await;
    drop(one);
}

#[tokio::test]
async fn a_slow_listener_is_ended() {
    let rig = Rig::start(&[]).await;
    let mut slow = listen(&rig, "*").await;
    let message = json!("x".repeat(500_000)).to_string();
    let flood = async { while done(&rig, "/v1/channels/shop/a", &message).await["receivers"] == json!(1) {} };
    timeout(PATIENCE, flood).await.expect("its queue has a bound");
    until_told(&mut slow, "event: too_slow").await;
}
