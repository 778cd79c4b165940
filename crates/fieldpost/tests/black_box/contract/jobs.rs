//! Queues of jobs over HTTP: what a publisher and a consumer are promised, also across `kill -9`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::contract::rig::{PATIENCE, Rig};
use crate::wire::{self, Answer};

const Q: &str = "/v1/queues/mail/out";

impl Rig {
    /// POST of JSON to a path below the queue, which has to succeed.
    async fn queue(&self, path: &str, body: Value) -> Value {
        let answer = self.json("POST", &format!("{Q}{path}"), &body.to_string()).await;
        assert!(answer.status < 300, "{path} {body}: {answer:?}");
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    async fn publish(&self, job: Value) -> String {
        text(&self.queue("/jobs", job).await["jobs"][0]["id"])
    }

    async fn consume(&self, asked: Value) -> Vec<Value> {
        self.queue("/consume", asked).await["jobs"].as_array().expect("jobs").clone()
    }

    /// What is told of a job: `ack`, `extend` or `release`; the status of the answer.
    async fn tell(&self, job: &Value, what: &str, more: Value) -> u16 {
        let mut body = json!({"reservation": job["reservation"]});
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        let path = format!("{Q}/jobs/{}/{what}", text(&job["id"]));
        self.json("POST", &path, &body.to_string()).await.status
    }

    /// Returns once so many consumers wait.
    async fn until_waiting(&self, count: usize) {
        let expect = format!("fieldpost_engine_waiting_consumers {count}\n");
        let told = async { while !self.ask("GET", "/metrics", "", "").await.body.contains(&expect) {} };
        timeout(PATIENCE, told).await.expect("they all come to wait");
    }

    async fn keyed(&self, key: &str, body: &Value) -> Answer {
        let headers = [("Idempotency-Key", key)];
        let address = self.site.http.address().await;
        wire::ask(address, "POST", &format!("{Q}/jobs"), &headers, body.to_string().as_bytes()).await
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// A job without what every run has anew.
fn of_it(job: &Value) -> Value {
    json!([job["id"], job["payload"], job["attempt"], job["tries"]])
}

const REFUSALS: &[(&str, &str, &str, u16, &str)] = &[
    ("POST", "/jobs", "{}", 422, "missing_field"),
    ("POST", "/jobs", r#"{"payload":1"#, 400, "unreadable"),
    ("POST", "/jobs", r#"{"payload":1,"hue":2}"#, 422, "unknown_field"),
    ("POST", "/jobs", r#"{"payload":1,"payload_base64":"AA=="}"#, 422, "conflicting_fields"),
    (
        "POST",
        "/jobs",
        r#"{"payload":1,"delay":"1s","run_at":"2030-01-01T00:00:00Z"}"#,
        422,
        "conflicting_fields",
    ),
    ("POST", "/jobs", r#"{"payload":1,"delay":"4000d"}"#, 422, "invalid_duration"),
    ("POST", "/jobs", r#"{"payload":1,"tries":0}"#, 422, "invalid_tries"),
    ("POST", "/jobs", r#"{"payload":1,"alias":"held"}"#, 409, "alias_taken"),
    (
        "POST",
        "/jobs",
        r#"{"jobs":[{"payload":1,"alias":"x"},{"payload":1,"alias":"x"}]}"#,
        409,
        "alias_repeated",
    ),
    ("POST", "/jobs", r#"{"jobs":[]}"#, 422, "too_many_jobs"),
    ("POST", "/jobs", r#"{"payload":1,"cron":"* * *"}"#, 422, "invalid_schedule"),
    ("POST", "/consume", r#"{"max":0}"#, 422, "invalid_number"),
    ("POST", "/consume", r#"{"wait":"6m"}"#, 422, "invalid_duration"),
    ("POST", "/ack", r#"{"reservation":"x"}"#, 422, "unknown_field"),
    ("POST", "/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/ack", r#"{"reservation":"x"}"#, 409, "stale_reservation"),
    ("GET", "/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", 404, "unknown_job"),
    ("GET", "/jobs/x", "", 404, "unknown_job"),
    ("GET", "/aliases/x", "", 404, "unknown_job"),
    ("GET", "/jobs?state=done", "", 422, "invalid_parameter"),
    ("GET", "/jobs?cursor=abc", "", 400, "invalid_cursor"),
    ("PUT", "/settings", r#"{"rate":0}"#, 422, "invalid_number"),
    ("PUT", "/settings", r#"{"order":"any"}"#, 422, "unknown_word"),
    ("PATCH", "/aliases/held", r#"{"ttl":"1s"}"#, 422, "unknown_field"),
    ("PUT", "/jobs", "{}", 405, "method_not_allowed"),
];

#[tokio::test]
async fn what_may_not_be_is_refused_with_its_reason() {
    let rig = Rig::start(&[]).await;
    rig.publish(json!({"payload": 1, "alias": "held"})).await;
    for (method, path, body, status, code) in REFUSALS {
        let answer = rig.json(method, &format!("{Q}{path}"), body).await;
        let row = format!("{method} {path} {body}: {answer:?}");
        assert_eq!((answer.status, answer.text("code").as_str()), (*status, *code), "{row}");
    }
    for (path, code) in
        [("/v1/queues/mail/_own/jobs", "reserved_name"), ("/v1/queues/a.b/out/jobs", "invalid_name")]
    {
        let answer = rig.json("POST", path, r#"{"payload":1}"#).await;
        assert_eq!((answer.status, answer.text("code").as_str()), (422, code), "{path}");
    }
    let large = format!(r#"{{"payload":"{}"}}"#, "x".repeat(1_048_575));
    let answer = rig.json("POST", &format!("{Q}/jobs"), &large).await;
    assert_eq!((answer.status, answer.text("code").as_str()), (422, "payload_too_large"));
    let larger = format!(r#"{{"payload":"{}"}}"#, "x".repeat(16 * 1_024 * 1_024));
    let answer = rig.json("POST", &format!("{Q}/jobs"), &larger).await;
    assert_eq!((answer.status, answer.text("code").as_str()), (413, "body_too_large"));
}

#[tokio::test]
async fn reservations_and_attempts_survive_a_kill() {
    let mut rig = Rig::start(&[]).await;
    for n in 0..3 {
        rig.publish(json!({"payload": n, "tries": 3, "alias": format!("a{n}")})).await;
    }
    let jobs = rig.consume(json!({"max": 3, "ttr": "1h"})).await;
    assert_eq!(rig.tell(&jobs[2], "release", json!({"error": "later"})).await, 204);
    rig.restart().await;
    assert_eq!(rig.tell(&jobs[0], "ack", json!({})).await, 204);
    assert_eq!(rig.tell(&jobs[1], "extend", json!({"ttr": "2h"})).await, 204);
    assert_eq!(rig.tell(&jobs[2], "ack", json!({})).await, 409, "it was given back");
    let again = rig.consume(json!({"max": 3})).await;
    let expect = [json!([jobs[2]["id"], 2, 2, 3])];
    assert_eq!(again.iter().map(of_it).collect::<Vec<_>>(), expect, "what is held stays held");
    rig.restart().await;
    for (job, status) in [(&jobs[0], 409), (&jobs[1], 204), (&again[0], 204)] {
        assert_eq!(rig.tell(job, "ack", json!({})).await, status, "{job}");
    }
    let queue = rig.get(Q).await;
    let left = json!([queue["scheduled"], queue["ready"], queue["reserved"], queue["dead"]]);
    assert_eq!(left, json!([0, 0, 0, 0]));
}

#[tokio::test]
async fn pauses_settings_and_dead_letters_survive_a_kill() {
    let mut rig = Rig::start(&[]).await;
    let settings = r#"{"order":"lifo","dead_max":7}"#;
    assert_eq!(rig.json("PUT", &format!("{Q}/settings"), settings).await.status, 204);
    for n in 0..3 {
        rig.publish(json!({"payload": n})).await;
    }
    let job = rig.consume(json!({})).await.remove(0);
    assert_eq!(rig.tell(&job, "release", json!({"error": "no"})).await, 204);
    rig.queue("/pause", json!({})).await;
    rig.restart().await;
    let queue = rig.get(Q).await;
    assert_eq!(json!([queue["paused"], queue["ready"], queue["dead"]]), json!([true, 2, 1]));
    assert_eq!(json!([queue["settings"]["order"], queue["settings"]["dead_max"]]), json!(["lifo", 7]));
    assert!(rig.consume(json!({})).await.is_empty());
    let dead = rig.items(&format!("{Q}/dead")).await;
    assert_eq!(
        json!([dead[0]["id"], dead[0]["reason"], dead[0]["error"]]),
        json!([job["id"], "released", "no"])
    );
    assert_eq!(rig.queue("/dead/respawn", json!({"ids": [job["id"]]})).await["respawned"], 1);
    rig.queue("/resume", json!({})).await;
    rig.restart().await;
    let jobs = rig.consume(json!({"max": 5})).await;
    assert_eq!(jobs.len(), 3);
    assert!(jobs.iter().all(|job| job["attempt"] == 1), "{jobs:?}");
}

#[tokio::test]
async fn executions_that_are_left_survive_a_kill() {
    let mut rig = Rig::start(&[]).await;
    let job = json!({"payload": 1, "alias": "a", "every": "1h", "executions": 2, "delay": "0s"});
    let id = rig.publish(job).await;
    for run in 0..2 {
        let shown = rig.get(&format!("{Q}/jobs/{id}")).await;
        assert_eq!((&shown["every"], &shown["executions_left"]), (&json!("1h"), &json!(2 - run)));
        let job = rig.consume(json!({})).await.remove(0);
        assert_eq!((text(&job["id"]), &job["attempt"]), (id.clone(), &json!(1)), "run {run}");
        assert_eq!(rig.tell(&job, "ack", json!({})).await, 204);
        rig.restart().await;
        let shown = rig.json("PATCH", &format!("{Q}/aliases/a"), r#"{"delay":"0s"}"#).await;
        assert_eq!(shown.status, if run == 0 { 200 } else { 404 }, "{shown:?}");
    }
    assert!(rig.consume(json!({})).await.is_empty());
}

#[tokio::test]
async fn idempotency_keys_of_jobs_survive_a_kill() {
    let mut rig = Rig::start(&[]).await;
    let body = json!({"jobs": [{"payload": 1}, {"payload": 2, "delay": "1h"}]});
    let first = rig.keyed("k", &body).await;
    assert_eq!(first.status, 201, "{first:?}");
    rig.restart().await;
    let again = rig.keyed("k", &body).await;
    assert_eq!((again.status, &again.body), (201, &first.body));
    let other = rig.keyed("k", &json!({"payload": 1})).await;
    assert_eq!((other.status, other.text("code").as_str()), (422, "idempotency_key_reused"));
    let queue = rig.get(Q).await;
    assert_eq!(json!([queue["ready"], queue["scheduled"]]), json!([1, 1]));
}

#[tokio::test]
async fn numbers_and_bytes_come_back_as_they_were_given_after_a_kill() {
    let mut rig = Rig::start(&[]).await;
    let payloads = [
        (
            r#""payload":{"b": 1.50, "a":[1E+2, 12345678901234567890123]}"#,
            r#""payload":{"b":1.50,"a":[1E+2,12345678901234567890123]}"#,
        ),
        (r#""payload": [1e300, -0]"#, r#""payload":[1e300,-0]"#),
        (r#""payload":"\u00e9  é \\\" b""#, r#""payload":"\u00e9  é \\\" b""#),
        (r#""payload":{"a":1,"a":2}"#, r#""payload":{"a":1,"a":2}"#),
        (r#""payload":null"#, r#""payload":null"#),
        (r#""payload_base64":"AP8=""#, r#""payload_base64":"AP8=""#),
        (r#""payload_base64":"""#, r#""payload_base64":"""#),
    ];
    for (given, _) in payloads {
        let answer = rig.json("POST", &format!("{Q}/jobs"), &format!("{{{given}}}")).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    rig.restart().await;
    let listed = rig.json("GET", &format!("{Q}/jobs"), "").await;
    let consumed = rig.json("POST", &format!("{Q}/consume"), r#"{"max":10}"#).await;
    for (_, shown) in payloads {
        for body in [&listed.body, &consumed.body] {
            assert!(body.contains(&format!("{shown},")), "{shown} is not in {body}");
        }
    }
}

/// A consumer on a connection of its own, which has asked and not yet read.
async fn waiting(rig: &Rig) -> TcpStream {
    let mut stream = TcpStream::connect(rig.site.http.address().await).await.expect("it listens");
    let body = r#"{"wait":"5m"}"#;
    let head = format!(
        "POST {Q}/consume HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("it reads");
    stream
}

async fn answered(mut stream: TcpStream) -> Value {
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("in time").expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but {answer:?}"));
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[tokio::test]
async fn every_waiting_consumer_gets_a_job_of_its_own() {
    let rig = Rig::start(&[]).await;
    let mut consumers = Vec::new();
    for _ in 0..200 {
        consumers.push(waiting(&rig).await);
    }
    rig.until_waiting(200).await;
    let jobs: Vec<_> = (0..200).map(|n| json!({"payload": n})).collect();
    rig.queue("/jobs", json!({"jobs": jobs})).await;
    let mut seen = BTreeSet::new();
    for consumer in consumers {
        let answer = answered(consumer).await;
        let jobs = answer["jobs"].as_array().expect("jobs");
        assert_eq!(jobs.len(), 1, "{answer}");
        assert!(seen.insert(jobs[0]["payload"].as_u64().expect("a number")), "{answer} came twice");
    }
    assert_eq!(seen.len(), 200);
}

#[tokio::test]
async fn a_consumer_that_hung_up_takes_no_job_with_it() {
    let rig = Rig::start(&[]).await;
    let mut consumers = Vec::new();
    for _ in 0..20 {
        consumers.push(waiting(&rig).await);
    }
    rig.until_waiting(20).await;
    let patient = waiting(&rig).await;
    rig.until_waiting(21).await;
    // They come first in line; whatever goes to one of them comes back.
    drop(consumers);
    rig.publish(json!({"payload": 1})).await;
    let answer = answered(patient).await;
    assert_eq!(json!([answer["jobs"][0]["payload"], answer["jobs"][0]["attempt"]]), json!([1, 1]));
}

#[tokio::test]
async fn waiting_consumers_are_sent_home_when_the_server_stops() {
    let rig = Rig::start(&[]).await;
    let mut consumers = Vec::new();
    for _ in 0..10 {
        consumers.push(waiting(&rig).await);
    }
    rig.until_waiting(10).await;
    // The contract's 20 s, and what a busy machine may need beyond that.
    let status = timeout(Duration::from_secs(20 + 10), rig.stop()).await.expect("it ends");
    assert!(status.success(), "{status}");
    for consumer in consumers {
        assert_eq!(answered(consumer).await, json!({"jobs": []}));
    }
}

#[tokio::test]
async fn aliases_are_taken_from_the_path_as_they_were_given() {
    let rig = Rig::start(&[]).await;
    for (alias, path) in [("a/b", "a%2Fb"), ("ü ?", "%C3%BC%20%3F"), ("%25", "%2525"), ("..", "%2E%2E")] {
        let id = rig.publish(json!({"payload": 1, "alias": alias})).await;
        let shown = rig.json("GET", &format!("{Q}/aliases/{path}"), "").await;
        assert_eq!((shown.status, shown.text("id")), (200, id), "{alias}");
        assert_eq!(rig.json("DELETE", &format!("{Q}/aliases/{path}"), "").await.status, 204, "{alias}");
        assert_eq!(rig.json("GET", &format!("{Q}/aliases/{path}"), "").await.status, 404, "{alias}");
    }
}
