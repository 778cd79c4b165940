//! What devices answer, and what becomes of the command then.

use serde_json::{Value, json};

use crate::commands::device::{Device, VERSIONS, Version};
use crate::commands::{send, shown, stands, until, with_locks};

#[tokio::test]
async fn a_command_goes_out_and_is_acknowledged() {
    let rig = with_locks().await;
    for version in VERSIONS {
        let mut device = Device::ready(&rig, version, "0xA").await;
        let id = send(&rig, "0xA", &json!({"payload": {"open": 1}, "origin": "test"})).await;
        assert_eq!(device.command().await, (id.clone(), json!({"open": 1})), "{version:?}");
        let published = shown(&rig, &id).await;
        assert_eq!((&published["status"], &published["tries"]), (&json!("published"), &json!(1)));
        device.answer(&id, true, &json!({"door": "open"})).await;
        let ended = shown(&rig, &id).await;
        let expect = (&json!("acknowledged"), &json!({"door": "open"}));
        assert_eq!((&ended["status"], &ended["result"]), expect, "{ended}");
        assert!(ended["finished_at"].is_string() && ended["late"].is_null(), "{ended}");
        device.leave().await;
    }
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_is_not_repeated() {
    let rig = with_locks().await;
    for (version, level) in [(Version::Old, "ack"), (Version::New, "Ack")] {
        let mut device = Device::ready(&rig, version, "0xA").await;
        let command = json!({"payload": 1, "ack_timeout": "100ms", "max_attempts": 1_000});
        let (first, second) = (send(&rig, "0xA", &command).await, send(&rig, "0xA", &command).await);
        device.gets(&first).await;
        device.say(level, &json!({"message_id": first, "ok": false, "result": "jammed"})).await;
        let failed = shown(&rig, &first).await;
        assert_eq!((&failed["status"], &failed["result"]), (&json!("failed"), &json!("jammed")));
        while device.command().await.0 != second {}
        device.say(level, &json!({"message_id": second, "ok": true})).await;
        until(&rig, &second, "acknowledged").await;
        device.leave().await;
    }
}

#[tokio::test]
async fn an_acknowledged_packet_is_no_answer() {
    let rig = with_locks().await;
    for version in VERSIONS {
        let mut device = Device::ready(&rig, version, "0xA").await;
        let command = json!({"payload": 1, "ack_timeout": "100ms", "max_attempts": 3});
        let first = send(&rig, "0xA", &command).await;
        let second = send(&rig, "0xA", &json!({"payload": 2})).await;
        for _ in 0..3 {
            device.gets(&first).await;
        }
        let failed = until(&rig, &first, "failed").await;
        assert_eq!((&failed["tries"], failed["result"].is_null()), (&json!(3), true), "{failed}");
        device.gets(&second).await;
        device.answer(&second, true, &Value::Null).await;
        device.leave().await;
    }
}

#[tokio::test]
async fn a_device_at_work_is_not_asked_again() {
    let rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    let command = json!({"payload": 1, "ack_timeout": "300ms", "run_timeout": "1h", "max_attempts": 1_000});
    let id = send(&rig, "0xA", &command).await;
    device.gets(&id).await;
    let mut tries = Vec::new();
    for percent in [20, 40] {
        device.say("ack", &json!({"message_id": id, "progress": {"percent": percent}})).await;
        let running = shown(&rig, &id).await;
        let expect = (&json!("running"), &json!({"percent": percent}));
        assert_eq!((&running["status"], &running["progress"]), expect, "{running}");
        assert!(running["progress_at"].is_string(), "{running}");
        tries.push(running["tries"].clone());
    }
    // What it is given next goes out when it has answered, however long that took.
    let other = send(&rig, "0xB", &json!({"payload": 1, "ttl": "600ms"})).await;
    until(&rig, &other, "expired").await;
    stands(&rig, &id, "running").await;
    device.answer(&id, true, &Value::Null).await;
    let ended = shown(&rig, &id).await;
    assert_eq!(ended["status"], "acknowledged", "{ended}");
    assert!(tries.iter().all(|tries| *tries == ended["tries"]), "{tries:?} at work, and then {ended}");
}

#[tokio::test]
async fn an_answer_after_the_end_is_kept_and_changes_nothing() {
    let rig = with_locks().await;
    for version in VERSIONS {
        let mut device = Device::ready(&rig, version, "0xA").await;
        let id = send(&rig, "0xA", &json!({"payload": 1, "ttl": "200ms"})).await;
        device.gets(&id).await;
        until(&rig, &id, "expired").await;
        device.answer(&id, true, &json!("done")).await;
        device.answer(&id, false, &json!("twice")).await;
        let late = shown(&rig, &id).await;
        assert_eq!((&late["status"], &late["late"]["ok"]), (&json!("expired"), &json!(true)), "{late}");
        assert_eq!((&late["late"]["result"], late["result"].is_null()), (&json!("done"), true), "{late}");
        device.leave().await;
    }
}

#[tokio::test]
async fn answers_that_are_none_change_nothing() {
    let rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    let mut other = Device::ready(&rig, Version::Old, "0xB").await;
    let id = send(&rig, "0xA", &json!({"payload": 1, "ack_timeout": "1h"})).await;
    device.gets(&id).await;
    for answer in [
        json!({"message_id": id, "ok": "true"}),
        json!({"message_id": id, "ok": 1}),
        json!({"message_id": id}),
        json!({"message_id": "cmd_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ok": true}),
        json!({"message_id": 7, "ok": true}),
        json!({"ok": true}),
        json!(true),
    ] {
        device.say("ack", &answer).await;
        stands(&rig, &id, "published").await;
    }
    other.answer(&id, true, &Value::Null).await;
    stands(&rig, &id, "published").await;
    let refused = rig.items("/v1/quarantine").await;
    assert!(refused.iter().any(|report| report["code"] == "invalid_ok"), "{refused:?}");
    device.answer(&id, true, &Value::Null).await;
    stands(&rig, &id, "acknowledged").await;
    device.answer(&id, true, &Value::Null).await;
    let twice = shown(&rig, &id).await;
    assert!(twice["status"] == "acknowledged" && twice["late"].is_null(), "{twice}");
    device.answer(&id, false, &json!("late")).await;
    let late = shown(&rig, &id).await;
    assert!(late["status"] == "acknowledged" && late["result"].is_null(), "{late}");
    assert_eq!((&late["late"]["ok"], &late["late"]["result"]), (&json!(false), &json!("late")), "{late}");
}

#[tokio::test]
async fn a_caller_waits_for_the_answer() {
    let rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::Old, "0xA").await;
    let sending = rig.json("POST", "/v1/devices/0xA/commands?wait=1m", r#"{"payload":"read"}"#);
    let answering = async {
        let (id, _) = device.command().await;
        device.answer(&id, true, &json!(21.5)).await;
        id
    };
    let (answer, id) = tokio::join!(sending, answering);
    assert_eq!((answer.status, answer.text("status")), (201, "acknowledged".to_owned()), "{answer:?}");
    assert_eq!((answer.text("id"), &answer.json()["result"]), (id, &json!(21.5)));
    let in_time = rig.json("POST", "/v1/devices/0xA/commands?wait=50ms", r#"{"payload":1}"#).await;
    assert_eq!((in_time.status, in_time.text("status")), (201, "published".to_owned()), "{in_time:?}");
}
