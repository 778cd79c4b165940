//! How every route answers: problems, methods, parameters, cursors, health and figures.

use serde_json::json;

use crate::contract::rig::Rig;
use crate::wire;

/// Method, path, content type, body; status and code.
type Row = (&'static str, &'static str, &'static str, &'static str, u16, &'static str);

const JSON: &str = "application/json";

const REFUSALS: &[Row] = &[
    ("GET", "/nowhere", JSON, "", 404, "unknown_route"),
    ("GET", "/v1/devices/", JSON, "", 404, "unknown_route"),
    ("GET", "/v1/../healthz", JSON, "", 404, "unknown_route"),
    ("PUT", "/v1/devices", JSON, "{}", 405, "method_not_allowed"),
    ("NONSENSE", "/v1/reports", JSON, "", 405, "method_not_allowed"),
    ("POST", "/v1/devices", JSON, "", 400, "unreadable"),
    ("POST", "/v1/devices", JSON, "{\"id\":\"a\",}", 400, "unreadable"),
    ("POST", "/v1/devices", JSON, "{\"id\":\"a\"} x", 400, "unreadable"),
    ("POST", "/v1/devices", JSON, "{\"id\":\"a\",\"id\":\"b\"}", 400, "unreadable"),
    ("POST", "/v1/devices", JSON, "[]", 422, "not_an_object"),
    ("PATCH", "/v1/devices/0xA", JSON, "null", 422, "not_an_object"),
    ("GET", "/v1/devices/none", JSON, "", 404, "unknown_device"),
    ("GET", "/v1/devices/b%C3%A4d%20id", JSON, "", 404, "unknown_device"),
    ("GET", "/v1/clients/%ff", JSON, "", 400, "unreadable"),
    ("GET", "/v1/deliveries/none", JSON, "", 404, "unknown_delivery"),
    ("GET", "/v1/devices?limit=0", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/devices?limit=1001", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/devices?limit=1.0", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/devices?limit=1&limit=1", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/devices?connection=gone", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/devices?colour=red", JSON, "", 422, "unknown_parameter"),
    ("GET", "/v1/devices?cursor=", JSON, "", 400, "invalid_cursor"),
    ("GET", "/v1/devices?cursor=abc", JSON, "", 400, "invalid_cursor"),
    ("GET", "/v1/devices/0xA/readings?order=up", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/devices/0xA/readings?from=2026-01-01", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/events?type=changed", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/deliveries?status=done", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/devices?label.Site=1", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/quarantine/none", JSON, "", 404, "unknown_quarantined"),
    ("DELETE", "/v1/quarantine/none", JSON, "", 404, "unknown_quarantined"),
    ("POST", "/v1/quarantine/none/replay", JSON, "", 404, "unknown_quarantined"),
    ("GET", "/v1/quarantine/none/replay", JSON, "", 405, "method_not_allowed"),
    ("GET", "/v1/quarantine?cursor=abc", JSON, "", 400, "invalid_cursor"),
    ("GET", "/v1/stats", JSON, "", 422, "invalid_parameter"),
    ("GET", "/v1/stats?metric=reports&limit=1", JSON, "", 422, "unknown_parameter"),
    ("POST", "/v1/clients/none/rotate-secret", JSON, "", 404, "unknown_client"),
    ("POST", "/v1/clients/none/test", JSON, "", 404, "unknown_client"),
    ("POST", "/v1/clients/none/resend", JSON, "", 404, "unknown_client"),
    ("POST", "/v1/deliveries/none/retry", JSON, "", 404, "unknown_delivery"),
];

#[tokio::test]
async fn every_refusal_is_a_problem_with_a_code() {
    let rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "0xA"})).await;
    for (method, path, content_type, body, status, code) in REFUSALS {
        let answer = rig.ask(method, path, content_type, body).await;
        let row = format!("{method} {path} {body}: {answer:?}");
        assert_eq!((answer.status, answer.text("code").as_str()), (*status, *code), "{row}");
        assert_eq!(answer.headers["content-type"], "application/problem+json", "{row}");
        assert_eq!(answer.json()["status"], *status, "{row}");
        for member in ["type", "title", "detail"] {
            assert!(!answer.text(member).is_empty(), "{member} of {row}");
        }
        assert_eq!(answer.headers.contains_key("allow"), *status == 405, "{row}");
    }
}

