//! Readings, events and deliveries: what they look like, and how a delivery's life is told.

use std::time::Duration;

use axum::Router;
use engine::AttemptOutcome;
use engine::records::{AttemptDetail, AttemptError, AttemptTimings};
use serde_json::Value as Json;

use crate::rig::{Server, names};

async fn linked() -> Server {
    let server = Server::start().await;
    server.add_device("a").await;
    server.add_client("c").await;
    server.link("a", "c").await;
    server
}

fn ok(code: u16) -> AttemptOutcome {
    AttemptOutcome::Status { code, retry_after: None }
}

#[tokio::test]
async fn every_reading_is_told_newest_first() {
    let server = linked().await;
    for n in [1, 1, 0] {
        server.report("a", n).await;
    }
    let expect = r#"{"items":[{"ts":"*","data":0,"changed":true},{"ts":"*","data":1,"changed":false},
                              {"ts":"*","data":1,"changed":true}],"next_cursor":null}"#;
    let readings = server.check("GET /v1/devices/a/readings", "", 200, expect).await;
    assert_eq!(names(&readings["items"][0]), ["changed", "data", "ts"]);
}

#[tokio::test]
async fn events_are_told_with_both_values() {
    let server = linked().await;
    for n in [1, 1, 0] {
        server.report("a", n).await;
    }
    let newest =
        r#"{"id":"*","device_id":"a","type":"device.changed","ts":"*","sequence":2,"value":0,"previous":1}"#;
    let first = r#"{"id":"*","device_id":"a","type":"device.changed","ts":"*","sequence":1,"value":1,"previous":null}"#;
    let both = format!(r#"{{"items":[{newest},{first}],"next_cursor":null}}"#);
    let events = server.check("GET /v1/events", "", 200, &both).await;
    let expect = ["device_id", "id", "previous", "sequence", "ts", "type", "value"];
    assert_eq!(names(&events["items"][0]), expect);
    assert!(events["items"][0]["id"].as_str().is_some_and(|id| id.starts_with("evt_")), "{events}");
    server
        .check("GET /v1/events?device=a&order=asc", "", 200, &format!(r#"{{"items":[{first},{newest}]}}"#))
        .await;
    server.check("GET /v1/events?type=device.changed&device=a", "", 200, &both).await;
    server.check("GET /v1/events?type=device.lost", "", 200, r#"{"items":[]}"#).await;
}

#[tokio::test]
async fn loss_and_restoration_are_events() {
    let server = Server::start_with(1, Router::new()).await;
    server.check("POST /v1/devices", r#"{"id":"a","report_interval":"1s"}"#, 201, "{}").await;
    server.report("a", 1).await;
    // A clock that jumps is not believed, so it goes in steps; any input makes the partition look
    // at it.
    for n in 0..3 {
        server.clock.advance(Duration::from_millis(500));
        server.add_device(&format!("b{n}")).await;
    }
    server.check("GET /v1/devices?connection=lost", "", 200, r#"{"items":[{"id":"a"}]}"#).await;
    server.report("a", 1).await;
    let expect = r#"{"items":[{"type":"device.changed"},{"type":"device.lost","value":1,"previous":1},
                              {"type":"device.restored","value":1,"previous":1}]}"#;
    server.check("GET /v1/events?device=a&order=asc", "", 200, expect).await;
}

async fn only_delivery(server: &Server) -> Json {
    let list = server.get("/v1/deliveries").await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
    list["items"][0].clone()
}

#[tokio::test]
async fn a_delivery_tells_its_life() {
    let server = linked().await;
    server.report("a", 1).await;
    let delivery = only_delivery(&server).await;
    let expect =
        ["attempt_count", "client_id", "created_at", "device_id", "id", "next_attempt_at", "status", "type"];
    assert_eq!(names(&delivery), expect);
    let path = format!("GET /v1/deliveries/{}", delivery["id"].as_str().expect("an id"));
    let pending = r#"{"client_id":"c","device_id":"a","type":"device.changed","status":"pending",
                      "attempt_count":0,"next_attempt_at":"*","attempts":[]}"#;
    server.check(&path, "", 200, pending).await;
    let due = server.lease_all().await.remove(0);
    server.end(&due, AttemptOutcome::Error(AttemptError::TimedOut)).await;
    let waiting = r#"{"status":"pending","attempt_count":1,"next_attempt_at":"*",
                      "attempts":[{"at":"*","status_code":null,"error":"timed_out","duration_ms":12}]}"#;
    server.check(&path, "", 200, waiting).await;
    server.check(&format!("{}/retry", path.replace("GET", "POST")), "", 202, "").await;
    let due = server.lease_all().await.remove(0);
    server.end(&due, ok(204)).await;
    let delivered = r#"{"status":"delivered","attempt_count":2,"next_attempt_at":null,
                        "attempts":[{"error":"timed_out"},{"at":"*","status_code":204,"error":null,"duration_ms":12}]}"#;
    server.check(&path, "", 200, delivered).await;
}

/// What an attempt sent, what it saw, and what to do: as long as that is known.
#[tokio::test]
async fn a_delivery_has_both_halves() {
    let server = linked().await;
    server.report("a", 1).await;
    let id = only_delivery(&server).await["id"].as_str().expect("an id").to_owned();
    let path = format!("GET /v1/deliveries/{id}");
    let expect = format!(
        r#"{{"body":null,"body_gone":"it is made at the first attempt","url":"https://c.example/hook",
            "headers":{{"content-type":"application/json","webhook-id":"{id}"}}}}"#
    );
    server.check(&path, "", 200, &expect).await;
    let due = server.lease_all().await.remove(0);
    let sent = String::from_utf8(due.body.to_vec()).expect("a text");
    assert_eq!(server.get(&path[4..]).await["body"], sent, "while its attempt is under way");
    let timings = AttemptTimings { dns_ms: Some(1), connect_ms: Some(2), ..AttemptTimings::default() };
    let answer = Some(Box::from(&b"no \xff \x1b"[..]));
    let detail = AttemptDetail { timings, answer, certificate_bound: None };
    server.end_seeing(&due, ok(401), detail).await;
    let shown = server.get(&path[4..]).await;
    assert_eq!(shown["body"], sent, "while it waits for the next");
    assert!(shown["headers"]["webhook-timestamp"].is_string() && !shown.to_string().contains("signature"));
    let attempt = &shown["attempts"][0];
    assert_eq!(attempt["answer"], "no \u{fffd} \u{1b}");
    assert_eq!((&attempt["dns_ms"], &attempt["connect_ms"]), (&1.into(), &2.into()));
    assert!(attempt.get("tls_ms").is_none() && attempt["reused"] == false);
    assert!(attempt["cause"].as_str().is_some_and(|cause| cause.contains("present secret")), "{attempt}");
    server.check(&format!("POST {}/retry", &path[4..]), "", 202, "").await;
    let due = server.lease_all().await.remove(0);
    server.end(&due, ok(204)).await;
    let gone = r#"{"body":null,"body_gone":"it was delivered; bodies are kept until then"}"#;
    server.check(&path, "", 200, gone).await;
}

