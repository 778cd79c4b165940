//! Who is told how a command ended.

use serde_json::{Value, json};

use crate::commands::device::{Device, Version};
use crate::commands::{send, until, with_locks};
use crate::contract::rig::Rig;

/// The next job of the queue, acknowledged.
async fn told(rig: &Rig) -> Value {
    let answer = rig.json("POST", "/v1/queues/ops/done/consume", r#"{"wait":"1m"}"#).await;
    let job = answer.json()["jobs"][0].clone();
    let ack = json!({"reservations": [job["reservation"]]});
    let acked = rig.json("POST", "/v1/queues/ops/done/ack", &ack.to_string()).await;
    assert_eq!(acked.json()["acked"], 1, "{acked:?}");
    job["payload"].clone()
}

#[tokio::test]
async fn a_queue_is_told_how_a_command_ended() {
    let rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    let notified = json!({"payload": 1, "origin": "plan 4", "notify": {"queue": "ops/done"}});
    let id = send(&rig, "0xA", &notified).await;
    device.gets(&id).await;
    device.answer(&id, true, &json!({"door": "open"})).await;
    let expect = json!({"type": "command.finished", "id": id, "device_id": "0xA", "origin": "plan 4",
        "status": "acknowledged", "tries": 1, "result": {"door": "open"}});
    let job = told(&rig).await;
    for (name, value) in expect.as_object().expect("an object") {
        assert_eq!(&job[name], value, "{name} of {job}");
    }
}

#[tokio::test]
async fn a_late_answer_is_told_once_more() {
    let rig = with_locks().await;
    let mut device = Device::ready(&rig, Version::Old, "0xA").await;
    let notified = json!({"payload": 1, "ttl": "200ms", "notify": {"queue": "ops/done"}});
    let id = send(&rig, "0xA", &notified).await;
    device.gets(&id).await;
    until(&rig, &id, "expired").await;
    let job = told(&rig).await;
    assert_eq!((&job["type"], &job["status"]), (&json!("command.finished"), &json!("expired")), "{job}");
    device.answer(&id, true, &json!("after all")).await;
    let job = told(&rig).await;
    assert_eq!((&job["type"], &job["id"]), (&json!("command.late"), &json!(id)), "{job}");
}
