//! Wills that wait for their client to come back.

use crate::raw_client::Version::V5;
use crate::raw_client::{Connect, RawClient};
use crate::rig::{METER, Rig};

const ABSENT: &str = "fieldpost_mqtt_absent_sessions";
const LOST: Option<(&str, &str)> = Some(("dev/meter/m1/state", "\"lost\""));

fn connect(will_delay: u8) -> Connect<'static> {
    Connect { will: LOST, will_delay, ..Connect::lasting(V5) }
}

#[tokio::test]
async fn a_will_is_applied_when_its_client_is_not_back_in_time() {
    let rig = Rig::start().await;
    drop(RawClient::connect(rig.mqtt, connect(1)).await);
    rig.figure_becomes("fieldpost_mqtt_wills_total{result=\"accepted\"}", 1).await;
    assert_eq!(rig.readings(METER), ["\"lost\""]);
    let (_, present) = RawClient::connect_to_session(rig.mqtt, connect(1)).await;
    assert!(present, "its session goes on");
}

#[tokio::test]
async fn a_will_is_void_when_its_client_is_back() {
    let rig = Rig::start().await;
    drop(RawClient::connect(rig.mqtt, connect(200)).await);
    rig.figure_becomes(ABSENT, 1).await;
    let (older, present) = RawClient::connect_to_session(rig.mqtt, connect(200)).await;
    assert!(present);
    // Also when it takes over from a connection that is still there.
    let (mut newer, present) = RawClient::connect_to_session(rig.mqtt, connect(200)).await;
    assert!(present);
    drop(older);
    newer.send(b"\xe0\0").await;
    assert_eq!(newer.rest().await, b"");
    let (_, present) = RawClient::connect_to_session(rig.mqtt, Connect::lasting(V5)).await;
    assert!(present && rig.readings(METER).is_empty());
}

#[tokio::test]
async fn a_will_does_not_wait_longer_than_its_session() {
    let rig = Rig::start().await;
    // One that begins anew ends the session of the absent client.
    drop(RawClient::connect(rig.mqtt, connect(200)).await);
    rig.figure_becomes(ABSENT, 1).await;
    let _anew = RawClient::connect(rig.mqtt, Connect::new(V5)).await;
    assert_eq!(rig.readings(METER), ["\"lost\""]);
    // A session that ends with its connection leaves nothing to wait in.
    drop(RawClient::connect(rig.mqtt, Connect { client_id: "brief", expiry: 0, ..connect(200) }).await);
    let _back = RawClient::connect(rig.mqtt, Connect { client_id: "brief", ..Connect::new(V5) }).await;
    assert_eq!(rig.readings(METER), ["\"lost\"", "\"lost\""]);
    // One that expires takes its will with it.
    drop(RawClient::connect(rig.mqtt, Connect { client_id: "expires", expiry: 1, ..connect(200) }).await);
    rig.figure_becomes("fieldpost_mqtt_wills_total{result=\"accepted\"}", 3).await;
}
