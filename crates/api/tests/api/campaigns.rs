//! Campaigns: made, shown, changed, paused and removed; what is refused.

use serde_json::{Value as Json, json};

use crate::commands::with_locks;
use crate::rig::Server;

/// A campaign that has no slot soon.
const HOURLY: &str = r#"{"payload":{"ask":1},"count":3,"every":"1h","selector":"kind=lock","phase":"7s"}"#;

async fn made(server: &Server) -> Json {
    let expect = r#"{"id":"hourly","status":"running","payload":{"ask":1},"count":3,"every":"1h",
        "phase":"7s","selector":"kind=lock","answer_timeout":"10s","class":"ordinary","missed":"skip",
        "panel":false}"#;
    server.check("PUT /v1/campaigns/hourly", HOURLY, 201, expect).await
}

#[tokio::test]
async fn a_campaign_is_put_shown_changed_and_removed() {
    let server = with_locks().await;
    let campaign = made(&server).await;
    assert!(campaign["over"].is_null() && campaign["until"].is_null(), "{campaign}");
    assert_eq!(server.get("/v1/campaigns/hourly").await, campaign);
    assert_eq!(server.get("/v1/campaigns").await["items"], json!([campaign]));
    let over = r#"{"payload":2,"count":60,"over":"1h"}"#;
    let of_id = |id: &str| format!(r#"{{"id":"{id}","payload":2,"count":60,"over":"1h"}}"#);
    let (same, other) = (of_id("hourly"), of_id("other"));
    server
        .check_all(&[
            ("PUT /v1/campaigns/hourly", over, 200, r#"{"count":60,"over":"1h","payload":2}"#),
            ("PATCH /v1/campaigns/hourly", r#"{"count":6,"name":"n"}"#, 200, r#"{"count":6,"name":"n"}"#),
            ("PATCH /v1/campaigns/hourly", r#"{"every":"5m"}"#, 200, r#"{"every":"5m","name":"n"}"#),
            ("PATCH /v1/campaigns/hourly", r#"{"place":null}"#, 200, r#"{"every":"5m"}"#),
            ("PATCH /v1/campaigns/hourly", r#"{"count":null}"#, 422, "cannot_clear"),
            ("PATCH /v1/campaigns/hourly", r#"{"every":null}"#, 422, "cannot_clear"),
            ("PATCH /v1/campaigns/hourly", r#"{"id":"hourly","count":7}"#, 200, r#"{"count":7}"#),
            ("PATCH /v1/campaigns/hourly", r#"{"id":"other"}"#, 422, "cannot_change"),
            ("PATCH /v1/campaigns/hourly", r#"{"id":null}"#, 422, "cannot_change"),
            ("PUT /v1/campaigns/hourly", same.as_str(), 200, r#"{"id":"hourly","count":60}"#),
            ("PUT /v1/campaigns/hourly", other.as_str(), 422, "cannot_change"),
            ("PATCH /v1/campaigns/hourly", r#"{"count":0}"#, 422, "invalid_number"),
            ("POST /v1/campaigns/hourly/pause", "", 204, ""),
            ("GET /v1/campaigns/hourly", "", 200, r#"{"status":"paused"}"#),
            ("POST /v1/campaigns/hourly/resume", "", 204, ""),
            ("GET /v1/campaigns/hourly", "", 200, r#"{"status":"running"}"#),
            ("GET /v1/campaigns/hourly/slots", "", 200, r#"{"items":[],"next_cursor":null}"#),
            ("GET /v1/campaigns/hourly/results?device=0xA", "", 200, r#"{"items":[]}"#),
            ("DELETE /v1/campaigns/hourly", "", 204, ""),
            ("DELETE /v1/campaigns/hourly", "", 404, "unknown_campaign"),
            ("GET /v1/campaigns/hourly/slots", "", 404, "unknown_campaign"),
            ("POST /v1/campaigns/hourly/pause", "", 404, "unknown_campaign"),
        ])
        .await;
}

#[tokio::test]
async fn a_campaign_gets_an_id_or_has_its_own_once() {
    let server = with_locks().await;
    let own = r#"{"id":"mine","payload":1,"count":1,"every":"1h"}"#;
    let made = r#"{"payload":1,"count":1,"over":"1h"}"#;
    server.check("POST /v1/campaigns", own, 201, r#"{"id":"mine"}"#).await;
    server.check("POST /v1/campaigns", own, 409, "exists").await;
    let campaign = server.check("POST /v1/campaigns", made, 201, "{}").await;
    assert!(campaign["id"].as_str().is_some_and(|id| id.starts_with("cmp_")), "{campaign}");
}

#[tokio::test]
async fn the_secret_of_results_is_shown_to_whoever_gave_it() {
    let server = with_locks().await;
    let body = r#"{"payload":1,"count":1,"every":"1h","results":{"url":"https://example.org/r"}}"#;
    let made = server.check("PUT /v1/campaigns/c", body, 201, "{}").await;
    assert!(made["results"]["secret"].is_string(), "{made}");
    let shown = server.get("/v1/campaigns/c").await;
    assert_eq!(shown["results"], json!({"url": "https://example.org/r"}));
    for told in [r#"{"results":{"queue":"ops/picks"}}"#, r#"{"results":{"stream":"ops/picks"}}"#] {
        server.check("PATCH /v1/campaigns/c", told, 200, told).await;
        let shown = server.get("/v1/campaigns/c").await;
        assert_eq!(json!({"results": shown["results"]}).to_string(), told);
    }
    let silent = server.check("PATCH /v1/campaigns/c", r#"{"results":null}"#, 200, "{}").await;
    assert!(silent["results"].is_null(), "{silent}");
}

#[tokio::test]
async fn a_campaign_that_cannot_be_is_refused() {
    let server = with_locks().await;
    for (fields, code) in [
        ("", "missing_field"),
        (r#","every":"1m","over":"1h""#, "conflicting_fields"),
        (r#","every":"500ms""#, "invalid_duration"),
        (r#","over":"59s""#, "invalid_duration"),
        (r#","every":"1m","phase":"soon""#, "invalid_duration"),
        (r#","every":"1m","from":"today""#, "invalid_time"),
        (r#","every":"1m","missed":"later""#, "unknown_word"),
        (r#","every":"1m","panel":1"#, "wrong_type"),
        (r#","every":"1m","results":{"stream":"ops"}"#, "invalid_name"),
        (r#","every":"1m","results":{"stream":"ops/a b"}"#, "invalid_name"),
        (r#","every":"1m","results":{"stream":"_ops/s"}"#, "reserved_name"),
        (r#","every":"1m","results":{"stream":7}"#, "wrong_type"),
        (r#","every":"1m","results":{"stream":"ops/s","queue":"ops/a"}"#, "conflicting_fields"),
        (r#","every":"1m","results":{"stream":"ops/s","secret":"whsec_MDEy"}"#, "conflicting_fields"),
        (r#","every":"1m","results":{"queue":"ops/a","url":"https://example.org"}"#, "conflicting_fields"),
        (r#","every":"1m","results":{}"#, "missing_field"),
        (r#","every":"1m","results":"ops/a""#, "wrong_type"),
        (r#","every":"1m","id":"a b""#, "invalid_id"),
        (r#","every":"1m","deadline":"30s""#, "unknown_field"),
    ] {
        server.check("POST /v1/campaigns", &format!(r#"{{"payload":1,"count":1{fields}}}"#), 422, code).await;
    }
    server.check("PUT /v1/campaigns/a.b", r#"{"payload":1,"count":1,"every":"1m"}"#, 422, "invalid_id").await;
}

#[tokio::test]
async fn a_coverage_without_devices_is_nothing() {
    let server = with_locks().await;
    made(&server).await;
    let nothing = r#"{"eligible":0,"picked":0,"never_picked":0,"min":0,"max":0,"mean":0.0,"gini":0.0}"#;
    server
        .check_all(&[
            ("GET /v1/campaigns/hourly/coverage", "", 200, nothing),
            ("GET /v1/campaigns/hourly/coverage?period=2h&by=kind", "", 200, r#"{"items":[]}"#),
            ("GET /v1/campaigns/hourly/coverage?by=%21", "", 422, "invalid_parameter"),
            ("GET /v1/campaigns/hourly/coverage?period=x", "", 422, "invalid_parameter"),
            ("GET /v1/campaigns/hourly/coverage?period=8d", "", 422, "invalid_parameter"),
            ("GET /v1/campaigns/hourly/coverage?period=0s", "", 422, "invalid_parameter"),
            ("GET /v1/campaigns/none/coverage", "", 404, "unknown_campaign"),
        ])
        .await;
}
