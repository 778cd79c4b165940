//! How connections end: broken rules, takeover, silence, no room, a stopping server and a failed
//! store.

use std::time::Duration;

use gateway::mqtt::MqttLimits;
use tokio::time::timeout;

use crate::PATIENCE;
use crate::raw_client::Version::{V5, V311};
use crate::raw_client::{Connect, PING, PONG, RawClient, lock, packet, puback, publish, text};
use crate::rig::{LOCKS, Rig};

#[tokio::test]
async fn broken_rules_end_the_connection_with_their_reason() {
    let rig = Rig::start().await;
    for version in [V311, V5] {
        let properties: &[u8] = if version == V5 { b"\0" } else { b"" };
        let body = |topic: &[u8], rest: &[u8]| {
            [&(topic.len() as u16).to_be_bytes(), topic, rest, properties, b"0"].concat()
        };
        let mut broken = vec![
            (packet(0x30, &body(b"dev/+/0xA/state", b"")), 0x90),
            (packet(0x30, &body(b"dev/#", b"")), 0x90),
            (packet(0x30, &body(b"", b"")), 0x82),
            (packet(0x30, &body(b"dev/lock/0\0A/state", b"")), 0x81),
            (packet(0x30, &body(b"dev/lock/\xff/state", b"")), 0x81),
            (packet(0x34, &body(b"dev/lock/0xA/state", b"\0\0")), 0x81),
            (packet(0x36, &body(b"dev/lock/0xA/state", b"\0\x01")), 0x81),
            (packet(0x32, &body(b"dev/lock/0xA/state", b"\0\0")), 0x81),
            (b"\x30\x80\x80\x10".to_vec(), 0x95),
            (b"\x30\xff\xff\xff\xff\x01".to_vec(), 0x81),
            (b"\x30\x01\0".to_vec(), 0x81),
            (b"\0\0".to_vec(), 0x81),
            (packet(0x40, b"\0\x01"), 0x82),
            (Connect::new(version).bytes(), 0x82),
        ];
        if version == V5 {
            for alias in [0, 17] {
                let alias = [&text("dev/lock/0xA/state")[..], b"\x03\x23\0", &[alias], b"0"].concat();
                broken.push((packet(0x30, &alias), 0x94));
            }
            broken.push((packet(0x30, b"\0\0\x03\x23\0\x010"), 0x94));
            broken.push((packet(0x82, b"\0\x05\x02\x0b\x01\0\x01a\0"), 0xa1));
        }
        for (bytes, code) in broken {
            let mut client = RawClient::plain(rig.mqtt, version).await;
            client.send(&bytes).await;
            client.expect_end(code).await;
        }
    }
    assert!(rig.readings("0xA").is_empty());
    assert_eq!(rig.figure("fieldpost_mqtt_disconnects_total{reason=\"topic_invalid\"}"), 5);
    assert_eq!(rig.figure("fieldpost_mqtt_disconnects_total{reason=\"packet_too_large\"}"), 2);
}

#[tokio::test]
async fn what_came_before_a_broken_rule_is_taken_and_acknowledged() {
    let rig = Rig::start().await;
    for version in [V311, V5] {
        let mut client = RawClient::plain(rig.mqtt, version).await;
        client.send(&[&lock(version, 1, LOCKS[0], 1)[..], b"\0\0"].concat()).await;
        client.expect(&puback(1)).await;
        client.expect_end(0x81).await;
    }
    assert_eq!(rig.readings(LOCKS[0]), ["1", "1"]);
}

#[tokio::test]
async fn a_publish_before_goodbye_is_taken() {
    let rig = Rig::start().await;
    let mut client = RawClient::plain(rig.mqtt, V311).await;
    client.send(&[&lock(V311, 0, LOCKS[0], 1)[..], b"\xe0\0"].concat()).await;
    assert_eq!(client.rest().await, b"");
    assert_eq!(rig.readings(LOCKS[0]), ["1"]);
    assert_eq!(rig.figure("fieldpost_mqtt_disconnects_total{reason=\"goodbye\"}"), 1);
}

