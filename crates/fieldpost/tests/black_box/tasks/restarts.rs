//! A server that is killed while a slot or a task goes on.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::contract::rig::PATIENCE;
use crate::tasks::fleet::{Fleet, Habit};
use crate::tasks::{begun, names, results, until, with_devices};

#[tokio::test]
async fn a_task_goes_on_after_a_kill_and_asks_nobody_twice() {
    let mut rig = with_devices(5).await;
    let mut fleet = Fleet::come(&rig, &names(5)).await;
    for id in names(5) {
        fleet.set(&id, Habit::IsSilent);
    }
    let id = begun(&rig, 3, &json!({"answer_timeout": "1m"})).await;
    let asked = [fleet.next().await, fleet.next().await, fleet.next().await];
    let devices: BTreeSet<_> = asked.iter().map(|heard| heard.device.clone()).collect();
    assert_eq!(devices.len(), 3, "{asked:?}");
    assert!(asked.iter().all(|heard| heard.payload == json!({"ask": 1})), "{asked:?}");
    rig.restart().await;
    let gone = fleet.vanish().await;
    fleet.come_back(&rig, gone).await;
    for heard in &asked {
        fleet.answer(heard).await;
    }
    let ended = until(&rig, &id, |task| task["status"] == "done").await;
    let fields = ["picked", "answered", "expired", "replaced"];
    assert_eq!(fields.map(|name| ended[name].as_u64().expect("a number")), [3, 3, 0, 0], "{ended}");
    let answered: BTreeSet<_> = results(&rig, &id)
        .await
        .iter()
        .map(|result| result["device_id"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(answered, devices);
    assert!(fleet.counts().values().all(|count| *count == 1), "{:?}", fleet.counts());
}

#[tokio::test]
async fn a_slot_goes_on_after_a_kill_and_picks_no_more_than_it_wants() {
    let mut rig = with_devices(4).await;
    let mut fleet = Fleet::come(&rig, &names(4)).await;
    for id in names(4) {
        fleet.set(&id, Habit::IsSilent);
    }
    let body = json!({"payload": 1, "count": 2, "every": "5s", "answer_timeout": "1m", "missed": "skip"});
    let put = rig.json("PUT", "/v1/campaigns/c", &body.to_string()).await;
    assert_eq!(put.status, 201, "{put:?}");
    let asked = [fleet.next().await, fleet.next().await];
    let paused = rig.json("POST", "/v1/campaigns/c/pause", "").await;
    assert_eq!(paused.status, 204, "{paused:?}");
    rig.restart().await;
    let gone = fleet.vanish().await;
    fleet.come_back(&rig, gone).await;
    for heard in &asked {
        fleet.answer(heard).await;
    }
    let path = "/v1/campaigns/c/slots";
    let first_ended = |list: &Value| {
        let oldest = list["items"].as_array().and_then(|slots| slots.last());
        oldest.is_some_and(|slot| slot["answered"] == 2)
    };
    let list: Value = rig.api.until(path, PATIENCE, first_ended).await.expect("it comes to that");
    for slot in list["items"].as_array().expect("items") {
        let picked = slot["picked"].as_u64().expect("a number");
        assert!(picked <= 2 && slot["replaced"] == 0, "{slot}");
    }
    let results = rig.items("/v1/campaigns/c/results?order=asc").await;
    let of_first: BTreeSet<_> = asked.iter().map(|heard| heard.device.as_str()).collect();
    for result in &results[..2] {
        assert!(of_first.contains(result["device_id"].as_str().expect("an id")), "{result}");
    }
}
