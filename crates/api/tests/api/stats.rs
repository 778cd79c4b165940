//! Counts over time: of whom, of what, and in which spans.

use serde_json::Value as Json;

use crate::rig::Server;

/// Two sites; `a` reports three times and changes twice, `b` reports once. A client is linked to
/// `a`.
async fn with_reports() -> Server {
    let server = Server::start().await;
    for (id, site) in [("a", "12"), ("b", "13")] {
        let body = format!(r#"{{"id":"{id}","labels":{{"site":"{site}"}}}}"#);
        server.check("POST /v1/devices", &body, 201, "{}").await;
    }
    server.add_client("c").await;
    server.link("a", "c").await;
    for (device, value) in [("a", 1), ("a", 1), ("a", 0), ("b", 1)] {
        server.report(device, value).await;
    }
    server
}

fn total(stats: &Json) -> u64 {
    let items = stats["items"].as_array().expect("a list");
    items.iter().map(|item| item["count"].as_u64().expect("a number")).sum()
}

#[tokio::test]
async fn what_happened_is_counted_for_whom_it_is_asked() {
    let server = with_reports().await;
    for (query, expect) in [
        ("metric=reports", 4),
        ("metric=changes", 3),
        ("metric=losses", 0),
        ("metric=deliveries", 2),
        ("metric=reports&by=day", 4),
        ("metric=reports&device=a", 3),
        ("metric=changes&device=b", 1),
        ("metric=reports&client=c", 3),
        ("metric=deliveries&client=c&by=day", 2),
        ("metric=reports&label.site=12", 3),
        ("metric=reports&label.site=13", 1),
        ("metric=reports&label.site=14", 0),
        ("metric=reports&to=2026-11-20T00:00:00Z", 0),
    ] {
        assert_eq!(total(&server.get(&format!("/v1/stats?{query}")).await), expect, "{query}");
    }
}

#[tokio::test]
async fn every_hour_has_its_count() {
    let server = with_reports().await;
    let day = "from=2026-11-20T22:30:00Z&to=2026-11-21T01:00:00Z";
    let expect = r#"{"items":[{"from":"2026-11-20T22:00:00.000Z","count":0},
        {"from":"2026-11-20T23:00:00.000Z","count":0},{"from":"2026-11-21T00:00:00.000Z","count":4}]}"#;
    server.check(&format!("GET /v1/stats?metric=reports&{day}"), "", 200, expect).await;
    let by_day = r#"{"items":[{"from":"2026-11-20T00:00:00.000Z","count":0},
        {"from":"2026-11-21T00:00:00.000Z","count":4}]}"#;
    server.check(&format!("GET /v1/stats?metric=reports&by=day&{day}"), "", 200, by_day).await;
    for (query, items) in [("metric=reports", 25), ("metric=reports&by=day", 31)] {
        let stats = server.get(&format!("/v1/stats?{query}")).await;
        assert_eq!(stats["items"].as_array().map(Vec::len), Some(items), "{query}");
    }
}

#[tokio::test]
async fn what_cannot_be_counted_is_refused() {
    let server = with_reports().await;
    for (query, status, code) in [
        ("", 422, "invalid_parameter"),
        ("metric=noise", 422, "invalid_parameter"),
        ("metric=reports&by=week", 422, "invalid_parameter"),
        ("metric=reports&device=a&client=c", 422, "invalid_parameter"),
        ("metric=reports&device=a&label.site=12", 422, "invalid_parameter"),
        ("metric=reports&label.site=12&label.floor=1", 422, "invalid_parameter"),
        ("metric=reports&label.Site=12", 422, "invalid_parameter"),
        ("metric=reports&from=soon", 422, "invalid_parameter"),
        ("metric=reports&from=2026-11-22T00:00:00Z", 422, "invalid_parameter"),
        ("metric=reports&from=2020-01-01T00:00:00Z", 422, "invalid_parameter"),
        ("metric=reports&by=day&from=1900-01-01T00:00:00Z", 422, "invalid_parameter"),
        ("metric=reports&limit=5", 422, "unknown_parameter"),
        ("metric=reports&device=none", 404, "unknown_device"),
        ("metric=reports&client=none", 404, "unknown_client"),
    ] {
        server.check(&format!("GET /v1/stats?{query}"), "", status, code).await;
    }
}

#[tokio::test]
async fn commands_are_counted_by_the_status_they_came_to() {
    let server = with_reports().await;
    let sent = server.check("POST /v1/devices/a/commands", r#"{"payload":1}"#, 201, "{}").await;
    server.check("POST /v1/devices/b/commands", r#"{"payload":1}"#, 201, "{}").await;
    let cancel = format!("DELETE /v1/commands/{}", sent["id"].as_str().expect("an id"));
    server.check(&cancel, "", 204, "").await;
    let by_status = |stats: &Json, status: &str| {
        let items = stats["items"].as_array().expect("a list");
        items.iter().filter_map(|item| item["by_status"][status].as_u64()).sum::<u64>()
    };
    for (query, sent, cancelled) in
        [("", 2, 1), ("&by=day", 2, 1), ("&device=a", 1, 1), ("&device=b", 1, 0), ("&label.site=12", 1, 1)]
    {
        let stats = server.get(&format!("/v1/stats?metric=commands{query}")).await;
        let counted = (total(&stats), by_status(&stats, "scheduled"), by_status(&stats, "cancelled"));
        assert_eq!(counted, (sent, sent, cancelled), "{query}: {stats}");
    }
    let reports = server.get("/v1/stats?metric=reports").await;
    assert!(reports["items"][0]["by_status"].is_null(), "{reports}");
}
