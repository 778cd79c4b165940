//! Commands: sent, looked at, polled for, answered, cancelled, tried anew, and waited for.

use std::time::Duration;

use axum::body::Body;
use base::{DeviceId, EntityId, Timestamp, WayIn};
use engine::commands::COMMAND_ID_PREFIX;
use engine::{Report, ReportContent};
use serde_json::{Value as Json, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::rig::{Server, names, request};

const PATIENCE: Duration = Duration::from_secs(20);
const SEND: &str = "POST /v1/devices/0xA/commands";

/// A server with two locks.
pub(crate) async fn with_locks() -> Server {
    let server = Server::start().await;
    let labelled = r#"{"id":"0xA","labels":{"site":"12"}}"#;
    server.check("POST /v1/devices", labelled, 201, "{}").await;
    server.add_device("0xB").await;
    server
}

/// Sends a command: its id.
pub(crate) async fn send(server: &Server, body: &str) -> String {
    id_of(&server.check(SEND, body, 201, r#"{"status":"scheduled"}"#).await)
}

fn id_of(command: &Json) -> String {
    command["id"].as_str().expect("an id").to_owned()
}

/// What a device says of a command, durable.
pub(crate) async fn say(server: &Server, id: &str, content: fn(EntityId) -> ReportContent) {
    let command = EntityId::from_text(COMMAND_ID_PREFIX, id).expect("an id");
    let device = DeviceId::new("0xA").expect("an id");
    let report = Report { device, kind: None, content: content(command), id: None };
    let pending = server.engine.intake(WayIn::Http).submit(vec![report]).await.expect("accepting");
    let outcome = pending.durable().await.expect("durable");
    assert_eq!(outcome.accepted, 1, "{outcome:?}");
}

fn done(command: EntityId) -> ReportContent {
    ReportContent::Answer { command, ok: true, result: Some(r#"{"door":"open"}"#.into()) }
}

fn not_done(command: EntityId) -> ReportContent {
    ReportContent::Answer { command, ok: false, result: None }
}

fn merely_done(command: EntityId) -> ReportContent {
    ReportContent::Answer { command, ok: true, result: None }
}

fn under_way(command: EntityId) -> ReportContent {
    ReportContent::Progress { command, progress: r#"{"percent":40}"#.into() }
}

/// The members of each item of a list.
async fn listed(server: &Server, path: &str) -> Vec<String> {
    let page = server.get(path).await;
    page["items"].as_array().expect("items").iter().map(id_of).collect()
}

#[tokio::test]
async fn a_command_is_shown_as_it_was_sent() {
    let server = with_locks().await;
    let body = r#"{"payload": { "open" : 1.50 }, "ttl":"1h","ack_timeout":"10s","run_timeout":"1m",
        "max_attempts":7,"origin":"shift plan 4","key":"door","priority":-5,"notify":null}"#;
    let sent = server.check(SEND, body, 201, "{}").await;
    let id = id_of(&sent);
    let shown = server.get(&format!("/v1/commands/{id}")).await;
    assert_eq!(shown, sent);
    let expect = json!({
        "device_id": "0xA", "status": "scheduled", "payload": {"open": 1.5}, "origin": "shift plan 4",
        "key": "door", "priority": -5, "tries": 0, "max_attempts": 7,
    });
    for (name, value) in expect.as_object().expect("an object") {
        assert_eq!(&shown[name], value, "{name}");
    }
    let members = [
        "created_at",
        "device_id",
        "expires_at",
        "id",
        "key",
        "max_attempts",
        "origin",
        "payload",
        "priority",
        "status",
        "tries",
    ];
    assert_eq!(names(&shown), members);
    let plain = server.get(&format!("/v1/commands/{}", send(&server, r#"{"payload":null}"#).await)).await;
    let members = ["created_at", "device_id", "id", "max_attempts", "payload", "priority", "status", "tries"];
    assert_eq!((names(&plain), &plain["max_attempts"]), (members.to_vec(), &json!(5)));
    let later = server
        .check(
            SEND,
            r#"{"payload":1,"not_before":"2026-12-01T10:00:00+03:00"}"#,
            201,
            r#"{"status":"scheduled"}"#,
        )
        .await;
    let at = Timestamp::parse(later["not_before"].as_str().expect("a time")).expect("a time");
    let asked = Timestamp::parse("2026-12-01T07:00:00Z").expect("a time");
    assert!(asked.since(at).max(at.since(asked)) < Duration::from_secs(1), "{at}");
}

#[tokio::test]
async fn commands_are_listed_by_what_they_are() {
    let server = with_locks().await;
    let first = send(&server, r#"{"payload":1,"origin":"a"}"#).await;
    let second = send(&server, r#"{"payload":2,"origin":"b"}"#).await;
    let other =
        server.check("POST /v1/devices/0xB/commands", r#"{"payload":3,"origin":"a"}"#, 201, "{}").await;
    let other = id_of(&other);
    server.check(&format!("DELETE /v1/commands/{second}"), "", 204, "").await;
    for (query, expect) in [
        ("order=asc", &[&first, &second, &other][..]),
        ("", &[&other, &second, &first]),
        ("order=asc&device=0xA", &[&first, &second]),
        ("order=asc&label.site=12", &[&first, &second]),
        ("order=asc&label.site=13", &[]),
        ("order=asc&origin=a", &[&first, &other]),
        ("order=asc&origin=none", &[]),
        ("status=cancelled", &[&second]),
        ("order=asc&status=scheduled", &[&first, &other]),
        ("status=scheduled&device=0xA", &[&first]),
        ("from=2026-11-22T00:00:00Z", &[]),
        ("to=2026-11-21T00:00:00Z", &[]),
        ("order=asc&limit=1", &[&first]),
    ] {
        let found = listed(&server, &format!("/v1/commands?{query}")).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expect, "{query}");
    }
    assert_eq!(listed(&server, "/v1/devices/0xB/commands?status=scheduled").await, [other]);
    assert_eq!(listed(&server, "/v1/devices/0xA/commands").await, [second, first]);
    server.check("GET /v1/devices/none/commands", "", 404, "unknown_device").await;
    server.check("GET /v1/commands?device=none", "", 404, "unknown_device").await;
}

#[tokio::test]
async fn the_feed_of_commands_goes_on_and_waits() {
    let server = with_locks().await;
    let first = send(&server, r#"{"payload":1}"#).await;
    let page = server.get("/v1/commands?order=asc").await;
    assert_eq!(id_of(&page["items"][0]), first);
    let tail = page["tail_cursor"].as_str().expect("a cursor");
    let path = format!("/v1/commands?order=asc&cursor={tail}&wait=60s");
    let both = async { tokio::join!(server.get(&path), send(&server, r#"{"payload":2}"#)) };
    let (page, second) = timeout(PATIENCE, both).await.expect("it is told");
    assert_eq!(id_of(&page["items"][0]), second);
    let path = "/v1/devices/0xA/commands?status=cancelled&wait=60s";
    let cancel = format!("DELETE /v1/commands/{first}");
    let both = async { tokio::join!(server.get(path), server.check(&cancel, "", 204, "")) };
    let (page, _) = timeout(PATIENCE, both).await.expect("one that was there comes to have the status");
    assert_eq!(id_of(&page["items"][0]), first);
}

#[tokio::test]
async fn a_repeat_under_its_key_sends_nothing_again() {
    let server = with_locks().await;
    let keyed = async |body: &str| {
        let request = request(SEND, body).header("idempotency-key", "k1").body(Body::from(body.to_owned()));
        server.send(request.expect("a request")).await
    };
    let notified = r#"{"payload":1,"notify":{"url":"https://ops.example/done"}}"#;
    let (first, again) = (keyed(notified).await, keyed(notified).await);
    assert_eq!((first.status, &first.text), (201, &again.text));
    let other = keyed(r#"{"payload":2}"#).await;
    assert_eq!((other.status, &other.json()["code"]), (422, &json!("idempotency_key_reused")));
    assert_eq!(listed(&server, "/v1/commands").await.len(), 1);
    let server = server.restart().await;
    let request = request(SEND, notified).header("idempotency-key", "k1").body(Body::from(notified));
    assert_eq!(server.send(request.expect("a request")).await.text, first.text, "after a restart");
}

#[tokio::test]
async fn the_secret_of_a_receiver_is_shown_once() {
    let server = with_locks().await;
    let body = r#"{"payload":1,"notify":{"url":"https://ops.example/done"}}"#;
    let made = server.check(SEND, body, 201, r#"{"notify":{"url":"https://ops.example/done"}}"#).await;
    let secret = made["notify"]["secret"].as_str().expect("a secret");
    assert!(secret.starts_with("whsec_") && secret.len() > 40, "{secret}");
    assert!(server.get(&format!("/v1/commands/{}", id_of(&made))).await["notify"].is_null());
    let chosen = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body = format!(r#"{{"payload":1,"notify":{{"url":"https://ops.example/","secret":"{chosen}"}}}}"#);
    let given = server.check(SEND, &body, 201, "{}").await;
    assert_eq!(given["notify"]["secret"], chosen);
    let body = r#"{"payload":1,"notify":{"queue":"ops/done"}}"#;
    server.check(SEND, body, 201, r#"{"notify":{"queue":"ops/done"}}"#).await;
}

#[tokio::test]
async fn a_device_polls_for_its_commands_and_answers() {
    let server = with_locks().await;
    let poll = "GET /v1/devices/0xA/poll";
    server.check(poll, "", 204, "").await;
    server.check("GET /v1/devices/none/poll", "", 404, "unknown_device").await;
    let first = send(&server, r#"{"payload":{"open":1}}"#).await;
    let second = send(&server, r#"{"payload":2}"#).await;
    let given = format!(r#"{{"message_id":"{first}","payload":{{"open":1}}}}"#);
    server.check(poll, "", 200, &given).await;
    server.check(poll, "", 200, &given).await;
    let shown = format!("GET /v1/commands/{first}");
    server.check(&shown, "", 200, r#"{"status":"published","tries":1,"published_at":"*"}"#).await;
    say(&server, &first, under_way).await;
    server
        .check(&shown, "", 200, r#"{"status":"running","progress":{"percent":40},"progress_at":"*"}"#)
        .await;
    say(&server, &first, done).await;
    let expect = r#"{"status":"acknowledged","result":{"door":"open"},"finished_at":"*"}"#;
    server.check(&shown, "", 200, expect).await;
    server.check(poll, "", 200, &format!(r#"{{"message_id":"{second}"}}"#)).await;
    say(&server, &second, not_done).await;
    server.check(&format!("GET /v1/commands/{second}"), "", 200, r#"{"status":"failed","tries":1}"#).await;
    server.check(poll, "", 204, "").await;
}

#[tokio::test]
async fn an_answer_without_a_result_is_shown_as_null() {
    let server = with_locks().await;
    for (answer, status) in [(merely_done as fn(_) -> _, "acknowledged"), (not_done, "failed")] {
        let id = send(&server, r#"{"payload":1}"#).await;
        server.check("GET /v1/devices/0xA/poll", "", 200, "{}").await;
        let path = format!("/v1/commands/{id}");
        assert_eq!(server.get(&path).await.get("result"), None, "it is not answered");
        say(&server, &id, answer).await;
        let shown = server.get(&path).await;
        assert_eq!((&shown["status"], shown.get("result")), (&json!(status), Some(&Json::Null)), "{shown}");
    }
}

#[tokio::test]
async fn a_poll_without_a_body_takes_nothing() {
    let server = with_locks().await;
    let id = send(&server, r#"{"payload":1}"#).await;
    server.check("HEAD /v1/devices/0xA/poll", "", 204, "").await;
    let shown = format!("GET /v1/commands/{id}");
    server.check(&shown, "", 200, r#"{"status":"scheduled","tries":0}"#).await;
    let unknown = server.call("HEAD /v1/devices/none/poll", "").await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn a_caller_waits_for_the_end_of_a_command() {
    let server = with_locks().await;
    let call = format!("{SEND}?wait=60s");
    let device = async {
        let polled = server.get("/v1/devices/0xA/poll?wait=60s").await;
        say(&server, polled["message_id"].as_str().expect("an id"), done).await;
    };
    let body = r#"{"payload":1,"notify":{"queue":"ops/done"}}"#;
    let expect = r#"{"status":"acknowledged","result":{"door":"open"},"notify":{"queue":"ops/done"}}"#;
    let both = async { tokio::join!(server.check(&call, body, 201, expect), device) };
    timeout(PATIENCE, both).await.expect("it ends");
    let call = format!("{SEND}?wait=20ms");
    server.check(&call, r#"{"payload":1}"#, 201, r#"{"status":"scheduled"}"#).await;
}

#[tokio::test]
async fn whoever_waits_for_a_command_is_told_at_once_that_its_device_is_deleted() {
    let server = with_locks().await;
    let call = format!("{SEND}?wait=60s");
    let delete = async {
        while listed(&server, "/v1/devices/0xA/commands").await.is_empty() {
            tokio::task::yield_now().await;
        }
        server.check("DELETE /v1/devices/0xA", "", 204, "").await;
    };
    let waiting = server.check(&call, r#"{"payload":1}"#, 404, "unknown_device");
    let both = async { tokio::join!(waiting, delete) };
    timeout(PATIENCE, both).await.expect("it is told");
}

#[tokio::test]
async fn a_server_that_stops_answers_who_waits_for_commands() {
    let server = with_locks().await;
    let stop = watch::Sender::new(false);
    let server = server.ended_by(stop.subscribe());
    let call = format!("{SEND}?wait=5m");
    let waiting = async {
        tokio::join!(
            server.check(&call, r#"{"payload":1}"#, 201, r#"{"status":"scheduled"}"#),
            server.check("GET /v1/devices/0xB/poll?wait=60s", "", 204, ""),
        )
    };
    let stopping = async { stop.send_replace(true) };
    let all = async { tokio::join!(waiting, stopping) };
    timeout(PATIENCE, all).await.expect("nobody waits on");
}

#[tokio::test]
async fn a_command_is_cancelled_and_tried_anew() {
    let server = with_locks().await;
    let id = send(&server, r#"{"payload":1}"#).await;
    let (cancel, retry) = (format!("DELETE /v1/commands/{id}"), format!("POST /v1/commands/{id}/retry"));
    let shown = format!("GET /v1/commands/{id}");
    server
        .check_all(&[
            (&retry, "", 409, "not_finished"),
            (&cancel, "", 204, ""),
            (&shown, "", 200, r#"{"status":"cancelled","finished_at":"*"}"#),
            (&cancel, "", 409, "finished"),
            (&retry, "", 202, ""),
            (&shown, "", 200, r#"{"status":"scheduled","tries":0}"#),
            ("GET /v1/devices/0xA/poll", "", 200, &format!(r#"{{"message_id":"{id}"}}"#)),
            (&retry, "", 409, "not_finished"),
        ])
        .await;
    say(&server, &id, done).await;
    server.check_all(&[(&retry, "", 409, "not_retryable"), (&cancel, "", 409, "finished")]).await;
}

#[tokio::test]
async fn an_answer_after_the_end_is_kept_beside_it() {
    let server = with_locks().await;
    let id = send(&server, r#"{"payload":1}"#).await;
    server.check("GET /v1/devices/0xA/poll", "", 200, "{}").await;
    server.check(&format!("DELETE /v1/commands/{id}"), "", 204, "").await;
    say(&server, &id, done).await;
    say(&server, &id, not_done).await;
    let expect = r#"{"status":"cancelled","late":{"ok":true,"at":"*","result":{"door":"open"}}}"#;
    let shown = server.check(&format!("GET /v1/commands/{id}"), "", 200, expect).await;
    assert!(shown["result"].is_null(), "{shown}");
}

#[tokio::test]
async fn the_commands_of_a_deleted_device_go_with_it() {
    let server = with_locks().await;
    let id = send(&server, r#"{"payload":1}"#).await;
    server.check("DELETE /v1/devices/0xA", "", 204, "").await;
    server.check(&format!("GET /v1/commands/{id}"), "", 404, "unknown_command").await;
    server.check(&format!("DELETE /v1/commands/{id}"), "", 404, "unknown_command").await;
    server.add_device("0xA").await;
    assert!(listed(&server, "/v1/devices/0xA/commands").await.is_empty());
}
