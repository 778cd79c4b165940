//! Calls about commands that are refused, each with its code and with words that say why.

use axum::body::Body;

use crate::commands::with_locks;
use crate::rig::{Server, request};

/// An id that a command may have, and none has.
const NO_COMMAND: &str = "cmd_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

async fn check_refused(server: &Server, call: &str, rows: &[(&str, u16, &str, &str)]) {
    for (body, status, code, part) in rows {
        let problem = server.check(call, body, *status, code).await;
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(part), "{call} {body:.80}: {part} is not in {detail}");
    }
}

#[tokio::test]
async fn what_no_command_can_be_is_refused() {
    let server = with_locks().await;
    let name = "n".repeat(256);
    let (origin, key) =
        (format!(r#"{{"payload":1,"origin":"{name}"}}"#), format!(r#"{{"payload":1,"key":"{name}"}}"#));
    let large = format!(r#"{{"payload":"{}"}}"#, "x".repeat(256 * 1_024 - 1));
    let rows: &[(&str, u16, &str, &str)] = &[
        ("", 400, "unreadable", "JSON"),
        ("{", 400, "unreadable", "JSON"),
        (r#"{"payload":1,"payload":2}"#, 400, "unreadable", "twice"),
        ("[]", 422, "not_an_object", "an array"),
        ("{}", 422, "missing_field", "payload"),
        (r#"{"payload":1,"delay":"1s"}"#, 422, "unknown_field", "delay"),
        (&large, 422, "payload_too_large", "262144"),
        (r#"{"payload":1,"ttl":5}"#, 422, "wrong_type", "ttl is a number"),
        (r#"{"payload":1,"ttl":"0s"}"#, 422, "invalid_duration", "ttl"),
        (r#"{"payload":1,"ttl":"4000d"}"#, 422, "invalid_duration", "ten years"),
        (r#"{"payload":1,"ack_timeout":"soon"}"#, 422, "invalid_duration", "soon"),
        (r#"{"payload":1,"ack_timeout":"0ms"}"#, 422, "invalid_duration", "ack_timeout"),
        (r#"{"payload":1,"run_timeout":"0ms"}"#, 422, "invalid_duration", "run_timeout"),
        (r#"{"payload":1,"not_before":"tomorrow"}"#, 422, "invalid_time", "tomorrow"),
        (r#"{"payload":1,"not_before":"2999-01-01T00:00:00Z"}"#, 422, "invalid_time", "ten years"),
        (r#"{"payload":1,"max_attempts":0}"#, 422, "invalid_number", "max_attempts"),
        (r#"{"payload":1,"max_attempts":1001}"#, 422, "invalid_number", "1 to 1000"),
        (r#"{"payload":1,"max_attempts":"5"}"#, 422, "wrong_type", "max_attempts is a string"),
        (r#"{"payload":1,"origin":""}"#, 422, "invalid_name", "origin"),
        (&origin, 422, "invalid_name", "origin has 256 bytes"),
        (r#"{"payload":1,"key":5}"#, 422, "wrong_type", "key"),
        (&key, 422, "invalid_name", "key has 256 bytes"),
        (r#"{"payload":1,"priority":101}"#, 422, "invalid_number", "-100 to 100"),
        (r#"{"payload":1,"priority":-1000}"#, 422, "invalid_number", "-100 to 100"),
        (r#"{"payload":1,"priority":1.5}"#, 422, "invalid_number", "1.5"),
        (r#"{"payload":1,"priority":"high"}"#, 422, "wrong_type", "priority is a string"),
    ];
    check_refused(&server, "POST /v1/devices/0xA/commands", rows).await;
    let body = format!(r#"{{"payload":"{}"}}"#, "x".repeat(16 * 1_024 * 1_024));
    server.check("POST /v1/devices/0xA/commands", &body, 413, "body_too_large").await;
}

#[tokio::test]
async fn who_cannot_be_told_of_an_outcome_is_refused() {
    let server = with_locks().await;
    let url = format!(r#"{{"payload":1,"notify":{{"url":"https://a.example/{}"}}}}"#, "x".repeat(2_048));
    let rows: &[(&str, u16, &str, &str)] = &[
        (r#"{"payload":1,"notify":"https://a.example/"}"#, 422, "wrong_type", "notify is a string"),
        (r#"{"payload":1,"notify":{}}"#, 422, "missing_field", "url or queue"),
        (r#"{"payload":1,"notify":{"mail":"a@b"}}"#, 422, "unknown_field", "mail"),
        (
            r#"{"payload":1,"notify":{"url":"https://a.example/","queue":"a/b"}}"#,
            422,
            "conflicting_fields",
            "queue",
        ),
        (r#"{"payload":1,"notify":{"url":"ftp://a.example/"}}"#, 422, "invalid_url", "http"),
        (r#"{"payload":1,"notify":{"url":"http://127.0.0.1/"}}"#, 422, "private_address", "127.0.0.1"),
        (&url, 422, "too_long", "2048"),
        (
            r#"{"payload":1,"notify":{"url":"https://a.example/","secret":"whsec_YQ=="}}"#,
            422,
            "invalid_secret",
            "24 to 64",
        ),
        (
            r#"{"payload":1,"notify":{"url":"https://a.example/","secret":"x"}}"#,
            422,
            "invalid_secret",
            "whsec_",
        ),
        (
            r#"{"payload":1,"notify":{"queue":"a/b","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}"#,
            422,
            "conflicting_fields",
            "secret",
        ),
        (r#"{"payload":1,"notify":{"queue":"done"}}"#, 422, "invalid_name", "namespace"),
        (r#"{"payload":1,"notify":{"queue":"a.b/done"}}"#, 422, "invalid_name", "a.b"),
        (r#"{"payload":1,"notify":{"queue":"_own/done"}}"#, 422, "reserved_name", "begin with"),
    ];
    check_refused(&server, "POST /v1/devices/0xA/commands", rows).await;
}

#[tokio::test]
async fn a_wrong_parameter_is_refused() {
    let server = with_locks().await;
    let send = "POST /v1/devices/0xA/commands";
    for (call, code) in [
        (format!("{send}?wait=5m1s"), "invalid_parameter"),
        (format!("{send}?wait=long"), "invalid_parameter"),
        (format!("{send}?wait=1s&wait=2s"), "invalid_parameter"),
        (format!("{send}?timeout=1s"), "unknown_parameter"),
        ("GET /v1/devices/0xA/poll?wait=61s".to_owned(), "invalid_parameter"),
        ("GET /v1/devices/0xA/poll?max=2".to_owned(), "unknown_parameter"),
        ("GET /v1/commands?status=waiting".to_owned(), "invalid_parameter"),
        ("GET /v1/commands?device=a%20b".to_owned(), "invalid_parameter"),
        ("GET /v1/commands?client=acme".to_owned(), "unknown_parameter"),
        ("GET /v1/commands?wait=61s".to_owned(), "invalid_parameter"),
        ("GET /v1/devices/0xA/commands?device=0xB".to_owned(), "unknown_parameter"),
        ("GET /v1/devices/0xA/desired?limit=1".to_owned(), "unknown_parameter"),
        ("GET /v1/devices/0xA/timeline?status=x".to_owned(), "unknown_parameter"),
    ] {
        server.check(&call, if call.starts_with("POST") { r#"{"payload":1}"# } else { "" }, 422, code).await;
    }
    server.check("GET /v1/commands?cursor=x", "", 400, "invalid_cursor").await;
}

/// An image of a foreign page comes without an `Origin`.
#[tokio::test]
async fn a_foreign_page_cannot_poll_for_a_device() {
    let server = with_locks().await;
    for (site, expect) in [("cross-site", 403), ("same-site", 403), ("same-origin", 204), ("none", 204)] {
        let poll = request("GET /v1/devices/0xA/poll", "").header("sec-fetch-site", site);
        let answer = server.send(poll.body(Body::empty()).expect("a request")).await;
        assert_eq!(answer.status, expect, "{site}: {}", answer.text);
    }
}

#[tokio::test]
async fn an_id_that_cannot_be_one_is_unknown() {
    let server = with_locks().await;
    for id in ["nothing", "evt_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "cmd_", "cmd_AAAA"] {
        for call in ["GET /v1/commands/ID", "DELETE /v1/commands/ID", "POST /v1/commands/ID/retry"] {
            server.check(&call.replace("ID", id), "", 404, "unknown_command").await;
        }
    }
    server.check("GET /v1/commands/%ff", "", 400, "unreadable").await;
}

#[tokio::test]
async fn a_command_that_is_not_there_is_unknown() {
    let server = with_locks().await;
    for call in ["GET /v1/commands/ID", "DELETE /v1/commands/ID", "POST /v1/commands/ID/retry"] {
        server.check(&call.replace("ID", NO_COMMAND), "", 404, "unknown_command").await;
    }
    server.check("POST /v1/devices/none/commands", r#"{"payload":1}"#, 404, "unknown_device").await;
    server.check("POST /v1/devices/a%20b/commands", r#"{"payload":1}"#, 404, "unknown_device").await;
}

#[tokio::test]
async fn a_wrong_wish_is_refused() {
    let server = with_locks().await;
    let large = format!(r#"{{"value":"{}"}}"#, "x".repeat(4_096));
    let deep = format!(r#"{{"value":{}{}}}"#, "[".repeat(65), "]".repeat(65));
    check_refused(
        &server,
        "PUT /v1/devices/0xA/desired/card",
        &[
            ("", 400, "unreadable", "JSON"),
            ("1", 422, "not_an_object", "a number"),
            ("{}", 422, "missing_field", "value"),
            (r#"{"value":1,"ttl":"1h"}"#, 422, "unknown_field", "ttl"),
            (&large, 422, "value_too_large", "4096"),
            (&deep, 422, "value_too_deep", "64"),
            (r#"{"value":[1e999]}"#, 422, "value_not_allowed", "double"),
        ],
    )
    .await;
    let long = format!("/v1/devices/0xA/desired/{}", "k".repeat(256));
    server.check(&format!("PUT {long}"), r#"{"value":1}"#, 422, "invalid_name").await;
    server.check(&format!("DELETE {long}"), "", 422, "invalid_name").await;
}