#[tokio::test]
async fn a_connect_that_cannot_be_accepted_is_answered() {
    let rig = Rig::start().await;
    let no_id = |version| Connect { client_id: "", ..Connect::new(version) }.bytes();
    let kept = |mut bytes: Vec<u8>| {
        bytes[9] = 0;
        bytes
    };
    for (bytes, expect) in [
        (kept(no_id(V311)), &b"\x20\x02\0\x02"[..]),
        (packet(0x10, b"\0\x06MQIsdp\x03\x02\0\x3c\0\x02me"), b"\x20\x02\0\x01"),
        (packet(0x10, b"\0\x04MQTT\x07\x02\0\x3c\0\0\x02me"), b"\x20\x03\0\x84\0"),
        (Connect { will: Some(("a/#", "0")), ..Connect::new(V5) }.bytes(), b"\x20\x03\0\x90\0"),
        (PING.to_vec(), b""),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), b""),
        (b"\x10\xff\xff\x7f".to_vec(), b""),
    ] {
        let mut client = RawClient::open(rig.mqtt, V311).await;
        client.send(&bytes).await;
        assert_eq!(client.rest().await, expect, "{bytes:x?}");
    }
    let mut given_an_id = RawClient::open(rig.mqtt, V5).await;
    given_an_id.send(&kept(no_id(V5))).await;
    let connack = given_an_id.receive().await;
    assert!(connack.windows(7).any(|bytes| bytes == b"\x12\0\x15auto"), "{connack:x?}");
}

#[tokio::test]
async fn a_newcomer_with_the_same_client_id_takes_over() {
    let rig = Rig::start().await;
    for version in [V311, V5] {
        let mut older = RawClient::plain(rig.mqtt, version).await;
        let mut newer = RawClient::plain(rig.mqtt, version).await;
        older.expect_end(0x8e).await;
        newer.send(PING).await;
        newer.expect(PONG).await;
        newer.send(b"\xe0\0").await;
        assert_eq!(newer.rest().await, b"");
    }
    assert_eq!(rig.figure("fieldpost_mqtt_disconnects_total{reason=\"taken_over\"}"), 2);
}

#[tokio::test]
async fn what_the_older_connection_said_comes_before_the_newer_one() {
    let rig = Rig::start().await;
    let will = Some(("dev/meter/m1/state", "\"lost\""));
    let mut older = RawClient::connect(rig.mqtt, Connect { will, ..Connect::new(V311) }).await;
    rig.store.hold();
    older.send(&publish(V311, 1, "dev/meter/m1/state", "1")).await;
    rig.store.holds(1).await;
    let mut newer = RawClient::open(rig.mqtt, V311).await;
    newer.send(&[Connect::new(V311).bytes(), publish(V311, 1, "dev/meter/m1/state", "2")].concat()).await;
    rig.store.release();
    newer.expect(b"\x20\x02\0\0").await;
    newer.expect(&puback(1)).await;
    assert_eq!(rig.readings("m1"), ["1", "\"lost\"", "2"]);
}

#[tokio::test]
async fn a_will_is_applied_when_the_client_is_lost_and_only_then() {
    let rig = Rig::start().await;
    let connect = |version, client_id| {
        let will = Some(("dev/meter/m1/state", "\"lost\""));
        RawClient::connect(rig.mqtt, Connect { will, client_id, ..Connect::new(version) })
    };
    for version in [V311, V5] {
        let mut goodbye = connect(version, "goodbye").await;
        goodbye.send(b"\xe0\0").await;
        assert_eq!(goodbye.rest().await, b"");
    }
    assert!(rig.readings("m1").is_empty());
    drop(connect(V311, "lost").await);
    let mut with_will = connect(V5, "with will").await;
    with_will.send(b"\xe0\x01\x04").await;
    assert_eq!(with_will.rest().await, b"");
    let mut broke_rules = connect(V5, "rules").await;
    broke_rules.send(b"\0\0").await;
    broke_rules.expect_end(0x81).await;
    // Who comes back is let in when the will is applied.
    let _back = connect(V311, "lost").await;
    assert_eq!(rig.readings("m1"), ["\"lost\""; 3]);
}

#[tokio::test]
async fn a_silent_client_is_given_up() {
    let rig = Rig::start().await;
    for version in [V311, V5] {
        let connect = Connect { keep_alive: 1, ..Connect::new(version) };
        let mut client = RawClient::connect(rig.mqtt, connect).await;
        client.expect_end(0x8d).await;
    }
    assert_eq!(rig.figure("fieldpost_mqtt_disconnects_total{reason=\"keep_alive\"}"), 2);
}

#[tokio::test]
async fn a_connection_without_a_connect_is_closed() {
    let rig =
        Rig::with(MqttLimits { connect_timeout: Duration::from_millis(50), ..MqttLimits::default() }).await;
    let mut client = RawClient::open(rig.mqtt, V311).await;
    client.send(b"\x10").await;
    assert_eq!(client.rest().await, b"");
    let mut other = RawClient::open(rig.mqtt, V311).await;
    assert_eq!(other.rest().await, b"");
    assert!(rig.figure("fieldpost_mqtt_connects_total{result=\"timeout\"}") >= 1);
}

