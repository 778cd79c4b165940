//! Tasks: how many are asked, who takes the place of whom, and what is told of each.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::commands;
use crate::contract::rig::PATIENCE;
use crate::tasks::fleet::{Fleet, Habit};
use crate::tasks::{begun, counted, done, names, results, until, with_devices};

#[tokio::test]
async fn a_task_asks_so_many_and_shows_what_each_answered() {
    let rig = with_devices(6).await;
    // The sixth is not there.
    let mut fleet = Fleet::come(&rig, &names(5)).await;
    let ended = done(&rig, 3, &json!({"selector": "city=kiel"})).await;
    let fields = ["wanted", "picked", "answered", "failed", "expired", "replaced"];
    assert_eq!(fields.map(|name| ended[name].as_u64().expect("a number")), [3, 3, 3, 0, 0, 0], "{ended}");
    let answered = ended["results"].as_array().expect("results");
    for result in answered {
        assert_eq!(result["outcome"], "answered", "{result}");
        assert_eq!(result["result"]["from"], result["device_id"], "{result}");
        assert!(result["reason"].is_null() && result["answered_at"].is_string(), "{result}");
    }
    assert_eq!(counted(answered), fleet.counts(), "they count the same");
    assert_eq!(counted(answered).len(), 3, "no device twice");
    let listed = results(&rig, ended["id"].as_str().expect("an id")).await;
    assert_eq!(&listed, answered);
}

#[tokio::test]
async fn every_device_is_asked_as_often_as_any_other() {
    let rig = with_devices(5).await;
    let mut fleet = Fleet::come(&rig, &names(5)).await;
    for round in 1..=5 {
        done(&rig, 3, &json!({"selector": "city=kiel"})).await;
        let counts = fleet.counts();
        let of = |id: &String| counts.get(id).copied().unwrap_or(0);
        let (least, most) = (names(5).iter().map(of).min(), names(5).iter().map(of).max());
        assert!(most.expect("some") - least.expect("some") <= 1, "round {round}: {counts:?}");
    }
    assert_eq!(fleet.counts(), names(5).into_iter().map(|id| (id, 3)).collect::<BTreeMap<_, _>>());
}

#[tokio::test]
async fn a_task_that_means_fewer_than_it_wants_asks_them_all() {
    let rig = with_devices(3).await;
    let _fleet = Fleet::come(&rig, &names(2)).await;
    let ended = done(&rig, 10, &json!({"devices": ["d0", "d1", "d2"]})).await;
    assert_eq!((&ended["wanted"], &ended["picked"]), (&json!(10), &json!(2)), "{ended}");
    let nobody = done(&rig, 1, &json!({"selector": "city=rome"})).await;
    assert_eq!((&nobody["picked"], &nobody["results"]), (&json!(0), &json!([])), "{nobody}");
}

/// A server on which `d0` has had fewer picks than the others, so that it is picked next.
async fn with_next(fleet_of: usize) -> (crate::contract::rig::Rig, Fleet) {
    let rig = with_devices(fleet_of).await;
    let fleet = Fleet::come(&rig, &names(fleet_of)).await;
    let others: Vec<String> = names(fleet_of).split_off(1);
    done(&rig, others.len(), &json!({"devices": others})).await;
    (rig, fleet)
}

fn result_of<'a>(results: &'a [Value], device: &str) -> &'a Value {
    results.iter().find(|result| result["device_id"] == device).unwrap_or_else(|| panic!("{results:?}"))
}

#[tokio::test]
async fn a_device_that_says_nothing_is_replaced_and_a_no_is_an_answer() {
    let (rig, fleet) = with_next(3).await;
    fleet.set("d0", Habit::IsSilent);
    fleet.set("d1", Habit::Refuses);
    fleet.set("d2", Habit::Refuses);
    let ended = done(&rig, 1, &json!({"answer_timeout": "10s", "deadline": "1m"})).await;
    let fields = ["picked", "answered", "failed", "expired", "replaced"];
    assert_eq!(fields.map(|name| ended[name].as_u64().expect("a number")), [2, 0, 1, 1, 1], "{ended}");
    let results = ended["results"].as_array().expect("results");
    let silent = result_of(results, "d0");
    assert_eq!((&silent["outcome"], &silent["reason"]), (&json!("expired"), &json!("no_answer")), "{silent}");
    assert!(silent["answered_at"].is_null(), "{silent}");
    let refused = results.iter().find(|result| result["outcome"] == "failed").expect("one");
    assert_eq!(refused["reason"], "refused", "{refused}");
}

