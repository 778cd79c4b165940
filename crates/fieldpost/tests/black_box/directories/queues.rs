//! What happens in queues of jobs until a data directory has something of everything; shared with
//! the program that makes the fixture.
//!
//! Whatever waits does so for almost ten years, so that nothing happens by itself afterwards. Two
//! queues, each in a partition of its own, have more jobs than [`SETTINGS`](super::story::SETTINGS)
//! let be in memory. Of the one those of later are parked, of the other the ends of its lines.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::endpoint::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The namespace of the queues that stay.
pub(crate) const STAYS: &str = "shop";
/// A queue that is deleted at the end. It is in the partition of the one whose jobs of later are
/// parked, so that its jobs are too.
pub(crate) const LEAVES: &str = "/v1/queues/leaving/birthdays";

/// Its jobs.
pub(crate) const LEAVING: u32 = 300;

const LONG: &str = "3650d";
/// More than are in memory, in two calls.
const CALLS: [usize; 2] = [1_000, 40];

/// Fills queues.
pub(crate) async fn fill(api: &ApiClient, http: &Endpoint) {
    publish_of_each_kind(api).await;
    keyed(http).await;
    reserve(api).await;
    fail(api).await;
    set(api).await;
    crowd(api).await;
}

/// Jobs that differ in what holds of them.
async fn publish_of_each_kind(api: &ApiClient) {
    let leaving = (0..LEAVING).map(|turn| json!({"payload": turn, "delay": LONG})).collect::<Vec<_>>();
    publish(api, LEAVES, &json!({"jobs": leaving})).await;
    for job in [
        json!({"payload": {"order": 7, "of": "ütf-8"}, "tries": 3}),
        json!({"payload_base64": "AP/+", "delay": "3600d", "alias": "later"}),
        json!({"payload": 2, "run_at": "2036-02-29T12:00:00.250Z"}),
        json!({"payload": null, "ttl": LONG}),
        json!({"payload": "first", "group": "g", "delay": "3600d"}),
        json!({"payload": "second", "group": "g", "delay": "3600d", "ttl": LONG}),
        json!({"payload": "again", "every": LONG, "executions": 3, "alias": "again", "tries": 2}),
        json!({"payload": "at eight", "cron": "0 8 * * *", "tz": "Europe/Berlin", "run_at": "2036-01-01T00:00:00Z"}),
    ] {
        publish(api, "/v1/queues/shop/invoices", &job).await;
    }
}

