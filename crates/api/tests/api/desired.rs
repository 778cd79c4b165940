//! Desired entries: what is wished of a device, and what it has confirmed.

use serde_json::json;

use base::{DeviceId, WayIn};
use engine::{Report, ReportContent};

use crate::commands::{say, with_locks};
use crate::rig::Server;

const CARD: &str = "/v1/devices/0xA/desired/card%3A17";

/// What the device is given next.
async fn polled(server: &Server, expect: &str) -> String {
    let expect = format!(r#"{{"message_id":"*","payload":{expect}}}"#);
    let polled = server.check("GET /v1/devices/0xA/poll", "", 200, &expect).await;
    polled["message_id"].as_str().expect("an id").to_owned()
}

async fn done(server: &Server) {
    let polled = server.get("/v1/devices/0xA/poll").await;
    let id = polled["message_id"].as_str().expect("an id");
    say(server, id, |command| ReportContent::Answer { command, ok: true, result: None }).await;
}

/// The device tells of a change that was made there.
async fn confirm(server: &Server, key: &str, value: Option<&str>) {
    let content = ReportContent::Confirmed { key: key.into(), value: value.map(Into::into) };
    let report = Report { device: DeviceId::new("0xA").expect("an id"), kind: None, content, id: None };
    let pending = server.engine.intake(WayIn::Mqtt).submit(vec![report]).await.expect("accepting");
    assert_eq!(pending.durable().await.expect("durable").accepted, 1);
}

async fn check_entries(server: &Server, expect: &str) {
    let expect = format!(r#"{{"items":{expect}}}"#);
    server.check("GET /v1/devices/0xA/desired", "", 200, &expect).await;
}

#[tokio::test]
async fn a_wish_is_pending_until_the_device_confirms_it() {
    let server = with_locks().await;
    check_entries(&server, "[]").await;
    let put = format!("PUT {CARD}");
    let entry = r#"{"key":"card:17","desired":{"a":1,"b":2},"confirmed":null,"pending":true}"#;
    server.check(&put, r#"{"value":{"b":2.0, "a":1}}"#, 200, entry).await;
    check_entries(&server, &format!("[{entry}]")).await;
    polled(&server, r#"{"op":"set","key":"card:17","value":{"a":1,"b":2}}"#).await;
    done(&server).await;
    let kept = r#"[{"key":"card:17","desired":{"a":1,"b":2},"confirmed":{"a":1,"b":2},"pending":false}]"#;
    check_entries(&server, kept).await;
    server.check(&format!("DELETE {CARD}"), "", 204, "").await;
    let going = r#"[{"key":"card:17","desired":null,"confirmed":{"a":1,"b":2},"pending":true}]"#;
    check_entries(&server, going).await;
    polled(&server, r#"{"op":"delete","key":"card:17"}"#).await;
    done(&server).await;
    let items = server.get("/v1/devices/0xA/desired").await["items"].clone();
    let is_gone = |item: &serde_json::Value| item["confirmed"].is_null() && item["pending"] == json!(false);
    assert!(items.as_array().expect("items").iter().all(is_gone), "{items}");
}

#[tokio::test]
async fn null_wishes_that_there_were_no_entry() {
    let server = with_locks().await;
    confirm(&server, "mode", Some("\"eco\"")).await;
    check_entries(&server, r#"[{"key":"mode","desired":null,"confirmed":"eco","pending":false}]"#).await;
    let gone = r#"{"key":"mode","desired":null,"confirmed":"eco","pending":true}"#;
    server.check("PUT /v1/devices/0xA/desired/mode", r#"{"value":null}"#, 200, gone).await;
    polled(&server, r#"{"op":"delete","key":"mode"}"#).await;
}

#[tokio::test]
async fn a_newer_wish_takes_the_place_of_one_that_waits() {
    let server = with_locks().await;
    for value in 1..=3 {
        let body = format!(r#"{{"value":{value}}}"#);
        server.check("PUT /v1/devices/0xA/desired/level", &body, 200, "{}").await;
    }
    let scheduled = server.get("/v1/devices/0xA/commands?status=scheduled").await;
    assert_eq!(scheduled["items"].as_array().map(Vec::len), Some(1), "{scheduled}");
    let superseded = server.get("/v1/devices/0xA/commands?status=superseded").await;
    assert_eq!(superseded["items"].as_array().map(Vec::len), Some(2), "{superseded}");
    polled(&server, r#"{"op":"set","key":"level","value":3}"#).await;
}

#[tokio::test]
async fn a_change_at_the_device_clears_an_older_wish() {
    let server = with_locks().await;
    server.check("PUT /v1/devices/0xA/desired/level", r#"{"value":1}"#, 200, "{}").await;
    confirm(&server, "level", Some("7")).await;
    check_entries(&server, r#"[{"key":"level","desired":null,"confirmed":7,"pending":false}]"#).await;
    server.check("GET /v1/devices/0xA/poll", "", 204, "").await;
}

#[tokio::test]
async fn wishes_are_of_devices_that_are_there() {
    let server = with_locks().await;
    for (call, body) in [
        ("PUT /v1/devices/none/desired/level", r#"{"value":1}"#),
        ("DELETE /v1/devices/none/desired/level", ""),
        ("GET /v1/devices/none/desired", ""),
    ] {
        server.check(call, body, 404, "unknown_device").await;
    }
}
