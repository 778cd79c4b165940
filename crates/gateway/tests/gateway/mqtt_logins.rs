//! Logins: who is let in, and for which devices each may speak.

use access::{Login, Logins};
use base::PartitionId;
use engine::{DevicePatch, NewDevice};
use gateway::mqtt::MqttLimits;
use sha2::{Digest, Sha256};

use crate::mqtt_commands::is_connected;
use crate::raw_client::Version::{V5, V311};
use crate::raw_client::{Connect, RawClient, Version, lock, packet, puback, publish, reason_of, subscribe};
use crate::rig::Rig;

const LABEL: (&str, &str) = ("site", "12");

/// A device of a site, the site by prefix and by label, and an administrator. `0x1` has the label.
async fn rig() -> Rig {
    rig_with(MqttLimits::default()).await
}

async fn rig_with(limits: MqttLimits) -> Rig {
    let mut logins = Logins::new();
    let label = Login::Label { key: LABEL.0.into(), value: LABEL.1.into() };
    for (username, login) in [
        ("device", Login::Device(base::DeviceId::new("0xA").expect("an id"))),
        ("prefix", Login::Prefix("0x".into())),
        ("label", label),
        ("admin", Login::Admin),
    ] {
        logins.add(username, Sha256::digest("secret").into(), login).expect("a new name");
    }
    let rig = Rig::listening(limits, |listener| listener.with_logins(logins)).await;
    relabel(&rig, "0x1", "12").await;
    rig
}

async fn relabel(rig: &Rig, device: &str, site: &str) {
    let device = base::DeviceId::new(device).expect("an id");
    let labels = engine::Patch::Set(vec![(LABEL.0.to_owned(), Some(site.to_owned()))]);
    let patch = DevicePatch { labels, ..DevicePatch::default() };
    rig.engine.patch_device(device, patch, engine::OnlyIf::default()).await.expect("known");
}

fn login(version: Version, username: &str) -> Connect<'_> {
    Connect { credentials: Some((username, "secret")), client_id: username, ..Connect::new(version) }
}

#[tokio::test]
async fn only_who_has_a_login_is_let_in() {
    let rig = rig().await;
    for (credentials, v5, v311) in
        [(Some(("device", "wrong")), 0x86, 4), (Some(("nobody", "secret")), 0x86, 4), (None, 0x87, 5)]
    {
        for (version, code) in [(V5, v5), (V311, v311)] {
            let (_, connack) =
                RawClient::connack(rig.mqtt, Connect { credentials, ..Connect::new(version) }).await;
            assert_eq!((connack[0], connack[3]), (0x20, code), "{credentials:?} {version:?}");
        }
    }
    rig.figure_becomes("fieldpost_mqtt_connects_total{result=\"bad_credentials\"}", 4).await;
    rig.figure_becomes("fieldpost_mqtt_connects_total{result=\"no_credentials\"}", 2).await;
    RawClient::connect(rig.mqtt, login(V5, "device")).await;
}

