//! Desired entries: set, confirmed, changed at the device, and cleared.

use serde_json::{Value, json};

use crate::commands::device::{Device, VERSIONS, Version};
use crate::commands::with_locks;
use crate::contract::rig::Rig;

const LEVEL: &str = "/v1/devices/0xA/desired/level";

async fn wish(rig: &Rig, value: &Value) {
    let put = rig.json("PUT", LEVEL, &json!({"value": value}).to_string()).await;
    assert_eq!(put.status, 200, "{put:?}");
}

/// The one entry: what is desired, what is confirmed, and whether it is pending.
async fn entry(rig: &Rig) -> (Value, Value, Value) {
    let items = rig.get("/v1/devices/0xA/desired").await["items"].clone();
    let [item] = items.as_array().expect("items").as_slice() else { panic!("{items}") };
    assert_eq!(item["key"], "level");
    (item["desired"].clone(), item["confirmed"].clone(), item["pending"].clone())
}

#[tokio::test]
async fn a_wish_is_brought_to_its_device_and_confirmed() {
    for version in VERSIONS {
        let rig = with_locks().await;
        for value in 1..=3 {
            wish(&rig, &json!(value)).await;
        }
        assert_eq!(entry(&rig).await, (json!(3), Value::Null, json!(true)));
        let mut device = Device::ready(&rig, version, "0xA").await;
        let (id, payload) = device.command().await;
        assert_eq!(payload, json!({"op": "set", "key": "level", "value": 3}), "older wishes have gone");
        device.answer(&id, true, &Value::Null).await;
        assert_eq!(entry(&rig).await, (json!(3), json!(3), json!(false)));
        assert_eq!(rig.json("DELETE", LEVEL, "").await.status, 204);
        assert_eq!(entry(&rig).await, (Value::Null, json!(3), json!(true)));
        let (id, payload) = device.command().await;
        assert_eq!((&payload["op"], &payload["key"]), (&json!("delete"), &json!("level")), "{payload}");
        device.answer(&id, true, &Value::Null).await;
        let left = rig.get("/v1/devices/0xA/desired").await["items"].clone();
        let is_open = |item: &Value| item["pending"] == true || !item["confirmed"].is_null();
        assert!(!left.as_array().expect("items").iter().any(is_open), "{left}");
    }
}

#[tokio::test]
async fn a_refused_wish_stays_unconfirmed() {
    let rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    wish(&rig, &json!(1)).await;
    let (id, _) = device.command().await;
    device.answer(&id, false, &json!("no")).await;
    assert_eq!(entry(&rig).await, (json!(1), Value::Null, json!(false)), "nothing is on its way");
    wish(&rig, &json!(2)).await;
    let (id, payload) = device.command().await;
    assert_eq!(payload["value"], 2);
    device.answer(&id, true, &Value::Null).await;
    assert_eq!(entry(&rig).await, (json!(2), json!(2), json!(false)));
}

#[tokio::test]
async fn a_change_at_the_device_clears_the_wish_before_it() {
    for version in VERSIONS {
        let rig = with_locks().await;
        wish(&rig, &json!(1)).await;
        let mut device = Device::connect(&rig, version, "0xA").await;
        device.say("confirmed", &json!({"key": "level", "value": {"b": 1.0, "a": 2}})).await;
        assert_eq!(entry(&rig).await, (Value::Null, json!({"a": 2, "b": 1}), json!(false)));
        let scheduled = rig.items("/v1/devices/0xA/commands?status=scheduled").await;
        assert!(scheduled.is_empty(), "it is not fought: {scheduled:?}");
        wish(&rig, &json!(9)).await;
        device.subscribe("dev/lock/0xA").await;
        let (id, payload) = device.command().await;
        assert_eq!(payload["value"], 9, "a newer wish holds");
        device.answer(&id, true, &Value::Null).await;
        assert_eq!(entry(&rig).await, (json!(9), json!(9), json!(false)));
        device.say("confirmed", &json!({"key": "level", "value": null})).await;
        let items = rig.get("/v1/devices/0xA/desired").await["items"].clone();
        let is_there = |item: &Value| !item["confirmed"].is_null() || item["pending"] == true;
        assert!(!items.as_array().expect("items").iter().any(is_there), "{items}");
    }
}