#[tokio::test]
async fn a_benched_device_is_freed_by_its_answer_to_any_command() {
    let rig = with_devices(1).await;
    let fleet = Fleet::come(&rig, &names(1)).await;
    fleet.set("d0", Habit::IsSilent);
    // The fourth doubles the bench: it outlasts the patience of this test.
    for _ in 0..4 {
        done(&rig, 1, &json!({"answer_timeout": "1s"})).await;
    }
    let benched = "/v1/fleet/count?selector=answering%3Dfalse";
    let _one: Value =
        rig.api.until(benched, PATIENCE, |count: &Value| count["total"] == 1).await.expect("benched");
    fleet.set("d0", Habit::Answers);
    let sent = rig.json("POST", "/v1/devices/d0/commands?wait=1m", r#"{"payload":1}"#).await;
    assert_eq!(sent.json()["status"], "acknowledged", "{sent:?}");
    let _none: Value =
        rig.api.until(benched, PATIENCE, |count: &Value| count["total"] == 0).await.expect("freed");
}

#[tokio::test]
async fn a_device_that_goes_before_it_was_told_is_replaced() {
    let (rig, mut fleet) = with_next(2).await;
    // Its command in flight keeps the next one waiting.
    fleet.set("d0", Habit::IsSilent);
    let busy = commands::send(&rig, "d0", &json!({"payload": 0, "ack_timeout": "1h"})).await;
    while fleet.next().await.command != busy {}
    let id = begun(&rig, 1, &json!({"answer_timeout": "30s", "deadline": "1m"})).await;
    until(&rig, &id, |task| task["picked"] == 1).await;
    fleet.leaves("d0").await;
    let ended = until(&rig, &id, |task| task["status"] == "done").await;
    assert_eq!((&ended["replaced"], &ended["answered"]), (&json!(1), &json!(1)), "{ended}");
    let results = results(&rig, &id).await;
    assert_eq!(result_of(&results, "d0")["reason"], "went_away");
    assert_eq!(result_of(&results, "d1")["outcome"], "answered");
}

#[tokio::test]
async fn a_device_that_is_deleted_while_it_is_asked_is_replaced_and_its_result_stays() {
    for (was_told, reason) in [(true, "no_answer"), (false, "went_away")] {
        let (rig, mut fleet) = with_next(2).await;
        fleet.set("d0", Habit::IsSilent);
        if !was_told {
            // Its command in flight keeps the next one waiting.
            let busy = commands::send(&rig, "d0", &json!({"payload": 0, "ack_timeout": "1h"})).await;
            while fleet.next().await.command != busy {}
        }
        let id = begun(&rig, 1, &json!({"answer_timeout": "30s", "deadline": "1m"})).await;
        until(&rig, &id, |task| task["picked"] == 1).await;
        while was_told && fleet.next().await.device != "d0" {}
        let has_both = |list: &Value| list["items"].as_array().is_some_and(|items| items.len() == 2);
        if !was_told {
            let path = "/v1/commands?device=d0";
            let _both: Value = rig.api.until(path, PATIENCE, has_both).await.expect("it has its command");
        }
        let deleted = rig.json("DELETE", "/v1/devices/d0", "").await;
        assert_eq!(deleted.status, 204, "{deleted:?}");
        let ended = until(&rig, &id, |task| task["status"] == "done").await;
        let fields = ["picked", "answered", "expired", "replaced"];
        assert_eq!(fields.map(|name| ended[name].as_u64().expect("a number")), [2, 1, 1, 1], "{ended}");
        let results = results(&rig, &id).await;
        let gone = result_of(&results, "d0");
        assert_eq!((&gone["outcome"], &gone["reason"]), (&json!("expired"), &json!(reason)), "{gone}");
        assert!(gone["answered_at"].is_null() && gone["late"].is_null(), "{gone}");
        assert_eq!(result_of(&results, "d1")["outcome"], "answered");
        let weights = rig.items("/v1/fleet/weights").await;
        assert_eq!(weights.len(), 1, "who is gone has no weight: {weights:?}");
        // Another device of that id begins anew.
        rig.device(&json!({"id": "d0", "kind": "lock"})).await;
        let weights = rig.items("/v1/fleet/weights").await;
        assert_eq!(
            (&weights[0]["device_id"], &weights[0]["picks"]),
            (&json!("d0"), &json!(0)),
            "{weights:?}"
        );
    }
}

#[tokio::test]
async fn what_was_not_sent_of_a_stopped_task_is_never_sent() {
    let (rig, mut fleet) = with_next(2).await;
    fleet.set("d0", Habit::IsSilent);
    let busy = commands::send(&rig, "d0", &json!({"payload": 0, "ack_timeout": "1h"})).await;
    let held = loop {
        let heard = fleet.next().await;
        if heard.command == busy {
            break heard;
        }
    };
    let id = begun(&rig, 1, &json!({"answer_timeout": "30s"})).await;
    until(&rig, &id, |task| task["picked"] == 1).await;
    let stopped = rig.json("DELETE", &format!("/v1/tasks/{id}"), "").await;
    assert_eq!(stopped.status, 204, "{stopped:?}");
    let ended = until(&rig, &id, |task| task["status"] == "cancelled").await;
    assert_eq!((&ended["answered"], &ended["picked"]), (&json!(0), &json!(1)), "{ended}");
    // What it hears next was sent behind the task.
    let next = commands::send(&rig, "d0", &json!({"payload": "next"})).await;
    fleet.answer(&held).await;
    assert_eq!(fleet.next().await.command, next);
}

#[tokio::test]
async fn devices_are_chosen_by_another_task_and_spread_over_a_label() {
    let rig = with_devices(4).await;
    for (id, operator) in [("d0", "a"), ("d1", "a"), ("d2", "a"), ("d3", "b")] {
        let labels = json!({"labels": {"operator": operator}}).to_string();
        assert_eq!(rig.json("PATCH", &format!("/v1/devices/{id}"), &labels).await.status, 200);
    }
    let _fleet = Fleet::come(&rig, &names(4)).await;
    let spread = done(&rig, 2, &json!({"spread_by": "operator"})).await;
    let picked = counted(spread["results"].as_array().expect("results"));
    assert!(picked.contains_key("d3"), "one of each operator: {picked:?}");
    let same = done(&rig, 4, &json!({"same_as": spread["id"]})).await;
    assert_eq!(counted(same["results"].as_array().expect("results")), picked);
    let other = done(&rig, 4, &json!({"not_as": spread["id"]})).await;
    let others = counted(other["results"].as_array().expect("results"));
    assert_eq!(others.len(), 2, "{others:?}");
    assert!(others.keys().all(|id| !picked.contains_key(id)), "{others:?} {picked:?}");
    let fewer = done(&rig, 4, &json!({"exclude": "operator=a"})).await;
    assert_eq!(fewer["picked"], 1, "{fewer}");
}

#[tokio::test]
async fn weights_and_fairness_are_those_of_the_published_formula() {
    let rig = with_devices(4).await;
    let _fleet = Fleet::come(&rig, &names(4)).await;
    let before = rig.items("/v1/fleet/weights?selector=city%3Dkiel").await;
    assert_eq!(before.len(), 4);
    for weight in &before {
        assert_eq!((&weight["weight"], &weight["picks"]), (&json!(1.0), &json!(0)), "{weight}");
        assert!(weight["last_picked_at"].is_null(), "{weight}");
    }
    done(&rig, 1, &json!({"devices": ["d2"]})).await;
    let weights = rig.items("/v1/fleet/weights").await;
    let ids: Vec<_> = weights.iter().map(|weight| weight["device_id"].as_str().expect("an id")).collect();
    assert_eq!(ids, ["d0", "d1", "d2", "d3"], "in order of id");
    assert_eq!(weights[2]["picks"], 1);
    assert!(weights[2]["weight"].as_f64().expect("a number") < 1.0, "{}", weights[2]);
    assert!(weights[2]["last_picked_at"].is_string(), "{}", weights[2]);
    let fairness = rig.get("/v1/fleet/fairness").await;
    assert_eq!((&fairness["connected"], &fairness["constant"]), (&json!(4), &json!(0.001)), "{fairness}");
    assert_eq!(fairness["period"], "1m", "{fairness}");
    assert!(fairness["punishment"].as_f64().expect("a number") >= 1.0, "{fairness}");
}
