//! One action on everything that matches: all of it, none twice, also where the server is killed in
//! the middle. And only what its caller may do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::contract::access::Guarded;
use crate::contract::rig::{PATIENCE, Rig, each};

/// Devices that are deleted in a minute, one a second: even a busy machine stops that earlier.
const DELETED_IN_A_MINUTE: u64 = 60;

async fn begin(rig: &Rig, operation: &Value) -> String {
    let begun = rig.json("POST", "/v1/operations", &operation.to_string()).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    begun.text("id")
}

/// An operation once it is so.
async fn until(rig: &Rig, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    rig.api.until(&format!("/v1/operations/{id}"), PATIENCE, is_so).await.expect("it comes to that")
}

async fn ended(rig: &Rig, id: &str) -> Value {
    until(rig, id, |shown| shown["status"] != "running").await
}

/// Matched, done, refused, skipped.
fn counts(shown: &Value) -> [u64; 4] {
    ["matched", "done", "refused", "skipped"].map(|name| shown[name].as_u64().expect("a count"))
}

/// Kills the server once the operation has come to the middle, and starts it again.
async fn kill_in_the_middle(rig: &mut Rig, id: &str, all: u64) {
    let shown = until(rig, id, |shown| counts(shown)[1] > 0).await;
    assert!(counts(&shown)[1] < all && shown["status"] == "running", "it is not over: {shown}");
    rig.restart().await;
}

/// Every row had its turn; those of the chunk that was under way may have had it before the kill.
fn had_all_their_turn(shown: &Value, all: u64) {
    let [matched, done, refused, skipped] = counts(shown);
    assert_eq!((shown["status"].as_str(), matched), (Some("done"), all), "{shown}");
    assert_eq!((done + skipped, refused), (all, 0), "{shown}");
    assert!(skipped <= 100, "more than a chunk had its turn again: {shown}");
}

