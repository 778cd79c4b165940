//! QoS 2: a report is taken once, however often it is sent.

use std::num::NonZeroU16;

use gateway::mqtt::MqttLimits;

use crate::raw_client::Version::{V5, V311};
use crate::raw_client::{
    PING, PONG, RawClient, lock, lock_qos_2, puback, pubcomp, publish, pubrec, pubrel, reason_of,
};
use crate::rig::{LOCKS, METER, Rig};

#[tokio::test]
async fn a_pubrec_leaves_when_the_report_is_durable_and_in_its_turn() {
    let rig = Rig::start().await;
    for version in [V311, V5] {
        let mut client = RawClient::plain(rig.mqtt, version).await;
        rig.store.hold();
        client.send(&lock_qos_2(version, 1, LOCKS[0], 1)).await;
        rig.store.holds(1).await;
        client.send(&lock(version, 2, LOCKS[1], 1)).await;
        rig.store.holds(2).await;
        // The later report is durable first, and nothing was acknowledged before.
        rig.store.release_last();
        client.send(PING).await;
        client.expect(PONG).await;
        rig.store.release();
        client.expect(&pubrec(1)).await;
        client.expect(&puback(2)).await;
        client.send(&pubrel(1)).await;
        client.expect(&pubcomp(1)).await;
    }
    assert_eq!(rig.figure("fieldpost_mqtt_unreleased_publishes"), 0);
}

#[tokio::test]
async fn a_publish_that_comes_again_has_no_second_effect() {
    let rig = Rig::start().await;
    for version in [V311, V5] {
        let mut client = RawClient::plain(rig.mqtt, version).await;
        let mut again = lock_qos_2(version, 1, LOCKS[0], 1);
        again[0] = 0x3c;
        rig.store.hold();
        client.send(&[lock_qos_2(version, 1, LOCKS[0], 1), again.clone()].concat()).await;
        rig.store.holds(1).await;
        rig.store.release();
        client.expect(&pubrec(1)).await;
        client.expect(&pubrec(1)).await;
        client.send(&again).await;
        client.expect(&pubrec(1)).await;
        assert_eq!(rig.figure("fieldpost_mqtt_unreleased_publishes"), 1);
        client.send(&pubrel(1)).await;
        client.expect(&pubcomp(1)).await;
        // Released, the id stands for a new publish.
        client.send(&lock_qos_2(version, 1, LOCKS[0], 0)).await;
        client.expect(&pubrec(1)).await;
    }
    assert_eq!(rig.readings(LOCKS[0]), ["1", "0", "1", "0"]);
}

#[tokio::test]
async fn a_release_of_nothing_is_answered() {
    let rig = Rig::start().await;
    for (version, expect) in [(V311, &b"\x70\x02\0\x09"[..]), (V5, b"\x70\x03\0\x09\x92")] {
        let mut client = RawClient::plain(rig.mqtt, version).await;
        client.send(&pubrel(9)).await;
        client.expect(expect).await;
    }
}

#[tokio::test]
async fn a_release_before_its_pubrec_breaks_the_rules() {
    let rig = Rig::start().await;
    let mut client = RawClient::plain(rig.mqtt, V5).await;
    rig.store.hold();
    client.send(&[lock_qos_2(V5, 1, LOCKS[0], 1), pubrel(1)].concat()).await;
    rig.store.holds(1).await;
    rig.store.release();
    client.expect(&pubrec(1)).await;
    client.expect_end(0x82).await;
}

#[tokio::test]
async fn a_refused_report_ends_its_handshake_with_mqtt_5() {
    let rig = Rig::start().await;
    let mut new = RawClient::plain(rig.mqtt, V5).await;
    new.send(&lock_qos_2(V5, 1, LOCKS[0], 7)).await;
    let refused = new.receive().await;
    assert_eq!((refused[0], reason_of(&refused)), (0x50, 0x99), "{refused:x?}");
    // The id is free for another publish.
    new.send(&lock_qos_2(V5, 1, LOCKS[0], 1)).await;
    new.expect(&pubrec(1)).await;

    let mut old = RawClient::plain(rig.mqtt, V311).await;
    for value in [7, 1] {
        old.send(&lock_qos_2(V311, 1, LOCKS[1], value)).await;
        old.expect(&pubrec(1)).await;
    }
    old.send(&pubrel(1)).await;
    old.expect(&pubcomp(1)).await;
    assert_eq!(rig.readings(LOCKS[0]), ["1"]);
    assert!(rig.readings(LOCKS[1]).is_empty(), "3.1.1 has no other answer, so the second was a repeat");
}

#[tokio::test]
async fn a_client_of_mqtt_5_keeps_to_the_window() {
    let limits =
        MqttLimits { unacknowledged_max: NonZeroU16::new(2).expect("not 0"), ..MqttLimits::default() };
    let rig = Rig::with(limits).await;
    for version in [V311, V5] {
        let mut client = RawClient::plain(rig.mqtt, version).await;
        for id in 1..=2 {
            client.send(&lock_qos_2(version, id, LOCKS[0], 1)).await;
            client.expect(&pubrec(id)).await;
        }
        client.send(&lock_qos_2(version, 3, LOCKS[0], 1)).await;
        if version == V5 {
            client.expect_end(0x93).await;
        } else {
            client.expect(&pubrec(3)).await;
        }
    }
}

#[tokio::test]
async fn many_exchanges_go_on_side_by_side() {
    let rig = Rig::start().await;
    let mut client = RawClient::plain(rig.mqtt, V5).await;
    let state = |id: u16| {
        let mut bytes = publish(V5, id, "dev/meter/m1/state", &id.to_string());
        bytes[0] = 0x34;
        bytes
    };
    for round in 0..4 {
        let ids = || (1..=1_000).map(move |id| id + round * 1_000);
        client.send(&ids().flat_map(state).collect::<Vec<_>>()).await;
        for id in ids() {
            client.expect(&pubrec(id)).await;
        }
        client.send(&ids().flat_map(pubrel).collect::<Vec<_>>()).await;
        for id in ids() {
            client.expect(&pubcomp(id)).await;
        }
    }
    assert_eq!(rig.figure("fieldpost_mqtt_reports_total{result=\"accepted\"}"), 4_000);
    assert_eq!(rig.readings(METER).first().map(String::as_str), Some("1"));
}
