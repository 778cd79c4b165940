//! Jobs as they are published, looked at, changed and listed, and queues as they are set.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::rig::{Answer, Server, names, request};

const Q: &str = "/v1/queues/mail/out";

/// Publishes one job, and gives its id.
pub(crate) async fn publish(server: &Server, job: &str) -> String {
    let answer =
        server.check(&format!("POST {Q}/jobs"), job, 201, r#"{"jobs":[{"id":"*","run_at":"*"}]}"#).await;
    answer["jobs"][0]["id"].as_str().expect("an id").to_owned()
}

async fn stats(server: &Server) -> Json {
    let queue = server.get(Q).await;
    json!([queue["scheduled"], queue["ready"], queue["reserved"], queue["dead"]])
}

#[tokio::test]
async fn a_job_has_what_it_was_published_with() {
    let server = Server::start().await;
    let plain = publish(&server, r#"{"payload":1}"#).await;
    let shown = server.get(&format!("{Q}/jobs/{plain}")).await;
    let members = ["id", "queue", "state", "payload", "run_at", "published_at", "attempt", "tries"];
    let mut expected = members.to_vec();
    expected.sort_unstable();
    let mut found = names(&shown);
    found.sort_unstable();
    assert_eq!(found, expected);
    let of_it =
        json!({"id": plain, "queue": "out", "state": "ready", "payload": 1, "attempt": 0, "tries": 1});
    for (name, value) in of_it.as_object().expect("members") {
        assert_eq!(&shown[name], value, "{name}");
    }
    assert_eq!(shown["run_at"], shown["published_at"]);
    let job = r#"{"payload":2,"delay":"1h","tries":7,"alias":"an alias / ü","group":"g"}"#;
    let id = publish(&server, job).await;
    let expect = r#"{"state":"scheduled","tries":7,"alias":"an alias / ü","group":"g"}"#;
    server.check(&format!("GET {Q}/jobs/{id}"), "", 200, expect).await;
    server.check(&format!("GET {Q}/jobs/{}", id.to_lowercase()), "", 200, expect).await;
    server.check(&format!("GET {Q}/aliases/an%20alias%20%2F%20%C3%BC"), "", 200, expect).await;
}

#[tokio::test]
async fn a_recurring_job_tells_when_it_comes_again() {
    let server = Server::start().await;
    for (given, shown) in [
        (r#""every":"90m""#, json!({"every": "1h30m"})),
        (r#""every":"1h","executions":2,"delay":"0s""#, json!({"every": "1h", "executions_left": 2})),
        (r#""cron":"0 9 * * 1""#, json!({"cron": "0 9 * * 1"})),
        (
            r#""cron":"@daily","tz":"Europe/Berlin","executions":3"#,
            json!({"cron": "@daily", "tz": "Europe/Berlin", "executions_left": 3}),
        ),
    ] {
        let id = publish(&server, &format!(r#"{{"payload":1,"alias":"a",{given}}}"#)).await;
        let [by_id, by_alias] = [format!("{Q}/jobs/{id}"), format!("{Q}/aliases/a")];
        let listed = server.get(&format!("{Q}/jobs")).await["items"][0].clone();
        for job in [server.get(&by_id).await, server.get(&by_alias).await, listed] {
            let mut told = job.clone();
            let members = told.as_object_mut().expect("an object");
            members.retain(|name, _| ["every", "cron", "tz", "executions_left"].contains(&name.as_str()));
            assert_eq!(told, shown, "{given}: {job}");
        }
        let changed = server.check(&format!("PATCH {by_id}"), r#"{"payload":2}"#, 200, "{}").await;
        assert_eq!(changed["executions_left"], shown["executions_left"], "{given}");
        server.check(&format!("DELETE {by_id}"), "", 204, "").await;
    }
}

#[tokio::test]
async fn jobs_are_published_all_or_none_and_in_order() {
    let server = Server::start().await;
    let jobs: Vec<_> = (0..1_000).map(|n| format!(r#"{{"payload":{n},"alias":"a{n}"}}"#)).collect();
    let body = format!(r#"{{"jobs":[{}]}}"#, jobs.join(","));
    let answer = server.check(&format!("POST {Q}/jobs"), &body, 201, "{}").await;
    let published = answer["jobs"].as_array().expect("jobs");
    assert_eq!(published.len(), 1_000);
    for n in [0, 1, 999] {
        let id = published[n]["id"].as_str().expect("an id");
        let alias = format!("a{n}");
        assert_eq!(server.get(&format!("{Q}/jobs/{id}")).await["alias"], alias);
    }
    assert_eq!(stats(&server).await, json!([0, 1_000, 0, 0]));
    let clash = r#"{"jobs":[{"payload":1},{"payload":2,"alias":"a7"}]}"#;
    server.check(&format!("POST {Q}/jobs"), clash, 409, "alias_taken").await;
    let repeated = r#"{"jobs":[{"payload":1,"alias":"x"},{"payload":2,"alias":"x"}]}"#;
    server.check(&format!("POST {Q}/jobs"), repeated, 409, "alias_repeated").await;
    assert_eq!(stats(&server).await, json!([0, 1_000, 0, 0]));
}

#[tokio::test]
async fn an_alias_decides_what_becomes_of_a_second_job() {
    let server = Server::start().await;
    let first = publish(&server, r#"{"payload":1,"alias":"a","delay":"1h"}"#).await;
    server.check(&format!("POST {Q}/jobs"), r#"{"payload":2,"alias":"a"}"#, 409, "alias_taken").await;
    let kept = publish(&server, r#"{"payload":3,"alias":"a","on_conflict":"keep"}"#).await;
    assert_eq!(kept, first);
    let by_alias = format!("GET {Q}/aliases/a");
    server.check(&by_alias, "", 200, r#"{"payload":1,"state":"scheduled"}"#).await;
    let replaced = publish(&server, r#"{"payload":4,"alias":"a","on_conflict":"replace"}"#).await;
    assert_eq!(replaced, first);
    server.check(&by_alias, "", 200, r#"{"payload":4,"state":"ready"}"#).await;
    server.check(&format!("DELETE {Q}/aliases/a"), "", 204, "").await;
    server.check(&by_alias, "", 404, "unknown_job").await;
    assert_ne!(publish(&server, r#"{"payload":5,"alias":"a"}"#).await, first);
}

#[tokio::test]
async fn a_waiting_job_can_be_changed() {
    let server = Server::start().await;
    let id = publish(&server, r#"{"payload":1,"alias":"a"}"#).await;
    for (call, patch, expect) in [
        ("aliases/a", r#"{"delay":"1h"}"#, r#"{"state":"scheduled","payload":1}"#),
        ("aliases/a", r#"{"payload":{"x":1.0}}"#, r#"{"state":"scheduled","payload":{"x":1.0}}"#),
        ("aliases/a", "{}", r#"{"state":"scheduled","alias":"a"}"#),
        ("id", r#"{"payload":null,"delay":"0s"}"#, r#"{"state":"ready","payload":null,"alias":"a"}"#),
        (
            "id",
            r#"{"run_at":"2027-01-01T00:00:00Z"}"#,
            r#"{"state":"scheduled","run_at":"2027-01-01T00:00:00.000Z"}"#,
        ),
        ("id", r#"{"payload_base64":"AA=="}"#, r#"{"payload_base64":"AA=="}"#),
    ] {
        let path = if call == "id" { format!("jobs/{id}") } else { call.to_owned() };
        server.check(&format!("PATCH {Q}/{path}"), patch, 200, expect).await;
        server.check(&format!("GET {Q}/jobs/{id}"), "", 200, expect).await;
    }
}

#[tokio::test]
async fn jobs_are_listed_by_state_in_the_order_of_publishing() {
    let server = Server::start().await;
    let mut ids = Vec::new();
    for n in 0..40 {
        let delay = if n % 2 == 0 { "1h" } else { "0s" };
        ids.push(publish(&server, &format!(r#"{{"payload":{n},"delay":"{delay}"}}"#)).await);
    }
    server.check(&format!("POST {Q}/consume"), r#"{"max":3}"#, 200, "{}").await;
    for (state, count) in [("scheduled", 20), ("ready", 17), ("reserved", 3)] {
        let list = server.get(&format!("{Q}/jobs?state={state}&limit=1000")).await;
        let items = list["items"].as_array().expect("items");
        assert!(items.iter().all(|job| job["state"] == state), "{list}");
        assert_eq!(items.len(), count, "{state}");
    }
    let (mut found, mut path) = (Vec::new(), format!("{Q}/jobs?limit=7"));
    loop {
        let page = server.get(&path).await;
        let items = page["items"].as_array().expect("items").clone();
        found.extend(items.iter().map(|job| job["id"].as_str().expect("an id").to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("{Q}/jobs?limit=7&cursor={cursor}");
    }
    assert_eq!(found, ids);
    server.check("GET /v1/queues/mail/none/jobs", "", 200, r#"{"items":[],"next_cursor":null}"#).await;
}

#[tokio::test]
async fn a_page_of_large_jobs_ends_early() {
    let server = Server::start().await;
    let large = format!(r#"{{"payload":"{}"}}"#, "x".repeat(1_000_000));
    for _ in 0..20 {
        publish(&server, &large).await;
    }
    let (mut found, mut pages, mut path) = (0, 0, format!("{Q}/jobs"));
    loop {
        let page = server.get(&path).await;
        let items = page["items"].as_array().expect("items");
        assert!(!items.is_empty(), "a page before the last one has items");
        (found, pages) = (found + items.len(), pages + 1);
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("{Q}/jobs?cursor={cursor}");
    }
    assert_eq!(found, 20);
    assert!(pages > 1, "20 MB are more than a page");
}

async fn keyed(server: &Server, key: &str, body: &str) -> Answer {
    let request = request(&format!("POST {Q}/jobs"), body).header("idempotency-key", key);
    server.send(request.body(body.to_owned().into()).expect("a request")).await
}

#[tokio::test]
async fn a_repeated_publish_gets_the_same_answer() {
    let server = Server::start().await;
    let body = r#"{"jobs":[{"payload":1},{"payload":2,"delay":"1h"}]}"#;
    let first = keyed(&server, "k", body).await;
    let again = keyed(&server, "k", body).await;
    assert_eq!((first.status, again.status, &first.text), (201, 201, &again.text));
    assert_eq!(stats(&server).await, json!([1, 1, 0, 0]));
    let other = keyed(&server, "k", r#"{"payload":1}"#).await;
    assert_eq!((other.status, other.json()["code"].as_str()), (422, Some("idempotency_key_reused")));
    let other = keyed(&server, "l", body).await;
    assert_eq!((other.status, stats(&server).await), (201, json!([2, 2, 0, 0])));
    server.clock.advance(Duration::from_secs(24 * 3_600));
    assert_eq!(keyed(&server, "k", r#"{"payload":1}"#).await.status, 201, "a day is over");
}

#[tokio::test]
async fn a_job_with_a_key_of_its_own_is_published_once_in_whatever_call() {
    let server = Server::start().await;
    let first = keyed(&server, "k", r#"{"jobs":[{"payload":1,"idempotency_key":"a"},{"payload":2}]}"#).await;
    let again = keyed(&server, "l", r#"{"payload":3,"idempotency_key":"a"}"#).await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(again.json()["jobs"][0], first.json()["jobs"][0]);
    assert_eq!(stats(&server).await, json!([0, 2, 0, 0]));
    let long = format!(r#"{{"payload":1,"idempotency_key":"{}"}}"#, "a".repeat(256));
    server.check(&format!("POST {Q}/jobs"), &long, 422, "invalid_name").await;
}

#[tokio::test]
async fn a_queue_is_what_it_is_set_to() {
    let server = Server::start().await;
    let none = r#"{"namespace":"mail","queue":"out","scheduled":0,"ready":0,"reserved":0,"dead":0,"oldest_ready_ms":null,
        "paused":false,"settings":{"order":"fifo","concurrency":null,"rate":null,"jobs_max":null,"dead_max":null,
        "dead_max_age":null}}"#;
    server.check(&format!("GET {Q}"), "", 200, none).await;
    let all = r#"{"order":"lifo","concurrency":3,"rate":0.5,"jobs_max":2,"dead_max":0,"dead_max_age":"90m"}"#;
    server.check(&format!("PUT {Q}/settings"), all, 204, "").await;
    let shown = r#"{"settings":{"order":"lifo","concurrency":3,"rate":0.5,"jobs_max":2,"dead_max":0,"dead_max_age":"1h30m"}}"#;
    server.check(&format!("GET {Q}"), "", 200, shown).await;
    publish(&server, r#"{"payload":1}"#).await;
    server
        .check(&format!("POST {Q}/jobs"), r#"{"jobs":[{"payload":1},{"payload":2}]}"#, 409, "queue_full")
        .await;
    server.check(&format!("PUT {Q}/settings"), r#"{"rate":10,"order":null}"#, 204, "").await;
    let shown = r#"{"settings":{"order":"fifo","concurrency":null,"rate":10.0,"jobs_max":null}}"#;
    let queue = server.check(&format!("GET {Q}"), "", 200, shown).await;
    assert!(queue["oldest_ready_ms"].is_number(), "{queue}");
    assert!(queue["oldest_ready_at"].is_string(), "{queue}");
}

#[tokio::test]
async fn a_deleted_queue_has_nothing() {
    let server = Server::start().await;
    let id = publish(&server, r#"{"payload":1,"alias":"a"}"#).await;
    server.check(&format!("POST {Q}/pause"), "", 204, "").await;
    server.check(&format!("DELETE {Q}"), "", 204, "").await;
    server.check(&format!("GET {Q}"), "", 200, r#"{"ready":0,"paused":false}"#).await;
    server.check(&format!("GET {Q}/jobs/{id}"), "", 404, "unknown_job").await;
    server.check(&format!("GET {Q}/aliases/a"), "", 404, "unknown_job").await;
    server.check(&format!("DELETE {Q}"), "", 204, "").await;
    server.check("GET /v1/queues", "", 200, r#"{"items":[],"next_cursor":null}"#).await;
}

#[tokio::test]
async fn queues_are_listed_in_order_of_name() {
    let server = Server::start().await;
    let mut all = Vec::new();
    for namespace in ["a", "a-b", "b"] {
        for queue in ["0", "Z", "a", "a-", "a_"] {
            let path = format!("/v1/queues/{namespace}/{queue}");
            server.check(&format!("POST {path}/jobs"), r#"{"payload":1}"#, 201, "{}").await;
            all.push(format!("{namespace}/{queue}"));
        }
    }
    for (query, expect) in
        [("limit=4", &all[..]), ("limit=2&namespace=a-b", &all[5..10]), ("namespace=c", &[])]
    {
        let (mut found, mut path) = (Vec::new(), format!("/v1/queues?{query}"));
        loop {
            let page = server.get(&path).await;
            for queue in page["items"].as_array().expect("items") {
                assert_eq!(queue["ready"], 1);
                found.push(format!("{}/{}", queue["namespace"], queue["queue"]).replace('"', ""));
            }
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("/v1/queues?{query}&cursor={cursor}");
        }
        assert_eq!(found, expect, "{query}");
    }
}

#[tokio::test]
async fn lists_of_jobs_can_be_exported() {
    let server = Server::start().await;
    publish(&server, r#"{"payload":{"a": "x,y"},"alias":"a"}"#).await;
    publish(&server, r#"{"payload_base64":"AA=="}"#).await;
    publish(&server, r#"{"payload":1,"cron":"@daily","tz":"UTC","executions":2}"#).await;
    let export = |accept: &'static str| {
        let request = request(&format!("GET {Q}/jobs"), "").header("accept", accept);
        server.send(request.body(axum::body::Body::empty()).expect("a request"))
    };
    let csv = export("text/csv").await.text;
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "id,queue,state,payload,payload_base64,run_at,published_at,attempt,tries,alias,group,every,cron,tz,executions_left"
    );
    assert!(lines[1].contains(r#",out,ready,"{""a"":""x,y""}",,20"#), "{csv}");
    assert!(lines[2].contains(",out,ready,,AA==,20"), "{csv}");
    assert!(lines[3].ends_with(",,,,@daily,UTC,2"), "{csv}");
    let ndjson = export("application/x-ndjson").await.text;
    assert_eq!(ndjson.lines().count(), 3, "{ndjson}");
}

#[tokio::test]
async fn a_list_of_jobs_looks_at_a_bounded_number_of_those_of_other_queues() {
    let server = Server::start_with(1, axum::Router::new()).await;
    let thousand = format!(r#"{{"jobs":[{}]}}"#, [r#"{"payload":1}"#; 1_000].join(","));
    for _ in 0..12 {
        let answer = server.call("POST /v1/queues/mail/large/jobs", &thousand).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
    let job = publish(&server, r#"{"payload":"mine"}"#).await;
    let first = server.get(&format!("{Q}/jobs")).await;
    assert_eq!((&first["items"], &first["looked_at"]), (&json!([]), &json!(10_000)), "{first}");
    let cursor = first["next_cursor"].as_str().expect("there is more");
    let next = server.get(&format!("{Q}/jobs?cursor={cursor}")).await;
    assert_eq!((&next["items"][0]["id"], &next["next_cursor"]), (&json!(job), &Json::Null), "{next}");
    // What has no job in that state is not looked for.
    for list in [format!("{Q}/jobs?state=reserved"), "/v1/queues/mail/none/jobs".to_owned()] {
        let none = server.get(&list).await;
        assert_eq!((&none["items"], &none["next_cursor"]), (&json!([]), &Json::Null), "{none}");
    }
}
