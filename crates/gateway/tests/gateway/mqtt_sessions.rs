//! Sessions: what a client finds again when it comes back.

use std::time::Duration;

use gateway::mqtt::MqttLimits;

use crate::raw_client::Version::{V5, V311};
use crate::raw_client::{
    Connect, PING, PONG, RawClient, lock_qos_2, packet, pubcomp, pubrec, pubrel, subscribe,
};
use crate::rig::{LOCKS, Rig};

const SUBSCRIPTIONS: &str = "fieldpost_mqtt_subscriptions";
const CONNECTIONS: &str = "fieldpost_mqtt_connections";
const ABSENT: &str = "fieldpost_mqtt_absent_sessions";
const GOODBYE: &[u8] = b"\xe0\0";

#[tokio::test]
async fn a_client_finds_its_session_again() {
    let rig = Rig::start().await;
    for version in [V311, V5] {
        let connect = Connect::lasting(version);
        let mut client = RawClient::connect(rig.mqtt, connect).await;
        // Of another lock: a copy of the report might come between the answers.
        client.send(&subscribe(version, &["dev/lock/0xC/#"])).await;
        client.receive().await;
        client.send(&lock_qos_2(version, 7, LOCKS[0], 1)).await;
        client.expect(&pubrec(7)).await;
        client.send(GOODBYE).await;
        assert_eq!(client.rest().await, b"");
        rig.figure_becomes(ABSENT, 1).await;
        assert_eq!(rig.figure(SUBSCRIPTIONS), 0, "of a client that is here");

        let (mut client, present) = RawClient::connect_to_session(rig.mqtt, connect).await;
        assert!(present, "{version:?}");
        assert_eq!((rig.figure(SUBSCRIPTIONS), rig.figure(ABSENT)), (1, 0));
        // It may not have got the PUBREC: the publish comes again, and is known.
        client.send(&lock_qos_2(version, 7, LOCKS[0], 1)).await;
        client.expect(&pubrec(7)).await;
        client.send(&pubrel(7)).await;
        client.expect(&pubcomp(7)).await;
        // One that wants nothing of it finds nothing, and so does the next.
        let (_, present) = RawClient::connect_to_session(rig.mqtt, Connect::new(version)).await;
        assert!(!present);
        assert_eq!(rig.figure(SUBSCRIPTIONS), 0);
        let (_, present) = RawClient::connect_to_session(rig.mqtt, Connect::new(version)).await;
        assert!(!present);
    }
    assert_eq!(rig.readings(LOCKS[0]), ["1", "1"], "one reading of each version");
    assert_eq!(rig.figure("fieldpost_mqtt_sessions_resumed_total"), 2);
}

#[tokio::test]
async fn a_newcomer_takes_over_the_session_of_the_older_connection() {
    let rig = Rig::start().await;
    let mut older = RawClient::connect(rig.mqtt, Connect::lasting(V5)).await;
    older.send(&subscribe(V5, &["dev/lock/0xA/#", "dev/lock/0xC/#"])).await;
    older.receive().await;
    let (mut newer, present) = RawClient::connect_to_session(rig.mqtt, Connect::lasting(V5)).await;
    assert!(present);
    older.expect_end(0x8e).await;
    newer.send(PING).await;
    newer.expect(PONG).await;
    assert_eq!((rig.figure(SUBSCRIPTIONS), rig.figure(ABSENT)), (2, 0));
}

#[tokio::test]
async fn a_client_that_finds_no_place_keeps_its_session() {
    let rig = Rig::with(MqttLimits { connections_max: 1, ..MqttLimits::default() }).await;
    drop(RawClient::connect(rig.mqtt, Connect::lasting(V5)).await);
    rig.figure_becomes(CONNECTIONS, 0).await;
    let other = RawClient::connect(rig.mqtt, Connect { client_id: "other", ..Connect::new(V5) }).await;
    let (_, connack) = RawClient::connack(rig.mqtt, Connect::lasting(V5)).await;
    assert_eq!(connack[3], 0x89, "its session has no place that it could take: {connack:x?}");
    drop(other);
    rig.figure_becomes(CONNECTIONS, 0).await;
    let (_, present) = RawClient::connect_to_session(rig.mqtt, Connect::lasting(V5)).await;
    assert!(present);
}

#[tokio::test]
async fn a_publish_that_is_not_durable_yet_is_known_to_the_next_connection() {
    let rig = Rig::start().await;
    let mut older = RawClient::connect(rig.mqtt, Connect::lasting(V311)).await;
    rig.store.hold();
    older.send(&lock_qos_2(V311, 7, LOCKS[0], 1)).await;
    rig.store.holds(1).await;
    drop(older);
    let mut newer = RawClient::open(rig.mqtt, V311).await;
    newer.send(&[Connect::lasting(V311).bytes(), lock_qos_2(V311, 7, LOCKS[0], 1)].concat()).await;
    rig.store.release();
    newer.expect(b"\x20\x02\x01\0").await;
    newer.expect(&pubrec(7)).await;
    assert_eq!(rig.readings(LOCKS[0]), ["1"]);
}

