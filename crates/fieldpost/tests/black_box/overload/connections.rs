//! MQTT connections in storms: that say nothing, that say half of a CONNECT, and more than there is
//! room for.

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::overload::raw::{Mqtt, connect};
use crate::overload::rig::{PATIENCE, Rig};

/// More than the server waits for at a time, and few enough for the open files of this process.
fn storm() -> usize {
    let files = rlimit::increase_nofile_limit(u64::MAX).expect("a limit of open files");
    usize::try_from(files / 3).unwrap_or(usize::MAX).min(5_000)
}

#[tokio::test]
async fn devices_connect_in_the_midst_of_a_storm_of_connections_that_say_nothing() {
    let rig = Rig::start(&[]).await;
    let mut storm_of = Vec::new();
    for number in 0..storm() {
        let mut one = Mqtt::open(rig.mqtt).await.expect("connected");
        if number % 2 == 0 {
            // Who took too long may be gone already.
            let _gone = one.0.write_all(&connect("half")[..9]).await;
        }
        storm_of.push(one);
    }
    let devices = async {
        for number in 0..100 {
            let (id, mut device) = (format!("D{number}"), Mqtt::open(rig.mqtt).await.expect("connected"));
            assert_eq!(device.connect(&id).await.expect("answered"), 0, "{id}");
            device.report(&id, 1).await.expect("acknowledged");
        }
    };
    timeout(PATIENCE, devices).await.expect("in time");
    assert_eq!(rig.metric("fieldpost_mqtt_acks_total").await, 100);
    rig.has_grown_less_than(96);
    drop(storm_of);
    rig.is_well("0xB").await;
    rig.stop().await;
}

#[tokio::test]
async fn one_connection_too_many_is_refused_and_room_comes_back() {
    let rig = Rig::start(&[("FIELDPOST_MQTT__CONNECTIONS_MAX", "200")]).await;
    let mut devices = Vec::new();
    for number in 0..200 {
        let mut device = Mqtt::open(rig.mqtt).await.expect("connected");
        assert_eq!(device.connect(&format!("D{number}")).await.expect("answered"), 0);
        devices.push(device);
    }
    let mut one_more = Mqtt::open(rig.mqtt).await.expect("connected");
    assert_eq!(one_more.connect("one-more").await.expect("answered"), 3, "3.1.1 says: unavailable");
    one_more.ended().await;
    for (number, device) in devices.iter_mut().enumerate() {
        device.report(&format!("D{number}"), 1).await.expect("those that are there go on");
    }
    drop(devices);
    let returned = async {
        while Mqtt::open(rig.mqtt).await.expect("connected").connect("later").await.expect("answered") != 0 {}
    };
    timeout(PATIENCE, returned).await.expect("room comes back");
    rig.stop().await;
}
