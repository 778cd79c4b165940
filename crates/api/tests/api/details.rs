//! What a refusal says: the field as its sender wrote it, what was wrong with it, and what would be
//! right.

use crate::commands::with_locks;
use crate::rig::Server;

/// Calls that are refused: each with its body, its code, and a part of its detail.
async fn check_refused(server: &Server, status: u16, rows: &[(&str, &str, &str, &str)]) {
    for (call, body, code, part) in rows {
        let problem = server.check(call, body, status, code).await;
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(part), "{call} {body:.80}: {part} is not in {detail}");
    }
}

#[tokio::test]
async fn a_number_is_refused_with_the_range_of_its_field() {
    let server = with_locks().await;
    for wrong in ["0", "-1", "1.5", "4294967296"] {
        let said =
            |name: &str, most: &str| format!("{name} is {wrong}; it must be a whole number, 1 to {most}");
        for (call, body, name, most) in [
            ("POST /v1/tasks", format!(r#"{{"payload":1,"count":{wrong}}}"#), "count", "100000"),
            (
                "POST /v1/campaigns",
                format!(r#"{{"payload":1,"every":"1m","count":{wrong}}}"#),
                "count",
                "100000",
            ),
            (
                "POST /v1/devices/0xA/commands",
                format!(r#"{{"payload":1,"max_attempts":{wrong}}}"#),
                "max_attempts",
                "1000",
            ),
            (
                "POST /v1/rollouts",
                format!(r#"{{"payload":1,"selector":"","rate":{wrong}}}"#),
                "rate",
                "4294967295",
            ),
            (
                "PUT /v1/queues/ops/q/control",
                format!(r#"{{"state":"run","max_in_flight":{wrong}}}"#),
                "max_in_flight",
                "4294967295",
            ),
        ] {
            check_refused(&server, 422, &[(call, &body, "invalid_number", &said(name, most))]).await;
        }
    }
}

#[tokio::test]
async fn a_field_inside_an_object_is_told_of_with_that_object() {
    let server = with_locks().await;
    let url = r#"{"url":"ftp://a.example"}"#;
    check_refused(
        &server,
        422,
        &[
            (
                "POST /v1/devices/0xA/commands",
                &format!(r#"{{"payload":1,"notify":{url}}}"#),
                "invalid_url",
                "notify: url",
            ),
            (
                "POST /v1/devices/0xA/commands",
                r#"{"payload":1,"notify":{"uri":"x"}}"#,
                "unknown_field",
                "notify: there is no field \"uri\"",
            ),
            (
                "POST /v1/tasks",
                r#"{"payload":1,"count":1,"notify":{"queue":7}}"#,
                "wrong_type",
                "notify: queue is a number",
            ),
            (
                "PUT /v1/campaigns/c",
                &format!(r#"{{"payload":1,"count":1,"every":"1m","results":{url}}}"#),
                "invalid_url",
                "results: url",
            ),
            (
                "PUT /v1/campaigns/c",
                r#"{"payload":1,"count":1,"every":"1m","results":{}}"#,
                "missing_field",
                "results: url, queue or stream has to be there",
            ),
            (
                "PUT /v1/streams/ops/s/subscriptions/a",
                &format!(r#"{{"push":{url}}}"#),
                "invalid_url",
                "push: url",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_field_of_a_rollout_is_told_of_with_where_it_stands() {
    let server = with_locks().await;
    check_refused(
        &server,
        422,
        &[
            (
                "POST /v1/rollouts",
                r#"{"payload":1,"selector":"","window":{"cron":"0 2 * * *"}}"#,
                "missing_field",
                "window: the field for",
            ),
            (
                "POST /v1/rollouts",
                r#"{"payload":1,"selector":"","stages":[{"share":1},{"share":0}]}"#,
                "invalid_number",
                "stages, item 2: share is 0.0; it must be above 0, up to 1",
            ),
            (
                "POST /v1/rollouts",
                r#"{"payload":1,"selector":"","stop":{"failed_share":2}}"#,
                "invalid_number",
                "stop: failed_share is 2.0; it must be 0 to 1",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_refusal_names_what_was_asked_for() {
    let server = with_locks().await;
    check_refused(
        &server,
        404,
        &[
            ("GET /v1/desired/nope", "", "unknown_rollout", "there is no bulk assignment \"nope\""),
            ("DELETE /v1/desired/nope", "", "unknown_rollout", "there is no bulk assignment \"nope\""),
            ("GET /v1/rollouts/nope", "", "unknown_rollout", "there is no rollout \"nope\""),
        ],
    )
    .await;
    check_refused(
        &server,
        422,
        &[
            (
                "POST /v1/streams/ops/s/messages",
                r#"{"payload":1,"expect_last_id":"x"}"#,
                "wrong_type",
                "expect_last_id is \"x\"; it must be the id of a message",
            ),
            (
                "POST /v1/streams/ops/s/subscriptions/a/commit",
                r#"{"reader":"r","id":"x"}"#,
                "wrong_type",
                "id is \"x\"; it must be the id of a message",
            ),
            ("GET /v1/devices/0xA/desired?foo=1", "", "unknown_parameter", "this call takes none"),
            ("PUT /v1/cache/shop/a?ttl=10000d", "x", "invalid_parameter", "of up to ten years"),
        ],
    )
    .await;
    let imported = server.check("POST /v1/devices/import", "{\"id\":\n[]\n", 200, "{}").await;
    let details: Vec<_> = imported["rejected"].as_array().expect("lines").iter().collect();
    assert!(details.iter().all(|line| !line["detail"].to_string().contains("body")), "{imported}");
    assert!(details[1]["detail"].as_str().is_some_and(|detail| detail.starts_with("the line is an array")));
}
