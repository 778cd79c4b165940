//! Access from outside: which token gets where, what a refusal looks like, and that the table is
//! about the routes there are.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use access::{Access, Token};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use axum::routing::{get, post};
use base::id::DELIVERY_ID_PREFIX;
use base::{ClientId, Clock, DeviceId, Lineage, SystemClock, Timestamp, Value, WayIn};
use engine::{AttemptDue, Engine, EngineSettings, Report, ReportContent, Slice};
use http_body_util::BodyExt;
use net::memory_budget::MemoryBudget;
use serde_json::{Value as Json, json};
use store::MemoryStore;
use tower_service::Service;

use super::table::{Needs, ROUTES};
use crate::{ApiState, router_with};
use reach::{OF_A_CONSOLE, OF_PICKS, OF_STREAMS};

mod expiry;
mod ownership;
mod portals;
mod reach;

/// A guarded server.
struct Rig {
    engine: Engine,
    router: Router,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    json: Json,
}

/// A token for each sort of scope, each called like the token itself.
fn tokens() -> Vec<Token> {
    vec![
        Token::for_tests("admin", &["admin"]),
        Token::for_tests("read", &["read"]),
        Token::for_tests("report", &["report"]),
        Token::for_tests("commands", &["commands"]),
        Token::for_tests("operate", &["operate"]),
        Token::for_tests("tasks", &["tasks"]),
        Token::for_tests("jobs", &["jobs:mail"]),
        Token::for_tests("streams", &["streams:shop"]),
        Token::for_tests("reader", &["streams:shop:read"]),
        Token::for_tests("producer", &["streams:shop:append"]),
        Token::for_tests("acme", &["client:acme"]),
        Token::for_tests("both", &["client:none", "client:acme", "report"]),
        Token::for_tests("nobody", &[]),
    ]
}

impl Rig {
    async fn start(access: Access) -> Self {
        Self::by(Arc::new(SystemClock::start(Timestamp(0))), access).await
    }

    async fn by(clock: Arc<dyn Clock>, access: Access) -> Self {
        let store = Arc::new(MemoryStore::new(Lineage(1), 2));
        let engine =
            Engine::start(EngineSettings::for_tests(), store, clock).await.expect("an empty store loads");
        engine.intake(WayIn::Http).attend(true).await;
        Self::over(engine, access)
    }

    /// The same server with other tokens, as after a restart.
    fn with_access(&self, access: Access) -> Self {
        Self::over(self.engine.clone(), access)
    }

    fn over(engine: Engine, access: Access) -> Self {
        let state =
            ApiState::new(engine.clone(), access, &MemoryBudget::default(), Arc::new(Mutex::default()));
        // Routes of other crates and of parts to come, to be guarded alike.
        let more = Router::new()
            .route("/v1/reports", post(async || "taken"))
            .route("/v1/devices/{id}/ack", post(async || "taken"))
            .route("/console/{*path}", get(async || "a page"))
            .route("/v1/forgotten", get(async || "secrets"));
        Self { engine, router: router_with(&state, more) }
    }

    async fn call(&self, call: &str, authorization: Option<&str>, body: &str) -> Answer {
        let (method, path) = call.split_once(' ').expect("a method and a path");
        let mut request = Request::builder().method(method).uri(path);
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let request = request.body(Body::from(body.to_owned())).expect("a request");
        let response = self.router.clone().call(request).await.expect("a router never fails");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        let json = serde_json::from_slice(&bytes).unwrap_or_default();
        Answer { status: parts.status.as_u16(), headers: parts.headers, json }
    }

    async fn with(&self, token: &str, call: &str, body: &str) -> Answer {
        self.call(call, Some(&format!("Bearer {token}")), body).await
    }

    /// The status and the code of a list that is asked for as an export.
    async fn export(&self, token: &str, path: &str) -> (u16, Json) {
        let request = Request::builder().uri(path).header("accept", "application/x-ndjson");
        let request = request.header("authorization", format!("Bearer {token}")).body(Body::empty());
        let response = self.router.clone().call(request.expect("a request")).await.expect("an answer");
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
        let json: Json = serde_json::from_slice(&bytes).unwrap_or_default();
        (status, json["code"].clone())
    }

