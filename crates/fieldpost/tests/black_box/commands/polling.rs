//! Devices that poll over HTTP: the same commands, and the same promises.

use serde_json::{Value, json};

use crate::commands::{send, shown, stands, until, with_locks};
use crate::contract::rig::Rig;

/// What a device says of a command over HTTP: the status of the answer.
async fn say(rig: &Rig, device: &str, said: &Value) -> u16 {
    rig.json("POST", &format!("/v1/devices/{device}/ack"), &said.to_string()).await.status
}

#[tokio::test]
async fn a_device_polls_and_answers_over_http() {
    let rig = with_locks().await;
    let poll = async || rig.json("GET", "/v1/devices/0xA/poll", "").await;
    assert_eq!(poll().await.status, 204);
    let first = send(&rig, "0xA", &json!({"payload": {"open": 1}})).await;
    let second = send(&rig, "0xA", &json!({"payload": 2})).await;
    for _ in 0..2 {
        let given = poll().await;
        let expect = json!({"message_id": first, "payload": {"open": 1}});
        assert_eq!((given.status, given.json()), (200, expect), "the same until it is answered");
    }
    stands(&rig, &second, "scheduled").await;
    assert_eq!(say(&rig, "0xA", &json!({"message_id": first, "progress": "half"})).await, 200);
    stands(&rig, &first, "running").await;
    assert_eq!(say(&rig, "0xA", &json!({"message_id": first, "ok": true, "result": [1, 2]})).await, 200);
    let ended = shown(&rig, &first).await;
    assert_eq!((&ended["status"], &ended["result"]), (&json!("acknowledged"), &json!([1, 2])), "{ended}");
    assert_eq!(poll().await.json()["message_id"], second);
    assert_eq!(say(&rig, "0xA", &json!({"message_id": second, "ok": false})).await, 200);
    stands(&rig, &second, "failed").await;
    assert_eq!(poll().await.status, 204);
    let seen = rig.get("/v1/devices/0xA").await["state"]["connection"].clone();
    assert_eq!(seen, "online", "an answer is a sign of life");
}

#[tokio::test]
async fn each_poll_after_the_timeout_is_a_try() {
    let rig = with_locks().await;
    let command = json!({"payload": 1, "ack_timeout": "100ms", "max_attempts": 2});
    let id = send(&rig, "0xA", &command).await;
    let path = "/v1/devices/0xA/poll?wait=1s";
    while rig.json("GET", path, "").await.status == 200 {}
    let failed = until(&rig, &id, "failed").await;
    assert_eq!(failed["tries"], 2, "{failed}");
}

#[tokio::test]
async fn a_poll_waits_and_the_device_is_reachable_meanwhile() {
    let rig = with_locks().await;
    let path = "/v1/devices/0xA/poll?wait=1m";
    let command = json!({"payload": 1});
    let (given, id) = tokio::join!(rig.json("GET", path, ""), send(&rig, "0xA", &command));
    assert_eq!((given.status, given.text("message_id")), (200, id));
    let nothing = rig.json("GET", "/v1/devices/0xB/poll?wait=50ms", "").await;
    assert_eq!((nothing.status, nothing.body), (204, String::new()));
}

#[tokio::test]
async fn what_a_device_may_not_say_is_refused() {
    let rig = with_locks().await;
    let id = send(&rig, "0xA", &json!({"payload": 1})).await;
    assert_eq!(rig.json("GET", "/v1/devices/0xA/poll", "").await.status, 200);
    for (device, body, status, code) in [
        ("none", json!({"message_id": id, "ok": true}), 404, "unknown_device"),
        ("0xA", json!({"message_id": id, "ok": "yes"}), 422, "invalid_ok"),
        ("0xA", json!({"message_id": id}), 422, "missing_field"),
        ("0xA", json!({"ok": true}), 422, "missing_field"),
        ("0xA", json!({"message_id": "7", "ok": true}), 404, "unknown_command"),
        ("0xB", json!({"message_id": id, "ok": true}), 404, "unknown_command"),
        ("0xA", json!({"message_id": id, "progress": "x".repeat(1_025)}), 422, "value_too_large"),
        ("0xA", json!([1]), 422, "not_an_object"),
    ] {
        let answer = rig.json("POST", &format!("/v1/devices/{device}/ack"), &body.to_string()).await;
        assert_eq!((answer.status, answer.text("code")), (status, code.to_owned()), "{body}");
    }
    let unreadable = rig.json("POST", "/v1/devices/0xA/ack", "{").await;
    assert_eq!((unreadable.status, unreadable.text("code")), (400, "unreadable".to_owned()));
    stands(&rig, &id, "published").await;
    let elsewhere = json!({"message_id": id, "ok": true});
    say(&rig, "0xB", &elsewhere).await;
    stands(&rig, &id, "published").await;
}
