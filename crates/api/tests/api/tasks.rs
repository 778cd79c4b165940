//! Tasks: what is asked for, what is refused, and what is shown. Devices that answer are in the
//! tests of the whole program; here nobody is connected.

use serde_json::json;

use crate::commands::with_locks;
use crate::rig::names;

#[tokio::test]
async fn a_task_that_finds_nobody_is_done_at_once() {
    let server = with_locks().await;
    let body = r#"{"payload":{"ask":1},"selector":"kind=lock","count":5}"#;
    let task = server.check("POST /v1/tasks?wait=20s", body, 201, r#"{"wanted":5,"picked":0}"#).await;
    assert_eq!((&task["status"], &task["results"]), (&json!("done"), &json!([])), "{task}");
    let path = format!("/v1/tasks/{}", task["id"].as_str().expect("an id"));
    let shown = server.get(&path).await;
    assert_eq!(shown["status"], "done");
    assert!(names(&shown).iter().all(|name| names(&task).contains(name)), "{shown}");
    let results = server.get(&format!("{path}/results?order=asc")).await;
    assert_eq!(results["items"], json!([]));
    assert!(results["tail_cursor"].is_string(), "{results}");
    server.check(&format!("GET {path}?wait=30s"), "", 200, r#"{"status":"done"}"#).await;
    server.check(&format!("DELETE {path}"), "", 204, "").await;
    server.check(&format!("GET {path}"), "", 200, r#"{"status":"done"}"#).await;
}

#[tokio::test]
async fn a_secret_is_shown_where_it_was_made_and_nowhere_else() {
    let server = with_locks().await;
    let body = r#"{"payload":1,"count":1,"notify":{"url":"https://example.org/done"}}"#;
    for call in ["POST /v1/tasks", "POST /v1/tasks?wait=20s"] {
        let task = server.check(call, body, 201, r#"{"notify":{"url":"https://example.org/done"}}"#).await;
        assert!(task["notify"]["secret"].as_str().is_some_and(|text| text.starts_with("whsec_")), "{task}");
        let shown = server.get(&format!("/v1/tasks/{}", task["id"].as_str().expect("an id"))).await;
        assert!(shown["notify"].is_null(), "{shown}");
    }
}

#[tokio::test]
async fn a_task_that_cannot_be_is_refused() {
    let server = with_locks().await;
    for (fields, status, code) in [
        (r#""count":1"#, 422, "missing_field"),
        (r#""payload":1"#, 422, "missing_field"),
        (r#""payload":1,"count":0"#, 422, "invalid_number"),
        (r#""payload":1,"count":100001"#, 422, "invalid_number"),
        (r#""payload":1,"count":"3""#, 422, "wrong_type"),
        (r#""payload":1,"count":1,"selector":"A=1""#, 422, "bad_selector"),
        (r#""payload":1,"count":1,"exclude":"(""#, 422, "bad_selector"),
        (r#""payload":1,"count":1,"place":"CN""#, 422, "bad_place"),
        (r#""payload":1,"count":1,"devices":["a/b"]"#, 422, "invalid_id"),
        (r#""payload":1,"count":1,"devices":"0xA""#, 422, "wrong_type"),
        (r#""payload":1,"count":1,"same_as":"tsk_1""#, 422, "invalid_id"),
        (r#""payload":1,"count":1,"answer_timeout":"100ms""#, 422, "invalid_duration"),
        (r#""payload":1,"count":1,"deadline":"2h""#, 422, "invalid_duration"),
        (r#""payload":1,"count":1,"deadline":5"#, 422, "wrong_type"),
        (r#""payload":1,"count":1,"class":"small""#, 422, "unknown_word"),
        (r#""payload":1,"count":1,"notify":{"queue":"ops"}"#, 422, "invalid_name"),
        (r#""payload":1,"count":1,"notify":{"stream":"ops/s"}"#, 422, "unknown_field"),
        (r#""payload":1,"count":1,"notify":{}"#, 422, "missing_field"),
        (r#""payload":1,"count":1,"every":"1m""#, 422, "unknown_field"),
    ] {
        server.check("POST /v1/tasks", &format!("{{{fields}}}"), status, code).await;
    }
    let of = "tsk_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let both = format!(r#"{{"payload":1,"count":1,"same_as":"{of}","not_as":"{of}"}}"#);
    let unknown = format!(r#"{{"payload":1,"count":1,"same_as":"{of}"}}"#);
    server
        .check_all(&[
            ("POST /v1/tasks", &both, 422, "conflicting_fields"),
            ("POST /v1/tasks", &unknown, 404, "unknown_task"),
            ("POST /v1/tasks?wait=6m", r#"{"payload":1,"count":1}"#, 422, "invalid_parameter"),
            ("POST /v1/tasks?for=6m", r#"{"payload":1,"count":1}"#, 422, "unknown_parameter"),
            (&format!("GET /v1/tasks/{of}"), "", 404, "unknown_task"),
            (&format!("DELETE /v1/tasks/{of}"), "", 404, "unknown_task"),
            (&format!("GET /v1/tasks/{of}/results"), "", 404, "unknown_task"),
            ("GET /v1/tasks/none", "", 404, "unknown_task"),
        ])
        .await;
}

#[tokio::test]
async fn weights_are_listed_in_order_of_id_and_fairness_is_shown() {
    let server = with_locks().await;
    let weights = server.get("/v1/fleet/weights").await;
    let first = json!({"device_id": "0xA", "weight": 1.0, "picks": 0, "last_picked_at": null});
    assert_eq!(weights["items"][0], first);
    assert_eq!(weights["items"].as_array().map(Vec::len), Some(2));
    let expect = r#"{"connected":0,"punishment":1.0,"constant":0.001,"period":"1m"}"#;
    server.check("GET /v1/fleet/fairness", "", 200, expect).await;
}
