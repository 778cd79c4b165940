//! Reports over MQTT: when they are acknowledged, in which order, and how refused ones are.

use std::num::NonZeroU16;

use gateway::mqtt::MqttLimits;

use crate::raw_client::Version::{V5, V311};
use crate::raw_client::{Connect, PING, PONG, RawClient, lock, packet, puback, publish, text};
use crate::rig::{LOCKS, METER, Rig};

#[tokio::test]
async fn a_report_is_acknowledged_only_when_it_is_durable() {
    let rig = Rig::start().await;
    for (version, value) in [(V311, 1), (V5, 0)] {
        let mut client = RawClient::plain(rig.mqtt, version).await;
        rig.store.hold();
        client.lock(7, LOCKS[0], value).await;
        rig.store.holds(1).await;
        // The answer to what is said later comes first: nothing was acknowledged before.
        client.send(PING).await;
        client.expect(PONG).await;
        rig.store.release();
        client.expect(&puback(7)).await;
    }
    assert_eq!(rig.readings(LOCKS[0]), ["1", "0"]);
    assert_eq!(rig.figure("fieldpost_mqtt_reports_total{result=\"accepted\"}"), 2);
    assert_eq!(rig.figure("fieldpost_mqtt_acks_total"), 2);
    assert_eq!(rig.figure("fieldpost_mqtt_unacknowledged_reports"), 0);
}

#[tokio::test]
async fn acknowledgements_come_in_the_order_of_the_reports() {
    let rig = Rig::start().await;
    let mut client = RawClient::plain(rig.mqtt, V311).await;
    rig.store.hold();
    client.lock(1, LOCKS[0], 1).await;
    rig.store.holds(1).await;
    client.lock(2, LOCKS[1], 1).await;
    rig.store.holds(2).await;
    // The later report is durable first.
    rig.store.release_last();
    client.send(PING).await;
    client.expect(PONG).await;
    rig.store.release();
    client.expect(&puback(1)).await;
    client.expect(&puback(2)).await;
}

#[tokio::test]
async fn a_client_that_sends_without_waiting_is_slowed_down() {
    let limits =
        MqttLimits { unacknowledged_max: NonZeroU16::new(4).expect("not 0"), ..MqttLimits::default() };
    let rig = Rig::with(limits).await;
    let mut client = RawClient::plain(rig.mqtt, V311).await;
    rig.store.hold();
    let reports: Vec<u8> = (1..=6).flat_map(|id| lock(V311, id, LOCKS[0], (id % 2) as u8)).collect();
    client.send(&[&reports, PING].concat()).await;
    rig.store.holds(1).await;
    assert_eq!(rig.figure("fieldpost_mqtt_unacknowledged_reports"), 4);
    rig.store.release();
    // Had the ping been read before, it would have been answered before.
    for id in 1..=4 {
        client.expect(&puback(id)).await;
    }
    client.expect(PONG).await;
    client.expect(&puback(5)).await;
    client.expect(&puback(6)).await;
    assert_eq!(rig.readings(LOCKS[0]), ["1", "0", "1", "0", "1", "0"]);
}

#[tokio::test]
async fn the_window_is_told_with_mqtt_5() {
    let rig = Rig::start().await;
    let mut client = RawClient::open(rig.mqtt, V5).await;
    client.send(&Connect::new(V5).bytes()).await;
    let connack = client.receive().await;
    let told = |property: &[u8]| connack.windows(property.len()).any(|bytes| bytes == property);
    assert!(told(&[0x21, 4, 0]), "receive maximum 1,024: {connack:x?}");
    assert!(told(&[0x22, 0, 16]), "16 topic aliases: {connack:x?}");
    assert!(told(&[0x27, 0, 4, 0, 0]), "maximum packet size 262,144: {connack:x?}");
    assert!(told(&[0x29, 0]) && told(&[0x2a, 0]), "no subscription ids, nothing shared: {connack:x?}");
}