/// Publishes under a key: a job, or the answer of before.
pub(crate) async fn keyed(http: &Endpoint) -> Value {
    let body = r#"{"payload":"only once"}"#;
    let request = format!(
        "POST /v1/queues/shop/invoices/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nIdempotency-Key: once\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(http.address().await).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let (_, answer) = answer.split_once("\r\n\r\n").expect("a head and a body");
    serde_json::from_str(answer).expect("JSON")
}

/// Jobs that consumers have, one with what comes after it; and one that was given back.
async fn reserve(api: &ApiClient) {
    let path = "/v1/queues/shop/mail";
    for job in [
        json!({"payload": "held", "tries": 2}),
        json!({"payload": "held and replaced", "alias": "replaced", "tries": 2}),
        json!({"payload": "given back", "tries": 5, "group": "g"}),
    ] {
        publish(api, path, &job).await;
    }
    let held = consume(api, "shop/mail", 3).await;
    assert_eq!(held.len(), 3, "{held:?}");
    let later = json!({"delay": "3600d", "error": "not now"});
    assert_eq!(tell(api, "shop/mail", &held[2], "release", later).await, StatusCode::NO_CONTENT);
    let next = json!({"payload": "next", "alias": "replaced", "on_conflict": "replace", "ttl": LONG});
    publish(api, path, &next).await;
}

/// Jobs whose last try came to nothing, in either way.
async fn fail(api: &ApiClient) {
    let path = "/v1/queues/shop/letters";
    set_queue(api, path, &json!({"dead_max": 7, "dead_max_age": LONG})).await;
    publish(api, path, &json!({"payload": "given up", "group": "g", "alias": "free again"})).await;
    let [released] = &consume(api, "shop/letters", 1).await[..] else { panic!("it is ready") };
    let why = json!({"error": "no such street"});
    assert_eq!(tell(api, "shop/letters", released, "release", why).await, StatusCode::NO_CONTENT);
    publish(api, path, &json!({"payload_base64": "AP8="})).await;
    let asked = json!({"ttr": "1ms"});
    let held: Value = api.post(&format!("{path}/consume"), &asked).await.expect("consumed");
    assert_eq!(held["jobs"][0]["attempt"], 1, "{held}");
    let both = |queue: &Value| queue["dead"] == 2;
    let _dead: Value = api.until(path, super::story::PATIENCE, both).await.expect("it is out of time");
}

/// Queues that are there for what they are set to.
async fn set(api: &ApiClient) {
    let all = json!({"order": "lifo", "concurrency": 3, "rate": 2.5, "jobs_max": 100, "dead_max": 0, "dead_max_age": "1h"});
    set_queue(api, "/v1/queues/shop/sweets", &all).await;
    publish(api, "/v1/queues/shop/trucks", &json!({"payload": "waits"})).await;
    let paused = api.any(Method::POST, "/v1/queues/shop/trucks/pause", None).await.expect("answered");
    assert_eq!(paused.status, StatusCode::NO_CONTENT);
}

/// More jobs than are in memory, some with aliases: those that wait for their time, and those that
/// wait for a worker.
async fn crowd(api: &ApiClient) {
    let mut turns = 0..;
    for size in CALLS {
        let turns: Vec<u32> = turns.by_ref().take(size).collect();
        let aliased = |turn: u32, mut job: Value| {
            if turn.is_multiple_of(10) {
                job["alias"] = format!("n{turn}").into();
            }
            job
        };
        let hours = |turn: &u32| format!("{}h", 86_000 + turn);
        let later = |turn: &u32| aliased(*turn, json!({"payload": turn, "delay": hours(turn)}));
        let jobs = turns.iter().map(later).collect::<Vec<_>>();
        publish(api, "/v1/queues/shop/birthdays", &json!({"jobs": jobs})).await;
        let ready = |turn: &u32| match turn % 3 {
            0 => aliased(*turn, json!({"payload": turn, "group": "g"})),
            1 => aliased(*turn, json!({"payload": turn, "ttl": LONG})),
            _ => aliased(*turn, json!({"payload": turn, "tries": 2})),
        };
        let jobs = turns.iter().map(ready).collect::<Vec<_>>();
        publish(api, "/v1/queues/shop/backlog", &json!({"jobs": jobs})).await;
    }
}

/// Deletes the queue that leaves: what it held is swept from then on.
pub(crate) async fn delete_the_leaving(api: &ApiClient) {
    let deleted = api.any(Method::DELETE, LEAVES, None).await.expect("answered");
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
}

async fn publish(api: &ApiClient, queue: &str, jobs: &Value) {
    let _published: Value = api.post(&format!("{queue}/jobs"), jobs).await.expect("published");
}

/// Jobs of a queue, for long.
pub(crate) async fn consume(api: &ApiClient, queue: &str, max: usize) -> Vec<Value> {
    let asked = json!({"max": max, "ttr": LONG});
    let answer: Value = api.post(&format!("/v1/queues/{queue}/consume"), &asked).await.expect("consumed");
    answer["jobs"].as_array().cloned().unwrap_or_default()
}

/// Tells what became of a job: `ack` or `release`; the status of the answer.
pub(crate) async fn tell(
    api: &ApiClient,
    queue: &str,
    job: &Value,
    what: &str,
    mut said: Value,
) -> StatusCode {
    said["reservation"] = job["reservation"].clone();
    let path = format!("/v1/queues/{queue}/jobs/{}/{what}", job["id"].as_str().unwrap_or_default());
    api.any(Method::POST, &path, Some(&said)).await.expect("answered").status
}

async fn set_queue(api: &ApiClient, queue: &str, settings: &Value) {
    let set = api.any(Method::PUT, &format!("{queue}/settings"), Some(settings)).await.expect("answered");
    assert_eq!(set.status, StatusCode::NO_CONTENT);
}
