//! Rollouts and bulk assignments: begun, looked at, paused, resumed, approved and cancelled.

use std::time::Duration;

use base::EntityId;
use engine::ReportContent;
use serde_json::{Value as Json, json};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::commands::{say, with_locks};
use crate::rig::{Server, names};

const PATIENCE: Duration = Duration::from_secs(20);

fn done(command: EntityId) -> ReportContent {
    ReportContent::Answer { command, ok: true, result: None }
}

async fn begin(server: &Server, body: &str) -> String {
    let begun = server.check("POST /v1/rollouts", body, 201, "{}").await;
    begun["id"].as_str().expect("an id").to_owned()
}

/// The rollout, once it is so.
async fn once(server: &Server, path: &str, is_so: impl Fn(&Json) -> bool) -> Json {
    let found = async {
        loop {
            let found = server.get(path).await;
            if is_so(&found) {
                return found;
            }
            yield_now().await;
        }
    };
    timeout(PATIENCE, found).await.expect("it comes to be so")
}

#[tokio::test]
async fn a_rollout_gives_each_device_that_polls_its_command() {
    let server = with_locks().await;
    let id = begin(&server, r#"{"payload":{"open":1},"selector":"kind=lock","origin":"ci"}"#).await;
    let path = format!("/v1/rollouts/{id}");
    let shown = once(&server, &path, |shown| shown["devices"] == 2).await;
    assert_eq!((&shown["status"], &shown["waiting"]), (&json!("running"), &json!(2)));
    assert_eq!(shown["selector"], "kind=lock");
    let polled = server.call("GET /v1/devices/0xA/poll?wait=20s", "").await.json();
    assert_eq!(polled["payload"], json!({"open": 1}));
    say(&server, polled["message_id"].as_str().expect("an id"), done).await;
    once(&server, &path, |shown| shown["acknowledged"] == 1).await;
    let devices = server.get(&format!("{path}/devices?status=acknowledged")).await;
    assert_eq!(devices["items"][0]["device_id"], "0xA");
    assert_eq!(devices["items"][0]["command_id"], polled["message_id"]);
    let waiting = server.get(&format!("{path}/devices?status=waiting")).await;
    assert_eq!(waiting["items"][0], json!({"device_id": "0xB", "command_id": null, "status": "waiting"}));
    server.check(&format!("DELETE {path}"), "", 204, "").await;
    let ended = once(&server, &path, |shown| shown["cancelled"] == 1).await;
    assert_eq!((&ended["status"], &ended["waiting"]), (&json!("cancelled"), &json!(0)));
}

#[tokio::test]
async fn the_same_body_under_the_same_id_is_the_same_rollout() {
    let server = with_locks().await;
    let (body, other) = (r#"{"payload":1,"devices":["0xA","0xC"]}"#, r#"{"payload":2,"devices":["0xA"]}"#);
    server
        .check_all(&[
            ("PUT /v1/rollouts/firmware-7", body, 201, r#"{"id":"firmware-7","devices":1}"#),
            ("PUT /v1/rollouts/firmware-7", body, 200, r#"{"id":"firmware-7","devices":1}"#),
            ("PUT /v1/rollouts/firmware-7", other, 409, "exists"),
            ("PUT /v1/rollouts/firmware.7", body, 422, "invalid_id"),
            ("GET /v1/rollouts/firmware-8", "", 404, "unknown_rollout"),
            ("POST /v1/rollouts/firmware-7/pause", "", 204, ""),
            ("POST /v1/rollouts/firmware-7/pause", "", 204, ""),
            ("POST /v1/rollouts/firmware-7/approve", "", 409, "nothing_to_approve"),
            ("GET /v1/rollouts/firmware-7", "", 200, r#"{"status":"paused"}"#),
            ("POST /v1/rollouts/firmware-7/resume", "", 204, ""),
            ("GET /v1/rollouts/firmware-7", "", 200, r#"{"status":"running","waiting":1}"#),
            ("DELETE /v1/rollouts/firmware-7", "", 204, ""),
            ("POST /v1/rollouts/firmware-7/resume", "", 409, "finished"),
            ("GET /v1/desired/firmware-7", "", 404, "unknown_rollout"),
        ])
        .await;
    let listed = server.get("/v1/rollouts").await;
    assert_eq!(listed["items"][0]["id"], "firmware-7");
    assert_eq!(names(&listed["items"][0]).len(), names(&server.get("/v1/rollouts/firmware-7").await).len());
}

#[tokio::test]
async fn a_rollout_that_cannot_be_is_refused() {
    let server = with_locks().await;
    let refused = async |body: &str, code: &str| {
        server.check("POST /v1/rollouts", body, 422, code).await;
    };
    for (fields, code) in [
        ("", "missing_field"),
        (r#","devices":[]"#, "missing_field"),
        (r#","selector":"A=1""#, "bad_selector"),
        (r#","place":"CN""#, "bad_place"),
        (r#","devices":["a/b"]"#, "invalid_id"),
        (r#","selector":"","rate":0"#, "invalid_number"),
        (r#","selector":"","in_flight":"5""#, "wrong_type"),
        (r#","selector":"","stages":[{"share":2}]"#, "invalid_number"),
        (r#","selector":"","stages":[{"share":0.5},{"share":0.1}]"#, "invalid_stages"),
        (r#","selector":"","stages":[{"soak":"1m"}]"#, "missing_field"),
        (r#","selector":"","window":{"cron":"at night","for":"1h"}"#, "invalid_schedule"),
        (r#","selector":"","window":{"cron":"0 2 * * *","for":"1h","tz":"Mars"}"#, "invalid_schedule"),
        (r#","selector":"","stop":{"failed_share":1.5}"#, "invalid_number"),
        (r#","devices":[],"include_later":true"#, "conflicting_fields"),
        (r#","selector":"","priority":101"#, "invalid_number"),
        (r#","selector":"","speed":1"#, "unknown_field"),
    ] {
        refused(&format!(r#"{{"payload":1{fields}}}"#), code).await;
    }
}

#[tokio::test]
async fn a_stage_is_shown_and_an_early_approval_is_noted() {
    let server = with_locks().await;
    let body = r#"{"payload":1,"selector":"","stages":[{"share":0.5,"soak":"0s","approve":true}]}"#;
    let path = format!("/v1/rollouts/{}", begin(&server, body).await);
    once(&server, &path, |shown| shown["stage"] == 1).await;
    for _ in 0..2 {
        server.check(&format!("POST {path}/approve"), "", 204, "").await;
        assert_eq!(server.get(&path).await["stage"], 1, "nobody has had a turn");
    }
}

#[tokio::test]
async fn entries_are_wished_of_every_device_that_is_meant() {
    let server = with_locks().await;
    let lines = "{\"key\":\"pin\",\"value\":1}\n\n{\"key\":\"old\",\"value\":null}\n";
    let begun =
        server.check("POST /v1/desired?selector=site%3D12", lines, 202, r#"{"devices":1,"entries":2}"#).await;
    let path = format!("/v1/desired/{}", begun["id"].as_str().expect("an id"));
    let polled = once(&server, "/v1/devices/0xA/poll?wait=20s", |_| true).await;
    say(&server, polled["message_id"].as_str().expect("an id"), done).await;
    let shown = once(&server, &path, |shown| shown["confirmed"] == 1).await;
    assert_eq!((&shown["devices"], &shown["done"]), (&json!(2), &json!(1)));
    server.check(&format!("DELETE {path}"), "", 204, "").await;
    once(&server, &path, |shown| shown["status"] == "cancelled" && shown["done"] == 2).await;
    for (lines, code) in [
        ("", "missing_field"),
        ("{\"key\":\"pin\"}", "missing_field"),
        ("{\"key\":\"\",\"value\":1}", "invalid_name"),
        (r#"{"key":"a\"b","value":1}"#, "invalid_key"),
        ("{\"key\":\"pin\",\"value\":1,\"at\":2}", "unknown_field"),
    ] {
        server.check("POST /v1/desired?selector=", lines, 422, code).await;
    }
    server.check("POST /v1/desired?selector=a%20b", lines, 422, "bad_selector").await;
    let lines = "{\"key\":\"oops\",\"value\":1}";
    server.check("POST /v1/desired", lines, 422, "missing_field").await;
    server.check("POST /v1/desired?selector=", lines, 202, r#"{"devices":2,"entries":1}"#).await;
}