#[tokio::test]
async fn every_form_of_a_report_is_taken() {
    let rig = Rig::start().await;
    for version in [V311, V5] {
        let mut client = RawClient::plain(rig.mqtt, version).await;
        let qos_0 = publish(version, 0, "dev/meter/m1/state", "10.50");
        let retained =
            [&[0x33], &publish(version, 1, "dev/meter/m1/state", r#"{"data":[1.0,2]}"#)[1..]].concat();
        let again = [&[0x3a], &publish(version, 2, "dev/meter/m1/state", r#"{"b":1,"a":2}"#)[1..]].concat();
        let sensor = publish(version, 3, "sensors", r#"{"sensor_id":"m1","data":null}"#);
        let heartbeat = publish(version, 4, "dev/lock/0xC/heartbeat", "\u{1}");
        client.send(&[qos_0, retained, again, sensor, heartbeat].concat()).await;
        for id in 1..=4 {
            client.expect(&puback(id)).await;
        }
    }
    let once = ["10.5", "[1,2]", r#"{"a":2,"b":1}"#, "null"];
    assert_eq!(rig.readings(METER), [once, once].concat());
    assert!(rig.readings("0xC").is_empty() && rig.last_seen("0xC").is_some());
}

#[tokio::test]
async fn a_refused_report_is_acknowledged_with_its_reason() {
    let rig = Rig::start().await;
    let refused = [
        ("dev/lock/0xA/state", "{", 0x99, "unreadable"),
        ("dev/lock/0xA/state", "2", 0x99, "value_not_allowed"),
        ("dev/lock/0xA/state", r#"{"data":0,"ts":"2100-01-01T00:00:00Z"}"#, 0x99, "ts_ahead"),
        ("dev/meter/0xA/state", "0", 0x99, "wrong_kind"),
        ("dev/lock/0xF/state", "0", 0x99, "unknown_device"),
        ("dev/lock/0-A/state", "0", 0x99, "invalid_id"),
        ("sensors", r#"{"sensor_id":"0xA"}"#, 0x99, "missing_field"),
        ("dev/lock/0xA", "0", 0x90, "unknown_topic"),
    ];
    for version in [V311, V5] {
        let mut client = RawClient::plain(rig.mqtt, version).await;
        for (id, (topic, payload, code, word)) in (1..).zip(refused) {
            client.send(&publish(version, id, topic, payload)).await;
            let ack = client.receive().await;
            if version == V311 {
                assert_eq!(ack, puback(id));
            } else {
                assert_eq!(ack[2..5], [0, id as u8, code], "{word}: {ack:x?}");
                let reason = format!("{word}: ");
                assert!(
                    ack.windows(reason.len()).any(|bytes| bytes == reason.as_bytes()),
                    "{word}: {ack:x?}"
                );
            }
        }
        client.lock(99, LOCKS[1], 1).await;
        client.expect(&puback(99)).await;
    }
    for (_, _, _, word) in refused {
        assert_eq!(rig.figure(&format!("fieldpost_mqtt_reports_total{{result=\"{word}\"}}")), 2, "{word}");
    }
    assert!(rig.readings("0xA").is_empty());
    assert!(rig.last_seen("0xA").is_some(), "a refused report is a sign of life");
}

#[tokio::test]
async fn packets_may_come_in_any_pieces() {
    let rig = Rig::start().await;
    let mut client = RawClient::open(rig.mqtt, V5).await;
    let mut all = Connect::new(V5).bytes();
    all.extend(lock(V5, 1, LOCKS[0], 1));
    all.extend(publish(V5, 2, "dev/meter/m1/heartbeat", &"x".repeat(200_000)));
    all.extend(lock(V5, 3, LOCKS[0], 0));
    let (bytewise, rest) = all.split_at(100);
    for byte in bytewise {
        client.send(&[*byte]).await;
    }
    client.send(rest).await;
    assert_eq!(client.receive().await[0], 0x20);
    for id in 1..=3 {
        client.expect(&puback(id)).await;
    }
    assert_eq!(rig.readings(LOCKS[0]), ["1", "0"]);
}

#[tokio::test]
async fn thousands_of_reports_in_one_go_are_all_acknowledged() {
    let rig = Rig::start().await;
    let mut client = RawClient::plain(rig.mqtt, V311).await;
    let reports: Vec<u8> =
        (1..=5_000).flat_map(|id| lock(V311, id, LOCKS[usize::from(id) % 3], (id / 3 % 2) as u8)).collect();
    client.send(&reports).await;
    for id in 1..=5_000 {
        client.expect(&puback(id)).await;
    }
    assert_eq!(rig.figure("fieldpost_mqtt_reports_total{result=\"accepted\"}"), 5_000);
}

#[tokio::test]
async fn a_client_that_listens_slowly_misses_nothing() {
    let rig = Rig::start().await;
    let mut client = RawClient::open_narrow(rig.mqtt, V5).await;
    client.send(&Connect { client_id: "slow", ..Connect::new(V5) }.bytes()).await;
    assert_eq!(client.receive().await[0], 0x20);
    let topic = "x".repeat(60);
    client.send(&publish(V5, 1, &topic, "0")).await;
    let ack_bytes = client.receive().await.len();
    assert!(ack_bytes > 128, "with a reason in words, and a length of two bytes");
    let refused: Vec<u8> = (1..=5_000).flat_map(|id| publish(V5, id, &topic, "0")).collect();
    let received = client.send_and_receive(&refused, 5_000 * ack_bytes).await;
    let ids = received.chunks(ack_bytes).map(|ack| u16::from_be_bytes([ack[3], ack[4]]));
    assert!(ids.eq(1..=5_000), "every acknowledgement, in order");
}

#[tokio::test]
async fn subscriptions_are_granted_and_given_back() {
    let rig = Rig::with(MqttLimits { subscriptions_max: 2, ..MqttLimits::default() }).await;
    let filters = |property: &[u8], options: &[(&str, u8)]| {
        let mut body = [b"\0\x05", property].concat();
        for (filter, qos) in options {
            body.extend(text(filter));
            body.push(*qos);
        }
        packet(0x82, &body)
    };
    let wanted =
        [("dev/lock/0xA/#", 2), ("a#", 0), ("dev/lock/0xA/#", 0), ("$share/g/a", 1), ("b", 1), ("c", 1)];
    let mut old = RawClient::plain(rig.mqtt, V311).await;
    old.send(&filters(b"", &wanted)).await;
    old.expect(b"\x90\x08\0\x05\x01\x80\0\x80\x01\x80").await;
    let mut new = RawClient::connect(rig.mqtt, Connect { client_id: "new", ..Connect::new(V5) }).await;
    new.send(&filters(b"\0", &wanted)).await;
    new.expect(b"\x90\x09\0\x05\0\x01\x8f\0\x9e\x01\x97").await;
    assert_eq!(rig.figure("fieldpost_mqtt_subscriptions"), 4);
    old.send(&packet(0xa2, &[&b"\0\x06"[..], &text("b"), &text("x")].concat())).await;
    old.expect(b"\xb0\x02\0\x06").await;
    new.send(&packet(0xa2, &[&b"\0\x06\0"[..], &text("b"), &text("x")].concat())).await;
    new.expect(b"\xb0\x05\0\x06\0\0\x11").await;
    assert_eq!(rig.figure("fieldpost_mqtt_subscriptions"), 2);
    // What a client publishes reaches others as a copy and not otherwise.
    let mut third = RawClient::connect(rig.mqtt, Connect { client_id: "third", ..Connect::new(V5) }).await;
    third.lock(7, "0xA", 1).await;
    third.expect(&puback(7)).await;
    new.expect(&publish(V5, 0, "dev/lock/0xA/state", "1")).await;
    old.expect(&publish(V311, 0, "dev/lock/0xA/state", "1")).await;
    old.send(PING).await;
    old.expect(PONG).await;
}

#[tokio::test]
async fn a_refused_report_is_in_the_quarantine_when_it_is_acknowledged() {
    let rig = Rig::start().await;
    let mut kept = Vec::new();
    for (version, qos_bits) in [(V311, 0x32), (V5, 0x32), (V311, 0x34), (V5, 0x34)] {
        let mut client = RawClient::plain(rig.mqtt, version).await;
        for (id, (topic, payload, code)) in (1..).zip([
            ("dev/lock/0xA/state", "2", "value_not_allowed"),
            ("anything", "\u{1}x", "unknown_topic"),
            ("sensors", "{", "unreadable"),
            ("dev/lock/0xF/heartbeat", "", "unknown_device"),
        ]) {
            let mut bytes = publish(version, id, topic, payload);
            bytes[0] = qos_bits;
            client.send(&bytes).await;
            client.receive().await;
            kept.push((code.to_owned(), topic.to_owned(), payload.as_bytes().to_vec()));
            assert_eq!(rig.quarantines(kept.len()).await, kept);
        }
    }
}

#[tokio::test]
async fn a_report_with_a_known_id_has_no_second_effect() {
    let rig = Rig::start().await;
    let with_property = |packet_id: u8, id: &str, payload: &str| {
        let property = [&b"\x26\0\x02id"[..], &text(id)].concat();
        let topic = text("dev/meter/m1/state");
        let head = [&topic[..], &[0, packet_id, property.len() as u8], &property].concat();
        packet(0x32, &[&head, payload.as_bytes()].concat())
    };
    let mut new = RawClient::plain(rig.mqtt, V5).await;
    let within = |packet_id| publish(V5, packet_id, "dev/meter/m1/state", r#"{"data":3,"id":"b"}"#);
    let said = [
        with_property(1, "a", "1"),
        with_property(2, "a", "2"),
        within(3),
        with_property(4, "b", "4"),
        with_property(5, "c", r#"{"data":5,"id":"a"}"#),
    ];
    new.send(&said.concat()).await;
    for id in 1..=5 {
        new.expect(&puback(id)).await;
    }
    assert_eq!(rig.readings(METER), ["1", "3", "5"]);
}

#[tokio::test]
async fn a_topic_alias_stands_for_its_topic() {
    let rig = Rig::start().await;
    let mut client = RawClient::plain(rig.mqtt, V5).await;
    let aliased = |packet_id: u8, topic: &str, alias: u8, payload: &str| {
        let head = [&text(topic)[..], &[0, packet_id, 3, 0x23, 0, alias]].concat();
        packet(0x32, &[&head, payload.as_bytes()].concat())
    };
    let said = [
        aliased(1, "dev/meter/m1/state", 16, "1"),
        aliased(2, "", 16, "2"),
        aliased(3, "dev/lock/0xA/state", 1, "1"),
        aliased(4, "", 1, "0"),
        aliased(5, "dev/meter/m1/heartbeat", 16, ""),
        aliased(6, "", 16, "not a value"),
    ];
    client.send(&said.concat()).await;
    for id in 1..=6 {
        client.expect(&puback(id)).await;
    }
    assert_eq!(
        (rig.readings(METER), rig.readings("0xA")),
        (vec!["1".into(), "2".into()], vec!["1".into(), "0".into()])
    );
}

#[tokio::test]
async fn a_connection_holds_so_many_bytes_and_no_more() {
    let rig = Rig::start().await;
    let client = RawClient::plain(rig.mqtt, V311).await;
    rig.store.hold();
    let heartbeat = |id| publish(V311, id, "dev/lock/0xA/heartbeat", &"x".repeat(200_000));
    let many: Vec<u8> = (1..=40).flat_map(heartbeat).collect();
    let sending = tokio::spawn(async move { client.send_and_receive(&many, 40 * 4).await });
    rig.store.holds(1).await;
    // 1 MiB and what one more read adds, however much more has come.
    rig.figure_becomes("fieldpost_mqtt_unacknowledged_reports", 6).await;
    rig.store.release();
    assert_eq!(sending.await.expect("no panic"), (1..=40).flat_map(puback).collect::<Vec<_>>());
}