#[tokio::test]
async fn one_connection_too_many_is_told_that_the_server_is_busy() {
    let rig = Rig::with(MqttLimits { connections_max: 1, ..MqttLimits::default() }).await;
    let mut first = RawClient::plain(rig.mqtt, V311).await;
    for (version, expect) in [(V311, &b"\x20\x02\0\x03"[..]), (V5, b"\x20\x03\0\x89\0")] {
        let mut client = RawClient::open(rig.mqtt, version).await;
        // A report sent without waiting for the answer must not cut the answer off.
        let connect = Connect { client_id: "other", ..Connect::new(version) }.bytes();
        client.send(&[connect, lock(version, 1, LOCKS[0], 1)].concat()).await;
        assert_eq!(client.rest().await, expect);
    }
    first.send(PING).await;
    first.expect(PONG).await;
    assert_eq!(rig.figure("fieldpost_mqtt_connections"), 1);
}

#[tokio::test]
async fn a_client_takes_the_place_of_its_own_connection_where_no_other_is_free() {
    let rig = Rig::with(MqttLimits { connections_max: 1, ..MqttLimits::default() }).await;
    for (version, busy) in [(V311, 3), (V5, 0x89)] {
        let mut older = RawClient::plain(rig.mqtt, version).await;
        let mut newer = RawClient::plain(rig.mqtt, version).await;
        older.expect_end(0x8e).await;
        let other = Connect { client_id: "other", ..Connect::new(version) };
        let (_, connack) = RawClient::connack(rig.mqtt, other).await;
        assert_eq!(connack[3], busy, "the place is taken: {connack:x?}");
        newer.send(PING).await;
        newer.expect(PONG).await;
        drop(newer);
        rig.figure_becomes("fieldpost_mqtt_connections", 0).await;
        // The two had one place, which is free now.
        drop(RawClient::connect(rig.mqtt, other).await);
        rig.figure_becomes("fieldpost_mqtt_connections", 0).await;
    }
}

#[tokio::test]
async fn a_stopping_listener_settles_what_it_took() {
    let rig = Rig::start().await;
    let (store, readings_of) = (rig.store.clone(), rig.engine.queries());
    let mut clients = Vec::new();
    for (id, version) in [("old", V311), ("new", V5)] {
        let will = Some(("dev/lock/0xC/state", "1"));
        clients.push(
            RawClient::connect(rig.mqtt, Connect { client_id: id, will, ..Connect::new(version) }).await,
        );
    }
    store.hold();
    for (client, device) in clients.iter_mut().zip(LOCKS) {
        client.lock(1, device, 1).await;
    }
    store.holds(2).await;
    rig.begin_to_stop();
    store.release();
    for client in &mut clients {
        client.expect(&puback(1)).await;
        client.expect_end(0x8b).await;
    }
    rig.stop_mqtt().await;
    let untouched = base::DeviceId::new("0xC").expect("an id");
    let device = readings_of.device(&untouched).expect("readable").expect("registered");
    assert_eq!(device.seen, None, "a server that stops knows nothing of its clients: no will is applied");
}

#[tokio::test]
async fn a_stopping_listener_does_not_wait_for_who_never_connects() {
    let hours = Duration::from_secs(9_999);
    let rig = Rig::with(MqttLimits { connect_timeout: hours, ..MqttLimits::default() }).await;
    let mut silent = RawClient::open(rig.mqtt, V311).await;
    // One that connects behind it: so the silent one is in.
    let _in = RawClient::plain(rig.mqtt, V311).await;
    timeout(PATIENCE, rig.stop_mqtt()).await.expect("in time");
    assert_eq!(silent.rest().await, b"");
}

#[tokio::test]
async fn a_failed_store_ends_connections_without_an_acknowledgement() {
    let rig = Rig::start().await;
    let mut clients = Vec::new();
    for (id, version) in [("old", V311), ("new", V5)] {
        clients.push(RawClient::connect(rig.mqtt, Connect { client_id: id, ..Connect::new(version) }).await);
    }
    rig.store.fail();
    for client in &mut clients {
        client.lock(1, LOCKS[0], 1).await;
        client.expect_end(0x89).await;
    }
    let mut late = RawClient::open(rig.mqtt, V5).await;
    late.send(&Connect::new(V5).bytes()).await;
    assert_eq!(late.rest().await, b"\x20\x03\0\x88\0");
}
