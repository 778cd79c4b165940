//! Which command goes out, and when: one at a time, in order, and by priority. One may take the
//! place of an older one, and none goes out before its time or after it.

use serde_json::{Value, json};

use crate::commands::device::{Device, VERSIONS, Version};
use crate::commands::{send, shown, stands, until, with_locks};

#[tokio::test]
async fn commands_go_out_in_order_one_at_a_time() {
    let rig = with_locks().await;
    for version in VERSIONS {
        let mut device = Device::ready(&rig, version, "0xA").await;
        let mut ids = Vec::new();
        for payload in 0..5 {
            ids.push(send(&rig, "0xA", &json!({"payload": payload, "ack_timeout": "1h"})).await);
        }
        for (at, id) in ids.iter().enumerate() {
            device.gets(id).await;
            for later in &ids[at + 1..] {
                stands(&rig, later, "scheduled").await;
            }
            device.answer(id, true, &Value::Null).await;
        }
        device.leave().await;
    }
}

#[tokio::test]
async fn a_higher_priority_goes_first() {
    let rig = with_locks().await;
    let mut ids = Vec::new();
    for priority in [-1, 0, 5, 100, 5, -100] {
        ids.push(send(&rig, "0xA", &json!({"payload": priority, "priority": priority})).await);
    }
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    for at in [3, 2, 4, 1, 0, 5] {
        device.gets(&ids[at]).await;
        device.answer(&ids[at], true, &Value::Null).await;
    }
}

#[tokio::test]
async fn a_newer_command_takes_the_place_of_one_that_waits() {
    let rig = with_locks().await;
    let keyed = |payload: i32| json!({"payload": payload, "key": "door"});
    let (first, second) = (send(&rig, "0xA", &keyed(1)).await, send(&rig, "0xA", &keyed(2)).await);
    let elsewhere = send(&rig, "0xB", &keyed(3)).await;
    stands(&rig, &first, "superseded").await;
    let retried = rig.json("POST", &format!("/v1/commands/{first}/retry"), "").await;
    assert_eq!((retried.status, retried.text("code")), (409, "not_retryable".to_owned()));
    let mut device = Device::ready(&rig, Version::Old, "0xA").await;
    device.gets(&second).await;
    let third = send(&rig, "0xA", &keyed(4)).await;
    stands(&rig, &second, "published").await;
    device.answer(&second, true, &Value::Null).await;
    device.gets(&third).await;
    stands(&rig, &elsewhere, "scheduled").await;
}

#[tokio::test]
async fn one_that_waits_for_its_time_holds_up_no_other() {
    let rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    let later = json!({"payload": 1, "priority": 100, "not_before": "2099-01-01T00:00:00Z"});
    let answer = rig.json("POST", "/v1/devices/0xA/commands", &later.to_string()).await;
    assert_eq!(answer.status, 422, "over ten years: {answer:?}");
    let tomorrow = simulator::wire_time::wall_now_ms() + 24 * 3_600_000;
    let tomorrow = simulator::wire_time::format_ms(tomorrow);
    let held = send(&rig, "0xA", &json!({"payload": 1, "priority": 100, "not_before": tomorrow})).await;
    let now = send(&rig, "0xA", &json!({"payload": 2})).await;
    device.gets(&now).await;
    device.answer(&now, true, &Value::Null).await;
    let soon = simulator::wire_time::format_ms(simulator::wire_time::wall_now_ms() + 300);
    let soon = send(&rig, "0xA", &json!({"payload": 3, "not_before": soon})).await;
    device.gets(&soon).await;
    device.answer(&soon, true, &Value::Null).await;
    stands(&rig, &held, "scheduled").await;
}

