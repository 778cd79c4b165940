//! Selections of devices: what is answered is counted, and a kill forgets nothing but sessions.

use serde_json::{Value, json};

use crate::commands::device::{Device, Version};
use crate::contract::rig::Rig;

/// `total` and `connected` of a selection.
async fn counted(rig: &Rig, query: &str) -> (u64, u64) {
    let counts = rig.get(&format!("/v1/fleet/count?{query}")).await;
    let number = |name: &str| counts[name].as_u64().expect("a number");
    (number("total"), number("connected"))
}

async fn ids(rig: &Rig, query: &str) -> Vec<Value> {
    let devices = rig.items(&format!("/v1/devices?{query}")).await;
    devices.into_iter().map(|device| device["id"].clone()).collect()
}

#[tokio::test]
async fn a_selection_is_exact_once_something_is_answered_and_after_a_kill() {
    let mut rig = Rig::start(&[("FIELDPOST_FLEET__PLACE", "country,city")]).await;
    let city = |n: usize| if n < 20 { "1" } else { "2" };
    let line = |n: usize| format!(r#"{{"id":"d{n:02}","labels":{{"country":"CN","city":"{}"}}}}"#, city(n));
    let lines = (0..40).map(|n| line(n) + "\n").collect::<String>();
    let _: Value = rig.api.post_lines("/v1/devices/import", lines).await.expect("imported");
    assert_eq!(counted(&rig, "place=CN_1").await, (20, 0));
    let mut devices = Vec::new();
    for n in [3, 4, 25] {
        devices.push(Device::connect(&rig, Version::New, &format!("d{n:02}")).await);
    }
    assert_eq!(counted(&rig, "place=CN_1").await, (20, 2), "a CONNACK was sent");
    assert_eq!(ids(&rig, "selector=connected=true,city=1").await, ["d03", "d04"]);
    let patch = json!({"labels": {"city": "3"}}).to_string();
    assert_eq!(rig.json("PATCH", "/v1/devices/d04", &patch).await.status, 200);
    assert_eq!((counted(&rig, "place=CN_1").await, counted(&rig, "place=CN_3").await), ((19, 1), (1, 1)));
    rig.restart().await;
    for device in devices {
        device.vanish().await;
    }
    assert_eq!((counted(&rig, "place=CN_1").await, counted(&rig, "place=CN_3").await), ((19, 0), (1, 0)));
    let counts = rig.get("/v1/fleet/count?by=city").await;
    let items: Vec<_> =
        counts["items"].as_array().expect("items").iter().map(|item| item["value"].clone()).collect();
    assert_eq!(
        (items, &counts["place"]),
        (vec![json!("2"), json!("1"), json!("3")], &json!(["country", "city"]))
    );
    let device = Device::connect(&rig, Version::Old, "d04").await;
    assert_eq!(ids(&rig, "place=CN&connected=true").await, ["d04"]);
    device.leave().await;
}
