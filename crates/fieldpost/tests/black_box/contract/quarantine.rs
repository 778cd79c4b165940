//! What is refused, as it can be read, discarded and handed in once more.

use serde_json::{Value, json};

use crate::contract::rig::{Rig, each};

const LATER: &str = r#"{"device_id":"0xB","data":1}"#;

async fn with_refused() -> (Rig, Vec<Value>) {
    let rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "0xA"})).await;
    for (content_type, body) in [
        ("application/json", LATER),
        ("application/json", "nonsense"),
        ("application/x-ndjson", "{\"device_id\":\"0xA\",\"data\":1}\n{\"device_id\":\"0xA\",\"data\":7}"),
    ] {
        rig.ask("POST", "/v1/reports", content_type, body).await;
    }
    let mut refused = rig.feed("/v1/quarantine?order=asc", 3).await;
    // Within a millisecond they are in any order.
    refused.sort_by_key(|report| report["code"].as_str().expect("a code").to_owned());
    (rig, refused)
}

#[tokio::test]
async fn single_reports_and_lines_are_kept_as_they_were_received() {
    let (rig, refused) = with_refused().await;
    assert_eq!(
        each(&refused, "code"),
        ["unknown_device", "unreadable", "value_not_allowed"],
        "in order of code"
    );
    assert_eq!(each(&refused, "payload"), [LATER, "nonsense", "{\"device_id\":\"0xA\",\"data\":7}"]);
    assert_eq!(each(&refused, "device_id"), [json!("0xB"), Value::Null, json!("0xA")]);
    assert!(refused.iter().all(|report| report["source"] == "http" && report["cut"] == false), "{refused:?}");
    let path = format!("/v1/quarantine/{}", refused[1]["id"].as_str().expect("an id"));
    assert_eq!(rig.get(&path).await, refused[1]);
    assert_eq!(rig.json("DELETE", &path, "").await.status, 204);
    assert_eq!(rig.json("GET", &path, "").await.text("code"), "unknown_quarantined");
}

#[tokio::test]
async fn a_report_is_handed_in_again_when_its_device_is_there() {
    let (mut rig, refused) = with_refused().await;
    rig.restart().await;
    let replay = format!("/v1/quarantine/{}/replay", refused[0]["id"].as_str().expect("an id"));
    rig.device(&json!({"id": "0xB"})).await;
    let answer = rig.json("POST", &replay, "").await;
    assert_eq!(answer.json(), json!({"accepted": 1, "rejected_count": 0, "rejected": []}));
    let readings = rig.items("/v1/devices/0xB/readings").await;
    assert_eq!(each(&readings, "ts"), [refused[0]["at"].clone()], "the time of its receipt");
    assert_eq!(rig.json("POST", &replay, "").await.text("code"), "unknown_quarantined");
    assert_eq!(rig.feed("/v1/quarantine", 2).await.len(), 2);
}

#[tokio::test]
async fn one_device_may_take_all_of_the_room() {
    let rig = Rig::start(&[("FIELDPOST_QUARANTINE__MAX_BYTES", "64KB")]).await;
    let refused = async |length: usize, number: usize| {
        let body = json!({"device_id": "0xB", "data": format!("{number:0length$}")}).to_string();
        assert_eq!(rig.json("POST", "/v1/reports", &body).await.text("code"), "unknown_device");
    };
    refused(4_000, 0).await;
    for number in 1..=36 {
        refused(900, number).await;
    }
    rig.feed("/v1/quarantine?limit=100", 37).await;
}
