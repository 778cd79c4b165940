//! Rollouts against the built program: devices over MQTT, and a server that is killed.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::commands::device::{Device, Version};
use crate::commands::send;
use crate::contract::rig::{PATIENCE, Rig};

/// More than a step of the search takes.
const MANY: u64 = 5_000;

async fn with_devices(count: u64) -> Rig {
    let rig = Rig::start(&[]).await;
    let mut lines = String::new();
    for number in 0..count {
        writeln!(lines, r#"{{"id":"d{number}","labels":{{"even":"{}"}}}}"#, number % 2 == 0)
            .expect("a String takes every write");
    }
    let imported: Value = rig.api.post_lines("/v1/devices/import", lines).await.expect("imported");
    assert_eq!(imported["created"], count, "{imported}");
    rig
}

async fn until(rig: &Rig, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    rig.api.until(&format!("/v1/rollouts/{id}"), PATIENCE, is_so).await.expect("it comes to that")
}

async fn put(rig: &Rig, id: &str, body: &Value) {
    let begun = rig.json("PUT", &format!("/v1/rollouts/{id}"), &body.to_string()).await;
    assert_eq!(begun.status, 201, "{begun:?}");
}

async fn tell(rig: &Rig, what: &str) {
    let told = rig.json("POST", &format!("/v1/rollouts/r/{what}"), "").await;
    assert_eq!(told.status, 204, "{told:?}");
}

#[tokio::test]
async fn a_rollout_that_is_killed_while_its_devices_are_looked_for_goes_on() {
    let mut rig = with_devices(MANY).await;
    let ids: Vec<String> = (0..MANY).map(|number| format!("d{number}")).collect();
    put(&rig, "all", &json!({"payload": 1, "devices": ids})).await;
    put(&rig, "even", &json!({"payload": 2, "selector": "even=true"})).await;
    rig.restart().await;
    until(&rig, "all", |shown| shown["devices"] == MANY).await;
    until(&rig, "even", |shown| shown["devices"] == MANY / 2).await;
    let devices: Vec<Value> = rig.api.list("/v1/rollouts/all/devices").await.expect("a list");
    let names: BTreeSet<_> = devices.iter().filter_map(|device| device["device_id"].as_str()).collect();
    assert_eq!(names.len() as u64, MANY, "each device once");
}

#[tokio::test]
async fn present_devices_have_their_turns_and_a_pause_holds() {
    let rig = with_devices(4).await;
    let mut first = Device::ready(&rig, Version::New, "d0").await;
    let busy = send(&rig, "d0", &json!({"payload": 0, "ack_timeout": "1h"})).await;
    first.gets(&busy).await;
    put(&rig, "r", &json!({"payload": {"go": 1}, "selector": ""})).await;
    until(&rig, "r", |shown| shown["scheduled"] == 1).await;
    tell(&rig, "pause").await;
    let shown = until(&rig, "r", |shown| shown["status"] == "paused").await;
    assert_eq!((&shown["waiting"], &shown["scheduled"]), (&json!(4), &json!(0)), "{shown}");
    first.answer(&busy, true, &Value::Null).await;
    tell(&rig, "resume").await;
    let shown = until(&rig, "r", |shown| shown["published"] == 1).await;
    assert_eq!(shown["waiting"], 3, "{shown}");
    let devices: Vec<Value> = rig.api.list("/v1/rollouts/r/devices?status=published").await.expect("a list");
    let command = devices[0]["command_id"].as_str().expect("an id").to_owned();
    first.gets(&command).await;
    first.answer(&command, true, &Value::Null).await;
    until(&rig, "r", |shown| shown["acknowledged"] == 1 && shown["status"] == "running").await;
}
