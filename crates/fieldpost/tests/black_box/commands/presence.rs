//! Who is there: connected, reachable, waiting; and the timeline that tells of it.

use serde_json::{Value, json};

use crate::commands::device::{Device, VERSIONS, Version};
use crate::commands::{send, shown, stands, with_locks};
use crate::contract::rig::{PATIENCE, Rig};

async fn ids(rig: &Rig, query: &str) -> Vec<Value> {
    let devices = rig.items(&format!("/v1/devices?{query}")).await;
    devices.into_iter().map(|device| device["id"].clone()).collect()
}

/// Waits until a device is seen as connected, or as not.
async fn is_connected(rig: &Rig, id: &str, connected: bool) {
    let seen = |device: &Value| device["state"]["connected"] == connected;
    let path = format!("/v1/devices/{id}");
    let _: Value = rig.api.until(&path, PATIENCE, seen).await.expect("it is seen");
}

#[tokio::test]
async fn an_absent_device_gets_its_command_when_it_subscribes() {
    let rig = with_locks().await;
    for (version, filter) in [
        (Version::Old, "dev/lock/0xA"),
        (Version::New, "dev/+/0xA"),
        (Version::New, "dev/#"),
        (Version::Old, "dev/lock/+"),
    ] {
        let id = send(&rig, "0xA", &json!({"payload": 1})).await;
        stands(&rig, &id, "scheduled").await;
        let mut device = Device::connect(&rig, version, "0xA").await;
        is_connected(&rig, "0xA", true).await;
        stands(&rig, &id, "scheduled").await;
        device.subscribe(filter).await;
        device.gets(&id).await;
        device.answer(&id, true, &Value::Null).await;
        assert_eq!(shown(&rig, &id).await["tries"], 1);
        device.leave().await;
        is_connected(&rig, "0xA", false).await;
    }
}

#[tokio::test]
async fn a_device_that_comes_back_gets_again_what_it_did_not_answer() {
    let rig = with_locks().await;
    for version in VERSIONS {
        let mut device = Device::ready(&rig, version, "0xA").await;
        let id = send(&rig, "0xA", &json!({"payload": 1, "ack_timeout": "1h"})).await;
        let next = send(&rig, "0xA", &json!({"payload": 2})).await;
        device.gets(&id).await;
        device.vanish().await;
        is_connected(&rig, "0xA", false).await;
        let mut device = Device::ready(&rig, version, "0xA").await;
        for id in [&id, &next] {
            device.gets(id).await;
            device.answer(id, true, &Value::Null).await;
        }
        device.leave().await;
    }
}

#[tokio::test]
async fn devices_are_listed_by_who_is_there_and_who_waits() {
    let rig = with_locks().await;
    assert!(ids(&rig, "connected=true").await.is_empty());
    send(&rig, "0xB", &json!({"payload": 1})).await;
    let device = Device::ready(&rig, Version::New, "0xA").await;
    is_connected(&rig, "0xA", true).await;
    for (query, expect) in [
        ("connected=true", json!(["0xA"])),
        ("connected=false", json!(["0xB"])),
        ("waiting=true", json!(["0xB"])),
        ("waiting=false", json!(["0xA"])),
        ("connected=true&waiting=true", json!([])),
        ("connected=false&waiting=true", json!(["0xB"])),
    ] {
        assert_eq!(json!(ids(&rig, query).await), expect, "{query}");
    }
    for query in ["waiting=1", "connected=yes", "connected="] {
        let refused = rig.json("GET", &format!("/v1/devices?{query}"), "").await;
        assert_eq!((refused.status, refused.text("code")), (422, "invalid_parameter".to_owned()), "{query}");
    }
    device.vanish().await;
    is_connected(&rig, "0xA", false).await;
}

#[tokio::test]
async fn the_timeline_tells_what_happened_in_order() {
    let rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    is_connected(&rig, "0xA", true).await;
    let id = send(&rig, "0xA", &json!({"payload": 1})).await;
    device.gets(&id).await;
    device.answer(&id, true, &Value::Null).await;
    device.say("state", &json!(1)).await;
    device.leave().await;
    is_connected(&rig, "0xA", false).await;
    let expect = [
        "connected",
        "command.scheduled",
        "command.published",
        "command.acknowledged",
        "device.changed",
        "disconnected",
    ];
    let items = rig.feed("/v1/devices/0xA/timeline?order=asc", expect.len()).await;
    let types: Vec<_> = items.iter().map(|item| item["type"].clone()).collect();
    assert_eq!(types, expect, "{items:?}");
    for item in &items[1..4] {
        assert_eq!(item["detail"]["command_id"], id, "{item}");
    }
    assert_eq!(items[5]["detail"]["reason"], "client_disconnect", "{}", items[5]);
    assert!(items[0]["detail"]["address"].is_string(), "{}", items[0]);
}

#[tokio::test]
async fn the_timeline_is_followed() {
    let rig = with_locks().await;
    let page = rig.get("/v1/devices/0xA/timeline?order=asc").await;
    let tail = page["tail_cursor"].as_str().expect("a cursor");
    let path = format!("/v1/devices/0xA/timeline?order=asc&wait=1m&cursor={tail}");
    let (page, device) = tokio::join!(rig.get(&path), Device::connect(&rig, Version::Old, "0xA"));
    assert_eq!(page["items"][0]["type"], "connected", "{page}");
    let tail = page["tail_cursor"].as_str().expect("a cursor");
    let path = format!("/v1/devices/0xA/timeline?order=asc&wait=1m&cursor={tail}");
    let (page, ()) = tokio::join!(rig.get(&path), device.vanish());
    let lost = &page["items"][0];
    assert_eq!(
        (&lost["type"], &lost["detail"]["reason"]),
        (&json!("disconnected"), &json!("connection_lost"))
    );
}