#[tokio::test]
async fn a_login_publishes_for_its_own_devices() {
    let rig = rig().await;
    let sensor = |id: &str| format!(r#"{{"sensor_id":"{id}","data":1}}"#);
    for (username, topic, payload, code) in [
        ("device", "dev/lock/0xA/state", "1", 0),
        ("device", "dev/lock/0xA/heartbeat", "", 0),
        ("device", "sensors", &*sensor("0xA"), 0),
        ("device", "dev/lock/0xA/state", "7", 0x99),
        ("device", "dev/lock/0xA/elsewhere", "1", 0x90),
        ("device", "sensors", "{", 0x99),
        ("device", "sensors", &sensor("not an id"), 0x87),
        ("admin", "sensors", &sensor("not an id"), 0x99),
        ("device", "dev/lock/0x1/state", "1", 0x87),
        ("device", "dev/lock/0x1/heartbeat", "", 0x87),
        ("device", "sensors", &sensor("0x1"), 0x87),
        ("device", "dev/lock/0x1/elsewhere", "1", 0x87),
        ("device", "elsewhere", "1", 0x87),
        ("prefix", "dev/lock/0x1/state", "1", 0),
        ("prefix", "dev/lock/0xF/state", "1", 0x99),
        ("prefix", "dev/meter/m1/state", "1", 0x87),
        ("label", "dev/lock/0x1/state", "1", 0),
        ("label", "sensors", &sensor("0x1"), 0),
        ("label", "dev/lock/0xA/state", "1", 0x87),
        ("label", "dev/lock/0xF/state", "1", 0x87),
        ("label", "dev/lock/0-1/state", "1", 0x87),
        ("admin", "dev/meter/m1/state", "1", 0),
        ("admin", "elsewhere", "1", 0x90),
    ] {
        let mut client = RawClient::connect(rig.mqtt, login(V5, username)).await;
        client.send(&publish(V5, 1, topic, payload)).await;
        let ack = client.receive().await;
        assert_eq!(reason_of(&ack), code, "{username} {topic} {payload}: {ack:x?}");
        let mut client = RawClient::connect(rig.mqtt, login(V311, username)).await;
        client.send(&publish(V311, 1, topic, payload)).await;
        client.expect(&puback(1)).await;
    }
    assert!(rig.last_seen("0xC").is_none());
}

#[tokio::test]
async fn what_a_login_may_not_publish_is_no_sign_of_life() {
    let rig = rig().await;
    let mut client = RawClient::connect(rig.mqtt, login(V5, "device")).await;
    client.send(&lock(V5, 1, "0xC", 1)).await;
    let ack = client.receive().await;
    assert!(String::from_utf8_lossy(&ack).contains("not_allowed: login \"device\""), "{ack:x?}");
    assert_eq!(rig.figure("fieldpost_mqtt_reports_total{result=\"not_allowed\"}"), 1);
    assert!(rig.last_seen("0xC").is_none() && rig.readings("0xC").is_empty());
    let kept = ("not_allowed".to_owned(), "dev/lock/0xC/state".to_owned(), b"1".to_vec());
    assert_eq!(rig.quarantines(1).await, [kept]);
}

#[tokio::test]
async fn a_login_subscribes_to_its_own_devices() {
    let rig = rig().await;
    for (username, filters, codes, reason) in [
        (
            "device",
            &["dev/+/0xA/#", "dev/lock/0xA", "dev/lock/0x1/#", "dev/+/+/#", "#"][..],
            [1, 1, 0x87, 0x87, 0x87],
            "login \"device\" speaks for device 0xA only: subscribe to dev/+/0xA/#",
        ),
        (
            "prefix",
            &["dev/+/0xA/#", "dev/lock/0x99", "dev/+/m1/#", "dev/+/0x+/#", "$SYS/#"],
            [1, 1, 0x87, 0x8f, 0x87],
            "login \"prefix\" speaks for devices whose ids begin with 0x only: subscribe to dev/+/{id}/# for each \
             of them",
        ),
        (
            "label",
            &["dev/+/0x1/#", "dev/lock/0x1", "dev/+/0xA/#", "dev/+/#", "dev/+/none/#"],
            [1, 1, 0x87, 0x87, 0x87],
            "login \"label\" speaks for devices with the label site=12 only: subscribe to dev/+/{id}/# for each of \
             them",
        ),
        ("admin", &["dev/+/0xA/#", "#", "dev/+/+/#", "a", "b#"], [1, 1, 1, 1, 0x8f], ""),
    ] {
        let mut new = RawClient::connect(rig.mqtt, login(V5, username)).await;
        new.send(&subscribe(V5, filters)).await;
        // The length of the properties, and one of them: its identifier and a string.
        let told = reason.len() as u8;
        let property = if reason.is_empty() { vec![0] } else { vec![told + 3, 0x1f, 0, told] };
        let ack = [&[0, 5][..], &property[..], reason.as_bytes(), &codes[..]].concat();
        new.expect(&packet(0x90, &ack)).await;
        let mut old = RawClient::connect(rig.mqtt, login(V311, username)).await;
        old.send(&subscribe(V311, filters)).await;
        let codes = codes.map(|code| if code > 2 { 0x80 } else { code });
        old.expect(&packet(0x90, &[&[0, 5], &codes[..]].concat())).await;
    }
}

#[tokio::test]
async fn a_changed_label_takes_effect() {
    let rig = rig().await;
    let mut client = RawClient::connect(rig.mqtt, login(V5, "label")).await;
    client.lock(1, "0x1", 1).await;
    client.expect(&puback(1)).await;
    relabel(&rig, "0x1", "13").await;
    let refused = async {
        loop {
            client.lock(2, "0x1", 1).await;
            if client.receive().await != puback(2) {
                break;
            }
        }
    };
    tokio::time::timeout(crate::PATIENCE, refused).await.expect("it is seen soon");
}

#[tokio::test]
async fn a_will_is_a_publish_of_its_login() {
    let rig = rig().await;
    for (client_id, device) in [("own", "0xA"), ("foreign", "0xC")] {
        let topic = format!("dev/lock/{device}/state");
        let connect = Connect { will: Some((&topic, "1")), client_id, ..login(V5, "device") };
        drop(RawClient::connect(rig.mqtt, connect).await);
    }
    rig.figure_becomes("fieldpost_mqtt_wills_total{result=\"accepted\"}", 1).await;
    rig.figure_becomes("fieldpost_mqtt_wills_total{result=\"refused\"}", 1).await;
    assert_eq!(rig.readings("0xA"), ["1"]);
    assert!(rig.last_seen("0xC").is_none());
}

#[tokio::test]
async fn a_login_cannot_push_out_the_client_of_another() {
    let rig = rig().await;
    let mut victim = RawClient::connect(rig.mqtt, Connect { client_id: "me", ..login(V5, "prefix") }).await;
    let _other = RawClient::connect(rig.mqtt, Connect { client_id: "me", ..login(V5, "device") }).await;
    victim.lock(1, "0xA", 1).await;
    victim.expect(&puback(1)).await;
}

#[tokio::test]
async fn a_device_that_gets_its_label_late_is_heard() {
    let rig = rig().await;
    let device = NewDevice { id: "new1".into(), kind: Some("meter".into()), ..NewDevice::default() };
    rig.engine.create_device(device).await.expect("a new device");
    relabel(&rig, "new1", "12").await;
    let mut client = RawClient::connect(rig.mqtt, login(V311, "label")).await;
    client.send(&publish(V311, 1, "dev/meter/new1/state", "7")).await;
    client.expect(&puback(1)).await;
    assert_eq!(rig.readings("new1"), ["7"]);
}

#[tokio::test]
async fn a_session_is_a_devices_own_from_when_it_has_the_label_of_the_login() {
    let rig = rig().await;
    let device = NewDevice { id: "new1".into(), kind: Some("meter".into()), ..NewDevice::default() };
    rig.engine.create_device(device).await.expect("a new device");
    let connect = Connect { client_id: "new1", ..login(V5, "label") };
    let _session = RawClient::connect(rig.mqtt, connect).await;
    assert!(!is_connected(&rig, "new1"));
    for (site, expect) in [("12", true), ("13", false), ("12", true)] {
        relabel(&rig, "new1", site).await;
        assert_eq!(is_connected(&rig, "new1"), expect, "{site}");
    }
}

#[tokio::test]
async fn a_login_cannot_take_the_places_of_others() {
    let rig = rig_with(MqttLimits { connections_max: 20, ..MqttLimits::default() }).await;
    let ids: Vec<String> = (0..20).map(|number| format!("c{number}")).collect();
    let mut clients = Vec::new();
    for client_id in &ids {
        clients.push(RawClient::connect(rig.mqtt, Connect { client_id, ..login(V5, "prefix") }).await);
    }
    // It has three quarters of all; its oldest five had to go.
    for client in &mut clients[..5] {
        client.expect_end(0x97).await;
    }
    for (number, client) in (1..).zip(&mut clients[5..]) {
        client.lock(number, "0xA", 1).await;
        client.expect(&puback(number)).await;
    }
    rig.figure_becomes("fieldpost_mqtt_disconnects_total{reason=\"outnumbered\"}", 5).await;
    rig.figure_becomes("fieldpost_mqtt_connections", 15).await;
    RawClient::connect(rig.mqtt, login(V5, "device")).await;
}

#[tokio::test]
async fn a_subscribe_looks_up_few_labels_however_many_it_names() {
    let rig = rig().await;
    let filters: Vec<String> = (0..2_000).map(|number| format!("dev/+/n{number}/#")).collect();
    let mut names: Vec<&str> = filters.iter().map(String::as_str).collect();
    names.insert(0, "dev/+/0x1/#");
    let mut client = RawClient::connect(rig.mqtt, login(V5, "label")).await;
    assert_eq!(rig.figure("fieldpost_mqtt_label_lookups_total"), 0, "the engine knows whose it is");
    client.send(&subscribe(V5, &names)).await;
    let ack = client.receive().await;
    let codes = &ack[ack.len() - names.len()..];
    let refused = [0x87; 63];
    assert_eq!((codes[0], &codes[1..64]), (1, &refused[..]));
    assert!(codes[64..].iter().all(|code| *code == 0x97), "{codes:x?}");
    assert_eq!(rig.figure("fieldpost_mqtt_label_lookups_total"), 64);
}

#[tokio::test]
async fn nobody_else_waits_while_a_label_is_looked_up() {
    let rig = rig().await;
    let mut site = RawClient::connect(rig.mqtt, login(V5, "label")).await;
    let mut other = RawClient::connect(rig.mqtt, login(V5, "device")).await;
    rig.store.hold_reads_of(PartitionId(0));
    site.lock(1, "0x1", 1).await;
    // On the thread that serves all sockets here, it would not be held.
    rig.store.holds_a_read().await;
    other.lock(1, "0xA", 1).await;
    other.expect(&puback(1)).await;
    rig.store.release_reads();
    site.expect(&puback(1)).await;
    assert_eq!(rig.readings("0x1"), ["1"]);
}

#[tokio::test]
async fn reports_of_a_site_are_looked_up_together_and_answered_in_order() {
    let rig = rig().await;
    let mut sent = Vec::new();
    for id in 1..=300_u16 {
        let device = if id % 3 == 0 { "0x1".to_owned() } else { format!("n{id}") };
        sent.extend(lock(V5, id, &device, 1));
    }
    let mut client = RawClient::connect(rig.mqtt, login(V5, "label")).await;
    client.send(&sent).await;
    for id in 1..=300_u16 {
        let ack = client.receive().await;
        let header = if ack[1] & 0x80 == 0 { 2 } else { 3 };
        assert_eq!(u16::from_be_bytes([ack[header], ack[header + 1]]), id);
        assert_eq!(reason_of(&ack), if id % 3 == 0 { 0 } else { 0x87 }, "{id}");
    }
}
