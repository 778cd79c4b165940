//! Lists that find by symptom: each page looks at a bounded number of rows, and says where to go
//! on.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

use serde_json::{Value, json};

use crate::contract::rig::{PATIENCE, Rig, each, has_status};

/// More than a page looks at.
const MANY: usize = 25_000;
/// Registered with one call, which a busy machine is to answer in time.
const AT_ONCE: usize = 5_000;

async fn register(rig: &Rig, numbers: Range<usize>) {
    let (mut lines, count) = (String::new(), numbers.len());
    for number in numbers {
        writeln!(lines, r#"{{"id":"d{number:05}"}}"#).expect("a String takes every write");
    }
    let imported: Value = rig.api.post_lines("/v1/devices/import", lines).await.expect("imported");
    assert_eq!(imported["created"], count, "{imported}");
}

/// Goes through a list page by page: its ids, and what each page looked at.
async fn pages(rig: &Rig, path: &str) -> (Vec<String>, Vec<u64>) {
    let (mut ids, mut looked_at, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = rig.get(&format!("{path}{cursor}")).await;
        let items = page["items"].as_array().expect("items");
        ids.extend(items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        looked_at.push(page["looked_at"].as_u64().expect("it is told"));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (ids, looked_at),
        }
    }
}

#[tokio::test]
async fn a_filter_that_hardly_anything_matches_is_answered_a_chunk_at_a_time() {
    let rig = Rig::start(&[]).await;
    for first in (0..MANY).step_by(AT_ONCE) {
        register(&rig, first..first + AT_ONCE).await;
    }
    let reported: BTreeSet<String> = [3, 9_000, 24_999].map(|number| format!("d{number:05}")).into();
    for device in &reported {
        rig.report(device, 1).await;
    }
    let (ids, looked_at) = pages(&rig, "/v1/devices?connection=online").await;
    assert_eq!(ids.into_iter().collect::<BTreeSet<_>>(), reported);
    assert!(looked_at.len() > 1, "one page does not look at everything: {looked_at:?}");
    assert!(looked_at.iter().all(|rows| *rows <= 20_000), "{looked_at:?}");
    let (ids, _) = pages(&rig, "/v1/devices?id_prefix=d2499").await;
    assert_eq!(ids, (24_990..25_000).map(|number| format!("d{number}")).collect::<Vec<_>>());
    let (ids, looked_at) = pages(&rig, "/v1/devices?id_prefix=d00003").await;
    assert_eq!((ids, looked_at.len()), (vec!["d00003".to_owned()], 1), "its own id begins with it");
}

#[tokio::test]
async fn devices_are_found_by_when_they_were_last_heard_of() {
    let rig = Rig::start(&[]).await;
    for id in ["old", "new", "never"] {
        rig.device(&json!({"id": id})).await;
    }
    rig.report("old", 1).await;
    let old = rig.get("/v1/devices/old").await["state"]["last_seen_at"].as_str().expect("a time").to_owned();
    let later = |device: &Value| device["state"]["last_seen_at"].as_str().is_some_and(|at| at > old.as_str());
    while !later(&rig.get("/v1/devices/new").await) {
        rig.report("new", 1).await;
    }
    let new = rig.get("/v1/devices/new").await["state"]["last_seen_at"].as_str().expect("a time").to_owned();
    for (before, expect) in [(&old, &[][..]), (&new, &["old"][..])] {
        let found = rig.items(&format!("/v1/devices?last_seen_before={before}")).await;
        assert_eq!(each(&found, "id"), expect);
    }
}

#[tokio::test]
async fn dead_letters_are_found_by_what_they_say() {
    let rig = Rig::start(&[]).await;
    let jobs: Vec<Value> = (0..50).map(|number| json!({"payload": {"to": number}, "tries": 1})).collect();
    let _: Value =
        rig.api.post("/v1/queues/shop/mail/jobs", &json!({"jobs": jobs})).await.expect("published");
    let taken: Value =
        rig.api.post("/v1/queues/shop/mail/consume", &json!({"max": 100})).await.expect("jobs");
    for job in taken["jobs"].as_array().expect("jobs") {
        let path = format!("/v1/queues/shop/mail/jobs/{}/release", job["id"].as_str().expect("an id"));
        let error = if job["payload"]["to"] == 7 { "550 no mailbox" } else { "timed out" };
        let body = json!({"reservation": job["reservation"], "error": error});
        let released = rig.json("POST", &path, &body.to_string()).await;
        assert!(released.status < 300, "{released:?}");
    }
    let found = rig.items("/v1/queues/shop/mail/dead?error=no%20mailbox").await;
    assert_eq!(each(&found, "payload"), [json!({"to": 7})]);
    let found = rig.items("/v1/queues/shop/mail/dead?payload=%3A4").await;
    assert_eq!(found.len(), 11, "4, and 40 to 49");
    assert!(rig.items("/v1/queues/shop/mail/dead?error=no&payload=%3A8").await.is_empty());
    let filter = json!({"queue": "shop/mail", "error": "timed"});
    let asked = json!({"action": "dead.delete", "filter": filter});
    let begun = rig.json("POST", "/v1/operations", &asked.to_string()).await;
    let path = format!("/v1/operations/{}", begun.text("id"));
    let done = |shown: &Value| shown["status"] == "done";
    let shown: Value = rig.api.until(&path, PATIENCE, done).await.expect("it is done");
    assert_eq!((&shown["matched"], &shown["done"]), (&json!(49), &json!(49)), "{shown}");
    assert_eq!(rig.items("/v1/queues/shop/mail/dead").await.len(), 1);
}

#[tokio::test]
async fn clients_that_are_not_reached_are_found() {
    let rig = Rig::start_telling(&[("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "1")]).await;
    rig.device(&json!({"id": "d1"})).await;
    for id in ["away", "idle"] {
        let client = json!({"id": id, "name": "n", "url": "http://127.0.0.1:9/"});
        let _: Value = rig.api.post("/v1/clients", &client).await.expect("registered");
    }
    rig.api.put("/v1/devices/d1/clients/away").await.expect("linked");
    rig.report("d1", 1).await;
    rig.last_of(1, "d1", has_status("failed")).await;
    let failing = |list: &Value| each(list["items"].as_array().expect("items"), "id") == ["away"];
    let _: Value = rig.api.until("/v1/clients?failing=true", PATIENCE, failing).await.expect("it is told");
    assert_eq!(each(&rig.items("/v1/clients?failing=false").await, "id"), ["idle"]);
    assert!(rig.items("/v1/clients?stale_for=1h").await.is_empty());
    assert_eq!(each(&rig.items("/v1/clients?stale_for=0s").await, "id"), ["away"]);
    assert_eq!(each(&rig.items("/v1/clients?id_prefix=id").await, "id"), ["idle"]);
}
