//! The agent `fieldpost spool` against the built server: what it accepted arrives, in order and
//! once in effect, whatever happens to either of them.

mod damage;
mod following;
mod full;
mod full_disk;
mod kills;
mod mqtt;
mod page;
mod refusals;
mod rig;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::Timestamp;
use serde_json::{Value, json};

use rig::SpoolRig;

use crate::wire;

#[tokio::test]
async fn what_is_accepted_while_the_server_is_away_arrives_in_order_once_it_is_back() {
    let mut rig = SpoolRig::start(&[]).await;
    rig.server.device(&json!({"id": "a1", "kind": "meter"})).await;
    rig.server.kill().await;
    for number in 0..20 {
        let report = json!({"device_id": "a1", "data": number});
        assert_eq!(rig.spooled("/v1/reports", &report).await, 1);
        assert_eq!(rig.spooled("/v1/streams/shop/orders/messages", &json!({"payload": number})).await, 1);
        let jobs = json!({"jobs": [{"payload": number}, {"payload": 100 + number}]});
        assert_eq!(rig.spooled("/v1/queues/shop/mail/jobs", &jobs).await, 2);
    }
    let state = rig.state().await;
    assert_eq!((&state["waiting"], &state["forwarded"]), (&80.into(), &0.into()));
    assert!(state["bytes"].as_u64() > Some(0) && state["oldest_at"].is_string(), "{state}");
    rig.until(|state| state["error"].is_string()).await;
    rig.server.start_again().await;
    let state = rig.until(|state| state["waiting"] == 0).await;
    assert_eq!(
        (&state["forwarded"], &state["refused"], &state["error"]),
        (&80.into(), &0.into(), &Value::Null)
    );
    assert_eq!((&state["bytes"], &state["oldest_at"]), (&0.into(), &Value::Null));
    assert_eq!(rig.server.payloads("shop/orders").await, (0..20).map(Value::from).collect::<Vec<_>>());
    let readings = rig.server.get("/v1/devices/a1/readings?order=asc").await;
    let values = rig::each_in(&readings["items"], "data");
    assert_eq!(values, (0..20).map(Value::from).collect::<Vec<_>>(), "{readings}");
    let jobs = rig.server.consumed("shop/mail").await;
    assert_eq!(
        jobs,
        (0..20).flat_map(|number| [number.into(), (100 + number).into()]).collect::<Vec<Value>>()
    );
    assert!(rig.stop().await.success());
}

#[tokio::test]
async fn the_bodies_of_the_server_are_taken() {
    let rig = SpoolRig::start(&[]).await;
    for id in ["a1", "a2"] {
        rig.server.device(&json!({"id": id, "kind": "meter"})).await;
    }
    let lines = "{\"device_id\":\"a1\",\"data\":1}\n\n{\"sensor_id\":\"a2\",\"data\":2}\n";
    let answer = rig.ask("POST", "/v1/reports", "application/x-ndjson", lines).await;
    assert_eq!((answer.status, answer.body.as_str()), (202, "{\"spooled\":2}"));
    let lines = "{\"payload\":\"x\"}\n{\"payload_base64\":\"eA==\",\"segment\":\"s\"}";
    let answer = rig.ask("POST", "/v1/streams/shop/orders/messages", "application/x-ndjson", lines).await;
    assert_eq!((answer.status, answer.body.as_str()), (202, "{\"spooled\":2}"));
    for (path, body, status, code) in [
        ("/v1/reports", "nonsense", 400, "unreadable"),
        ("/v1/reports", "[]", 422, "not_an_object"),
        ("/v1/queues/shop/mail/jobs", "{\"jobs\":[]}", 422, "too_many_jobs"),
        ("/v1/queues/shop/mail/jobs", "{\"jobs\":1}", 422, "wrong_type"),
        ("/v1/queues/shop/mail/consume", "{}", 404, "unknown_route"),
    ] {
        let answer = rig.json("POST", path, body).await;
        assert_eq!(
            (answer.status, answer.text("code").as_str()),
            (status, code),
            "{path} {body}: {answer:?}"
        );
    }
    rig.until(|state| state["forwarded"] == 4).await;
    assert_eq!(rig.server.payloads("shop/orders").await.len(), 2);
    assert_eq!(rig.server.get("/v1/devices/a2").await["state"]["value"], 2);
}