/// The sender writes all of it before it reads; a connection that is closed under it would be
/// reset.
#[tokio::test]
async fn whoever_sends_too_much_gets_to_read_that() {
    let rig = Rig::start(&[]).await;
    let body = "x".repeat(40 * 1024 * 1024);
    for path in ["/v1/devices", "/v1/clients", "/v1/reports"] {
        let answer = rig.json("POST", path, &body).await;
        assert_eq!((answer.status, answer.text("code").as_str()), (413, "body_too_large"), "{path}");
    }
    let unread = rig.json("PUT", "/v1/devices", &body).await;
    assert_eq!((unread.status, unread.text("code").as_str()), (405, "method_not_allowed"));
}

#[tokio::test]
async fn a_head_request_has_the_head_of_the_get() {
    let rig = Rig::start(&[]).await;
    for (path, status) in
        [("/healthz", 200), ("/v1/devices", 200), ("/v1/devices/none", 404), ("/v1/reports", 405)]
    {
        let answer = rig.ask("HEAD", path, "", "").await;
        assert_eq!((answer.status, answer.body.as_str()), (status, ""), "{path}");
    }
}

#[tokio::test]
async fn a_cursor_is_good_for_its_own_list_only() {
    let rig = Rig::start(&[]).await;
    for id in ["a", "b", "c"] {
        rig.device(&json!({"id": id})).await;
    }
    let page = rig.get("/v1/devices?limit=1").await;
    let cursor = page["next_cursor"].as_str().expect("more follows");
    for (path, status) in [
        (format!("/v1/devices?cursor={cursor}"), 200),
        (format!("/v1/devices?limit=2&cursor={cursor}"), 200),
        (format!("/v1/devices?kind=lock&cursor={cursor}"), 400),
        (format!("/v1/devices?cursor={cursor}x"), 400),
        (format!("/v1/clients?cursor={cursor}"), 400),
        (format!("/v1/events?cursor={cursor}"), 400),
    ] {
        assert_eq!(rig.ask("GET", &path, "", "").await.status, status, "{path}");
    }
}

#[tokio::test]
async fn the_same_key_gives_the_same_answer() {
    let rig = Rig::start(&[]).await;
    let address = rig.site.http.address().await;
    let key = [("Idempotency-Key", "k1"), ("Content-Type", JSON)];
    let post = async |path: &str, body: &str| wire::ask(address, "POST", path, &key, body.as_bytes()).await;
    let client = r#"{"name":"n","url":"https://example.com/"}"#;
    let (first, again) = (post("/v1/clients", client).await, post("/v1/clients", client).await);
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.body, again.body, "the id and the secret were made once");
    assert_eq!(post("/v1/clients", r#"{"name":"o","url":"https://example.com/"}"#).await.status, 422);
    assert_eq!(post("/v1/devices", r#"{"id":"0xA"}"#).await.status, 201, "a key belongs to its path");
    assert_eq!(rig.items("/v1/clients").await.len(), 1);
}

#[tokio::test]
async fn health_and_figures_are_told() {
    let rig = Rig::start(&[]).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(rig.ask("GET", path, "", "").await.status, 200, "{path}");
    }
    let address = rig.site.http.address().await;
    for accept in ["*/*", "text/plain;version=0.0.4"] {
        let metrics = wire::ask(address, "GET", "/metrics", &[("Accept", accept)], b"").await;
        wire::check_families(&metrics.body);
        let is_plain = metrics.headers["content-type"].starts_with("text/plain; version=0.0.4");
        assert_eq!(is_plain, accept != "*/*", "{accept}");
    }
    let metrics = rig.ask("GET", "/metrics", "", "").await;
    let samples: Vec<&str> = metrics.body.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(samples.len() > 20, "{samples:?}");
    for sample in samples {
        let name = sample.split(['{', ' ']).next().expect("a name");
        let parts = name.split('_').filter(|part| !part.is_empty()).count();
        assert!(name.starts_with("fieldpost_") && parts >= 3, "{sample}");
        assert!(
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
            "{sample}"
        );
    }
}
