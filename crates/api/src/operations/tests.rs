//! Operations over a server in memory, with the worker begun when a test says so. What was written
//! down before has its turn then, as after a kill.

use std::sync::{Arc, Mutex};

use access::{Access, Token};
use axum::body::Body;
use axum::http::Request;
use base::{DeviceId, EntityId, Lineage, SystemClock, Timestamp, Value, WayIn};
use engine::operations::{NextChunk, OPERATION_ID_PREFIX, OperationProgress};
use engine::queries::LOOKED_AT_MAX;
use engine::queues::{JobState, QueueName};
use engine::records::OperationAction;
use engine::{Engine, EngineSettings, NewOperation, Received, Report, ReportContent, Slice};
use http_body_util::BodyExt;
use net::memory_budget::MemoryBudget;
use net::shares::SenderKey;
use serde_json::{Value as Json, json};
use store::MemoryStore;
use tokio::task::JoinHandle;
use tower_service::Service;

use super::act::RowOutcome;
use super::lane::{self, TRIES_MAX};
use super::request::{LABELS_BYTES_MAX, OperationRequest};
use super::rows::FILTER_BYTES_MAX;
use crate::{ApiState, router};

struct Rig {
    state: ApiState,
}

impl Rig {
    async fn start(access: Access) -> Self {
        let store = Arc::new(MemoryStore::new(Lineage(1), 2));
        let clock = Arc::new(SystemClock::start(Timestamp(0)));
        let engine =
            Engine::start(EngineSettings::for_tests(), store, clock).await.expect("an empty store loads");
        engine.intake(WayIn::Http).attend(true).await;
        Self { state: ApiState::new(engine, access, &MemoryBudget::default(), Arc::new(Mutex::default())) }
    }

    async fn open() -> Self {
        Self::start(Access::Open).await
    }

    async fn with_tokens(tokens: &[(&str, &[&str])]) -> Self {
        let tokens = tokens.iter().map(|(name, scopes)| Token::for_tests(name, scopes));
        Self::start(Access::of(tokens.collect())).await
    }

    /// Begins to work on operations.
    fn work(&self) -> JoinHandle<()> {
        tokio::spawn(self.state.clone().work_on_operations())
    }

    /// The server as it is after a restart with other tokens.
    fn with_other_tokens(&self, tokens: &[(&str, &[&str])]) -> Self {
        let tokens = tokens.iter().map(|(name, scopes)| Token::for_tests(name, scopes));
        let (engine, access) = (self.state.engine().clone(), Access::of(tokens.collect()));
        Self { state: ApiState::new(engine, access, &MemoryBudget::default(), Arc::new(Mutex::default())) }
    }

    /// A job that is dead, of that error.
    async fn dead_job(&self, queue: &str, error: &str) -> String {
        let of = format!("/v1/queues/{queue}");
        let published = self.make(&format!("POST {of}/jobs"), &json!({"payload": 1, "tries": 1})).await;
        self.die(&of, error).await;
        published["jobs"][0]["id"].as_str().or(published["id"].as_str()).expect("an id").to_owned()
    }

    /// The next job of a queue fails for good.
    async fn die(&self, of: &str, error: &str) {
        let taken = self.make(&format!("POST {of}/consume"), &json!({"max": 1})).await;
        let job = &taken["jobs"][0];
        let path = format!("POST {of}/jobs/{}/release", job["id"].as_str().expect("an id"));
        self.make(&path, &json!({"reservation": job["reservation"], "error": error})).await;
    }

    /// A device says something, and is heard of.
    async fn report(&self, device: &str) {
        let content = ReportContent::Value { value: Value::number(1.0).expect("finite"), ts: None };
        let report = Report { device: DeviceId::new(device).expect("an id"), kind: None, content, id: None };
        let slice = Slice::from_iter([report]);
        let pending = self.state.engine().intake(WayIn::Http).submit(slice).await.expect("accepting");
        assert_eq!(pending.durable().await.expect("durable").accepted, 1);
    }