#[tokio::test]
async fn a_client_that_forgot_its_session_loses_no_report() {
    let rig = Rig::start().await;
    for value in [1, 0] {
        let connect = Connect::lasting(V311);
        let (mut client, _) = RawClient::connect_to_session(rig.mqtt, connect).await;
        // It never releases, and begins with the same id again.
        client.send(&lock_qos_2(V311, 1, LOCKS[0], value)).await;
        client.expect(&pubrec(1)).await;
    }
    assert_eq!(rig.readings(LOCKS[0]), ["1", "0"]);
}

#[tokio::test]
async fn a_session_ends_when_its_time_is_up() {
    let rig = Rig::start().await;
    let connect = Connect { expiry: 1, ..Connect::lasting(V5) };
    drop(RawClient::connect(rig.mqtt, connect).await);
    rig.figure_becomes("fieldpost_mqtt_disconnects_total{reason=\"gone\"}", 1).await;
    rig.figure_becomes("fieldpost_mqtt_absent_sessions_bytes", 0).await;
    let (_, present) = RawClient::connect_to_session(rig.mqtt, connect).await;
    assert!(!present);
}

#[tokio::test]
async fn a_goodbye_may_shorten_the_session_but_not_begin_one() {
    let rig = Rig::start().await;
    let goodbye = |expiry: u32| packet(0xe0, &[b"\0\x05\x11", &expiry.to_be_bytes()[..]].concat());
    let mut client = RawClient::connect(rig.mqtt, Connect::lasting(V5)).await;
    client.send(&goodbye(0)).await;
    assert_eq!(client.rest().await, b"");
    let mut client = RawClient::connect(rig.mqtt, Connect { clean: false, ..Connect::new(V5) }).await;
    client.send(&goodbye(9)).await;
    client.expect_end(0x82).await;
    let (_, present) = RawClient::connect_to_session(rig.mqtt, Connect::lasting(V5)).await;
    assert!(!present);
}

#[tokio::test]
async fn the_server_says_what_it_grants_instead() {
    let limits = MqttLimits { session_expiry_max: Duration::from_secs(3_599), ..MqttLimits::default() };
    let rig = Rig::with(limits).await;
    let told =
        |connack: &[u8], property: &[u8]| connack.windows(property.len()).any(|bytes| bytes == property);
    let connect = Connect { keep_alive: 0, ..Connect::lasting(V5) };
    let (_, connack) = RawClient::connack(rig.mqtt, connect).await;
    assert!(told(&connack, &[0x11, 0, 0, 14, 15]), "session expiry 3,599 s: {connack:x?}");
    assert!(told(&connack, &[0x13, 14, 16]), "keep-alive 3,600 s: {connack:x?}");
    let connect = Connect { expiry: 9, ..Connect::lasting(V5) };
    let (_, connack) = RawClient::connack(rig.mqtt, connect).await;
    let properties = &connack[5..];
    assert!(!told(properties, &[0x11]) && !told(properties, &[0x13]), "as it asked: {connack:x?}");
}

#[tokio::test]
async fn sessions_of_absent_clients_have_limited_room() {
    let rig = Rig::with(MqttLimits { absent_bytes_max: 1_500, ..MqttLimits::default() }).await;
    for client_id in ["first", "second"] {
        let mut client = RawClient::connect(rig.mqtt, Connect { client_id, ..Connect::lasting(V311) }).await;
        client.send(GOODBYE).await;
        assert_eq!(client.rest().await, b"");
    }
    rig.figure_becomes("fieldpost_mqtt_sessions_not_kept_total", 1).await;
    assert_eq!(rig.figure(ABSENT), 1);
    assert_eq!(rig.figure("fieldpost_mqtt_absent_sessions_bytes"), 1_024);
    for (client_id, expect) in [("first", true), ("second", false)] {
        let connect = Connect { client_id, ..Connect::lasting(V311) };
        let (_client, present) = RawClient::connect_to_session(rig.mqtt, connect).await;
        assert_eq!(present, expect, "{client_id}");
    }
}

#[tokio::test]
async fn a_stopping_listener_does_not_wait_for_absent_clients() {
    let rig = Rig::start().await;
    drop(RawClient::connect(rig.mqtt, Connect::lasting(V311)).await);
    rig.figure_becomes(ABSENT, 1).await;
    let stopped = tokio::time::timeout(crate::PATIENCE, rig.stop_mqtt()).await;
    assert!(stopped.is_ok());
}
