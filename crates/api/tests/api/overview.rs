//! What is for people who look: the caller, the overview, the system, a summary of readings. Their
//! answers are held against the document by the rig.

use base::{PartitionId, Timestamp};
use serde_json::json;
use store::Planned;

use crate::rig::Server;

#[tokio::test]
async fn without_tokens_the_caller_is_anybody_who_may_do_anything() {
    let server = Server::start().await;
    let caller = server.get("/v1/caller").await;
    assert_eq!(caller, json!({"open": true, "token": null, "scopes": ["admin"]}));
}

#[tokio::test]
async fn the_overview_counts_and_names_what_fails() {
    let server = Server::start().await;
    server.add_device("d1").await;
    server.add_device("d2").await;
    server.report("d1", 1).await;
    server.add_client("acme").await;
    server.check("PATCH /v1/clients/acme", r#"{"enabled":false}"#, 200, "{}").await;
    server.check("POST /v1/queues/mail/out/pause", "", 204, "").await;
    let expect = r#"{
        "devices": {"total": 2, "online": 1, "lost": 0, "never_seen": 1, "connected": 0},
        "queues": {"paused": 1, "dead": 0},
        "quarantine": 0,
        "failing": [
            {"what": "queue_paused", "subject": "queue mail/out", "link": "/queues/mail/out"},
            {"what": "client_disabled", "subject": "client acme", "link": "/clients/acme"}
        ]
    }"#;
    server.check("GET /v1/overview", "", 200, expect).await;
}

#[tokio::test]
async fn a_failed_store_is_shown_where_everything_else_is_refused() {
    let server = Server::start_with(1, axum::Router::new()).await;
    server.add_device("d1").await;
    server.check("GET /v1/system", "", 200, r#"{"ready":true,"health":[{"what":"store","ok":true}]}"#).await;
    server.store.plan(PartitionId(0), Planned::Failed);
    server.check("PATCH /v1/devices/d1", r#"{"address":"here"}"#, 503, "unavailable").await;
    let expect = r#"{"ready":false,"reason":"*","health":[{"what":"store","ok":false,"detail":"*"}]}"#;
    server.check("GET /v1/system", "", 200, expect).await;
    server.check("GET /v1/overview", "", 200, r#"{"failing":[{"what":"store","link":"/system"}]}"#).await;
    server.check("GET /v1/live?topics=overview", "", 503, "unavailable").await;
}

#[tokio::test]
async fn readings_are_summed_up_in_steps() {
    let server = Server::start().await;
    server.add_device("d1").await;
    let begin = Timestamp::parse("2026-11-20T00:00:00Z").expect("a time");
    for (minute, number) in [(0, 0), (1, 1), (2, 1), (61, 0)] {
        server.report_at("d1", number, Some(Timestamp(begin.0 + minute * 60_000))).await;
    }
    let path =
        "GET /v1/devices/d1/readings/summary?from=2026-11-20T00:00:00Z&to=2026-11-20T02:00:00Z&points=4";
    let expect = r#"{
        "items": [
            {"from": "2026-11-20T00:00:00.000Z", "count": 3, "changed": 2, "min": 0.0, "max": 1.0, "last": 1},
            {"from": "2026-11-20T01:00:00.000Z", "count": 1, "changed": 1, "min": 0.0, "max": 0.0, "last": 0}
        ],
        "step_ms": 1800000,
        "looked_at": 4,
        "complete": true
    }"#;
    server.check(path, "", 200, expect).await;
    server
        .check_all(&[
            ("GET /v1/devices/d1/readings/summary", "", 200, r#"{"complete":true}"#),
            ("GET /v1/devices/d1/readings/summary?points=2001", "", 422, "invalid_parameter"),
            ("GET /v1/devices/d1/readings/summary?points=0", "", 422, "invalid_parameter"),
            ("GET /v1/devices/d1/readings/summary?path=temperature", "", 422, "invalid_parameter"),
            ("GET /v1/devices/d1/readings/summary?wait=1s", "", 422, "unknown_parameter"),
            ("GET /v1/devices/d1/readings/summary?cursor=abc", "", 400, "invalid_cursor"),
            ("GET /v1/devices/none/readings/summary", "", 404, "unknown_device"),
        ])
        .await;
}
