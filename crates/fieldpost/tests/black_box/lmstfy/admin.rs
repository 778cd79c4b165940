//! The admin API: tokens, their limits, and what there is.

use serde_json::{Value, json};

use crate::lmstfy::rig::{NAMESPACE, Rig};
use crate::wire;

/// A token that somebody made up.
const MADE_UP: &str = "a-token-of-20-bytes-";
fn error(text: &str) -> Value {
    json!({"error": text})
}

async fn check(rig: &Rig, rows: &[(&str, &str, &str, u16, Value)]) {
    for (method, path, body, status, expect) in rows {
        let answer = rig.ask_admin(method, path, body.as_bytes()).await;
        let told = format!("{method} {path} {body}: {answer:?}");
        assert_eq!(answer.status, *status, "{told}");
        if answer.body.is_empty() {
            assert_eq!(Value::Null, *expect, "{told}");
        } else {
            assert_eq!(answer.json(), *expect, "{told}");
        }
    }
}

#[tokio::test]
async fn tokens_are_made_listed_and_deleted() {
    let rig = Rig::start_bare().await;
    let long = format!("/token/{}?description=x", "n".repeat(256));
    check(
        &rig,
        &[
            ("GET", "/token/ns", "", 200, json!({"tokens": {}})),
            ("POST", "/token/ns", "", 400, error("invalid description")),
            ("POST", "/token/ns?description=x&token=short", "", 400, error("the user token was too short")),
            (
                "POST",
                "/token/n.s?description=x",
                "",
                400,
                error("namespace name contains forbidden characters"),
            ),
            ("POST", &long, "", 400, error("the namespace name was too long")),
            ("POST", "/token/ns?description=x&pool=other", "", 400, error("the pool was not exists")),
            (
                "POST",
                "/token/ns?pool=",
                &format!("description=one+more&token={MADE_UP}"),
                201,
                json!({"token": MADE_UP}),
            ),
            (
                "POST",
                "/token/ns?description=x",
                &format!("token={MADE_UP}"),
                400,
                error("the token has already existed"),
            ),
            ("GET", "/token/ns", "", 200, json!({"tokens": {MADE_UP: "one more"}})),
            (
                "GET",
                "/token/ns?pool=default",
                "",
                200,
                json!({"tokens": {format!("default:{MADE_UP}"): "one more"}}),
            ),
            ("GET", "/token/ns?pool=other", "", 400, error("the pool was not exists")),
            ("GET", "/token/other", "", 200, json!({"tokens": {}})),
            ("DELETE", &format!("/token/ns/other:{MADE_UP}"), "", 400, error("the pool was not exists")),
            ("DELETE", &format!("/token/ns/{MADE_UP}"), "", 204, Value::Null),
            ("DELETE", &format!("/token/ns/{MADE_UP}"), "", 204, Value::Null),
            ("GET", "/token/ns", "", 200, json!({"tokens": {}})),
        ],
    )
    .await;
    let made = rig.ask_admin("POST", "/token/ns?description=x", b"").await;
    assert_eq!((made.status, made.json()["token"].as_str().map(str::len)), (201, Some(26)));
    assert!(made.body.starts_with("{\n    \"token\": "), "{made:?}");
}

