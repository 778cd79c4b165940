//! What is said to the workers of a queue: durable, and told to whoever waits for jobs.

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{done, refused};
use crate::contract::rig::{PATIENCE, Rig};
use crate::wire;

const QUEUE: &str = "/v1/queues/shop/mail";
const CONTROL: &str = "/v1/queues/shop/mail/control";

async fn put(rig: &Rig, control: &Value) {
    let answer = rig.json("PUT", CONTROL, &control.to_string()).await;
    assert_eq!(answer.status, 204, "{answer:?}");
}

#[tokio::test]
async fn a_control_is_durable_and_told_with_jobs() {
    let mut rig = Rig::start(&[]).await;
    let none = rig.json("GET", CONTROL, "").await;
    assert_eq!(refused(&none), (404, "no_control".to_owned()));
    assert!(done(&rig, &format!("{QUEUE}/consume"), "{}").await.get("control").is_none());
    let control = json!({"state": "drain", "max_in_flight": 3, "data": {"rate": [1, 2]}});
    put(&rig, &control).await;
    rig.restart().await;
    assert_eq!(rig.get(CONTROL).await, control);
    let consumed = done(&rig, &format!("{QUEUE}/consume"), "{}").await;
    assert_eq!(consumed, json!({"jobs": [], "control": control}));
    put(&rig, &json!({"state": "run"})).await;
    assert_eq!(rig.get(CONTROL).await, json!({"state": "run"}), "all of it is replaced");
    assert_eq!(rig.json("DELETE", CONTROL, "").await.status, 204);
    rig.restart().await;
    assert_eq!(rig.json("GET", CONTROL, "").await.status, 404);
}

#[tokio::test]
async fn a_change_ends_the_wait_of_a_consumer() {
    let rig = Rig::start(&[]).await;
    let address = rig.site.http.address().await;
    let consume = format!("{QUEUE}/consume");
    let waits =
        tokio::spawn(async move { wire::ask(address, "POST", &consume, &[], br#"{"wait":"5m"}"#).await });
    let metric = "fieldpost_engine_waiting_consumers";
    let waiting = async {
        loop {
            let shown = rig.json("GET", "/metrics", "").await.body;
            if shown.lines().any(|line| line.starts_with(metric) && line.ends_with(" 1")) {
                break;
            }
        }
    };
    timeout(PATIENCE, waiting).await.expect("it waits");
    put(&rig, &json!({"state": "stop"})).await;
    let answer = timeout(PATIENCE, waits).await.expect("the wait ends").expect("an answer");
    assert_eq!(answer.json(), json!({"jobs": [], "control": {"state": "stop"}}));
}

#[tokio::test]
async fn a_new_queue_does_not_have_the_control_of_a_deleted_one() {
    let mut rig = Rig::start(&[]).await;
    put(&rig, &json!({"state": "stop"})).await;
    assert_eq!(rig.json("DELETE", QUEUE, "").await.status, 204);
    assert_eq!(refused(&rig.json("GET", CONTROL, "").await), (404, "no_control".to_owned()));
    assert!(done(&rig, &format!("{QUEUE}/consume"), "{}").await.get("control").is_none());
    rig.restart().await;
    assert_eq!(rig.json("GET", CONTROL, "").await.status, 404);
}
