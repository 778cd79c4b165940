//! Loss and return, at the shortest interval that may be set.

use serde_json::{Value, json};
use simulator::receiver::{Connection, EventKind, Ledger};

use crate::contract::rig::{PATIENCE, Rig, each, has_status};

const SHORT: &[(&str, &str)] =
    &[("FIELDPOST_DEVICES__RESTART_GRACE", "0s"), ("FIELDPOST_DEVICES__REPORT_INTERVAL", "1s")];

fn told(kind: EventKind, sequence: u64) -> impl Fn(&Ledger) -> bool {
    move |ledger| {
        ledger.latest("0xA").is_some_and(|latest| {
            (latest.notification.kind, latest.notification.sequence) == (kind, sequence)
        })
    }
}

#[tokio::test]
async fn a_loss_is_told_once_and_any_sign_of_life_ends_it() {
    let rig = Rig::start_telling(SHORT).await;
    rig.device(&json!({"id": "0xA"})).await;
    let receiver = rig.receiver("acme", &["0xA"]).await;
    receiver.until(PATIENCE, told(EventKind::Lost, 1)).await.expect("lost though never seen");
    let latest = receiver.ledger().latest("0xA").expect("told").notification.clone();
    assert_eq!(
        (latest.connection, latest.value, latest.previous),
        (Connection::Lost, Value::Null, Value::Null)
    );
    assert_eq!(rig.get("/v1/devices/0xA").await["state"]["last_seen_at"], Value::Null);

    let refused = rig.json("POST", "/v1/reports", r#"{"device_id":"0xA","data":7}"#).await;
    assert_eq!(refused.status, 422, "refused, and a sign of life all the same");
    receiver.until(PATIENCE, told(EventKind::Restored, 2)).await.expect("restored");

    receiver.until(PATIENCE, told(EventKind::Lost, 3)).await.expect("lost again");
    rig.report("0xA", 1).await;
    receiver.until(PATIENCE, told(EventKind::Changed, 5)).await.expect("restored and changed by one report");
    let latest = receiver.ledger().latest("0xA").expect("told").notification.clone();
    assert_eq!(latest.types, [EventKind::Restored, EventKind::Changed]);
    assert_eq!((latest.skipped, latest.previous, latest.connection), (1, Value::Null, Connection::Online));
    assert_eq!(receiver.counts().arrivals, 4, "each loss once, and nothing of the replaced return");

    let deliveries = rig.deliveries("0xA", 5, has_status("delivered")).await;
    let statuses = ["delivered", "delivered", "delivered", "superseded", "delivered"];
    assert_eq!(each(&deliveries, "status"), statuses);
}

#[tokio::test]
async fn silence_while_the_server_was_away_does_not_count() {
    let mut rig = Rig::start_telling(SHORT).await;
    rig.device(&json!({"id": "0xA"})).await;
    rig.report("0xA", 1).await;
    rig.restart().await;
    let state = rig.get("/v1/devices/0xA").await["state"].clone();
    assert_eq!(state["connection"], "online");
    let lost = |device: &Value| device["state"]["connection"] == "lost";
    let device: Value = rig.api.until("/v1/devices/0xA", PATIENCE, lost).await.expect("lost in the end");
    assert_eq!(device["state"]["last_seen_at"], state["last_seen_at"]);
    let events = rig.feed("/v1/events?device=0xA&order=asc", 2).await;
    assert_eq!(each(&events, "type"), ["device.changed", "device.lost"]);
    assert_eq!(each(&events, "previous"), [Value::Null, json!(1)]);
}