#[tokio::test]
async fn limits_are_set_shown_and_deleted() {
    let rig = Rig::start_bare().await;
    let (path, limit) =
        (format!("/token/ns/{MADE_UP}/limit"), json!({"read": 10, "write": 0, "interval": 5}));
    let limited = json!({"limiter": limit});
    let other = json!({"read": 0, "write": 7, "interval": 1});
    let exists = format!("throttler token({MADE_UP}) has already exists");
    check(
        &rig,
        &[
            ("GET", &path, "", 404, Value::Null),
            ("POST", &path, r#"{"read":10,"interval":5}"#, 201, limited.clone()),
            ("POST", &path, r#"{"read":10,"interval":5}"#, 500, error(&exists)),
            (
                "POST",
                &path,
                r#"{"interval":5}"#,
                400,
                json!({"limiter": {"read": 0, "write": 0, "interval": 5}}),
            ),
            ("PUT", &path, r#"{"read":1}"#, 400, error("interval should be > 0")),
            ("PUT", &path, r#"{"read":1,"interval":-1}"#, 500, error("limiter interval should be > 0")),
            ("GET", &path, "", 200, limit.clone()),
            ("GET", "/limits", "", 200, json!([{"namespace": "ns", "token": MADE_UP, "limiter": limit}])),
            (
                "GET",
                "/limits?force_update=true",
                "",
                200,
                json!([{"namespace": "ns", "token": MADE_UP, "limiter": limit}]),
            ),
            ("PUT", &path, &other.to_string(), 200, json!({"limiter": other})),
            ("GET", &path, "", 200, other.clone()),
            ("DELETE", &path, "", 200, json!({"msg": "success"})),
            ("DELETE", &path, "", 200, json!({"msg": "success"})),
            ("GET", "/limits", "", 200, json!([])),
        ],
    )
    .await;
    let nothing = rig.ask_admin("GET", &path, b"").await;
    assert_eq!((nothing.status, nothing.body.as_str()), (404, "null"));
    let unreadable = rig.ask_admin("POST", &path, b"{").await;
    assert_eq!(unreadable.status, 400, "{unreadable:?}");
}

#[tokio::test]
async fn what_there_is_can_be_asked_for() {
    let rig = Rig::start().await;
    rig.publish("q", b"x").await;
    rig.publish("r", b"x").await;
    check(
        &rig,
        &[
            ("GET", "/info", "", 200, json!({NAMESPACE: ["q", "r"]})),
            ("GET", "/info?pool=default", "", 200, json!({NAMESPACE: ["q", "r"]})),
            ("GET", "/info?pool=other", "", 200, Value::Null),
            ("GET", "/pools", "", 200, json!(["default"])),
            ("GET", "/accesslog", "", 200, json!({"status": "disabled"})),
            ("POST", "/accesslog?status=on", "", 400, error("invalid status")),
            ("POST", "/accesslog?status=enable", "", 200, json!({"status": "enabled"})),
            ("GET", "/accesslog", "", 200, json!({"status": "enabled"})),
            ("POST", "/accesslog?status=disable", "", 200, json!({"status": "disabled"})),
        ],
    )
    .await;
    let version = rig.ask_admin("GET", "/version", b"").await.json();
    let members: Vec<_> = version.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(members, ["build_commit", "build_date", "version"]);
    let metrics = rig.ask_admin("GET", "/metrics", b"").await;
    assert!(metrics.body.contains("fieldpost_lmstfy_jobs_total{how=\"published\"} 2\n"), "{metrics:?}");
    let size = format!(
        "infra_lmstfy_redis_queue_sizes{{pool=\"default\",namespace=\"{NAMESPACE}\",queue=\"r\"}} 1\n"
    );
    assert!(metrics.body.contains(&size), "{metrics:?}");
    assert!(metrics.body.contains("# TYPE fieldpost_lmstfy_jobs_total counter\n"), "{metrics:?}");
    assert_eq!(metrics.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    wire::check_families(&metrics.body);
    let head = "GET /metrics HTTP/1.1\nHost: localhost\nAccept: application/openmetrics-text; version=1.0.0";
    let metrics = wire::send(rig.admin, head, b"").await;
    assert!(metrics.body.contains(&size) && metrics.body.ends_with("# EOF\n"), "{metrics:?}");
    assert_eq!(metrics.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let moved = rig.ask_admin("GET", "/pools/", b"").await;
    assert_eq!((moved.status, moved.headers["location"].as_str()), (301, "/pools"));
    for path in ["/", "/nothing", "/token", "/token/", "/token/ns/x/y", "/info/x", "/token/ns/x/limit/y"] {
        let answer = rig.ask_admin("GET", path, b"").await;
        assert_eq!((answer.status, answer.body.as_str()), (404, "404 page not found"), "{path}");
    }
}

#[tokio::test]
async fn a_limit_counts_what_succeeds_until_its_interval_ends() {
    let rig = Rig::start().await;
    let limit = format!("/token/{NAMESPACE}/{}/limit", rig.token);
    let set = rig.ask_admin("PUT", &limit, br#"{"read":1,"write":2,"interval":3600}"#).await;
    assert_eq!(set.status, 200, "{set:?}");
    let told = |action| json!({"msg": format!("token({}) {action} reach the limit rate, please retry later", rig.token)});
    for (method, path, body, status) in [
        ("GET", "q", "", 404),
        ("PUT", "q?tries=0", "", 400),
        ("PUT", "q/bulk", "[1,2,3]", 201),
        ("PUT", "q", "x", 201),
        ("PUT", "q", "x", 429),
        ("PUT", "q/bulk", "[1]", 429),
        ("PUT", "q/job/x", "x", 201),
        ("GET", "q?count=2", "", 200),
        ("GET", "q", "", 429),
        ("GET", "q/peek", "", 200),
    ] {
        let answer = rig.ask(method, path, body.as_bytes()).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        if status == 429 {
            let action = if method == "PUT" { "produce" } else { "consume" };
            assert_eq!(answer.json(), told(action));
        }
    }
    let metrics = rig.ask_admin("GET", "/metrics", b"").await.body;
    assert!(metrics.contains("fieldpost_lmstfy_limited_total{action=\"produce\"} 2\n"), "{metrics}");
}

#[tokio::test]
async fn tokens_and_limits_survive_a_kill() {
    let mut rig = Rig::start().await;
    let limit = format!("/token/{NAMESPACE}/{}/limit", rig.token);
    rig.ask_admin("PUT", &limit, br#"{"write":1,"interval":3600}"#).await;
    rig.restart().await;
    rig.publish("q", b"x").await;
    assert_eq!(rig.ask("PUT", "q", b"x").await.status, 429);
    let deleted = rig.ask_admin("DELETE", &format!("/token/{NAMESPACE}/{}", rig.token), b"").await;
    assert_eq!(deleted.status, 204);
    rig.restart().await;
    assert_eq!(rig.ask("PUT", "q", b"x").await.status, 401);
    assert_eq!(rig.ask_admin("GET", "/limits", b"").await.json(), json!([]));
}

/// Whoever may do everything over the REST API may do so here; and a namespace's token there is one
/// here.
#[tokio::test]
async fn tokens_of_the_rest_api_guard_the_admin_api() {
    let (admin, reads, jobs) = ("ops-secret", "read-secret", "jobs-secret");
    let rig = Rig::start_guarded(&[(admin, "admin"), (reads, "read"), (jobs, "jobs:ns")]).await;
    let asked = |method: &'static str, path: &'static str, header: String| {
        let address = rig.admin;
        async move {
            wire::send(address, &format!("{method} {path} HTTP/1.1\nHost: localhost{header}"), b"")
                .await
                .status
        }
    };
    for (method, path, token, expect) in [
        ("GET", "/version", None, 401),
        ("GET", "/version", Some("wrong"), 401),
        ("GET", "/version", Some(jobs), 401),
        ("GET", "/version", Some(reads), 200),
        ("GET", "/token/ns", Some(reads), 401),
        ("GET", "/limits", Some(reads), 401),
        ("GET", "/token/ns", Some(admin), 200),
        ("POST", "/token/ns?description=x", Some(reads), 401),
        ("POST", "/token/ns?description=x", Some(admin), 201),
    ] {
        let header = token.map(|token| format!("\nAuthorization: Bearer {token}")).unwrap_or_default();
        assert_eq!(asked(method, path, header).await, expect, "{method} {path} {token:?}");
    }
    // any:ops-secret
    let basic = "\nAuthorization: Basic YW55Om9wcy1zZWNyZXQ=".to_owned();
    assert_eq!(asked("GET", "/limits", basic).await, 200);
    let challenged = rig.ask_admin("GET", "/limits", b"").await;
    assert_eq!(challenged.headers["www-authenticate"], "Basic realm=\"Authorization Required\"");
    for (namespace, token, expect) in
        [("ns", jobs, 404), ("other", jobs, 401), ("other", admin, 404), ("ns", reads, 401)]
    {
        let head = format!("GET /api/{namespace}/q HTTP/1.1\nHost: localhost\nX-Token: {token}");
        assert_eq!(wire::send(rig.api, &head, b"").await.status, expect, "{namespace} {token}");
    }
}

/// Where the REST API is open to this machine, so is this one: not to the web pages that a browser
/// here shows.
#[tokio::test]
async fn a_foreign_page_and_an_encoded_body_are_refused_on_both_listeners() {
    let rig = Rig::start().await;
    for (address, method, path) in
        [(rig.admin, "POST", "/token/ns?description=x"), (rig.api, "PUT", "/api/ns/q?delay=0")]
    {
        for foreign in [("Origin", "http://evil.example"), ("Host", "evil.example")] {
            let answer = wire::ask(address, method, path, &[foreign], b"x").await;
            assert_eq!((answer.status, answer.text("code").as_str()), (403, "foreign_origin"), "{answer:?}");
        }
        let headers = [("Content-Encoding", "gzip"), ("X-Token", rig.token.as_str())];
        let answer = wire::ask(address, method, path, &headers, b"x").await;
        assert_eq!((answer.status, answer.text("error").is_empty()), (415, false), "{answer:?}");
    }
}