#[tokio::test]
async fn a_foreign_page_hands_nothing_in() {
    let rig = SpoolRig::start(&[]).await;
    let address = rig.site.http.address().await;
    for (host, origin, status) in [
        ("localhost", "", 202),
        ("evil.example", "", 403),
        ("localhost", "\nOrigin: http://evil.example", 403),
        ("localhost", "\nOrigin: null", 403),
    ] {
        let head = format!("POST /v1/streams/shop/orders/messages HTTP/1.1\nHost: {host}{origin}");
        let answer = wire::send(address, &head, b"{\"payload\":1}").await;
        assert_eq!(answer.status, status, "{head}: {answer:?}");
        assert!(status == 202 || answer.text("code") == "foreign_origin", "{head}: {answer:?}");
    }
    rig.until(|state| state["forwarded"] == 1 && state["waiting"] == 0).await;
}

#[tokio::test]
async fn a_request_with_a_key_of_its_own_takes_effect_once() {
    let rig = SpoolRig::start(&[]).await;
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "mine")];
    for _ in 0..3 {
        let body = b"{\"jobs\":[{\"payload\":1},{\"payload\":2}]}";
        let answer = rig.send("/v1/queues/shop/mail/jobs", &headers, body).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, "{\"spooled\":2}"));
    }
    rig.until(|state| state["forwarded"] == 6).await;
    assert_eq!(rig.server.consumed("shop/mail").await, [json!(1), json!(2)]);
}

#[tokio::test]
async fn the_time_that_a_job_waits_in_the_spool_counts_for_its_delay() {
    const OUTAGE: Duration = Duration::from_secs(6);
    let mut rig = SpoolRig::start(&[]).await;
    rig.server.kill().await;
    rig.spooled("/v1/queues/shop/mail/jobs", &json!({"payload": 1, "delay": "1h"})).await;
    let accepted = SystemTime::now();
    rig.until(|_| accepted.elapsed().is_ok_and(|waited| waited > OUTAGE)).await;
    rig.server.start_again().await;
    rig.until(|state| state["waiting"] == 0).await;
    let jobs = rig.server.get("/v1/queues/shop/mail/jobs").await;
    let run_at =
        jobs["items"][0]["run_at"].as_str().and_then(|at| Timestamp::parse(at).ok()).expect("a time");
    let accepted_ms = accepted.duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let late_ms = run_at.0 - accepted_ms - 3_600_000;
    assert!(late_ms < OUTAGE.as_millis() as i64, "{late_ms} ms late: {jobs}");
}

#[tokio::test]
async fn its_figures_are_at_metrics() {
    let rig = SpoolRig::start(&[]).await;
    rig.spooled("/v1/streams/shop/orders/messages", &json!({"payload": 1})).await;
    rig.until(|state| state["forwarded"] == 1).await;
    let metrics = rig.ask("GET", "/metrics", "text/plain", "").await;
    for line in
        ["fieldpost_spool_forwarded_total 1", "fieldpost_spool_waiting 0", "fieldpost_spool_damaged_total 0"]
    {
        assert!(metrics.body.contains(line), "{line}:\n{}", metrics.body);
    }
}

#[tokio::test]
async fn only_one_agent_has_a_directory() {
    let rig = SpoolRig::start(&[]).await;
    let second = rig.site.start(rig::PATIENCE).await;
    let told = second.expect_err("it is in use").to_string();
    assert!(told.contains("in use by another spool"), "{told}");
}