    async fn check(&self, token: &str, call: &str, expect: u16) {
        let answer = self.with(token, call, "").await;
        assert_eq!(answer.status, expect, "{call} with {token}: {}", answer.json);
    }

    async fn add_client(&self, id: &str) {
        let body = format!(r#"{{"id":"{id}","name":"n","url":"https://{id}.example/"}}"#);
        self.make("POST /v1/clients", &body).await;
    }

    async fn report(&self, device: &str) {
        let content = ReportContent::Value { value: Value::number(1.0).expect("finite"), ts: None };
        let report = Report { device: DeviceId::new(device).expect("an id"), kind: None, content, id: None };
        let pending =
            self.engine.intake(WayIn::Http).submit(Slice::from_iter([report])).await.expect("accepting");
        assert_eq!(pending.durable().await.expect("durable").accepted, 1);
    }

    /// The attempts that are due, once there are so many.
    async fn all_due(&self, count: usize) -> Vec<AttemptDue> {
        let mut due = Vec::new();
        while due.len() < count {
            for (partition, client) in self.engine.due_lanes().take().await {
                due.extend(self.engine.exchange(partition, Vec::new(), vec![(client, 10)]).await.concat());
            }
        }
        due
    }

    async fn make(&self, call: &str, body: &str) {
        let answer = self.with("admin", call, body).await;
        assert!((200..300).contains(&answer.status), "{call}: {}", answer.json);
    }
}

#[tokio::test]
async fn without_tokens_everything_is_open() {
    let rig = Rig::start(Access::of(Vec::new())).await;
    for (call, expect) in [("GET /v1/devices", 200), ("GET /metrics", 200), ("POST /v1/reports", 200)] {
        assert_eq!(rig.call(call, None, "").await.status, expect, "{call}");
    }
}

#[tokio::test]
async fn without_a_valid_token_only_probes_are_answered() {
    let rig = Rig::start(Access::of(tokens())).await;
    for call in ["GET /healthz", "GET /readyz", "HEAD /healthz", "GET /console/devices/d1"] {
        assert_eq!(rig.call(call, None, "").await.status, 200, "{call}");
    }
    for call in ["OPTIONS /healthz", "OPTIONS /readyz", "OPTIONS /console/devices/d1"] {
        assert_eq!(rig.call(call, None, "").await.status, 204, "{call}");
    }
    let calls = ROUTES.iter().filter(|(_, _, needs)| *needs != Needs::Nothing);
    let calls = calls.map(|(method, route, _)| format!("{method} {}", route.replace(['{', '}'], "")));
    for call in calls
        .chain(["GET /nothing", "POST /healthz", "POST /console/x", "OPTIONS /metrics"].map(str::to_owned))
    {
        for authorization in [None, Some("Bearer wrong"), Some("Bearer"), Some("Basic YWRtaW4=")] {
            let answer = rig.call(&call, authorization, "").await;
            assert_eq!(answer.status, 401, "{call} with {authorization:?}");
            assert_eq!(answer.json["code"], "unauthorized");
            assert!(answer.headers["www-authenticate"].to_str().expect("text").starts_with("Bearer realm="));
            assert_eq!(answer.headers["content-type"], "application/problem+json");
        }
    }
}

#[tokio::test]
async fn whoever_may_look_at_devices_alone_is_told_of_nothing_else_in_the_overview() {
    let rig = Rig::start(Access::of(tokens())).await;
    rig.add_client("acme").await;
    rig.make("PATCH /v1/clients/acme", r#"{"enabled":false}"#).await;
    let names = |token: &'static str| {
        let rig = &rig;
        async move {
            let overview = rig.with(token, "GET /v1/overview", "").await.json;
            overview.as_object().expect("members").keys().cloned().collect::<Vec<_>>()
        }
    };
    let all = ["at", "devices", "failing", "quarantine", "queues", "rates"];
    for token in ["admin", "read", "operate"] {
        assert_eq!(names(token).await, all, "{token}");
    }
    assert_eq!(names("commands").await, ["at", "devices", "rates"]);
}

#[tokio::test]
async fn a_scope_reaches_what_it_names_and_no_more() {
    let rig = Rig::start(Access::of(tokens())).await;
    for (call, allowed) in [
        ("GET /v1/devices", &["admin", "read", "commands", "operate"][..]),
        ("HEAD /v1/devices", &["admin", "read", "commands", "operate"]),
        ("GET /v1/devices/d1", &["admin", "read", "commands", "operate"]),
        ("GET /v1/commands?status=x", &["admin", "read", "commands", "operate"]),
        ("GET /v1/commands/none", &["admin", "read", "commands", "operate"]),
        ("DELETE /v1/commands/none", &["admin", "commands", "operate"]),
        ("POST /v1/commands/none/retry", &["admin", "commands", "operate"]),
        ("GET /v1/devices/d1/commands?status=x", &["admin", "read", "commands", "operate"]),
        ("POST /v1/devices/d1/commands", &["admin", "commands", "operate"]),
        ("GET /v1/devices/d1/desired?x=1", &["admin", "read", "commands", "operate"]),
        ("PUT /v1/devices/d1/desired/k", &["admin", "commands", "operate"]),
        ("DELETE /v1/devices/d1/desired/k?x=1", &["admin", "commands", "operate"]),
        ("GET /v1/devices/d1/timeline?x=1", &["admin", "read", "commands", "operate"]),
        ("GET /v1/devices/d1/poll?wait=x", &["admin", "report", "both"]),
        ("POST /v1/devices/d1/ack", &["admin", "report", "both"]),
        ("POST /v1/clients/nowhere/resend", &["admin", "operate"]),
        ("POST /v1/clients/nowhere/test", &["admin"]),
        ("POST /v1/deliveries/none/retry", &["admin", "operate"]),
        ("GET /metrics", &["admin", "read", "operate"]),
        ("GET /v1/clients", &["admin", "read", "operate"]),
        ("POST /v1/devices", &["admin"]),
        ("DELETE /v1/devices/d1", &["admin"]),
        ("PUT /v1/devices/d1/clients/acme", &["admin"]),
        ("POST /v1/reports", &["admin", "report", "both"]),
        ("GET /v1/queues/mail/out/jobs", &["admin", "read", "operate", "jobs"]),
        ("POST /v1/queues/mail/out/jobs", &["admin", "jobs"]),
        ("GET /v1/queues/other/out/jobs", &["admin", "read", "operate"]),
        ("GET /v1/queues/mail/out", &["admin", "read", "operate", "jobs"]),
        ("POST /v1/queues/mail/out/pause", &["admin", "operate", "jobs"]),
        ("POST /v1/queues/other/out/resume", &["admin", "operate"]),
        ("POST /v1/queues/mail/out/dead/respawn", &["admin", "operate", "jobs"]),
        ("DELETE /v1/queues/other/out/dead", &["admin"]),
        ("DELETE /v1/queues/mail/out", &["admin", "jobs"]),
        ("DELETE /v1/queues/other/out", &["admin"]),
        ("POST /v1/queues/mail/a,b/consume", &["admin", "jobs"]),
        ("POST /v1/queues/mailbox/a/consume", &["admin"]),
        ("PUT /v1/queues/mail/out/settings", &["admin", "jobs"]),
        ("DELETE /v1/queues/m%61il/out/aliases/a", &["admin", "jobs"]),
        ("GET /v1/queues", &["admin", "read", "operate"]),
        ("GET /v1/queues?namespace=mail", &["admin", "read", "operate", "jobs"]),
        ("GET /v1/queues?namespace=other", &["admin", "read", "operate"]),
        ("GET /v1/queues?namespace=mail&namespace=other", &["admin", "read", "operate"]),
        ("GET /v1/stats?metric=commands", &["admin", "read", "operate"]),
        ("GET /v1/forgotten", &["admin"]),
    ]
    .into_iter()
    .chain(OF_A_CONSOLE)
    .chain(OF_PICKS)
    .chain(OF_STREAMS)
    {
        for token in tokens() {
            let answer = rig.with(&token.name, call, "").await;
            let admitted = answer.status != 403;
            assert_eq!(admitted, allowed.contains(&token.name.as_str()), "{call} with {}", token.name);
            assert!(admitted || is_told_why(call, &answer, allowed), "{call}: {}", answer.json);
        }
    }
}

/// Whether a refusal says what would have been enough.
fn is_told_why(call: &str, answer: &Answer, allowed: &[&str]) -> bool {
    let detail = answer.json["detail"].as_str().unwrap_or_default();
    let scopes = ["admin", "read", "report", "commands", "operate", "tasks"];
    let mut enough = scopes.iter().filter(|scope| allowed.contains(*scope));
    let is_told = answer.json["code"] == "forbidden" && enough.all(|scope| detail.contains(*scope));
    // The answer to HEAD has no body.
    call.starts_with("HEAD") || is_told && answer.headers.contains_key("www-authenticate")
}

#[tokio::test]
async fn a_caller_is_told_what_its_token_may_do() {
    let rig = Rig::start(Access::of(tokens())).await;
    for (token, expect) in [
        ("read", json!({"open": false, "token": "read", "scopes": ["read"]})),
        ("acme", json!({"open": false, "token": "acme", "scopes": ["client:acme"], "client": "acme"})),
        ("nobody", json!({"open": false, "token": "nobody", "scopes": []})),
        ("both", json!({"open": false, "token": "both", "scopes": ["client:none", "client:acme", "report"]})),
    ] {
        assert_eq!(rig.with(token, "GET /v1/caller", "").await.json, expect, "{token}");
    }
}

/// Somebody else's device and one that does not exist are answered alike.
#[tokio::test]
async fn what_is_not_there_is_told_to_whoever_has_a_token() {
    let rig = Rig::start(Access::of(tokens())).await;
    rig.check("nobody", "GET /v1/nothing", 404).await;
    rig.check("admin", "PUT /v1/devices", 405).await;
    rig.check("read", "PUT /v1/devices", 403).await;
}

#[tokio::test]
async fn beyond_its_limit_a_token_is_told_when_to_come_back() {
    let of = |name, per_second| Token {
        requests_per_second: NonZeroU32::new(per_second),
        ..Token::for_tests(name, &["read"])
    };
    let rig = Rig::start(Access::of(vec![of("slow", 1), of("free", 0)])).await;
    let limited = loop {
        let answer = rig.with("slow", "GET /v1/devices", "").await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(limited.status, 429);
    assert_eq!(limited.json["code"], "too_many_requests");
    assert_eq!(limited.headers["retry-after"], "1");
    assert_eq!(rig.with("slow", "GET /healthz", "").await.status, 200, "probes are not counted");
    assert_eq!(rig.with("free", "GET /v1/devices", "").await.status, 200);
}

#[tokio::test]
async fn a_key_of_idempotency_belongs_to_its_token() {
    let rig = Rig::start(Access::of(vec![
        Token::for_tests("one", &["admin"]),
        Token::for_tests("two", &["admin"]),
    ]))
    .await;
    let create = async |authorization: &str| {
        let request = Request::post("/v1/devices")
            .header("authorization", authorization)
            .header("idempotency-key", "k")
            .body(Body::from(r#"{"id":"d1"}"#))
            .expect("a request");
        rig.router.clone().call(request).await.expect("a router never fails").status().as_u16()
    };
    assert_eq!(create("Bearer one").await, 201);
    assert_eq!(create("bearer  one").await, 201, "the same token, written otherwise");
    assert_eq!(create("Bearer two").await, 409, "another token makes another request");
}

#[test]
fn what_recognises_a_token_is_not_shown() {
    let shown = format!("{:?}", Access::of(vec![Token::for_tests("ops", &["admin"])]));
    assert!(shown.contains("ops") && shown.contains("Digest(..)"), "{shown}");
}

#[tokio::test]
async fn outcomes_are_published_only_where_the_token_may_publish() {
    let mut tokens = tokens();
    tokens.push(Token::for_tests("dispatcher", &["commands", "jobs:mail"]));
    let rig = Rig::start(Access::of(tokens)).await;
    rig.make("POST /v1/devices", r#"{"id":"0xA"}"#).await;
    let body = |queue: &str| format!(r#"{{"payload":1,"devices":["0xA"],"notify":{{"queue":"{queue}"}}}}"#);
    let alone = |queue: &str| body(queue).replace(r#","devices":["0xA"]"#, "");
    for (token, queue, expect) in [
        ("commands", "mail/done", 403),
        ("operate", "mail/done", 403),
        ("dispatcher", "billing/done", 403),
        ("dispatcher", "mail/done", 201),
        ("admin", "billing/done", 201),
    ] {
        let sent = rig.with(token, "POST /v1/devices/0xA/commands", &alone(queue)).await;
        assert_eq!(sent.status, expect, "{token} {queue}: {}", sent.json);
        let begun = rig.with(token, "POST /v1/rollouts", &body(queue)).await;
        assert_eq!(begun.status, expect, "{token} {queue}: {}", begun.json);
        let put = rig.with(token, &format!("PUT /v1/rollouts/{token}"), &body(queue)).await;
        assert_eq!(put.status, expect, "{token} {queue}: {}", put.json);
    }
    assert_eq!(rig.with("commands", "POST /v1/devices/0xA/commands", r#"{"payload":1}"#).await.status, 201);
}

#[tokio::test]
async fn results_are_told_only_where_the_token_may_tell_them() {
    let mut tokens = tokens();
    for (name, of) in [
        ("jobs-of", "jobs:shop"),
        ("all-of", "streams:shop"),
        ("read-of", "streams:shop:read"),
        ("append-of", "streams:shop:append"),
    ] {
        tokens.push(Token::for_tests(name, &["tasks", of]));
    }
    let rig = Rig::start(Access::of(tokens)).await;
    for (token, told, name, allowed) in [
        ("tasks", "stream", "shop/s", false),
        ("jobs-of", "stream", "shop/s", false),
        ("jobs-of", "queue", "shop/q", true),
        ("read-of", "stream", "shop/s", false),
        ("append-of", "stream", "shop/s", true),
        ("append-of", "stream", "other/s", false),
        ("append-of", "queue", "shop/q", false),
        ("all-of", "stream", "shop/s", true),
        ("all-of", "queue", "shop/q", false),
        ("admin", "stream", "other/s", true),
    ] {
        let id = format!("{token}-{told}-{}", name.replace('/', "-"));
        let body = format!(r#"{{"payload":1,"count":1,"every":"1h","results":{{"{told}":"{name}"}}}}"#);
        let put = rig.with(token, &format!("PUT /v1/campaigns/{id}"), &body).await;
        assert_eq!(put.status, if allowed { 201 } else { 403 }, "{token} {name}: {}", put.json);
    }
    // Who changes it in another way has it tell them all the same.
    let path = "PATCH /v1/campaigns/append-of-stream-shop-s";
    for (token, change, expect) in [
        ("tasks", r#"{"count":2}"#, 403),
        ("append-of", r#"{"count":2}"#, 200),
        ("tasks", r#"{"results":null}"#, 200),
        ("tasks", r#"{"results":{"stream":"shop/s"}}"#, 403),
    ] {
        let changed = rig.with(token, path, change).await;
        assert_eq!(changed.status, expect, "{token} {change}: {}", changed.json);
    }
}

#[tokio::test]
async fn a_retry_publishes_an_outcome_only_where_the_token_may_publish() {
    let mut tokens = tokens();
    tokens.push(Token::for_tests("dispatcher", &["commands", "jobs:mail"]));
    let rig = Rig::start(Access::of(tokens)).await;
    rig.make("POST /v1/devices", r#"{"id":"0xA"}"#).await;
    for (token, notify, expect) in [
        ("commands", r#","notify":{"queue":"mail/done"}"#, 403),
        ("operate", r#","notify":{"queue":"mail/done"}"#, 403),
        ("dispatcher", r#","notify":{"queue":"billing/done"}"#, 403),
        ("dispatcher", r#","notify":{"queue":"mail/done"}"#, 202),
        ("admin", r#","notify":{"queue":"billing/done"}"#, 202),
        ("commands", "", 202),
    ] {
        let sent =
            rig.with("admin", "POST /v1/devices/0xA/commands", &format!(r#"{{"payload":1{notify}}}"#)).await;
        let path = format!("/v1/commands/{}", sent.json["id"].as_str().expect("an id"));
        rig.make(&format!("DELETE {path}"), "").await;
        rig.check(token, &format!("POST {path}/retry"), expect).await;
    }
    rig.check("commands", "POST /v1/commands/cmd_none/retry", 404).await;
}

#[tokio::test]
async fn the_table_has_a_row_for_every_route_and_no_other() {
    let rig = Rig::start(Access::Open).await;
    let description = rig.call("GET /openapi.json", None, "").await.json;
    let paths = description["paths"].as_object().expect("paths");
    // Those below a namespace of queues, and of coordination, share one.
    const SHARED: [&str; 5] = ["queues", "cache", "locks", "limits", "channels"];
    let is_shared = |path: &str| SHARED.iter().any(|of| path.starts_with(&format!("/v1/{of}/{{ns}}/")));
    let listed = paths.iter().filter(|(path, _)| !is_shared(path));
    let calls = listed.flat_map(|(path, calls)| {
        calls.as_object().expect("calls").keys().map(|method| (method.to_uppercase(), path.clone()))
    });
    let rows: Vec<_> =
        ROUTES.iter().map(|(method, route, _)| ((*method).to_owned(), (*route).to_owned())).collect();
    let calls: BTreeSet<_> = calls.collect();
    let distinct: BTreeSet<_> = rows.iter().cloned().collect();
    assert_eq!(distinct.len(), rows.len(), "a route has one row");
    let missing: Vec<_> = calls.difference(&distinct).collect();
    let gone: Vec<_> = distinct.difference(&calls).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "routes without a row: {missing:?}, and rows without: {gone:?}"
    );
}

#[tokio::test]
async fn coordination_is_for_tokens_of_its_namespace() {
    let mut tokens = tokens();
    tokens.push(Token::for_tests("locker", &["coordinate:shop"]));
    let rig = Rig::start(Access::of(tokens)).await;
    for (token, namespace, expect) in
        [("locker", "shop", 200), ("locker", "mail", 403), ("commands", "shop", 403), ("admin", "mail", 200)]
    {
        let lock = rig.with(token, &format!("POST /v1/locks/{namespace}/one"), r#"{"owner":"o"}"#).await;
        assert_eq!(lock.status, expect, "{token} {namespace}: {}", lock.json);
        let limit = format!("POST /v1/limits/{namespace}/one");
        let limit = rig.with(token, &limit, r#"{"limit":5,"per":"1m"}"#).await;
        assert_eq!(limit.status, expect, "{token} {namespace}: {}", limit.json);
        let list = rig.with(token, &format!("GET /v1/locks?namespace={namespace}"), "").await;
        assert_eq!(list.status, expect, "{token} {namespace}: {}", list.json);
        let list = rig.with(token, &format!("GET /v1/limits?namespace={namespace}"), "").await;
        assert_eq!(list.status, expect, "{token} {namespace}: {}", list.json);
    }
    assert_eq!(rig.with("locker", "GET /v1/locks", "").await.status, 403);
    let listed = rig.with("locker", "GET /v1/locks?namespace=shop", "").await.json;
    let [lock] = &listed["items"].as_array().expect("a list")[..] else { panic!("one lock: {listed}") };
    assert_eq!((&lock["name"], &lock["owner"]), (&json!("one"), &json!(null)), "{lock}");
    let all = rig.with("admin", "GET /v1/locks", "").await.json;
    let names = all["items"].as_array().expect("a list").iter();
    let names: Vec<_> = names.map(|lock| (lock["namespace"].clone(), lock["owner"].clone())).collect();
    assert_eq!(names, [(json!("mail"), json!("o")), (json!("shop"), json!("o"))]);
}
