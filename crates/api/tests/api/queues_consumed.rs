//! Consuming: who gets a job, what can be done with it, and what becomes of those that fail for
//! good.

use std::time::Duration;

use axum::body::Body;
use serde_json::Value as Json;

use crate::queues::publish;
use crate::rig::{Server, names, request};

const Q: &str = "/v1/queues/mail/out";

/// Consumes up to `max` jobs.
async fn consume(server: &Server, max: usize) -> Vec<Json> {
    let answer = server.check(&format!("POST {Q}/consume"), &format!(r#"{{"max":{max}}}"#), 200, "{}").await;
    answer["jobs"].as_array().expect("jobs").clone()
}

async fn consume_one(server: &Server) -> (String, String) {
    let jobs = consume(server, 1).await;
    let text = |name: &str| jobs[0][name].as_str().expect("a text").to_owned();
    (text("id"), text("reservation"))
}

fn with(reservation: &str, more: &str) -> String {
    format!(r#"{{"reservation":"{reservation}"{more}}}"#)
}

#[tokio::test]
async fn a_consumed_job_is_its_consumers() {
    let server = Server::start().await;
    let id = publish(&server, r#"{"payload":{"a":1},"tries":2,"alias":"x"}"#).await;
    let job = consume(&server, 10).await.remove(0);
    let mut members =
        vec!["id", "queue", "payload", "attempt", "tries", "reservation", "published_at", "run_at", "alias"];
    members.sort_unstable();
    let mut found = names(&job);
    found.sort_unstable();
    assert_eq!(found, members);
    assert_eq!((job["id"].as_str(), job["queue"].as_str()), (Some(id.as_str()), Some("out")));
    assert_eq!((job["attempt"].as_u64(), job["tries"].as_u64()), (Some(1), Some(2)));
    server.check(&format!("GET {Q}/jobs/{id}"), "", 200, r#"{"state":"reserved","attempt":1}"#).await;
    server.check(&format!("PATCH {Q}/jobs/{id}"), r#"{"payload":2}"#, 409, "job_reserved").await;
    assert_eq!(consume(&server, 10).await, Vec::<Json>::new());
    let reservation = job["reservation"].as_str().expect("text");
    server.check(&format!("POST {Q}/jobs/{id}/ack"), &with(reservation, ""), 204, "").await;
    server.check(&format!("GET {Q}/jobs/{id}"), "", 404, "unknown_job").await;
    server.check(&format!("POST {Q}/jobs/{id}/ack"), &with(reservation, ""), 409, "stale_reservation").await;
}

#[tokio::test]
async fn a_reservation_can_be_extended_and_ends_with_its_time() {
    let server = Server::start().await;
    publish(&server, r#"{"payload":1,"tries":9}"#).await;
    let (id, held) = consume_one(&server).await;
    let extend = format!("POST {Q}/jobs/{id}/extend");
    server.clock.advance(Duration::from_secs(100));
    server.check(&extend, &with(&held, r#","ttr":"100s""#), 204, "").await;
    server.clock.advance(Duration::from_secs(90));
    assert!(consume(&server, 1).await.is_empty(), "it holds");
    server.clock.advance(Duration::from_secs(11));
    server.check(&extend, &with(&held, r#","ttr":"100s""#), 409, "stale_reservation").await;
    let (again, other) = consume_one(&server).await;
    assert_eq!(again, id);
    assert_ne!(other, held);
    server.check(&format!("POST {Q}/jobs/{id}/ack"), &with(&held, ""), 409, "stale_reservation").await;
    server.check(&format!("POST {Q}/jobs/{id}/ack"), &with(&other, ""), 204, "").await;
}

#[tokio::test]
async fn a_retry_is_shown_with_the_time_at_which_it_comes() {
    let server = Server::start().await;
    let id = publish(&server, r#"{"payload":1,"tries":3}"#).await;
    let first = consume(&server, 1).await.remove(0);
    let held = first["reservation"].as_str().expect("text");
    server.check(&format!("POST {Q}/jobs/{id}/release"), &with(held, r#","delay":"1h""#), 204, "").await;
    let job = server.get(&format!("{Q}/jobs/{id}")).await;
    assert!(job["run_at"].as_str() > first["run_at"].as_str(), "{job}");
    let later = r#"{"state":"scheduled","run_at":"2026-11-21T05:00:00.000Z"}"#;
    server.check(&format!("PATCH {Q}/jobs/{id}"), r#"{"run_at":"2026-11-21T05:00:00Z"}"#, 200, later).await;
    server.check(&format!("GET {Q}/jobs/{id}"), "", 200, later).await;
    server.check(&format!("GET {Q}/jobs"), "", 200, &format!(r#"{{"items":[{later}]}}"#)).await;
    server.clock.advance(Duration::from_secs(5 * 3_600));
    let second = consume(&server, 1).await.remove(0);
    assert_eq!((&second["attempt"], &second["run_at"]), (&Json::from(2), &first["run_at"]));
}

#[tokio::test]
async fn a_released_job_comes_again_until_its_last_try() {
    let server = Server::start().await;
    publish(&server, r#"{"payload":1,"tries":2}"#).await;
    let (id, held) = consume_one(&server).await;
    let release = format!("POST {Q}/jobs/{id}/release");
    server.check(&release, &with(&held, r#","delay":"1h","error":"later""#), 204, "").await;
    server.check(&format!("GET {Q}"), "", 200, r#"{"scheduled":1,"ready":0,"dead":0}"#).await;
    server.check(&release, &with(&held, ""), 409, "stale_reservation").await;
    server.clock.advance(Duration::from_secs(3_600));
    let (_, held) = consume_one(&server).await;
    server.check(&release, &with(&held, r#","error":"no \"luck\"""#), 204, "").await;
    server.check(&format!("GET {Q}"), "", 200, r#"{"scheduled":0,"ready":0,"dead":1}"#).await;
    let dead = format!(
        r#"{{"items":[{{"id":"{id}","payload":1,"attempt":2,"tries":2,"reason":"released","error":"no \"luck\"","died_at":"*"}}]}}"#
    );
    server.check(&format!("GET {Q}/dead"), "", 200, &dead).await;
    server.check(&format!("GET {Q}/jobs/{id}"), "", 404, "unknown_job").await;
    server.check(&release, &with(&held, ""), 409, "stale_reservation").await;
}

#[tokio::test]
async fn a_reservation_is_good_for_its_own_job_only() {
    let server = Server::start().await;
    publish(&server, r#"{"payload":1}"#).await;
    let other = publish(&server, r#"{"payload":2}"#).await;
    let (id, held) = consume_one(&server).await;
    for action in ["ack", "release"] {
        for (path, reservation, status, code) in [
            (format!("{Q}/jobs/{other}"), held.as_str(), 409, "stale_reservation"),
            (format!("/v1/queues/mail/other/jobs/{id}"), held.as_str(), 409, "stale_reservation"),
            (format!("/v1/queues/other/out/jobs/{id}"), held.as_str(), 409, "stale_reservation"),
            (format!("{Q}/jobs/{id}"), "nonsense", 409, "stale_reservation"),
            (format!("{Q}/jobs/{id}"), "", 409, "stale_reservation"),
            (format!("{Q}/jobs/nonsense"), held.as_str(), 404, "unknown_job"),
        ] {
            server.check(&format!("POST {path}/{action}"), &with(reservation, ""), status, code).await;
        }
    }
    server.check(&format!("DELETE {Q}/jobs/{id}"), "", 204, "").await;
    server.check(&format!("POST {Q}/jobs/{id}/ack"), &with(&held, ""), 409, "stale_reservation").await;
}

#[tokio::test]
async fn many_are_acknowledged_at_once() {
    let server = Server::start().await;
    for n in 0..3 {
        publish(&server, &format!(r#"{{"payload":{n}}}"#)).await;
    }
    let jobs = consume(&server, 3).await;
    let held = |n: usize| jobs[n]["reservation"].as_str().expect("text");
    let body = format!(r#"{{"reservations":["{0}","x","{1}","{0}"]}}"#, held(0), held(1));
    let stale = format!(r#"{{"acked":2,"stale":["x","{}"]}}"#, held(0));
    server.check(&format!("POST {Q}/ack"), &body, 200, &stale).await;
    server.check(&format!("GET {Q}"), "", 200, r#"{"reserved":1}"#).await;
    server.check(&format!("POST {Q}/ack"), r#"{"reservations":[]}"#, 200, r#"{"acked":0,"stale":[]}"#).await;
    let elsewhere = format!(r#"{{"reservations":["{}"]}}"#, held(2));
    let stale = format!(r#"{{"acked":0,"stale":["{}"]}}"#, held(2));
    server.check("POST /v1/queues/mail/other/ack", &elsewhere, 200, &stale).await;
}

#[tokio::test]
async fn later_queues_fill_up_what_is_left_of_max() {
    let server = Server::start().await;
    for queue in ["low", "high"] {
        for n in 0..2 {
            let call = format!("POST /v1/queues/mail/{queue}/jobs");
            server.check(&call, &format!(r#"{{"payload":"{queue}{n}"}}"#), 201, "{}").await;
        }
    }
    for expect in [&["high0", "high1", "low0"][..], &["low1"], &[]] {
        let answer = server.check("POST /v1/queues/mail/high,low/consume", r#"{"max":3}"#, 200, "{}").await;
        let jobs = answer["jobs"].as_array().expect("jobs").iter();
        let found: Vec<_> = jobs.map(|job| job["payload"].as_str().expect("text")).collect();
        assert_eq!(found, expect);
    }
}

#[tokio::test]
async fn a_consumer_waits_for_the_first_job() {
    let server = Server::start().await;
    for queues in ["out", "none,out"] {
        let call = format!("POST /v1/queues/mail/{queues}/consume");
        let waiting = server.check(&call, r#"{"wait":"5m","max":5}"#, 200, r#"{"jobs":[{"payload":1}]}"#);
        let publishing = async {
            // The consumer is asked first, and polled first.
            tokio::task::yield_now().await;
            publish(&server, r#"{"payload":1}"#).await
        };
        let (answer, id) = futures_util::future::join(waiting, publishing).await;
        assert_eq!(answer["jobs"][0]["id"], id.as_str());
    }
}

#[tokio::test]
async fn a_paused_queue_gives_nothing_out() {
    let server = Server::start().await;
    server.check(&format!("POST {Q}/pause"), "", 204, "").await;
    publish(&server, r#"{"payload":1}"#).await;
    assert!(consume(&server, 1).await.is_empty());
    server.check(&format!("GET {Q}"), "", 200, r#"{"paused":true,"ready":1}"#).await;
    server.check(&format!("POST {Q}/resume"), "", 204, "").await;
    assert_eq!(consume(&server, 1).await.len(), 1);
}

#[tokio::test]
async fn an_answer_that_nobody_takes_gives_its_jobs_back() {
    let server = Server::start().await;
    publish(&server, r#"{"payload":1}"#).await;
    let unread = request(&format!("POST {Q}/consume"), "").body(Body::empty()).expect("a request");
    let response = server.answer(unread).await;
    assert_eq!(response.status(), 200);
    server.check(&format!("GET {Q}"), "", 200, r#"{"reserved":1}"#).await;
    drop(response);
    let job = consume(&server, 1).await.remove(0);
    assert_eq!(job["attempt"], 1, "as if it had not been taken");
}

/// `count` dead letters, oldest first.
async fn bury(server: &Server, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        publish(server, &format!(r#"{{"payload":{n},"alias":"a{n}"}}"#)).await;
        let (id, held) = consume_one(server).await;
        server.check(&format!("POST {Q}/jobs/{id}/release"), &with(&held, ""), 204, "").await;
        ids.push(id);
    }
    ids
}

#[tokio::test]
async fn dead_jobs_are_read_tried_again_and_deleted() {
    let server = Server::start().await;
    let ids = bury(&server, 5).await;
    let page = server.get(&format!("{Q}/dead?limit=3")).await;
    let next = page["next_cursor"].as_str().expect("there are more");
    let rest = server.get(&format!("{Q}/dead?limit=3&cursor={next}")).await;
    let both = [&page, &rest].map(|page| page["items"].as_array().expect("items").clone()).concat();
    assert_eq!(both.iter().map(|job| job["id"].as_str().expect("an id")).collect::<Vec<_>>(), ids);
    let respawn = format!("POST {Q}/dead/respawn");
    let named = format!(r#"{{"ids":["{}","nonsense","{}"]}}"#, ids[3], ids[3]);
    server.check(&respawn, &named, 200, r#"{"respawned":1}"#).await;
    server.check(&format!("GET {Q}/aliases/a3"), "", 200, r#"{"state":"ready","attempt":0,"tries":1}"#).await;
    server.check(&respawn, r#"{"limit":1}"#, 200, r#"{"respawned":1}"#).await;
    server.check(&format!("GET {Q}/jobs/{}", ids[0]), "", 200, r#"{"state":"ready","payload":0}"#).await;
    server.check(&format!("GET {Q}"), "", 200, r#"{"ready":2,"dead":3}"#).await;
    server.check(&respawn, "", 200, r#"{"respawned":3}"#).await;
    server.check(&respawn, "{}", 200, r#"{"respawned":0}"#).await;
    bury(&server, 0).await;
    let (id, held) = consume_one(&server).await;
    server.check(&format!("POST {Q}/jobs/{id}/release"), &with(&held, ""), 204, "").await;
    server.check(&format!("DELETE {Q}/dead"), "", 204, "").await;
    server.check(&format!("GET {Q}/dead"), "", 200, r#"{"items":[],"next_cursor":null}"#).await;
    server.check(&format!("GET {Q}"), "", 200, r#"{"ready":4,"dead":0}"#).await;
}
