//! Copies of accepted reports for whoever subscribes to them, and may.

use access::{Login, Logins};
use gateway::mqtt::MqttLimits;
use sha2::{Digest, Sha256};

use crate::http_reports;
use crate::raw_client::Version::{V5, V311};
use crate::raw_client::{Connect, RawClient, Version, lock, packet, puback, publish, subscribe, text};
use crate::rig::{LOCKS, METER, Rig};

const ACK: u8 = 0x90;

/// What a copy looks like.
fn copy(version: Version, topic: &str, payload: &str) -> Vec<u8> {
    publish(version, 0, topic, payload)
}

async fn subscriber(rig: &Rig, connect: Connect<'_>, filter: &str) -> RawClient {
    let mut client = RawClient::connect(rig.mqtt, connect).await;
    client.send(&subscribe(connect.version, &[filter])).await;
    let ack = client.receive().await;
    assert_eq!((ack[0], ack.last()), (ACK, Some(&1)), "{ack:x?}");
    client
}

fn named(version: Version, client_id: &str) -> Connect<'_> {
    Connect { client_id, ..Connect::new(version) }
}

#[tokio::test]
async fn a_subscriber_sees_what_is_accepted_however_it_came() {
    let rig = Rig::start().await;
    let http = http_reports::serve(&rig).await;
    for version in [V311, V5] {
        let mut watcher = subscriber(&rig, named(version, "watcher"), "dev/#").await;
        let mut sensors = subscriber(&rig, named(version, "sensors"), "sensors").await;
        let mut device = RawClient::connect(rig.mqtt, named(version, "device")).await;
        let in_sensors = format!(r#"{{"sensor_id":"{}","data":1}}"#, LOCKS[1]);
        for (id, topic, payload) in [
            (1, "dev/lock/0xA/state", "1"),
            (2, "dev/lock/0xA/state", "7"),
            (3, "dev/lock/nobody/state", "1"),
            (4, "sensors", &*in_sensors),
            (5, "dev/meter/m1/state", r#"{"data":5,"id":"x"}"#),
            (6, "dev/lock/0xA/heartbeat", ""),
        ] {
            device.send(&publish(version, id, topic, payload)).await;
            device.receive().await;
        }
        let line = format!(r#"{{"device_id":"{METER}","data":[1]}}"#);
        assert_eq!(http_reports::post(http, "application/json", &line).await.0, 200);
        watcher.expect(&copy(version, "dev/lock/0xA/state", "1")).await;
        watcher.expect(&copy(version, "dev/meter/m1/state", r#"{"data":5,"id":"x"}"#)).await;
        watcher.expect(&copy(version, "dev/lock/0xA/heartbeat", "")).await;
        watcher.expect(&copy(version, "dev/meter/m1/state", &line)).await;
        sensors.expect(&copy(version, "sensors", &in_sensors)).await;
    }
    rig.figure_becomes("fieldpost_mqtt_mirrored_total", 10).await;
    rig.figure_becomes("fieldpost_mqtt_mirror_watched", 0).await;
}

fn logins() -> Logins {
    let mut logins = Logins::new();
    let label = Login::Label { key: "site".into(), value: "12".into() };
    for (username, login) in [
        ("device", Login::Device(base::DeviceId::new("0xA").expect("an id"))),
        ("prefix", Login::Prefix("0x".into())),
        ("label", label),
        ("admin", Login::Admin),
    ] {
        logins.add(username, Sha256::digest("secret").into(), login).expect("a new name");
    }
    logins
}

async fn relabel(rig: &Rig, device: &str, site: &str) {
    let device = base::DeviceId::new(device).expect("an id");
    let labels = engine::Patch::Set(vec![("site".to_owned(), Some(site.to_owned()))]);
    let patch = engine::DevicePatch { labels, ..engine::DevicePatch::default() };
    rig.engine.patch_device(device, patch, engine::OnlyIf::default()).await.expect("known");
}

fn login<'a>(username: &'a str, client_id: &'a str) -> Connect<'a> {
    Connect { credentials: Some((username, "secret")), client_id, ..Connect::new(V5) }
}

#[tokio::test]
async fn a_login_sees_its_own_devices_as_long_as_they_are_its_own() {
    let rig = Rig::listening(MqttLimits::default(), |listener| listener.with_logins(logins())).await;
    relabel(&rig, "0xA", "12").await;
    let mut watchers = Vec::new();
    for username in ["device", "prefix", "label"] {
        watchers.push(subscriber(&rig, login(username, "watcher"), "dev/+/0xA/#").await);
    }
    let mut admin = RawClient::connect(rig.mqtt, login("admin", "device")).await;
    for (id, device) in [(1, "0xC"), (2, "0xA")] {
        admin.lock(id, device, 1).await;
        admin.expect(&puback(id)).await;
    }
    for watcher in &mut watchers {
        watcher.expect(&copy(V5, "dev/lock/0xA/state", "1")).await;
    }
    let mut of_label = watchers.pop().expect("three");
    relabel(&rig, "0x1", "12").await;
    of_label.send(&subscribe(V5, &["dev/+/0x1/#"])).await;
    of_label.receive().await;
    relabel(&rig, "0xA", "13").await;
    let gone = async {
        loop {
            for (id, device) in [(3, "0xA"), (4, "0x1")] {
                admin.lock(id, device, 0).await;
                admin.expect(&puback(id)).await;
            }
            if of_label.receive().await == copy(V5, "dev/lock/0x1/state", "0") {
                break;
            }
            of_label.expect(&copy(V5, "dev/lock/0x1/state", "0")).await;
        }
    };
    tokio::time::timeout(crate::PATIENCE, gone).await.expect("it is seen soon");
}

#[tokio::test]
async fn a_client_does_not_see_what_it_reported_itself() {
    let rig = Rig::start().await;
    let mut device = RawClient::connect(rig.mqtt, named(V5, "device")).await;
    device.send(&subscribe(V5, &["dev/#"])).await;
    device.expect(&packet(ACK, &[0, 5, 0, 1])).await;
    let mut other = RawClient::connect(rig.mqtt, named(V5, "other")).await;
    device.send(&lock(V5, 1, LOCKS[0], 1)).await;
    device.expect(&puback(1)).await;
    other.send(&lock(V5, 1, LOCKS[0], 0)).await;
    device.expect(&copy(V5, "dev/lock/0xA/state", "0")).await;
}

#[tokio::test]
async fn where_nothing_is_copied_a_client_of_5_is_told() {
    let limits = MqttLimits { mirror: false, ..MqttLimits::default() };
    let rig = Rig::with(limits).await;
    let mut client = RawClient::plain(rig.mqtt, V5).await;
    client.send(&subscribe(V5, &["dev/#", "dev/lock/0xA"])).await;
    let ack = client.receive().await;
    assert!(ack.ends_with(&[1, 1]), "{ack:x?}");
    assert!(String::from_utf8_lossy(&ack).contains("[mqtt] mirror is false"), "{ack:x?}");
    client.send(&subscribe(V5, &["dev/lock/0xA"])).await;
    client.expect(&packet(ACK, &[0, 5, 0, 1])).await;
    client.lock(1, LOCKS[0], 1).await;
    client.expect(&puback(1)).await;
    let mut old = RawClient::connect(rig.mqtt, named(V311, "old")).await;
    old.send(&subscribe(V311, &["dev/#"])).await;
    old.expect(&packet(ACK, &[0, 5, 1])).await;
}

#[tokio::test]
async fn a_slow_subscriber_loses_copies_and_holds_up_nobody() {
    const REPORTS: usize = 3_000;
    let rig = Rig::start().await;
    let mut slow = RawClient::open_narrow(rig.mqtt, V5).await;
    slow.send(&named(V5, "slow").bytes()).await;
    slow.receive().await;
    slow.send(&subscribe(V5, &["dev/#"])).await;
    slow.receive().await;
    let device = RawClient::connect(rig.mqtt, named(V5, "device")).await;
    let payload = format!("\"{}\"", "x".repeat(4_000));
    let reports: Vec<u8> =
        (0..REPORTS).flat_map(|at| publish(V5, at as u16 + 1, "dev/meter/m1/state", &payload)).collect();
    device.send_and_receive(&reports, REPORTS * 4).await;
    let all_told = async {
        loop {
            let dropped = rig.figure("fieldpost_mqtt_mirror_dropped_total{reason=\"slow\"}")
                + rig.figure("fieldpost_mqtt_mirror_dropped_total{reason=\"behind\"}");
            if dropped > 0 {
                break dropped;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::PATIENCE, all_told).await.expect("some are dropped");
    slow.expect(&copy(V5, "dev/meter/m1/state", &payload)).await;
}

#[tokio::test]
async fn a_session_that_goes_on_sees_reports_again() {
    let rig = Rig::start().await;
    let lasting = Connect { client_id: "watcher", ..Connect::lasting(V5) };
    drop(subscriber(&rig, lasting, "dev/#").await);
    rig.figure_becomes("fieldpost_mqtt_absent_sessions", 1).await;
    rig.figure_becomes("fieldpost_mqtt_mirror_watched", 0).await;
    let (mut watcher, session_present) = RawClient::connect_to_session(rig.mqtt, lasting).await;
    assert!(session_present);
    let mut device = RawClient::connect(rig.mqtt, named(V5, "device")).await;
    device.lock(1, LOCKS[0], 1).await;
    watcher.expect(&copy(V5, "dev/lock/0xA/state", "1")).await;
    watcher.send(&packet(0xa2, &[&[0, 7, 0], &*text("dev/#")].concat())).await;
    watcher.expect(&packet(0xb0, &[0, 7, 0, 0])).await;
    assert_eq!(rig.figure("fieldpost_mqtt_mirror_watched"), 0);
}

#[tokio::test]
async fn so_many_watch_a_device_and_one_more_is_told_why() {
    let rig = Rig::start().await;
    let mut watchers = Vec::new();
    for number in 0..128 {
        let client_id = format!("watcher{number}");
        watchers.push(subscriber(&rig, named(V5, &client_id), "dev/+/0xA/#").await);
    }
    let mut one_more = RawClient::connect(rig.mqtt, named(V5, "one more")).await;
    one_more.send(&subscribe(V5, &["dev/+/0xA/#"])).await;
    let ack = one_more.receive().await;
    assert_eq!(ack.last(), Some(&0x97));
    assert!(String::from_utf8_lossy(&ack).contains("may watch this device"), "{ack:x?}");
}
