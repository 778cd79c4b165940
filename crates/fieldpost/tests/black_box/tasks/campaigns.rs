//! Campaigns: slots that come by the clock, each exact, all of them fair.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::contract::rig::{PATIENCE, Rig};
use crate::tasks::fleet::Fleet;
use crate::tasks::{counted, names, with_devices};

async fn put(rig: &Rig, id: &str, body: &Value) -> Value {
    let put = rig.json("PUT", &format!("/v1/campaigns/{id}"), &body.to_string()).await;
    assert_eq!(put.status, 201, "{put:?}");
    put.json()
}

async fn tell(rig: &Rig, id: &str, what: &str) {
    let told = rig.json("POST", &format!("/v1/campaigns/{id}/{what}"), "").await;
    assert_eq!(told.status, 204, "{told:?}");
}

/// Whether a slot was not skipped. On a machine that is busy with other tests one may come so late.
fn was_begun(slot: &Value) -> bool {
    slot["skipped"] != true
}

/// The slots of a campaign once so many were begun and all of them have ended, the newest first.
async fn slots(rig: &Rig, id: &str, count: usize) -> Vec<Value> {
    let has_ended = |slot: &Value| {
        let [wanted, picked, answered] = ["wanted", "picked", "answered"].map(|name| slot[name].as_u64());
        picked >= wanted && answered == picked
    };
    let have_ended = |list: &Value| {
        let begun = || list["items"].as_array().expect("items").iter().filter(|slot| was_begun(slot));
        begun().count() >= count && begun().all(has_ended)
    };
    let path = format!("/v1/campaigns/{id}/slots");
    let list: Value = rig.api.until(&path, PATIENCE, have_ended).await.expect("it comes to that");
    list["items"].as_array().expect("items").clone()
}

#[tokio::test]
async fn each_slot_of_a_campaign_asks_exactly_so_many_and_each_device_as_often() {
    let rig = with_devices(5).await;
    let mut fleet = Fleet::come(&rig, &names(5)).await;
    // A slot that could not begin within its length is skipped.
    let body = json!({"payload": 1, "count": 2, "every": "2s", "selector": "city=kiel",
        "answer_timeout": "1m"});
    put(&rig, "tick", &body).await;
    for _ in 0..12 {
        fleet.next().await;
    }
    tell(&rig, "tick", "pause").await;
    let slots = slots(&rig, "tick", 6).await;
    let begun: Vec<_> = slots.iter().filter(|slot| was_begun(slot)).collect();
    assert!(slots.len() - begun.len() <= 2, "hardly any is skipped: {slots:?}");
    assert!(begun.iter().all(|slot| slot["picked"] == 2 && slot["wanted"] == 2), "{slots:?}");
    let numbers: BTreeSet<u64> = slots.iter().map(|slot| slot["slot"].as_u64().expect("a number")).collect();
    assert_eq!(numbers.len(), slots.len(), "no slot twice");
    let (first, last) = (numbers.first().expect("some"), numbers.last().expect("some"));
    assert_eq!(last - first + 1, numbers.len() as u64, "none left out: {numbers:?}");
    let counts = fleet.counts();
    let heard = names(5).iter().map(|id| counts.get(id).copied().unwrap_or(0)).collect::<Vec<_>>();
    assert_eq!(heard.iter().sum::<usize>(), 2 * begun.len(), "{counts:?}");
    let spread = heard.iter().max().expect("some") - heard.iter().min().expect("some");
    assert!(spread <= 1, "{counts:?}");
    let results = rig.items("/v1/campaigns/tick/results?order=asc").await;
    assert_eq!(counted(&results), counts, "they count the same");
    assert!(results.iter().all(|result| numbers.contains(&result["slot"].as_u64().expect("a number"))));
    let coverage = rig.get("/v1/campaigns/tick/coverage?period=1h").await;
    assert_eq!(coverage["eligible"], 5, "{coverage}");
    assert_eq!(coverage["picked"], json!(heard.iter().sum::<usize>()), "{coverage}");
    assert_eq!(coverage["max"], json!(heard.iter().max().expect("some")), "{coverage}");
}

#[tokio::test]
async fn a_campaign_is_shown_changed_paused_and_removed() {
    let rig = with_devices(1).await;
    let body = json!({"payload": {"a": 1}, "count": 3, "over": "1h", "selector": "city in (kiel)",
        "class": "large", "missed": "catch_up", "phase": "7s", "name": "hourly"});
    let made = put(&rig, "hourly", &body).await;
    let expect = json!({"id": "hourly", "status": "running", "name": "hourly", "payload": {"a": 1},
        "count": 3, "over": "1h", "class": "large", "missed": "catch_up", "phase": "7s", "panel": false,
        "answer_timeout": "10s"});
    for (name, value) in expect.as_object().expect("an object") {
        assert_eq!(&made[name], value, "{name}: {made}");
    }
    let changed = rig.json("PATCH", "/v1/campaigns/hourly", r#"{"every":"5m","count":4,"name":null}"#).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let changed = changed.json();
    assert_eq!((&changed["every"], &changed["count"]), (&json!("5m"), &json!(4)), "{changed}");
    assert!(changed["over"].is_null() && changed["name"].is_null(), "{changed}");
    tell(&rig, "hourly", "pause").await;
    assert_eq!(rig.get("/v1/campaigns/hourly").await["status"], "paused");
    tell(&rig, "hourly", "resume").await;
    let listed = rig.items("/v1/campaigns").await;
    assert_eq!((listed.len(), &listed[0]["status"]), (1, &json!("running")));
    let removed = rig.json("DELETE", "/v1/campaigns/hourly", "").await;
    assert_eq!(removed.status, 204, "{removed:?}");
    let gone = rig.json("GET", "/v1/campaigns/hourly", "").await;
    assert_eq!((gone.status, gone.text("code")), (404, "unknown_campaign".to_owned()));
}

#[tokio::test]
async fn a_panel_is_the_same_in_each_slot() {
    let rig = with_devices(6).await;
    let mut fleet = Fleet::come(&rig, &names(6)).await;
    let body = json!({"payload": 1, "count": 2, "every": "1s", "panel": true, "answer_timeout": "1m"});
    put(&rig, "panel", &body).await;
    for _ in 0..6 {
        fleet.next().await;
    }
    tell(&rig, "panel", "pause").await;
    slots(&rig, "panel", 3).await;
    assert_eq!(fleet.counts().len(), 2, "{:?}", fleet.counts());
}