async fn with_devices(count: u64) -> Rig {
    let rig = Rig::start(&[]).await;
    let mut lines = String::new();
    for number in 0..count {
        writeln!(lines, r#"{{"id":"d{number}","labels":{{"even":"{}"}}}}"#, number % 2 == 0)
            .expect("a String takes every write");
    }
    let imported: Value = rig.api.post_lines("/v1/devices/import", lines).await.expect("imported");
    assert_eq!(imported["created"], count, "{imported}");
    rig
}

#[tokio::test]
async fn what_matches_is_counted_first_and_then_done() {
    let rig = with_devices(250).await;
    let even = json!({"label.even": "true"});
    let mut asked =
        json!({"action": "devices.label", "filter": even, "labels": {"site": "12", "even": null}});
    asked["dry_run"] = json!(true);
    let counted = rig.json("POST", "/v1/operations", &asked.to_string()).await;
    assert_eq!(
        (counted.status, counted.json()),
        (200, json!({"matched": 125, "looked_at": 125, "complete": true}))
    );
    assert!(rig.items("/v1/operations").await.is_empty(), "a dry run is no operation");
    asked["dry_run"] = json!(false);
    let id = begin(&rig, &asked).await;
    let shown = ended(&rig, &id).await;
    assert_eq!((shown["status"].as_str(), counts(&shown)), (Some("done"), [125, 125, 0, 0]), "{shown}");
    assert_eq!((&shown["filter"], &shown["by"]), (&even, &Value::Null), "{shown}");
    assert_eq!(rig.items("/v1/devices?label.site=12").await.len(), 125);
    let named = json!({"ids": ["d0", "d1", "nobody"]});
    let again = json!({"action": "devices.label", "filter": named, "labels": {"site": "12", "even": null}});
    let id = begin(&rig, &again).await;
    assert_eq!(counts(&ended(&rig, &id).await), [3, 1, 0, 2], "d0 is so already, and nobody is there");
    let listed = rig.items("/v1/operations").await;
    assert_eq!(each(&listed, "action"), ["devices.label", "devices.label"]);
    assert_eq!(listed[0]["id"], id, "the newest first");
}

#[tokio::test]
async fn an_operation_that_is_killed_goes_on_where_it_was() {
    const ALL: u64 = 2_000;
    let mut rig = with_devices(ALL).await;
    let asked = json!({"action": "devices.label", "filter": {}, "labels": {"site": "12"}, "rate": 175});
    let id = begin(&rig, &asked).await;
    kill_in_the_middle(&mut rig, &id, ALL).await;
    rig.device(&json!({"id": "later"})).await;
    had_all_their_turn(&ended(&rig, &id).await, ALL);
    let labelled = rig.items("/v1/devices?label.site=12").await;
    let ids: BTreeSet<_> = labelled.iter().filter_map(|device| device["id"].as_str()).collect();
    assert_eq!((ids.len() as u64, ids.contains("later")), (ALL, false), "what comes later is left alone");
}

#[tokio::test]
async fn a_delivery_goes_out_again_once_although_the_server_is_killed() {
    const ALL: usize = 150;
    let mut rig = Rig::start_telling(&[]).await;
    let ids: Vec<String> = (0..ALL).map(|number| format!("d{number}")).collect();
    for id in &ids {
        rig.device(&json!({"id": id})).await;
    }
    let receiver = rig.receiver("acme", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let lines: String = ids.iter().map(|id| format!("{{\"device_id\":\"{id}\",\"data\":1}}\n")).collect();
    rig.ask("POST", "/v1/reports", "application/x-ndjson", &lines).await;
    let told = |list: &Value| list["items"].as_array().is_some_and(|items| items.len() == ALL);
    let path = "/v1/deliveries?client=acme&status=delivered&limit=1000";
    let _: Value = rig.api.until(path, PATIENCE, told).await.expect("all are told");
    let asked = json!({"action": "deliveries.resend", "filter": {"client": "acme"}, "rate": 15});
    let id = begin(&rig, &asked).await;
    kill_in_the_middle(&mut rig, &id, ALL as u64).await;
    had_all_their_turn(&ended(&rig, &id).await, ALL as u64);
    // The list ends in front of what other partitions are still writing.
    let path = "/v1/deliveries?client=acme&limit=1000";
    let all = |list: &Value| times_resent(list).len() == ALL;
    let list: Value = rig.api.until(path, PATIENCE, all).await.expect("each went out again");
    let resent = times_resent(&list);
    assert!(resent.values().all(|times| *times == 1), "and once: {resent:?}");
    drop(receiver);
}

/// The deliveries that went out again, and how often.
fn times_resent(list: &Value) -> BTreeMap<&str, usize> {
    let mut times = BTreeMap::new();
    for of in list["items"].as_array().expect("items").iter().filter_map(|item| item["resend_of"].as_str()) {
        *times.entry(of).or_default() += 1;
    }
    times
}

#[tokio::test]
async fn dead_letters_are_tried_again_and_deleted_each_once() {
    const ALL: u64 = 300;
    let mut rig = Rig::start(&[]).await;
    let jobs: Vec<Value> = (0..ALL).map(|number| json!({"payload": number, "tries": 1})).collect();
    let _: Value =
        rig.api.post("/v1/queues/shop/mail/jobs", &json!({"jobs": jobs})).await.expect("published");
    die(&rig, ALL).await;
    let asked = json!({"action": "dead.respawn", "filter": {"queue": "shop/mail"}, "rate": 30});
    let id = begin(&rig, &asked).await;
    kill_in_the_middle(&mut rig, &id, ALL).await;
    had_all_their_turn(&ended(&rig, &id).await, ALL);
    assert!(rig.items("/v1/queues/shop/mail/dead").await.is_empty());
    assert_eq!(rig.items("/v1/queues/shop/mail/jobs").await.len() as u64, ALL, "none is lost, none double");
    die(&rig, ALL).await;
    let id = begin(&rig, &json!({"action": "dead.delete", "filter": {"queue": "shop/mail"}})).await;
    assert_eq!(counts(&ended(&rig, &id).await), [ALL, ALL, 0, 0]);
    assert!(rig.items("/v1/queues/shop/mail/dead").await.is_empty());
}

/// Takes so many jobs and gives them back, on their last try.
async fn die(rig: &Rig, count: u64) {
    let mut died = 0;
    while died < count {
        let taken: Value =
            rig.api.post("/v1/queues/shop/mail/consume", &json!({"max": 100})).await.expect("jobs");
        for job in taken["jobs"].as_array().expect("jobs") {
            let path = format!("/v1/queues/shop/mail/jobs/{}/release", job["id"].as_str().expect("an id"));
            let body = json!({"reservation": job["reservation"], "error": "no"});
            let released = rig.json("POST", &path, &body.to_string()).await;
            assert!(released.status < 300, "{released:?}");
            died += 1;
        }
    }
}

#[tokio::test]
async fn commands_and_refused_reports_are_acted_on_as_one_by_one() {
    let rig = with_devices(20).await;
    for number in 0..20 {
        let path = format!("/v1/devices/d{number}/commands");
        let _: Value = rig.api.post(&path, &json!({"payload": 1, "origin": "test"})).await.expect("sent");
    }
    let cancel = json!({"action": "commands.cancel", "filter": {"origin": "test"}});
    let id = begin(&rig, &cancel).await;
    assert_eq!(counts(&ended(&rig, &id).await), [20, 20, 0, 0]);
    let id = begin(&rig, &cancel).await;
    assert_eq!(counts(&ended(&rig, &id).await), [20, 0, 0, 20], "they are cancelled already");
    let id = begin(&rig, &json!({"action": "commands.retry", "filter": {"status": "cancelled"}})).await;
    assert_eq!(counts(&ended(&rig, &id).await), [20, 20, 0, 0]);
    let lines = "{\"device_id\":\"new\",\"data\":1}\n{\"device_id\":\"d1\",\"data\":7}\n";
    rig.ask("POST", "/v1/reports", "application/x-ndjson", lines).await;
    rig.feed("/v1/quarantine", 2).await;
    rig.device(&json!({"id": "new"})).await;
    let id = begin(&rig, &json!({"action": "quarantine.replay", "filter": {}})).await;
    let shown = ended(&rig, &id).await;
    assert_eq!(counts(&shown), [2, 1, 1, 0], "{shown}");
    assert_eq!(shown["last_error"]["code"], "value_not_allowed", "{shown}");
    let id = begin(&rig, &json!({"action": "quarantine.delete", "filter": {}})).await;
    assert_eq!(counts(&ended(&rig, &id).await), [1, 1, 0, 0]);
}

#[tokio::test]
async fn one_that_is_cancelled_stops_and_too_many_are_refused() {
    let rig = Rig::start(&[("FIELDPOST_OPERATIONS__MAX_RUNNING", "1")]).await;
    for number in 0..DELETED_IN_A_MINUTE {
        rig.device(&json!({"id": format!("d{number}")})).await;
    }
    let asked = json!({"action": "devices.delete", "filter": {}, "rate": 1});
    let id = begin(&rig, &asked).await;
    let refused = rig.json("POST", "/v1/operations", &asked.to_string()).await;
    assert_eq!((refused.status, refused.text("code").as_str()), (409, "too_many_operations"), "{refused:?}");
    let path = format!("/v1/operations/{id}");
    assert_eq!(rig.json("DELETE", &path, "").await.status, 204);
    let cancelled = rig.json("DELETE", &path, "").await;
    assert_eq!((cancelled.status, cancelled.text("code").as_str()), (409, "finished"), "{cancelled:?}");
    let settled = |shown: &Value| {
        let [matched, done, ..] = counts(shown);
        shown["status"] == "cancelled" && matched == done
    };
    let shown = until(&rig, &id, settled).await;
    let left = rig.items("/v1/devices").await.len() as u64;
    assert_eq!(left, DELETED_IN_A_MINUTE - counts(&shown)[1], "{shown}");
    assert!(left > 0, "it was stopped in time");
    let more = begin(&rig, &json!({"action": "devices.delete", "filter": {}})).await;
    assert_eq!(counts(&ended(&rig, &more).await)[1], left);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_what_would() {
    let rig = Rig::start(&[]).await;
    for (body, status, code) in [
        (json!({"action": "devices.delete"}), 422, "missing_field"),
        (json!({"action": "devices.fly", "filter": {}}), 422, "unknown_word"),
        (json!({"action": "devices.delete", "filter": []}), 422, "wrong_type"),
        (json!({"action": "devices.delete", "filter": {"colour": "red"}}), 422, "unknown_parameter"),
        (json!({"action": "devices.delete", "filter": {"kind": "No"}}), 422, "invalid_parameter"),
        (json!({"action": "devices.delete", "filter": {"ids": []}}), 422, "too_many_ids"),
        (
            json!({"action": "devices.delete", "filter": {"ids": ["a"], "kind": "lock"}}),
            422,
            "unknown_parameter",
        ),
        (json!({"action": "devices.label", "filter": {}}), 422, "missing_field"),
        (json!({"action": "devices.link", "filter": {}, "client": "a b"}), 422, "invalid_id"),
        (json!({"action": "devices.delete", "filter": {}, "client": "acme"}), 422, "conflicting_fields"),
        (json!({"action": "dead.delete", "filter": {}}), 422, "missing_field"),
        (json!({"action": "dead.delete", "filter": {"queue": "mail"}}), 422, "invalid_parameter"),
        (json!({"action": "devices.delete", "filter": {}, "rate": 1_000_000}), 422, "invalid_number"),
    ] {
        let refused = rig.json("POST", "/v1/operations", &body.to_string()).await;
        assert_eq!((refused.status, refused.text("code").as_str()), (status, code), "{body}: {refused:?}");
    }
    let unknown = rig.json("GET", "/v1/operations/op_1", "").await;
    assert_eq!((unknown.status, unknown.text("code").as_str()), (404, "unknown_operation"), "{unknown:?}");
}

#[tokio::test]
async fn a_token_has_done_to_many_only_what_it_may_do_to_one() {
    let mut guarded = Guarded::start("notify.allow_private = true").await;
    for number in 0..DELETED_IN_A_MINUTE {
        guarded
            .check("admin", "POST", "/v1/devices", &json!({"id": format!("d{number}")}).to_string(), 201)
            .await;
    }
    let delete = json!({"action": "devices.delete", "filter": {}, "rate": 1}).to_string();
    let resend =
        |client: &str| json!({"action": "deliveries.resend", "filter": {"client": client}}).to_string();
    let respawn = json!({"action": "dead.respawn", "filter": {"queue": "mail/out"}}).to_string();
    for (token, path, body, status) in [
        ("operate", "", &delete, 403),
        ("read", "", &delete, 403),
        ("report", "", &delete, 403),
        ("acme", "", &delete, 403),
        ("acme", "", &resend("other"), 403),
        ("operate", "", &respawn, 201),
        ("jobs", "", &respawn, 403),
        ("jobs", "?namespace=mail", &respawn, 201),
        ("jobs", "?namespace=mail", &respawn.replace("mail/out", "shop/out"), 403),
    ] {
        guarded.check(token, "POST", &format!("/v1/operations{path}"), body, status).await;
    }
    let listed = guarded.ask(Some("jobs"), "GET", "/v1/operations?namespace=mail", "").await.json();
    assert_eq!(each(listed["items"].as_array().expect("items"), "by"), ["jobs"], "{listed}");
    let begun = guarded.ask(Some("admin"), "POST", "/v1/operations", &delete).await;
    let path = format!("/v1/operations/{}", begun.text("id"));
    guarded.check("acme", "GET", &path, "", 404).await;
    guarded.restart_with(r#"scopes = ["admin"]"#, r#"scopes = ["read"]"#).await;
    let stopped = async {
        loop {
            let shown = guarded.ask(Some("read"), "GET", &path, "").await.json();
            if shown["status"] != "running" {
                return shown;
            }
        }
    };
    let shown = timeout(PATIENCE, stopped).await.expect("it is stopped");
    assert_eq!((shown["status"].as_str(), shown["by"].as_str()), (Some("failed"), Some("admin")), "{shown}");
    assert_eq!(shown["last_error"]["code"], "token_changed", "{shown}");
    let left = guarded.ask(Some("read"), "GET", "/v1/devices", "").await.json();
    assert!(left["items"].as_array().is_some_and(|left| !left.is_empty()), "it went no further: {left}");
    guarded.stop().await;
}
