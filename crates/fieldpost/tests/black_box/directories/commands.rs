//! What happens with commands, desired entries and rollouts until a data directory has something of
//! each; shared with the program that makes the fixture.
//!
//! Whatever waits does so for almost ten years, or for a device that is away, so that nothing
//! happens by itself afterwards. Devices poll; none has a session at the end.

use hyper::Method;
use serde_json::{Value, json};
use simulator::api_client::ApiClient;

use super::story::PATIENCE;

const LONG: &str = "3650d";

/// Gives devices of the story commands.
pub(crate) async fn fill(api: &ApiClient) {
    answer(api).await;
    leave_open(api).await;
    wish(api).await;
    roll_out(api).await;
}

/// Commands that have ended: done, refused, called off.
async fn answer(api: &ApiClient) {
    let done = json!({"payload": {"open": 1}, "origin": "plan 4", "key": "door", "priority": 5});
    send(api, "lockA", &done).await;
    ack(api, "lockA", true, &json!({"door": "open"})).await;
    send(api, "lockA", &json!({"payload": "again"})).await;
    ack(api, "lockA", false, &json!("jammed")).await;
    let cancelled = send(api, "quiet", &json!({"payload": 3})).await;
    asked(api, Method::DELETE, &format!("/v1/commands/{cancelled}"), None).await;
}

/// Commands that have not: with its device, held for a time, out of time one day, one of a key.
async fn leave_open(api: &ApiClient) {
    send(api, "cellar", &json!({"payload": "read", "run_timeout": LONG})).await;
    let with_it = poll(api, "cellar").await;
    let progress = json!({"message_id": with_it, "progress": {"percent": 40}});
    asked(api, Method::POST, "/v1/devices/cellar/ack", Some(&progress)).await;
    for command in [
        json!({"payload": 1, "not_before": "2035-01-01T00:00:00Z"}),
        json!({"payload": 2, "ttl": LONG, "key": "language"}),
        json!({"payload": 3, "key": "language"}),
    ] {
        send(api, "lockB", &command).await;
    }
}

/// An entry that a device has confirmed, and one that waits.
async fn wish(api: &ApiClient) {
    asked(api, Method::PUT, "/v1/devices/lockA/desired/volume", Some(&json!({"value": 7}))).await;
    ack(api, "lockA", true, &Value::Null).await;
    asked(api, Method::PUT, "/v1/devices/quiet/desired/card", Some(&json!({"value": "x"}))).await;
}

/// A rollout that is done, and one of which a device waits.
async fn roll_out(api: &ApiClient) {
    let begin = async |id: &str, body: Value| {
        asked(api, Method::PUT, &format!("/v1/rollouts/{id}"), Some(&body)).await;
    };
    begin("done", json!({"payload": "go", "devices": ["lockA"]})).await;
    ack(api, "lockA", true, &Value::Null).await;
    let is_done = |rollout: &Value| rollout["status"] == "done";
    let _done: Value = api.until("/v1/rollouts/done", PATIENCE, is_done).await.expect("it is done");
    let stages = json!([{"share": 0.5, "soak": "1h", "approve": true}]);
    begin("waits", json!({"payload": "go", "selector": "site=12", "stages": stages, "rate": 60})).await;
    let is_known = |rollout: &Value| rollout["devices"] == 2;
    let _known: Value = api.until("/v1/rollouts/waits", PATIENCE, is_known).await.expect("they are found");
}

async fn send(api: &ApiClient, device: &str, command: &Value) -> String {
    let path = format!("/v1/devices/{device}/commands");
    let sent: Value = api.post(&path, command).await.expect("sent");
    sent["id"].as_str().expect("an id").to_owned()
}

/// The device's next command.
async fn poll(api: &ApiClient, device: &str) -> String {
    let given: Value = api.get(&format!("/v1/devices/{device}/poll?wait=30s")).await.expect("a command");
    given["message_id"].as_str().expect("an id").to_owned()
}

/// A device polls, and answers.
async fn ack(api: &ApiClient, device: &str, ok: bool, result: &Value) {
    let command = poll(api, device).await;
    let answer = json!({"message_id": command, "ok": ok, "result": result});
    asked(api, Method::POST, &format!("/v1/devices/{device}/ack"), Some(&answer)).await;
}

async fn asked(api: &ApiClient, method: Method, path: &str, body: Option<&Value>) {
    let answer = api.any(method, path, body).await.expect("answered");
    assert!(answer.status.is_success(), "{path} is answered {}", answer.status);
}