#[tokio::test]
async fn a_command_is_worth_its_time_and_no_longer() {
    let rig = with_locks().await;
    let absent = send(&rig, "0xA", &json!({"payload": 1, "ttl": "200ms"})).await;
    let other = send(&rig, "0xA", &json!({"payload": 2})).await;
    let expired = until(&rig, &absent, "expired").await;
    assert_eq!(expired["tries"], 0, "{expired}");
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    device.gets(&other).await;
    device.answer(&other, true, &Value::Null).await;
    let silent = send(&rig, "0xA", &json!({"payload": 3, "ttl": "300ms", "ack_timeout": "1h"})).await;
    let next = send(&rig, "0xA", &json!({"payload": 4})).await;
    device.gets(&silent).await;
    device.gets(&next).await;
    let expired = shown(&rig, &silent).await;
    assert_eq!((&expired["status"], &expired["tries"]), (&json!("expired"), &json!(1)), "{expired}");
}

#[tokio::test]
async fn a_command_is_cancelled_before_its_answer() {
    let rig = with_locks().await;
    let cancel = async |id: &str| rig.json("DELETE", &format!("/v1/commands/{id}"), "").await.status;
    let waiting = send(&rig, "0xA", &json!({"payload": 1})).await;
    assert_eq!((cancel(&waiting).await, cancel(&waiting).await), (204, 409));
    let mut device = Device::ready(&rig, Version::Old, "0xA").await;
    let published = send(&rig, "0xA", &json!({"payload": 2, "ack_timeout": "1h"})).await;
    let next = send(&rig, "0xA", &json!({"payload": 3})).await;
    device.gets(&published).await;
    assert_eq!(cancel(&published).await, 204);
    device.gets(&next).await;
    device.answer(&next, true, &Value::Null).await;
    assert_eq!(cancel(&next).await, 409);
    for id in [&waiting, &published] {
        stands(&rig, id, "cancelled").await;
    }
    let retry = format!("/v1/commands/{published}/retry");
    assert_eq!(rig.json("POST", &retry, "").await.status, 202);
    device.gets(&published).await;
    device.answer(&published, true, &Value::Null).await;
    stands(&rig, &published, "acknowledged").await;
}

#[tokio::test]
async fn there_is_a_pause_between_commands_where_one_is_set() {
    const GAP_MS: i64 = 400;
    let rig = crate::contract::rig::Rig::start(&[("FIELDPOST_COMMANDS__GAP", "400ms")]).await;
    rig.device(&json!({"id": "0xA", "kind": "lock"})).await;
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    let (first, second) =
        (send(&rig, "0xA", &json!({"payload": 1})).await, send(&rig, "0xA", &json!({"payload": 2})).await);
    let mut published = Vec::new();
    for id in [&first, &second] {
        device.gets(id).await;
        let at = shown(&rig, id).await["published_at"].as_str().expect("a time").to_owned();
        published.push(simulator::wire_time::parse_ms(&at).expect("a time"));
        device.answer(id, true, &Value::Null).await;
    }
    assert!(published[1] - published[0] >= GAP_MS, "{published:?}");
}

#[tokio::test]
async fn a_window_of_one_device_holds_at_once_and_after_a_restart() {
    let mut rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    let slow = |payload: i32| json!({"payload": payload, "ack_timeout": "1h"});
    let first = send(&rig, "0xA", &slow(1)).await;
    let second = send(&rig, "0xA", &slow(2)).await;
    device.gets(&first).await;
    stands(&rig, &second, "scheduled").await;
    rig.api.patch("/v1/devices/0xA", &json!({"commands": {"window": 2}})).await.expect("changed");
    device.gets(&second).await;
    device.vanish().await;
    rig.restart().await;
    assert_eq!(rig.get("/v1/devices/0xA").await["commands"], json!({"window": 2, "gap": null}));
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    device.gets(&first).await;
    device.gets(&second).await;
    let third = send(&rig, "0xA", &slow(3)).await;
    stands(&rig, &third, "scheduled").await;
    device.answer(&first, true, &Value::Null).await;
    device.gets(&third).await;
    stands(&rig, &second, "published").await;
}