    /// When a device was last heard of.
    async fn last_seen(&self, device: &str) -> String {
        let shown = self.make(&format!("GET /v1/devices/{device}"), &Json::Null).await;
        shown["state"]["last_seen_at"].as_str().expect("it was heard of").to_owned()
    }

    async fn call(&self, token: &str, call: &str, body: &Json) -> (u16, Json) {
        let (method, path) = call.split_once(' ').expect("a method and a path");
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("authorization", format!("Bearer {token}"));
        let request = request.body(body).expect("a request");
        let response = router(self.state.clone()).call(request).await.expect("a router never fails");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        (parts.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Makes something, as the token `admin`.
    async fn make(&self, call: &str, body: &Json) -> Json {
        let (status, answer) = self.call("admin", call, body).await;
        assert!(status < 300, "{call} {body}: {status} {answer}");
        answer
    }

    async fn begin(&self, token: &str, operation: &Json) -> String {
        let (status, begun) = self.call(token, "POST /v1/operations", operation).await;
        assert_eq!(status, 201, "{operation}: {begun}");
        begun["id"].as_str().expect("an id").to_owned()
    }

    /// The operation once it is so.
    async fn until(&self, id: &str, is_so: impl Fn(&Json) -> bool) -> Json {
        let mut changes = self.state.engine().operations().changes();
        loop {
            changes.borrow_and_update();
            let shown = self.make(&format!("GET /v1/operations/{id}"), &Json::Null).await;
            if is_so(&shown) {
                return shown;
            }
            changes.changed().await.expect("the engine lives");
        }
    }

    async fn ended(&self, id: &str) -> Json {
        self.until(id, |shown| shown["status"] != "running").await
    }

    /// An operation whose first chunk was written down, and nothing done.
    async fn with_chunk(&self, action: OperationAction, filter: &Json, rows: &[&str]) -> String {
        let operations = self.state.engine().operations();
        let new = NewOperation {
            action,
            filter: filter.to_string().into(),
            arguments: "{}".into(),
            rate: 1_000,
            by: None,
            scopes: Vec::new(),
        };
        let id = operations.create(new, None).await.expect("it begins").operation.id;
        let rows = rows.iter().map(|row| Box::from(*row)).collect();
        let chunk = Some(NextChunk { rows, next: None });
        let progress = OperationProgress { chunk, ..OperationProgress::default() };
        operations.progress(id, progress).await.expect("it is written down");
        id.to_text(OPERATION_ID_PREFIX)
    }

    /// Has a report of each of these devices refused, in that order.
    async fn refuse(&self, devices: &[&str]) {
        let mut slice = Slice::new();
        for device in devices {
            // A lock is 0 or 1.
            let content = ReportContent::Value { value: Value::number(7.0).expect("finite"), ts: None };
            let device = DeviceId::new(device).expect("an id");
            slice.push(
                Report { device, kind: None, content, id: None },
                Received { payload: b"7", topic: None },
            );
        }
        let pending = self.state.engine().intake(WayIn::Http).submit(slice).await.expect("accepting");
        let outcome = pending.durable().await.expect("durable");
        assert_eq!(outcome.rejected.len(), devices.len(), "{outcome:?}");
    }
}

/// Matched, done, refused, skipped.
fn counts(shown: &Json) -> [u64; 4] {
    ["matched", "done", "refused", "skipped"].map(|name| shown[name].as_u64().expect("a count"))
}

#[tokio::test]
async fn a_retry_of_many_publishes_outcomes_only_where_the_token_may_publish() {
    let dispatcher: &[&str] = &["commands", "jobs:mail"];
    let tokens: &[(&str, &[&str])] =
        &[("admin", &["admin"]), ("commands", &["commands"]), ("dispatcher", dispatcher)];
    for (token, expect) in [("commands", [3, 1, 2, 0]), ("dispatcher", [3, 2, 1, 0]), ("admin", [3, 3, 0, 0])]
    {
        let rig = Rig::with_tokens(tokens).await;
        rig.make("POST /v1/devices", &json!({"id": "d1"})).await;
        for notify in [Json::Null, json!({"queue": "mail/done"}), json!({"queue": "billing/done"})] {
            let command = json!({"payload": 1, "notify": notify});
            let sent = rig.make("POST /v1/devices/d1/commands", &command).await;
            let path = format!("DELETE /v1/commands/{}", sent["id"].as_str().expect("an id"));
            rig.make(&path, &Json::Null).await;
        }
        rig.work();
        let retry = json!({"action": "commands.retry", "filter": {"status": "cancelled"}});
        let id = rig.begin(token, &retry).await;
        let shown = rig.ended(&id).await;
        assert_eq!(counts(&shown), expect, "{token}: {shown}");
        if expect[2] > 0 {
            assert_eq!(shown["last_error"]["code"], "forbidden", "{shown}");
        }
    }
}

#[tokio::test]
async fn a_filter_is_kept_short() {
    let rig = Rig::open().await;
    let delete = |filter: Json| json!({"action": "devices.delete", "filter": filter});
    let label = |value: usize| json!({"action": "devices.label", "filter": {"ids": ["a"]}, "labels": {"site": "x".repeat(value)}});
    for (operation, code) in [
        (delete(json!({"kind": "k".repeat(FILTER_BYTES_MAX)})), "too_long"),
        (delete(json!({"ids": ["a".repeat(129)]})), "too_long"),
        (delete(json!({"ids": vec!["a"; 1_001]})), "too_many_ids"),
        (label(LABELS_BYTES_MAX), "too_long"),
    ] {
        let (status, refused) = rig.call("", "POST /v1/operations", &operation).await;
        assert_eq!((status, refused["code"].as_str()), (422, Some(code)), "{refused}");
    }
    let longest: Vec<String> = (0..1_000).map(|number| format!("{number:0>128}")).collect();
    rig.begin("", &delete(json!({"ids": longest}))).await;
}

#[test]
fn a_filter_is_kept_without_space_and_names_each_row_once() {
    let body = "{\"action\": \"devices.delete\", \"filter\": { \"ids\" : [ \"b\",\n \"a\", \"b\" ] } }";
    let request = OperationRequest::read(body).expect("a request");
    assert_eq!(request.filter, r#"{"ids":["b","a"]}"#);
    let body = r#"{"action": "devices.label", "filter": {"kind": "lock" , "connected":true}, "labels": { "a" : null }}"#;
    let request = OperationRequest::read(body).expect("a request");
    assert_eq!(request.filter, r#"{"connected":true,"kind":"lock"}"#);
    assert_eq!(request.arguments, r#"{"labels":{"a":null}}"#);
}

#[tokio::test]
async fn what_cannot_be_done_now_is_shown_and_can_be_cancelled() {
    let rig = Rig::open().await;
    rig.refuse(&["d1"]).await;
    // Nothing hands reports in again here.
    rig.work();
    let id = rig.begin("", &json!({"action": "quarantine.replay", "filter": {}})).await;
    let waiting = rig.until(&id, |shown| !shown["last_error"].is_null()).await;
    assert_eq!((&waiting["status"], counts(&waiting)), (&json!("running"), [1, 0, 0, 0]), "{waiting}");
    assert_eq!(waiting["last_error"]["code"], "unavailable", "{waiting}");
    rig.make(&format!("DELETE /v1/operations/{id}"), &Json::Null).await;
    let operations = rig.state.engine().operations();
    let entity = EntityId::from_text(OPERATION_ID_PREFIX, &id).expect("an id");
    let mut changes = operations.changes();
    // Its chunk is given up: the engine takes nothing more of it.
    loop {
        changes.borrow_and_update();
        let state = rig.state.queries().operation(entity).expect("readable").expect("it is kept").state;
        if state.chunk.is_empty() {
            assert_eq!((state.status.as_str(), state.counts.done), ("cancelled", 0));
            return;
        }
        changes.changed().await.expect("the engine lives");
    }
}

#[tokio::test]
async fn a_row_that_can_never_be_done_is_refused_after_some_tries() {
    let rig = Rig::open().await;
    rig.refuse(&["d1"]).await;
    let id = rig.begin("", &json!({"action": "quarantine.replay", "filter": {}})).await;
    let id = EntityId::from_text(OPERATION_ID_PREFIX, &id).expect("an id");
    let tracked = rig.state.queries().operation(id).expect("readable").expect("it is there");
    rig.state.engine().operations().shown(&tracked.operation).await;
    let plan = Arc::new(super::OperationPlan::of_stored(&rig.state, &tracked).expect("a plan"));
    let rows = plan.rows.read(&[], 10, plan.until).expect("readable").rows;
    let mut lanes = lane::of_rows(&rig.state, &plan, &rows).await;
    let [lane] = &mut lanes[..] else { panic!("one lane: {lanes:?}") };
    for attempt in 1..TRIES_MAX {
        assert_eq!(lane.run(&rig.state, &plan, id).await, [], "try {attempt}");
        assert!(!lane.is_empty() && lane.waits_for().is_some(), "try {attempt}: {lane:?}");
    }
    let ends = lane.run(&rig.state, &plan, id).await;
    assert!(matches!(&ends[..], [RowOutcome::Refused(error)] if &*error.code == "unavailable"), "{ends:?}");
    assert!(lane.is_empty());
}

#[tokio::test]
async fn rows_that_no_longer_match_are_left_alone_after_a_kill() {
    let rig = Rig::open().await;
    for id in ["old", "back"] {
        rig.make("POST /v1/devices", &json!({"id": id, "labels": {"state": "unused"}})).await;
    }
    let unused = json!({"label.state": "unused"});
    let devices = rig.with_chunk(OperationAction::DeleteDevice, &unused, &["old", "back"]).await;
    rig.make("PATCH /v1/devices/back", &json!({"labels": {"state": null}})).await;

    let jobs = json!({"jobs": [{"payload": 1, "delay": "1h"}, {"payload": 2}]});
    let published = rig.make("POST /v1/queues/shop/mail/jobs", &jobs).await;
    let ids: Vec<_> = published["jobs"].as_array().expect("jobs").iter().map(|job| &job["id"]).collect();
    let ids: Vec<_> = ids.into_iter().map(|id| id.as_str().expect("an id")).collect();
    let scheduled = json!({"queue": "shop/mail", "state": "scheduled"});
    let deleted = rig.with_chunk(OperationAction::DeleteJob, &scheduled, &ids).await;

    rig.work();
    assert_eq!(counts(&rig.ended(&devices).await), [2, 1, 0, 1]);
    let left = rig.make("GET /v1/devices", &Json::Null).await;
    assert_eq!((&left["items"][0]["id"], left["items"].as_array().map(Vec::len)), (&json!("back"), Some(1)));
    assert_eq!(counts(&rig.ended(&deleted).await), [2, 1, 0, 1]);
    let queue = QueueName::new("shop", "mail").expect("a name");
    let all = (10, LOOKED_AT_MAX);
    let left = rig.state.queues().jobs(&queue, None, None, all).await.expect("readable").found;
    assert_eq!(left.iter().map(|job| job.state).collect::<Vec<_>>(), [JobState::Ready]);
}

#[tokio::test]
async fn a_letter_that_died_again_of_something_else_is_left_alone() {
    let rig = Rig::open().await;
    let (gone, other) =
        (rig.dead_job("shop/letters", "gone").await, rig.dead_job("shop/letters", "gone").await);
    let filter = json!({"queue": "shop/letters", "error": "gone"});
    let id = rig.with_chunk(OperationAction::DeleteDead, &filter, &[&gone, &other]).await;
    rig.make("POST /v1/queues/shop/letters/dead/respawn", &json!({"ids": [other]})).await;
    rig.die("/v1/queues/shop/letters", "refused").await;
    rig.work();
    assert_eq!(counts(&rig.ended(&id).await), [2, 1, 0, 1]);
    let left = rig.make("GET /v1/queues/shop/letters/dead", &Json::Null).await;
    let left: Vec<_> =
        left["items"].as_array().expect("letters").iter().map(|letter| &letter["id"]).collect();
    assert_eq!(left, [&json!(other)]);
}

#[tokio::test]
async fn a_command_that_went_out_meanwhile_is_not_cancelled() {
    let rig = Rig::open().await;
    let mut commands = Vec::new();
    for device in ["away", "polls"] {
        rig.make("POST /v1/devices", &json!({"id": device})).await;
        let sent = rig.make(&format!("POST /v1/devices/{device}/commands"), &json!({"payload": 1})).await;
        commands.push(sent["id"].as_str().expect("an id").to_owned());
    }
    let ids: Vec<_> = commands.iter().map(String::as_str).collect();
    let scheduled = json!({"status": "scheduled"});
    let id = rig.with_chunk(OperationAction::CancelCommand, &scheduled, &ids).await;
    rig.make("GET /v1/devices/polls/poll", &Json::Null).await;
    rig.work();
    assert_eq!(counts(&rig.ended(&id).await), [2, 1, 0, 1]);
    for (command, expect) in commands.iter().zip(["cancelled", "published"]) {
        let shown = rig.make(&format!("GET /v1/commands/{command}"), &Json::Null).await;
        assert_eq!(shown["status"], expect, "{shown}");
    }
}

#[tokio::test]
async fn a_device_that_was_heard_of_again_is_left_alone() {
    let rig = Rig::open().await;
    for device in ["silent", "back", "clock"] {
        rig.make("POST /v1/devices", &json!({"id": device})).await;
        rig.report(device).await;
    }
    // So that both were heard of before.
    while rig.last_seen("clock").await <= rig.last_seen("back").await {
        rig.report("clock").await;
    }
    let filter = json!({"last_seen_before": rig.last_seen("clock").await});
    let id = rig.with_chunk(OperationAction::DeleteDevice, &filter, &["silent", "back"]).await;
    rig.report("back").await;
    rig.work();
    assert_eq!(counts(&rig.ended(&id).await), [2, 1, 0, 1]);
    let left = rig.make("GET /v1/devices", &Json::Null).await;
    let left: Vec<_> =
        left["items"].as_array().expect("devices").iter().map(|device| &device["id"]).collect();
    assert_eq!(left, [&json!("back"), &json!("clock")]);
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_an_operation_that_waits() {
    let tokens: &[(&str, &[&str])] = &[("admin", &["admin"]), ("ops", &["operate"])];
    let rig = Rig::with_tokens(tokens).await;
    rig.refuse(&["d1"]).await;
    // Nothing hands reports in again here: it waits.
    let worker = rig.work();
    let id = rig.begin("ops", &json!({"action": "quarantine.replay", "filter": {}})).await;
    rig.until(&id, |shown| !shown["last_error"].is_null()).await;
    worker.abort();
    let after = rig.with_other_tokens(&tokens[..1]);
    after.work();
    let failed = after.ended(&id).await;
    assert_eq!((&failed["status"], counts(&failed)), (&json!("failed"), [0, 0, 0, 0]), "{failed}");
    assert_eq!(failed["last_error"]["code"], "token_changed", "{failed}");
}

#[tokio::test]
async fn a_dry_run_of_named_rows_counts_those_that_would_be_acted_on() {
    let rig = Rig::open().await;
    rig.make("POST /v1/devices", &json!({"id": "d1"})).await;
    rig.make("POST /v1/devices", &json!({"id": "d2"})).await;
    let dry =
        json!({"action": "devices.delete", "filter": {"ids": ["d1", "d2", "nobody", "d1"]}, "dry_run": true});
    let counted = rig.make("POST /v1/operations", &dry).await;
    assert_eq!(counted, json!({"matched": 2, "looked_at": 3, "complete": true}));
}

#[tokio::test]
async fn a_token_has_two_dry_runs_at_a_time() {
    let rig = Rig::with_tokens(&[("admin", &["admin"]), ("other", &["admin"])]).await;
    let own = rig.state.shared.dry_runs.of(&SenderKey::Token("admin".into()));
    let held = [own.try_take(1).expect("room"), own.try_take(1).expect("room")];
    let dry = json!({"action": "devices.delete", "filter": {}, "dry_run": true});
    let (status, refused) = rig.call("admin", "POST /v1/operations", &dry).await;
    assert_eq!((status, refused["code"].as_str()), (503, Some("busy")), "{refused}");
    assert_eq!(rig.call("other", "POST /v1/operations", &dry).await.0, 200);
    drop(held);
    assert_eq!(rig.call("admin", "POST /v1/operations", &dry).await.0, 200);
}

#[tokio::test]
async fn an_operation_is_cancelled_by_its_own_token_or_one_that_might_have_begun_it() {
    let tokens: &[(&str, &[&str])] = &[
        ("admin", &["admin"]),
        ("second", &["admin"]),
        ("operate", &["operate"]),
        ("viewer", &["read", "commands"]),
        ("jobs", &["read", "jobs:mail"]),
    ];
    let rig = Rig::with_tokens(tokens).await;
    let cancel = json!({"action": "commands.cancel", "filter": {}});
    let delete = json!({"action": "devices.delete", "filter": {}});
    let respawn = |queue: &str| json!({"action": "dead.respawn", "filter": {"queue": queue}});
    for (begins, operation, cancels, expect) in [
        ("admin", &delete, "viewer", 403),
        ("admin", &delete, "operate", 403),
        ("admin", &delete, "second", 204),
        ("admin", &delete, "admin", 204),
        ("operate", &cancel, "viewer", 204),
        ("viewer", &cancel, "viewer", 204),
        ("admin", &respawn("mail/out"), "viewer", 403),
        ("admin", &respawn("mail/out"), "jobs", 204),
    ] {
        let id = rig.begin(begins, operation).await;
        let path = format!("DELETE /v1/operations/{id}?namespace=mail");
        let path = if cancels == "jobs" { path } else { path.replace("?namespace=mail", "") };
        let (status, answer) = rig.call(cancels, &path, &Json::Null).await;
        assert_eq!(status, expect, "{cancels} {operation}: {answer}");
        if status == 403 {
            assert_eq!(answer["code"], "forbidden", "{answer}");
            rig.make(&format!("DELETE /v1/operations/{id}"), &Json::Null).await;
        }
    }
}

#[tokio::test]
async fn reports_of_one_device_are_handed_in_again_in_order() {
    const EACH: usize = 8;
    let rig = Rig::open().await;
    for id in ["a", "b"] {
        rig.make("POST /v1/devices", &json!({"id": id})).await;
    }
    for _ in 0..EACH {
        rig.refuse(&["a", "b"]).await;
    }
    let handed_in: Arc<Mutex<Vec<EntityId>>> = Arc::default();
    let (seen, queries) = (Arc::clone(&handed_in), rig.state.queries());
    let state = rig.state.clone().replaying_with(move |id| {
        let seen = Arc::clone(&seen);
        Box::pin(async move {
            // The first one takes longest.
            let before = seen.lock().expect("no panic").len();
            for _ in before..3 * EACH {
                tokio::task::yield_now().await;
            }
            seen.lock().expect("no panic").push(id);
            Ok(())
        })
    });
    drop(state);
    rig.work();
    let id = rig.begin("", &json!({"action": "quarantine.replay", "filter": {}})).await;
    assert_eq!(counts(&rig.ended(&id).await), [2 * EACH as u64, 2 * EACH as u64, 0, 0]);
    let handed_in = handed_in.lock().expect("no panic").clone();
    for device in ["a", "b"] {
        let of = |id: &&EntityId| {
            let report = queries.quarantined(**id).expect("readable").expect("it is kept");
            report.device.is_some_and(|of| of.as_str() == device)
        };
        let order: Vec<_> = handed_in.iter().filter(of).map(|id| (id.at, id.number)).collect();
        assert!(order.len() == EACH && order.is_sorted(), "{device}: {order:?}");
    }
}

#[tokio::test]
async fn one_token_leaves_half_of_the_places_to_others() {
    let rig = Rig::with_tokens(&[("admin", &["admin"]), ("other", &["admin"])]).await;
    let delete = json!({"action": "devices.delete", "filter": {}});
    for _ in 0..4 {
        rig.begin("admin", &delete).await;
    }
    let (status, refused) = rig.call("admin", "POST /v1/operations", &delete).await;
    assert_eq!((status, refused["code"].as_str()), (409, Some("too_many_operations")), "{refused}");
    rig.begin("other", &delete).await;
}
