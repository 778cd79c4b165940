//! Commands and a server that is killed: none is lost, none is answered for its device, and the order
//! stays.

use serde_json::{Value, json};

use crate::commands::device::{Device, VERSIONS, Version};
use crate::commands::{send, shown, stands, with_locks};

#[tokio::test]
async fn a_command_in_flight_is_published_again_after_a_kill() {
    let mut rig = with_locks().await;
    for version in VERSIONS {
        let mut device = Device::ready(&rig, version, "0xA").await;
        let mut ids = Vec::new();
        for payload in 0..3 {
            ids.push(send(&rig, "0xA", &json!({"payload": payload, "ack_timeout": "1h"})).await);
        }
        device.gets(&ids[0]).await;
        rig.restart().await;
        device.vanish().await;
        stands(&rig, &ids[0], "published").await;
        let mut device = Device::ready(&rig, version, "0xA").await;
        for id in &ids {
            device.gets(id).await;
            device.answer(id, true, &json!("done")).await;
        }
        for (id, tries) in ids.iter().zip([2, 1, 1]) {
            let ended = shown(&rig, id).await;
            let expect = (&json!("acknowledged"), &json!(tries));
            assert_eq!((&ended["status"], &ended["tries"]), expect, "{ended}");
        }
        device.leave().await;
    }
}

#[tokio::test]
async fn what_was_answered_is_known_after_a_kill() {
    let mut rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    let id = send(&rig, "0xA", &json!({"payload": 1})).await;
    device.gets(&id).await;
    device.answer(&id, true, &json!({"door": "open"})).await;
    let waiting = send(&rig, "0xB", &json!({"payload": 2, "key": "k", "origin": "test"})).await;
    let before = (shown(&rig, &id).await, shown(&rig, &waiting).await);
    rig.restart().await;
    device.vanish().await;
    assert_eq!((shown(&rig, &id).await, shown(&rig, &waiting).await), before);
}

#[tokio::test]
async fn an_answer_that_comes_after_a_kill_counts() {
    let mut rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::Old, "0xA").await;
    let id = send(&rig, "0xA", &json!({"payload": 1, "ack_timeout": "1h"})).await;
    device.gets(&id).await;
    rig.restart().await;
    device.vanish().await;
    // It has no subscription yet, so nothing is published to it.
    let mut device = Device::connect(&rig, Version::Old, "0xA").await;
    device.answer(&id, true, &Value::Null).await;
    let ended = shown(&rig, &id).await;
    assert_eq!((&ended["status"], &ended["tries"]), (&json!("acknowledged"), &json!(1)), "{ended}");
}

#[tokio::test]
async fn polls_and_wishes_survive_a_kill() {
    let mut rig = with_locks().await;
    let put = rig.json("PUT", "/v1/devices/0xA/desired/level", r#"{"value":7}"#).await;
    assert_eq!(put.status, 200, "{put:?}");
    let polled: Value = rig.get("/v1/devices/0xA/poll").await;
    rig.restart().await;
    assert_eq!(rig.get("/v1/devices/0xA/poll").await, polled);
    let wished = rig.get("/v1/devices/0xA/desired").await;
    let expect = json!([{"key": "level", "desired": 7, "confirmed": null, "pending": true}]);
    assert_eq!(wished["items"], expect);
    let answer = json!({"message_id": polled["message_id"], "ok": true});
    let acked = rig.json("POST", "/v1/devices/0xA/ack", &answer.to_string()).await;
    assert_eq!(acked.status, 200, "{acked:?}");
    rig.restart().await;
    let wished = rig.get("/v1/devices/0xA/desired").await;
    let expect = json!([{"key": "level", "desired": 7, "confirmed": 7, "pending": false}]);
    assert_eq!(wished["items"], expect);
}
