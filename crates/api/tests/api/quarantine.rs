//! Refused reports: listed as they were received, and discarded.

use base::{DeviceId, Problem, WayIn};
use engine::intake::{Received, Slice};
use engine::{Report, ReportContent};

use crate::rig::{Server, names};

/// Reports that are refused, over MQTT: one of a device, one of nobody.
async fn with_refused() -> Server {
    let server = Server::start().await;
    server.add_device("a").await;
    let mut slice = Slice::new();
    let content = ReportContent::Refused(Box::new(Problem::not_allowed("invalid_ts", "ts is wrong")));
    let report = Report { device: DeviceId::new("a").expect("an id"), kind: None, content, id: None };
    slice.push(report, Received { payload: b"{\"data\":1}", topic: Some("dev/lock/a/state") });
    slice.push_refused(Problem::unreadable("not UTF-8"), Received { payload: b"\xff\xfe", topic: None });
    let pending = server.engine.intake(WayIn::Mqtt).submit(slice).await.expect("accepting");
    assert_eq!(pending.durable().await.expect("durable").rejected.len(), 2);
    server
}

#[tokio::test]
async fn a_refused_report_is_shown_as_it_was_received() {
    let server = with_refused().await;
    let list = server.get("/v1/quarantine?order=asc").await;
    let items = list["items"].as_array().expect("a list");
    assert_eq!(items.len(), 2, "{list}");
    for item in items {
        let path = format!("GET /v1/quarantine/{}", item["id"].as_str().expect("an id"));
        server.check(&path, "", 200, &item.to_string()).await;
    }
    let of_a = items.iter().find(|item| item["device_id"] == "a").expect("it is there");
    assert_eq!(names(of_a), ["at", "code", "cut", "detail", "device_id", "id", "payload", "source", "topic"]);
    let told = |name: &str| of_a[name].as_str().expect("text");
    assert_eq!((told("source"), told("topic")), ("mqtt", "dev/lock/a/state"));
    assert_eq!(
        (told("code"), told("detail"), told("payload")),
        ("invalid_ts", "ts is wrong", "{\"data\":1}")
    );
    let other = items.iter().find(|item| item["device_id"].is_null()).expect("it is there");
    assert_eq!((&other["payload_base64"], other.get("payload")), (&"//4=".into(), None));
}

#[tokio::test]
async fn a_refused_report_is_discarded_once() {
    let server = with_refused().await;
    let list = server.get("/v1/quarantine").await;
    let id = list["items"][0]["id"].as_str().expect("an id");
    server.check(&format!("DELETE /v1/quarantine/{id}"), "", 204, "").await;
    for call in ["GET", "DELETE"] {
        server.check(&format!("{call} /v1/quarantine/{id}"), "", 404, "unknown_quarantined").await;
        server.check(&format!("{call} /v1/quarantine/none"), "", 404, "unknown_quarantined").await;
    }
    server.check("GET /v1/quarantine", "", 200, r#"{"items":[{"id":"*"}],"next_cursor":null}"#).await;
    server.check("GET /v1/quarantine?to=2026-01-01T00:00:00Z", "", 200, r#"{"items":[]}"#).await;
}

#[tokio::test]
async fn devices_with_refused_reports_are_found() {
    let server = with_refused().await;
    server.add_device("b").await;
    for (query, expect) in [
        ("quarantined=true", r#"{"items":[{"id":"a"}],"next_cursor":null,"looked_at":2}"#),
        ("quarantined=false", r#"{"items":[{"id":"b"}],"next_cursor":null}"#),
        ("quarantined=true&kind=lock", r#"{"items":[{"id":"a"}]}"#),
        ("quarantined=true&id_prefix=b", r#"{"items":[],"next_cursor":null}"#),
        ("quarantined=true&connection=lost", r#"{"items":[]}"#),
    ] {
        server.check(&format!("GET /v1/devices?{query}"), "", 200, expect).await;
    }
    server.check("GET /v1/devices?quarantined=maybe", "", 422, "invalid_parameter").await;
}
