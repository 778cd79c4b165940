//! Edge nodes: accepted reports of a server's devices come to another server, each once in effect
//! and in order. That holds whoever is killed and however long the line is cut.

use std::collections::BTreeSet;
use std::time::Instant;

use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS};
use serde_json::{Value, json};

use super::nodes::{TestNode, start, until_copied};
use super::refused;
use crate::contract::rig::{PATIENCE, each, each_in};

const COPY: &str = "/v1/streams/edge/reports/copies/centre";

async fn edge_and_centre() -> [TestNode; 2] {
    let nodes = start(["edge", "centre"]).await;
    for node in &nodes {
        for (id, kind, site) in
            [("a", "meter", "12"), ("b", "meter", "12"), ("c", "meter", "13"), ("door", "lock", "12")]
        {
            node.rig.device(&json!({"id": id, "kind": kind, "labels": {"site": site}})).await;
        }
    }
    nodes[0].knows(&nodes[1]).await;
    nodes
}

/// A meter's reports of these numbers, over HTTP.
async fn report_numbers(node: &TestNode, device: &str, numbers: std::ops::Range<u64>) {
    let lines: Vec<String> =
        numbers.clone().map(|number| json!({"device_id": device, "data": number}).to_string()).collect();
    let answer = node.rig.ask("POST", "/v1/reports", "application/x-ndjson", &lines.join("\n")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let told = answer.json();
    assert_eq!(told["accepted"], numbers.end - numbers.start, "{told}");
}

/// The same over MQTT: each acknowledged.
async fn publish_numbers(node: &TestNode, device: &str, numbers: std::ops::Range<u64>) {
    let address = node.rig.site.mqtt.address().await;
    let options = MqttOptions::new(device, address.ip().to_string(), address.port());
    let (client, mut events) = AsyncClient::new(options, 100);
    events.network_options.set_connection_timeout(PATIENCE.as_secs());
    let count = numbers.end - numbers.start;
    for number in numbers {
        let topic = format!("dev/meter/{device}/state");
        client.publish(topic, QoS::AtLeastOnce, false, number.to_string()).await.expect("room");
    }
    let mut acknowledged = 0;
    while acknowledged < count {
        let event = events.poll().await.expect("the connection holds");
        acknowledged += u64::from(matches!(event, Event::Incoming(Packet::PubAck(_))));
    }
}

/// Times and values of a device's readings, oldest first.
async fn readings(node: &TestNode, device: &str) -> Vec<(Value, Value)> {
    let items = node.rig.items(&format!("/v1/devices/{device}/readings?order=asc")).await;
    items.into_iter().map(|item| (item["ts"].clone(), item["data"].clone())).collect()
}

/// The values that changes of a device were told with, oldest first.
async fn changes(node: &TestNode, device: &str) -> Vec<Value> {
    let events = node.rig.items(&format!("/v1/events?device={device}&order=asc&type=device.changed")).await;
    each(&events, "value")
}

/// Waits until both nodes tell the same changes of a device, up to its last value. Events end in
/// front of what other partitions are still writing, at either node.
async fn until_same_changes([edge, centre]: [&TestNode; 2], device: &str, last: &Value) {
    let begun = Instant::now();
    loop {
        let (here, there) = (changes(edge, device).await, changes(centre, device).await);
        if here == there && here.last() == Some(last) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{device}: {here:?} here, {there:?} there");
    }
}

#[tokio::test]
async fn accepted_reports_come_to_the_centre_once_and_in_order() {
    let [mut edge, mut centre] = edge_and_centre().await;
    let terms = json!({"kind": "reports", "node": "centre", "selector": "site=12"});
    let made = edge.rig.json("PUT", COPY, &terms.to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let (mut next, step) = (1, 60);
    for round in 0..4 {
        report_numbers(&edge, "a", next..next + step).await;
        publish_numbers(&edge, "b", next..next + step).await;
        report_numbers(&edge, "c", next..next + step).await;
        match round {
            0 => edge.kill_and_start().await,
            1 => centre.kill_and_start().await,
            2 => {
                centre.line.cut();
                report_numbers(&edge, "a", next + step..next + 2 * step).await;
                publish_numbers(&edge, "b", next + step..next + 2 * step).await;
                let waiting = |copy: &Value| copy["state"] == "waiting" && copy["error"].is_string();
                edge.rig.api.until(COPY, PATIENCE, waiting).await.expect("it says so");
                edge.kill_and_start().await;
                centre.line.mend();
                next += step;
            }
            _ => {}
        }
        next += step;
    }
    edge.rig.report("door", 1).await;
    edge.rig.report("door", 1).await;
    edge.rig.report("door", 0).await;
    for device in ["a", "b", "door"] {
        let here = readings(&edge, device).await;
        let path = format!("/v1/devices/{device}/readings?order=asc&limit=1000");
        let all_there =
            |page: &Value| page["items"].as_array().is_some_and(|items| items.len() >= here.len());
        let _: Value = centre.rig.api.until(&path, PATIENCE, all_there).await.expect("they come");
        assert_eq!(readings(&centre, device).await, here, "{device}: the same readings at the same times");
        let (_, last) = here.last().expect("it has reported");
        until_same_changes([&edge, &centre], device, last).await;
    }
    let numbers: Vec<_> = readings(&edge, "a").await.into_iter().map(|(_, data)| data).collect();
    assert_eq!(numbers, (1..next).map(Value::from).collect::<Vec<_>>());
    assert_eq!(readings(&centre, "c").await, [], "it is of another site");
    let shown = until_copied(&edge, COPY).await;
    assert_eq!(
        (&shown["kind"], &shown["stream"], &shown["refused"]),
        (&json!("reports"), &json!(null), &json!(0))
    );
    assert_eq!((&shown["selector"], &shown["segments"]), (&json!("site=12"), &json!([])), "{shown}");
}

#[tokio::test]
async fn what_the_centre_refuses_for_good_is_counted_and_holds_up_nothing() {
    let [edge, centre] = edge_and_centre().await;
    edge.rig.device(&json!({"id": "stranger", "kind": "meter"})).await;
    edge.copies(COPY, &json!({"kind": "reports", "node": "centre"})).await;
    report_numbers(&edge, "stranger", 0..3).await;
    report_numbers(&edge, "a", 0..20).await;
    let is_over = |copy: &Value| copy["refused"] == 3 && copy["copied"] == 20;
    let shown: Value = edge.rig.api.until(COPY, PATIENCE, is_over).await.expect("it says so");
    assert_eq!((&shown["lag"], &shown["error"]), (&json!(0), &json!(null)), "{shown}");
    assert_eq!(readings(&centre, "a").await.len(), 20);
    // A batch whose answer took too long goes a second time, and is refused a second time.
    let payloads = |list: &Value| -> BTreeSet<String> {
        each_in(&list["items"], "payload").iter().map(Value::to_string).collect()
    };
    let all_there = |list: &Value| payloads(list).len() >= 3;
    let kept: Value =
        centre.rig.api.until("/v1/quarantine", PATIENCE, all_there).await.expect("all are kept");
    assert_eq!(payloads(&kept).len(), 3, "{kept}");
    assert!(each_in(&kept["items"], "code").iter().all(|code| code == "unknown_device"), "{kept}");
}

#[tokio::test]
async fn reports_are_gathered_as_messages_that_anybody_may_read() {
    let [edge, centre] = edge_and_centre().await;
    edge.copies(COPY, &json!({"kind": "reports", "node": "centre"})).await;
    let ts = "2026-01-01T00:00:00.000Z";
    let _: Value = edge
        .rig
        .api
        .post("/v1/reports", &json!({"device_id": "a", "data": {"volts": 4.5}, "ts": ts, "id": "x"}))
        .await
        .expect("taken");
    let _: Value = edge
        .rig
        .api
        .post("/v1/reports", &json!({"device_id": "a", "data": 7, "id": "x"}))
        .await
        .expect("taken");
    until_copied(&edge, COPY).await;
    let messages = edge.rig.items("/v1/streams/edge/reports/messages").await;
    assert_eq!(messages.len(), 1, "a repeat is without effect: {messages:?}");
    assert_eq!(messages[0]["payload"], json!({"device_id": "a", "data": {"volts": 4.5}, "ts": ts}));
    assert_eq!((&messages[0]["segment"], &messages[0]["ts"]), (&json!("centre"), &json!(ts)));
    assert_eq!(readings(&centre, "a").await, [(json!(ts), json!({"volts": 4.5}))]);
    assert_eq!(edge.rig.json("DELETE", COPY, "").await.status, 204);
    report_numbers(&edge, "a", 0..3).await;
    assert_eq!(edge.rig.items("/v1/streams/edge/reports/messages").await.len(), 1, "it is gone");
}

#[tokio::test]
async fn a_receipt_names_the_centre_as_it_calls_itself() {
    let [edge, centre] = edge_and_centre().await;
    let hub = json!({"url": format!("http://{}", centre.line.address)}).to_string();
    assert_eq!(edge.rig.json("PUT", "/v1/nodes/hub", &hub).await.status, 201);
    edge.copies(COPY, &json!({"kind": "reports", "node": "hub"})).await;
    report_numbers(&edge, "a", 0..1).await;
    until_copied(&edge, COPY).await;
    let receipt = edge.rig.get("/v1/streams/edge/reports/receipts?id=1").await;
    assert_eq!(receipt["durable_on"], json!(["edge", "centre"]));
}

#[tokio::test]
async fn a_copy_of_reports_goes_to_another_node_by_its_own_terms() {
    let [edge, _centre] = edge_and_centre().await;
    for (terms, expect) in [
        (json!({"kind": "reports", "node": "nobody"}), (404, "unknown_node")),
        (json!({"kind": "reports", "node": "self"}), (422, "invalid_name")),
        (json!({"kind": "reports", "node": "centre", "direction": "from"}), (422, "unknown_word")),
        (json!({"kind": "reports", "node": "centre", "stream": "a/b"}), (422, "unknown_field")),
        (json!({"kind": "reports", "node": "centre", "selector": "site in ("}), (422, "bad_selector")),
        (
            json!({"kind": "messages", "direction": "to", "node": "centre", "selector": "a=b"}),
            (422, "unknown_field"),
        ),
    ] {
        let answer = edge.rig.json("PUT", COPY, &terms.to_string()).await;
        assert_eq!(refused(&answer), (expect.0, expect.1.to_owned()), "{terms}");
    }
    let metrics = edge.rig.ask("GET", "/metrics", "text/plain", "").await;
    assert!(metrics.body.contains("fieldpost_gathering_copies 0\n"));
}
