//! Rows of requests, each with the status and the JSON that the real server answers.

use serde_json::{Value, json};

use crate::lmstfy::rig::{NAMESPACE, Rig};
use crate::wire;

const FORBIDDEN: &str = "queue name contains forbidden characters";

/// A method, a path behind the namespace, a body, and the status and JSON to come.
type Row<'a> = (&'a str, &'a str, &'a [u8], u16, Value);

async fn check(rig: &Rig, rows: &[Row<'_>]) {
    for (method, path, body, status, expect) in rows {
        let answer = rig.ask(method, path, body).await;
        let told = format!("{method} {path}: {answer:?}");
        assert_eq!(answer.status, *status, "{told}");
        if expect.is_null() {
            assert_eq!(answer.body, "", "{told}");
        } else {
            assert_eq!(answer.json(), *expect, "{told}");
            assert_eq!(answer.headers["content-type"], "application/json; charset=utf-8", "{told}");
        }
        assert_eq!(answer.headers["x-request-id"].len(), 26, "{told}");
    }
}

fn error(text: &str) -> Value {
    json!({"error": text})
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_told_as_the_real_server_tells_it() {
    let rig = Rig::start().await;
    let (long, large) = ("q".repeat(256), vec![b'x'; 1_048_577]);
    let many = serde_json::to_vec(&vec![1; 65]).expect("JSON");
    let one_large = serde_json::to_vec(&json!(["x".repeat(1_048_576)])).expect("JSON");
    check(
        &rig,
        &[
            ("PUT", "q?delay=x", b"", 400, error("invalid delay")),
            ("PUT", "q?delay=4294967296", b"", 400, error("invalid delay")),
            ("PUT", "q?ttl=-1", b"", 400, error("invalid ttl")),
            ("PUT", "q?ttl=5&delay=6", b"", 400, error("ttl is shorter than delay")),
            ("PUT", "q?tries=x", b"", 400, error("invalid tries")),
            ("PUT", "q?tries=0", b"", 400, error("tries shouldn't be zero")),
            ("PUT", "_q", b"", 400, error(FORBIDDEN)),
            ("PUT", "q,r", b"", 400, error(FORBIDDEN)),
            ("PUT", "q%20r", b"", 400, error(FORBIDDEN)),
            ("GET", "_q/peek", b"", 400, error(FORBIDDEN)),
            ("PUT", &long, b"", 400, error("namespace or queue name too long")),
            ("PUT", "q", &large, 413, error("body too large")),
            ("PUT", "q/bulk", b"{}", 400, error("request body should be an array of objects")),
            ("PUT", "q/bulk", b"[]", 400, error("no jobs")),
            ("PUT", "q/bulk", &many, 400, error("too many jobs")),
            ("PUT", "q/bulk", &one_large, 413, error("job too large")),
            ("PUT", "q/bulk?tries=0", b"[1]", 400, error("tries shouldn't be zero")),
            ("GET", "q?ttr=x", b"", 400, error("invalid ttr")),
            ("GET", "q?timeout=x", b"", 400, error("invalid timeout")),
            ("GET", "q?count=0", b"", 400, error("invalid count")),
            ("GET", "q?count=101", b"", 400, error("invalid count")),
            ("GET", ",,", b"", 400, error("invalid queue name(s)")),
            ("GET", "q;r", b"", 400, error(FORBIDDEN)),
            ("PUT", "q/deadletter?limit=0", b"", 400, error("invalid limit")),
            ("PUT", "q/deadletter?ttl=-1", b"", 400, error("invalid ttl")),
            ("DELETE", "q/deadletter?limit=x", b"", 400, error("invalid limit")),
            ("POST", "q", b"", 404, error("api not found")),
            ("GET", "q/nothing", b"", 404, error("api not found")),
            ("PUT", "q/job/", b"", 404, error("api not found")),
        ],
    )
    .await;
    rig.until_size("q/size", 0).await;
}

#[tokio::test]
async fn a_queue_that_nobody_used_is_empty() {
    let rig = Rig::start().await;
    let no_job = json!({"msg": "no job available"});
    let size = json!({"namespace": NAMESPACE, "queue": "q", "size": 0});
    let head = json!({"namespace": NAMESPACE, "queue": "q", "deadletter_head": "", "deadletter_size": 0});
    check(
        &rig,
        &[
            ("GET", "q", b"", 404, no_job.clone()),
            ("GET", "q?count=5", b"", 404, no_job.clone()),
            ("GET", "_q,r?timeout=1", b"", 404, no_job),
            ("GET", "q/peek", b"", 404, error("the queue is empty")),
            ("GET", "q/job/01ARZ3NDEKTSV4RRFFQ69G5FAV", b"", 404, error("job not found")),
            ("GET", "q/job/x", b"", 404, error("job not found")),
            ("DELETE", "q/job/01ARZ3NDEKTSV4RRFFQ69G5FAV", b"", 204, Value::Null),
            ("DELETE", "q/job/x", b"", 204, Value::Null),
            ("GET", "q/size", b"", 200, size.clone()),
            ("GET", "q/deadletter/size", b"", 200, size),
            ("GET", "q/deadletter", b"", 200, head),
            ("PUT", "q/deadletter", b"", 200, json!({"msg": "respawned", "count": 0})),
            ("DELETE", "q/deadletter", b"", 204, Value::Null),
            ("DELETE", "q", b"", 204, Value::Null),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_job_is_shown_with_the_members_of_the_real_server() {
    let rig = Rig::start().await;
    let id = rig.publish("q?ttl=100&tries=3", b"hello").await;
    let waits = json!({"namespace": NAMESPACE, "queue": "q", "job_id": id, "data": "aGVsbG8=", "ttl": 100,
        "attributes": null, "remain_tries": 3});
    let with = |job: &Value, key: &str, value: Value| {
        let mut job = job.clone();
        job[key] = value;
        job
    };
    let found = with(&waits, "remain_tries", json!(0));
    let taken = with(&with(&waits, "msg", json!("new job")), "remain_tries", json!(2));
    for (path, expect) in [
        ("q/peek", waits),
        (&format!("q/job/{id}"), found.clone()),
        ("q?ttr=60", taken),
        (&format!("q/job/{id}"), found),
    ] {
        let mut job = rig.consume(path).await;
        let elapsed_ms = job.as_object_mut().and_then(|job| job.remove("elapsed_ms")).expect("it is told");
        assert!(elapsed_ms.as_u64().is_some_and(|elapsed| elapsed < 60_000), "{path}: {elapsed_ms}");
        job["ttl"] = if job["ttl"].as_u64().is_some_and(|ttl| (40..=100).contains(&ttl)) {
            json!(100)
        } else {
            job["ttl"].clone()
        };
        assert_eq!(job, expect, "{path}");
    }
    rig.until_size("q/size", 0).await;
}

#[tokio::test]
async fn several_jobs_are_a_list_and_several_queues_go_by_their_order() {
    let rig = Rig::start().await;
    let jobs = rig.ask("PUT", "low/bulk?ttl=0", br#"[ {"a": 1},"b" ]"#).await;
    assert_eq!(jobs.status, 201, "{jobs:?}");
    let ids = jobs.json()["job_ids"].clone();
    assert_eq!((ids.as_array().map(Vec::len), jobs.json()["msg"].clone()), (Some(2), json!("published")));
    let high = rig.publish("high", b"\x00\xff").await;
    let first = rig.consume("high,low?ttr=60").await;
    assert_eq!(
        (&first["job_id"], &first["queue"], &first["data"]),
        (&json!(high), &json!("high"), &json!("AP8="))
    );
    let rest = rig.consume("high%2Clow?ttr=60&count=100").await;
    let rest = rest.as_array().expect("a list");
    let shown: Vec<_> =
        rest.iter().map(|job| (job["job_id"].clone(), job["data"].clone(), job["ttl"].clone())).collect();
    let expect =
        [(ids[0].clone(), json!("eyJhIjogMX0="), json!(0)), (ids[1].clone(), json!("ImIi"), json!(0))];
    assert_eq!(shown, expect);
    let again =
        [rig.publish("low", b"1").await, rig.publish("high", b"2").await, rig.publish("low", b"3").await];
    let filled = rig.consume("high,low?ttr=60&count=2").await;
    let filled: Vec<_> = filled.as_array().expect("a list").iter().map(|job| job["job_id"].clone()).collect();
    assert_eq!(filled, [json!(again[1]), json!(again[0])], "the next queue fills it up");
    assert_eq!(rig.consume("low?count=2").await.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn attributes_stay_with_a_job_of_somebody_who_knows_of_them() {
    let rig = Rig::start().await;
    for (enabled, expect) in [("YES", json!({"flag": "1", "colour": "red"})), ("no", Value::Null)] {
        let head = format!(
            "PUT /api/{NAMESPACE}/q HTTP/1.1\nHost: localhost\nX-Token: {}\nEnable-Job-Version: {enabled}\n\
             Job-Attr-FLAG: 1\nJob-Attr-Colour: red",
            rig.token
        );
        assert_eq!(wire::send(rig.api, &head, b"x").await.status, 201);
        assert_eq!(rig.consume("q").await["attributes"], expect, "{enabled}");
    }
    let attributes: String = (0..17).map(|n| format!("\nJob-Attr-{n}: x")).collect();
    let head = format!(
        "PUT /api/{NAMESPACE}/q HTTP/1.1\nHost: localhost\nX-Token: {}\nEnable-Job-Version: YES{attributes}",
        rig.token
    );
    let refused = wire::send(rig.api, &head, b"x").await;
    assert_eq!((refused.status, refused.json()), (400, error("too many attributes, cannot exceed 16")));
}

#[tokio::test]
async fn who_asks_is_known_by_a_token() {
    let rig = Rig::start().await;
    let token = &rig.token;
    let not_found = (401, error("token not found"));
    let invalid = (401, error("invalid token"));
    let no_job = (404, json!({"msg": "no job available"}));
    for (path, header, expect) in [
        ("/api/ns/q", String::new(), not_found.clone()),
        ("/api/ns/q", "\nX-Token: wrong".to_owned(), invalid.clone()),
        ("/api/other/q", format!("\nX-Token: {token}"), invalid.clone()),
        ("/api/ns/q", format!("\nX-Token: {token}"), no_job.clone()),
        ("/api/ns/q", format!("\nX-Token: default:{token}"), no_job.clone()),
        ("/api/ns/q", format!("\nX-Token: other:{token}"), (404, error("pool not found"))),
        (&format!("/api/ns/q?token={token}"), String::new(), no_job.clone()),
        (&format!("/api/ns/q?token=default%3A{token}"), String::new(), no_job),
        ("/api/ns/_q/peek", String::new(), (400, error(FORBIDDEN))),
        ("/api/ns/q/size", String::new(), (200, json!({"namespace": "ns", "queue": "q", "size": 0}))),
        ("/api/ns/q/deadletter/size?token=other:x", String::new(), (404, error("pool not found"))),
        ("/api/ns/q/deadletter", String::new(), not_found),
    ] {
        let answer = wire::send(rig.api, &format!("GET {path} HTTP/1.1\nHost: localhost{header}"), b"").await;
        assert_eq!((answer.status, answer.json()), expect, "{path}{header}");
    }
    let moved = rig.ask("GET", "q/?ttr=1", b"").await;
    assert_eq!((moved.status, moved.headers["location"].as_str()), (301, "/api/ns/q?ttr=1"));
    let moved = rig.ask("PUT", "q/", b"x").await;
    assert_eq!((moved.status, moved.headers["location"].as_str()), (307, "/api/ns/q"));
}
