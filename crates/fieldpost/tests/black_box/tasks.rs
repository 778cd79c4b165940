//! Tasks and campaigns against the built program: devices are MQTT clients that count for
//! themselves what they are asked.

mod campaigns;
mod fleet;
mod live;
mod outcomes;
mod over_grpc;
mod quotas;
mod restarts;
mod single_tasks;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::contract::rig::{PATIENCE, Rig};

/// A server with so many devices `d0`, `d1`, .. of one city, which are not there yet.
async fn with_devices(count: usize) -> Rig {
    with_devices_and(count, &[("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true")]).await
}

/// The same with these settings.
async fn with_devices_and(count: usize, settings: &[(&str, &str)]) -> Rig {
    let rig = Rig::start(settings).await;
    for id in names(count) {
        rig.device(&json!({"id": id, "kind": "lock", "labels": {"city": "kiel"}})).await;
    }
    rig
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("d{number}")).collect()
}

/// A task of so many, once it has ended.
async fn done(rig: &Rig, count: usize, fields: &Value) -> Value {
    let answer = rig.json("POST", "/v1/tasks?wait=50s", &new_task(count, fields).to_string()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let ended = answer.json();
    assert_eq!(ended["status"], "done", "{ended}");
    ended
}

/// A task of so many, as it was begun.
async fn begun(rig: &Rig, count: usize, fields: &Value) -> String {
    let task: Value = rig.api.post("/v1/tasks", &new_task(count, fields)).await.expect("begun");
    task["id"].as_str().expect("an id").to_owned()
}

/// A task of so many, which may take long to answer unless the fields say otherwise.
fn new_task(count: usize, fields: &Value) -> Value {
    let mut body = json!({"payload": {"ask": 1}, "count": count, "answer_timeout": "1m"});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// A task once it is so.
async fn until(rig: &Rig, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    rig.api.until(&format!("/v1/tasks/{id}"), PATIENCE, is_so).await.expect("it comes to that")
}

/// The results of a task, in the order in which its picks ended.
async fn results(rig: &Rig, id: &str) -> Vec<Value> {
    rig.items(&format!("/v1/tasks/{id}/results?order=asc")).await
}

/// How often each device is in the results.
fn counted(results: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for result in results {
        *counts.entry(result["device_id"].as_str().expect("an id").to_owned()).or_default() += 1;
    }
    counts
}
