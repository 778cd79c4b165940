//! Every refusal of the calls about queues: its status and its code.

use engine::Engine;

use crate::rig::Server;

const Q: &str = "/v1/queues/mail/out";
const NO_JOB: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

async fn check_refusals(server: &Server, call: &str, rows: &[(&str, u16, &str, &str)]) {
    for (body, status, code, part) in rows {
        let problem = server.check(call, body, *status, code).await;
        let detail = problem["detail"].as_str().expect("a sentence");
        assert!(detail.contains(part), "{call} {body}: {detail}");
    }
}

#[tokio::test]
async fn a_job_that_may_not_be_is_refused() {
    let server = Server::start().await;
    let long = "x".repeat(256);
    let (alias, group) =
        (format!(r#"{{"payload":1,"alias":"{long}"}}"#), format!(r#"{{"payload":1,"group":"{long}"}}"#));
    let large = format!(r#"{{"payload": "{}"}}"#, "x".repeat(1_048_575));
    let bytes = format!(r#"{{"payload_base64":"{}"}}"#, "AAAA".repeat(349_526));
    let many = format!(r#"{{"jobs":[{}]}}"#, vec![r#"{"payload":1}"#; 1_001].join(","));
    let rows: &[(&str, u16, &str, &str)] = &[
        ("", 400, "unreadable", "JSON"),
        (r#"{"payload":1,"payload":2}"#, 400, "unreadable", "twice"),
        ("[]", 422, "not_an_object", "an array"),
        ("{}", 422, "missing_field", "payload"),
        (r#"{"payload":1,"payload_base64":"AA=="}"#, 422, "conflicting_fields", "payload_base64"),
        (r#"{"payload_base64":"%"}"#, 422, "invalid_base64", "base64"),
        (r#"{"payload":1,"colour":1}"#, 422, "unknown_field", "colour"),
        (r#"{"payload":1,"delay":"1s","run_at":"2027-01-01T00:00:00Z"}"#, 422, "conflicting_fields", "delay"),
        (r#"{"payload":1,"delay":"-1s"}"#, 422, "invalid_duration", "-1s"),
        (r#"{"payload":1,"run_at":"2066-01-01T00:00:00Z"}"#, 422, "invalid_time", "ten years"),
        (r#"{"payload":1,"run_at":5}"#, 422, "wrong_type", "run_at is a number"),
        (r#"{"payload":1,"ttl":"0s"}"#, 422, "invalid_duration", "ttl"),
        (r#"{"payload":1,"delay":"2s","ttl":"1s"}"#, 422, "invalid_ttl", "ttl"),
        (r#"{"payload":1,"tries":0}"#, 422, "invalid_tries", "tries"),
        (r#"{"payload":1,"tries":1000001}"#, 422, "invalid_tries", "tries"),
        (r#"{"payload":1,"tries":true}"#, 422, "wrong_type", "tries is a boolean"),
        (r#"{"payload":1,"alias":""}"#, 422, "invalid_name", "alias"),
        (&alias, 422, "invalid_name", "alias"),
        (&group, 422, "invalid_name", "group"),
        (r#"{"payload":1,"on_conflict":"merge"}"#, 422, "unknown_word", "reject, keep, replace"),
        (r#"{"payload":1,"every":"1s","cron":"* * * * *"}"#, 422, "conflicting_fields", "cron"),
        (r#"{"payload":1,"every":"999ms"}"#, 422, "invalid_schedule", "1s"),
        (r#"{"payload":1,"cron":"every day"}"#, 422, "invalid_schedule", "job 1"),
        (r#"{"payload":1,"cron":"* * * * *","tz":"Mars/Base"}"#, 422, "invalid_schedule", "Mars/Base"),
        (r#"{"payload":1,"tz":"UTC"}"#, 422, "missing_field", "cron"),
        (r#"{"payload":1,"executions":1}"#, 422, "missing_field", "every"),
        (r#"{"payload":1,"every":"1s","executions":0}"#, 422, "invalid_number", "executions"),
        (r#"{"jobs":[]}"#, 422, "too_many_jobs", "1 to 1000"),
        (r#"{"jobs":[{"payload":1},2]}"#, 422, "not_an_object", "job 2"),
        (
            r#"{"jobs":[{"payload":1}],"alias":"x"}"#,
            422,
            "unknown_field",
            "the field \"alias\" stands beside",
        ),
        (
            r#"{"jobs":[{"payload":1}],"colour":1}"#,
            422,
            "unknown_field",
            "the field \"colour\" stands beside",
        ),
        (r#"{"jobs":1}"#, 422, "wrong_type", "a number"),
        (&many, 422, "too_many_jobs", "1001"),
        (&large, 422, "payload_too_large", "1048576"),
        (&bytes, 422, "payload_too_large", "1048576"),
    ];
    check_refusals(&server, &format!("POST {Q}/jobs"), rows).await;
    server.check(&format!("GET {Q}"), "", 200, r#"{"scheduled":0,"ready":0}"#).await;
    let fits = format!(r#"{{ "payload" : [ "{}" ] }}"#, "x".repeat(1_048_572));
    server.check(&format!("POST {Q}/jobs"), &fits, 201, "{}").await;
    let body = format!(r#"{{"payload":"{}"}}"#, "x".repeat(16 * 1_024 * 1_024));
    server.check(&format!("POST {Q}/jobs"), &body, 413, "body_too_large").await;
}

#[tokio::test]
async fn a_value_that_is_out_of_range_is_refused_with_what_would_be_right() {
    let server = Server::start().await;
    let rows: &[(&str, u16, &str, &str)] = &[
        (r#"{"payload":1,"tries":-1}"#, 422, "invalid_tries", "1 to 1000000"),
        (r#"{"payload":1,"every":"0s"}"#, 422, "invalid_duration", r#""0s"; it must be at least "1s""#),
        (r#"{"payload":1,"every":"999ms"}"#, 422, "invalid_schedule", r#""999ms"; it must be at least "1s""#),
        (r#"{"payload":1,"run_at":"9999-12-31T23:59:59Z"}"#, 422, "invalid_time", "\"9999-12-31T23:59:59Z\""),
    ];
    check_refusals(&server, &format!("POST {Q}/jobs"), rows).await;
}

#[tokio::test]
async fn a_time_that_is_not_rfc_3339_is_refused() {
    let server = Server::start().await;
    for time in ["2026-11-29T12:00Z", "2026-11-29T12:00:00+24:00", "0000-01-01T00:00:00Z"] {
        let body = format!(r#"{{"payload":1,"run_at":"{time}"}}"#);
        let row = (body.as_str(), 422, "invalid_time", "RFC 3339 time such as");
        check_refusals(&server, &format!("POST {Q}/jobs"), &[row]).await;
        server
            .check(&format!("GET /v1/events?from={}", time.replace('+', "%2B")), "", 422, "invalid_parameter")
            .await;
    }
}

#[tokio::test]
async fn a_name_that_may_not_be_is_refused() {
    let server = Server::start().await;
    let long = "q".repeat(256);
    for (namespace, queue, code) in [
        ("mail", "a.b", "invalid_name"),
        ("mail", "a%20b", "invalid_name"),
        ("m%C3%A4il", "a", "invalid_name"),
        ("mail", long.as_str(), "invalid_name"),
        ("mail", "_own", "reserved_name"),
        ("_own", "a", "reserved_name"),
    ] {
        let path = format!("/v1/queues/{namespace}/{queue}");
        for (call, body) in [
            (format!("POST {path}/jobs"), r#"{"payload":1}"#),
            (format!("GET {path}/jobs"), ""),
            (format!("POST {path}/consume"), ""),
            (format!("GET {path}"), ""),
            (format!("PUT {path}/settings"), "{}"),
            (format!("GET {path}/jobs/{NO_JOB}"), ""),
            (format!("DELETE {path}/aliases/a"), ""),
            (format!("GET {path}/dead"), ""),
        ] {
            server.check(&call, body, 422, code).await;
        }
    }
    let name = "q".repeat(255);
    server.check(&format!("POST /v1/queues/{name}/{name}/jobs"), r#"{"payload":1}"#, 201, "{}").await;
    server.check("POST /v1/queues/mail/a,,b/consume", "", 422, "invalid_name").await;
    server.check("POST /v1/queues/mail/a,_b/consume", "", 422, "reserved_name").await;
    let many = vec!["q"; 101].join(",");
    server.check(&format!("POST /v1/queues/mail/{many}/consume"), "", 422, "too_many_queues").await;
    server.check("GET /v1/queues?namespace=a.b", "", 422, "invalid_parameter").await;
}

#[tokio::test]
async fn what_is_not_there_is_unknown() {
    let server = Server::start().await;
    let held = r#"{"reservation":"x"}"#;
    for id in [NO_JOB, "nonsense", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"] {
        for (call, body) in [
            (format!("GET {Q}/jobs/{id}"), ""),
            (format!("PATCH {Q}/jobs/{id}"), "{}"),
            (format!("DELETE {Q}/jobs/{id}"), ""),
        ] {
            server.check(&call, body, 404, "unknown_job").await;
        }
    }
    server.check(&format!("POST {Q}/jobs/{NO_JOB}/ack"), held, 409, "stale_reservation").await;
    for alias in ["a", "%00", &"a".repeat(256)] {
        server.check(&format!("GET {Q}/aliases/{alias}"), "", 404, "unknown_job").await;
        server.check(&format!("PATCH {Q}/aliases/{alias}"), "{}", 404, "unknown_job").await;
        server.check(&format!("DELETE {Q}/aliases/{alias}"), "", 404, "unknown_job").await;
    }
    server.check(&format!("GET {Q}/aliases/%ff"), "", 400, "unreadable").await;
}

#[tokio::test]
async fn a_wrong_question_for_jobs_is_refused() {
    let server = Server::start().await;
    check_refusals(
        &server,
        &format!("POST {Q}/consume"),
        &[
            ("[]", 422, "not_an_object", "an array"),
            ("{", 400, "unreadable", "JSON"),
            (r#"{"max":0}"#, 422, "invalid_number", "max is 0; it must be a whole number, 1 to 1000"),
            (r#"{"max":1001}"#, 422, "too_many_jobs", "1000"),
            (r#"{"max":"1"}"#, 422, "wrong_type", "max is a string"),
            (r#"{"ttr":"0s"}"#, 422, "invalid_ttr", "ttr"),
            (r#"{"ttr":120}"#, 422, "wrong_type", "ttr is a number"),
            (r#"{"wait":"301s"}"#, 422, "invalid_duration", "5m"),
            (r#"{"timeout":"1s"}"#, 422, "unknown_field", "max, ttr, wait"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_wrong_body_about_one_job_is_refused() {
    let server = Server::start().await;
    let id = crate::queues::publish(&server, r#"{"payload":1,"ttl":"1h"}"#).await;
    check_refusals(
        &server,
        &format!("POST {Q}/jobs/{id}/ack"),
        &[
            ("{}", 422, "missing_field", "reservation"),
            (r#"{"reservation":1}"#, 422, "wrong_type", "a number"),
            (r#"{"reservation":"x","ttr":"1s"}"#, 422, "unknown_field", "ttr"),
        ],
    )
    .await;
    check_refusals(
        &server,
        &format!("POST {Q}/jobs/{id}/extend"),
        &[
            (r#"{"reservation":"x"}"#, 422, "missing_field", "ttr"),
            (r#"{"reservation":"x","ttr":"soon"}"#, 422, "invalid_duration", "soon"),
        ],
    )
    .await;
    check_refusals(
        &server,
        &format!("POST {Q}/jobs/{id}/release"),
        &[
            (r#"{"reservation":"x","delay":1}"#, 422, "wrong_type", "delay"),
            (r#"{"reservation":"x","error":{}}"#, 422, "wrong_type", "error is an object"),
        ],
    )
    .await;
    check_refusals(
        &server,
        &format!("PATCH {Q}/jobs/{id}"),
        &[
            ("", 400, "unreadable", "JSON"),
            (r#"{"tries":2}"#, 422, "unknown_field", "payload"),
            (r#"{"delay":null}"#, 422, "cannot_clear", "delay"),
            (r#"{"delay":"1s","run_at":"2027-01-01T00:00:00Z"}"#, 422, "conflicting_fields", "run_at"),
            (r#"{"delay":"2h"}"#, 422, "invalid_time", "ttl"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_wrong_body_about_many_jobs_is_refused() {
    let server = Server::start().await;
    let reservations = vec!["\"x\""; 1_001].join(",");
    let too_many = format!(r#"{{"reservations":[{reservations}]}}"#);
    let ids = format!(r#"{{"ids":[{reservations}]}}"#);
    check_refusals(
        &server,
        &format!("POST {Q}/ack"),
        &[
            ("", 400, "unreadable", "JSON"),
            ("{}", 422, "missing_field", "reservations"),
            (r#"{"reservations":"x"}"#, 422, "wrong_type", "an array of strings"),
            (r#"{"reservations":[1]}"#, 422, "wrong_type", "item 1"),
            (&too_many, 422, "too_many_jobs", "1001"),
        ],
    )
    .await;
    check_refusals(
        &server,
        &format!("POST {Q}/dead/respawn"),
        &[
            (r#"{"ids":[],"limit":1}"#, 422, "conflicting_fields", "limit"),
            (r#"{"limit":0}"#, 422, "invalid_number", "limit is 0; it must be a whole number, 1 to 1000"),
            (r#"{"limit":1001}"#, 422, "too_many_jobs", "1000"),
            (r#"{"ids":[7]}"#, 422, "wrong_type", "item 1"),
            (&ids, 422, "too_many_jobs", "1001"),
        ],
    )
    .await;
}

#[tokio::test]
async fn wrong_settings_are_refused() {
    let server = Server::start().await;
    check_refusals(
        &server,
        &format!("PUT {Q}/settings"),
        &[
            ("", 400, "unreadable", "JSON"),
            (r#"{"order":"random"}"#, 422, "unknown_word", "fifo, lifo"),
            (r#"{"concurrency":0}"#, 422, "invalid_number", "concurrency"),
            (r#"{"rate":0}"#, 422, "invalid_number", "0.001 to 1000000"),
            (r#"{"rate":-1.5}"#, 422, "invalid_number", "0.001 to 1000000"),
            (r#"{"rate":1e999}"#, 422, "invalid_number", "0.001 to 1000000"),
            (r#"{"rate":"1/s"}"#, 422, "wrong_type", "rate is a string"),
            (r#"{"jobs_max":0}"#, 422, "invalid_number", "1 to 9007199254740992"),
            (r#"{"jobs_max":9007199254740993}"#, 422, "invalid_number", "1 to 9007199254740992"),
            (r#"{"dead_max":-1}"#, 422, "invalid_number", "0 to 9007199254740992"),
            (r#"{"dead_max":18446744073709551615}"#, 422, "invalid_number", "0 to 9007199254740992"),
            (r#"{"dead_max_age":"0s"}"#, 422, "invalid_duration", "dead_max_age"),
            (r#"{"paused":true}"#, 422, "unknown_field", "paused"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_stopped_engine_is_not_available() {
    let server = Server::start().await;
    Engine::stop(&server.engine).await;
    for (call, body) in [
        (format!("POST {Q}/jobs"), r#"{"payload":1}"#),
        (format!("POST {Q}/consume"), ""),
        (format!("GET {Q}"), ""),
        (format!("GET {Q}/jobs"), ""),
        (format!("GET {Q}/dead"), ""),
        ("GET /v1/queues".to_owned(), ""),
    ] {
        server.check(&call, body, 503, "unavailable").await;
    }
}
