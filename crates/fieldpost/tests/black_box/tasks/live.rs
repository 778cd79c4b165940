//! Tasks and campaigns on a page, as `/v1/live` sends them.

use serde_json::{Value, json};

use crate::contract::live::Reader;
use crate::contract::rig::Rig;
use crate::tasks::fleet::{Fleet, Habit};
use crate::tasks::{begun, names, until, with_devices};

/// The data of the next message of the topic that is so; each has something new.
async fn message(reader: &mut Reader, topic: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut before = Value::Null;
    loop {
        let (name, _, data) = reader.next().await.expect("it goes on");
        assert_eq!(name, topic, "{data}");
        assert_ne!(data, before, "the same was sent twice");
        if is_so(&data) {
            return data;
        }
        before = data;
    }
}

async fn call(rig: &Rig, method: &str, path: &str, body: &Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = rig.json(method, path, &body).await;
    assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
}

#[tokio::test]
async fn a_task_comes_whole_whenever_a_device_has_answered() {
    let rig = with_devices(2).await;
    let mut fleet = Fleet::come(&rig, &names(2)).await;
    fleet.set("d1", Habit::IsSilent);
    let id = begun(&rig, 2, &json!({"answer_timeout": "1m", "deadline": "1m"})).await;
    let mut reader = Reader::open(&rig, &format!("topics=tasks&task={id},tsk_none"), None).await;
    let half = |data: &Value| data["items"][0]["answered"] == 1;
    let first = message(&mut reader, "tasks", half).await;
    assert_eq!((&first["items"][0]["id"], &first["items"][0]["status"]), (&json!(id), &json!("running")));
    assert_eq!(first["items"].as_array().map(Vec::len), Some(1), "no other is there: {first}");
    let held = loop {
        let heard = fleet.next().await;
        if heard.device == "d1" {
            break heard;
        }
    };
    fleet.answer(&held).await;
    let last = message(&mut reader, "tasks", |data| data["items"][0]["status"] == "done").await;
    let shown = until(&rig, &id, |task| task["status"] == "done").await;
    assert_eq!((&last["items"][0], &shown["answered"]), (&shown, &json!(2)));
}

/// A live row of a campaign, and no other, has its revision in place of its payload.
fn is_row_of(message: &Value, campaign: &Value) {
    let (mut row, mut campaign) = (message["items"][0].clone(), campaign.clone());
    let revision = row.as_object_mut().and_then(|row| row.remove("revision"));
    assert!(revision.is_some_and(|revision| revision.is_u64()), "{message}");
    campaign.as_object_mut().and_then(|campaign| campaign.remove("payload"));
    assert_eq!(message["items"].as_array().map(Vec::len), Some(1), "{message}");
    assert_eq!(row, campaign);
}

#[tokio::test]
async fn campaigns_come_when_they_are_made_changed_paused_and_removed() {
    let rig = with_devices(1).await;
    let plan = |count: u32| json!({"payload": 1, "count": count, "every": "1h"});
    call(&rig, "PUT", "/v1/campaigns/a", &plan(1)).await;
    let mut all = Reader::open(&rig, "topics=campaigns", None).await;
    let mut one = Reader::open(&rig, "topics=campaigns&campaign=b", None).await;
    let first = message(&mut all, "campaigns", |_| true).await;
    is_row_of(&first, &rig.get("/v1/campaigns/a").await);
    let nothing = message(&mut one, "campaigns", |_| true).await;
    assert_eq!(nothing["items"], json!([]), "{nothing}");
    call(&rig, "PUT", "/v1/campaigns/b", &plan(2)).await;
    for reader in [&mut all, &mut one] {
        let made = message(reader, "campaigns", |data| data["items"][0]["id"] == "b").await;
        is_row_of(&made, &rig.get("/v1/campaigns/b").await);
    }
    call(&rig, "PATCH", "/v1/campaigns/b", &json!({"count": 3})).await;
    message(&mut one, "campaigns", |data| data["items"][0]["count"] == 3).await;
    call(&rig, "POST", "/v1/campaigns/b/pause", &Value::Null).await;
    message(&mut one, "campaigns", |data| data["items"][0]["status"] == "paused").await;
    call(&rig, "DELETE", "/v1/campaigns/b", &Value::Null).await;
    for reader in [&mut all, &mut one] {
        let gone = message(reader, "campaigns", |data| !data["gone"].is_null()).await;
        assert_eq!(gone["gone"], json!(["b"]), "{gone}");
    }
}
