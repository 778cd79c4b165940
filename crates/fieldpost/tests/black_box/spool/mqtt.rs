//! `--mqtt`: devices publish as they do to the server, and their reports arrive with the times at
//! which they were received.

use base::Timestamp;
use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS};
use serde_json::{Value, json};

use super::rig::{SpoolRig, each_in};

/// Publishes these, and waits until each is acknowledged.
async fn publish(rig: &SpoolRig, qos: QoS, publishes: &[(&str, Value)]) {
    let address = rig.site.mqtt.address().await;
    let options = MqttOptions::new("device", address.ip().to_string(), address.port());
    let (client, mut events) = AsyncClient::new(options, 10);
    for (topic, payload) in publishes {
        client.publish(*topic, qos, false, payload.to_string()).await.expect("room");
    }
    let mut acknowledged = 0;
    while acknowledged < publishes.len() {
        let event = events.poll().await.expect("the connection holds");
        acknowledged += usize::from(matches!(event, Event::Incoming(Packet::PubAck(_) | Packet::PubComp(_))));
    }
    client.disconnect().await.expect("room");
    while !matches!(events.poll().await, Ok(Event::Outgoing(rumqttc::Outgoing::Disconnect)) | Err(_)) {}
}

#[tokio::test]
async fn reports_arrive_with_their_times_of_receipt() {
    let mut rig = SpoolRig::start(&["--mqtt", "127.0.0.1:0"]).await;
    rig.server.device(&json!({"id": "a1", "kind": "meter"})).await;
    rig.server.kill().await;
    let state = "dev/meter/a1/state";
    let own = "2026-01-01T00:00:00.000Z";
    publish(&rig, QoS::AtLeastOnce, &[(state, json!({"data": 0, "ts": own})), (state, json!(1))]).await;
    publish(&rig, QoS::ExactlyOnce, &[("sensors", json!({"sensor_id": "a1", "data": 2}))]).await;
    publish(&rig, QoS::AtLeastOnce, &[("dev/meter/a1/heartbeat", json!(null)), ("other", json!(1))]).await;
    assert_eq!(rig.state().await["waiting"], 3);
    rig.kill().await;
    rig.start_again().await;
    let oldest =
        rig.state().await["oldest_at"].as_str().and_then(|at| Timestamp::parse(at).ok()).expect("a time");
    rig.server.start_again().await;
    let back = rig.server.get("/v1/system").await;
    rig.until(|state| state["waiting"] == 0).await;
    let readings = rig.server.get("/v1/devices/a1/readings?order=asc").await;
    assert_eq!(each_in(&readings["items"], "data"), [json!(0), json!(1), json!(2)], "{readings} {back}");
    let times: Vec<_> = each_in(&readings["items"], "ts")
        .iter()
        .map(|ts| ts.as_str().and_then(|ts| Timestamp::parse(ts).ok()).expect("a time"))
        .collect();
    assert_eq!(times[0], Timestamp::parse(own).expect("a time"));
    assert!(times[1] >= oldest && times[2] >= times[1], "{oldest} {times:?}");
    let received: Vec<_> = each_in(&readings["items"], "received_at")
        .iter()
        .filter_map(|at| at.as_str().and_then(|at| Timestamp::parse(at).ok()))
        .collect();
    assert!(received.iter().all(|at| *at >= times[2]), "{received:?} {times:?}");
}

#[tokio::test]
async fn a_report_under_another_kind_than_the_devices_is_refused_as_the_server_would() {
    let rig = SpoolRig::start(&["--mqtt", "127.0.0.1:0"]).await;
    rig.server.device(&json!({"id": "a1", "kind": "meter"})).await;
    publish(&rig, QoS::AtLeastOnce, &[("dev/lamp/a1/state", json!(1)), ("dev/meter/a1/state", json!(2))])
        .await;
    let state = rig.until(|state| state["waiting"] == 0).await;
    assert_eq!((&state["forwarded"], &state["refused"]), (&json!(1), &json!(1)), "{state}");
    let refused = rig.refused();
    assert_eq!((&refused[0]["code"], &refused[0]["body"]["kind"]), (&json!("wrong_kind"), &json!("lamp")));
    assert_eq!(rig.server.get("/v1/devices/a1").await["state"]["value"], 2);
}