#[tokio::test]
async fn deliveries_are_found_by_client_device_and_status() {
    let server = linked().await;
    server.add_device("b").await;
    server.add_client("e").await;
    for (device, client) in [("b", "c"), ("b", "e")] {
        server.link(device, client).await;
    }
    server.report("a", 1).await;
    server.report("b", 1).await;
    server.report("b", 0).await;
    server.check("DELETE /v1/devices/a/clients/c", "", 204, "").await;
    for (query, expect) in [
        ("", "b/c/pending b/c/superseded b/e/pending b/e/superseded a/c/cancelled"),
        ("client=e", "b/e/pending b/e/superseded"),
        ("device=a", "a/c/cancelled"),
        ("device=b&client=c", "b/c/pending b/c/superseded"),
        ("device=a&client=e", ""),
        ("status=pending", "b/c/pending b/e/pending"),
        ("status=superseded&client=c", "b/c/superseded"),
        ("status=delivered", ""),
        ("status=failed", ""),
        ("status=cancelled", "a/c/cancelled"),
    ] {
        let list = server.get(&format!("/v1/deliveries?{query}")).await;
        let word = |item: &Json, member: &str| item[member].as_str().expect("text").to_owned();
        let line =
            |item: &Json| ["device_id", "client_id", "status"].map(|member| word(item, member)).join("/");
        let mut found: Vec<_> = list["items"].as_array().expect("a list").iter().map(line).collect();
        let mut expect: Vec<_> = expect.split_whitespace().collect();
        found.sort_unstable();
        expect.sort_unstable();
        assert_eq!(found, expect, "{query}");
    }
}

#[tokio::test]
async fn a_notification_that_is_given_up_has_failed() {
    let server = linked().await;
    server.report("a", 1).await;
    for _ in 0..2 {
        let due = server.lease_all().await.remove(0);
        server.end(&due, ok(500)).await;
        let id = only_delivery(&server).await["id"].as_str().expect("an id").to_owned();
        if due.attempt == 1 {
            server.check(&format!("POST /v1/deliveries/{id}/retry"), "", 202, "").await;
        }
    }
    let expect = r#"{"status":"failed","attempt_count":2,"next_attempt_at":null}"#;
    let list = server
        .check("GET /v1/deliveries?status=failed", "", 200, &format!(r#"{{"items":[{expect}]}}"#))
        .await;
    assert_eq!(list["next_cursor"], Json::Null);
}

#[tokio::test]
async fn a_client_is_tested_and_told_again() {
    let server = linked().await;
    let attempt = r#"{"at":"2026-11-21T00:00:00.000Z","status_code":204,"error":null,"duration_ms":12}"#;
    server.check("POST /v1/clients/c/test", "", 200, attempt).await;
    server.check("GET /v1/deliveries", "", 200, r#"{"items":[]}"#).await;
    server.check("POST /v1/clients/c/resend", "", 202, "").await;
    server.check("GET /v1/deliveries", "", 200, r#"{"items":[]}"#).await;
    server.report("a", 1).await;
    let due = server.lease_all().await.remove(0);
    server.end(&due, ok(200)).await;
    server.check("POST /v1/clients/c/resend", "", 202, "").await;
    server
        .check("GET /v1/deliveries", "", 200, r#"{"items":[{"status":"pending"},{"status":"delivered"}]}"#)
        .await;
    for call in ["test", "resend"] {
        server.check(&format!("POST /v1/clients/none/{call}"), "", 404, "unknown_client").await;
    }
}
