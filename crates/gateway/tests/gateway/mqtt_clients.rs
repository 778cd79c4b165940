//! A client library as devices use it, in both versions.

use std::time::Duration;

use rumqttc::{mqttbytes as v4_packets, v5};
use tokio::time::timeout;

use crate::PATIENCE;
use crate::rig::{LOCKS, Rig};

const REPORTS: usize = 500;

#[tokio::test]
async fn rumqttc_reports_over_mqtt_3_1_1() {
    use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS};
    let rig = Rig::start().await;
    let mut options = MqttOptions::new("rumqttc", rig.mqtt.ip().to_string(), rig.mqtt.port());
    options.set_inflight(20).set_keep_alive(Duration::from_secs(5));
    let (client, mut events) = AsyncClient::new(options, 10);
    let publishing = tokio::spawn(async move {
        client.subscribe("dev/lock/0xA/#", QoS::AtLeastOnce).await.expect("queued");
        for at in 0..REPORTS {
            let payload = format!(r#"{{"data":{}}}"#, at % 2);
            client.publish("dev/lock/0xA/state", QoS::AtLeastOnce, false, payload).await.expect("queued");
        }
        client
    });
    let (mut acks, mut subscribed) = (0, false);
    while acks < REPORTS {
        match timeout(PATIENCE, events.poll()).await.expect("in time").expect("connected") {
            Event::Incoming(Packet::ConnAck(ack)) => {
                assert_eq!(ack.code, v4_packets::v4::ConnectReturnCode::Success);
                assert!(!ack.session_present);
            }
            Event::Incoming(Packet::SubAck(_)) => subscribed = true,
            Event::Incoming(Packet::PubAck(_)) => acks += 1,
            _ => {}
        }
    }
    assert!(subscribed);
    assert_eq!(rig.readings(LOCKS[0]).len(), REPORTS);
    publishing.await.expect("no panic").disconnect().await.expect("queued");
    while timeout(PATIENCE, events.poll()).await.expect("in time").is_ok() {}
    rig.stop_mqtt().await;
}

#[tokio::test]
async fn rumqttc_reports_over_mqtt_5() {
    use v5::mqttbytes::QoS;
    use v5::mqttbytes::v5::{Packet, PubAckReason};
    use v5::{AsyncClient, Event, MqttOptions};
    let rig = Rig::start().await;
    let mut options = MqttOptions::new("rumqttc", rig.mqtt.ip().to_string(), rig.mqtt.port());
    options.set_keep_alive(Duration::from_secs(5));
    let (client, mut events) = AsyncClient::new(options, 10);
    let publishing = tokio::spawn(async move {
        for at in 0..REPORTS {
            let device = if at % 10 == 0 { "0xF" } else { LOCKS[0] };
            let topic = format!("dev/lock/{device}/state");
            client.publish(topic, QoS::AtLeastOnce, false, (at % 2).to_string()).await.expect("queued");
        }
        client
    });
    let (mut accepted, mut refused) = (0, 0);
    while accepted + refused < REPORTS {
        let event = timeout(PATIENCE, events.poll()).await.expect("in time").expect("connected");
        let Event::Incoming(Packet::PubAck(ack)) = event else { continue };
        match ack.reason {
            PubAckReason::Success => accepted += 1,
            PubAckReason::PayloadFormatInvalid => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((accepted, refused), (REPORTS * 9 / 10, REPORTS / 10));
    assert_eq!(rig.readings(LOCKS[0]).len(), accepted);
    publishing.await.expect("no panic").disconnect().await.expect("queued");
    while timeout(PATIENCE, events.poll()).await.expect("in time").is_ok() {}
    rig.stop_mqtt().await;
}
