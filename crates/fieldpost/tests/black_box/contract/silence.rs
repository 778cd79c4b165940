//! Loss and return, at the shortest interval that may be set.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simulator::receiver::{ConnectionStatus, DeviceEventKind, Ledger};
use simulator::wire_time;

use crate::contract::rig::{PATIENCE, Rig, each, has_status};
use crate::faults::wall_clock::{self, WallClock};

const SHORT: &[(&str, &str)] =
    &[("FIELDPOST_DEVICES__RESTART_GRACE", "0s"), ("FIELDPOST_DEVICES__REPORT_INTERVAL", "1s")];

/// The device's own interval while it is not to be lost, however slow the machine is.
const LONG: Option<&str> = Some("1h");

/// How far the clock of a second server is ahead: to it, the first was gone for so long.
const AWAY: Duration = Duration::from_secs(2 * 3_600);

/// Gives the device an interval of its own, or takes that away: then it is the short one.
async fn set_interval(rig: &Rig, interval: Option<&str>) {
    let change = json!({"report_interval": interval});
    rig.api.patch("/v1/devices/0xA", &change).await.expect("changed");
}

fn told(kind: DeviceEventKind, sequence: u64) -> impl Fn(&Ledger) -> bool {
    move |ledger| {
        ledger.latest("0xA").is_some_and(|latest| {
            (latest.notification.kind, latest.notification.sequence) == (kind, sequence)
        })
    }
}

#[tokio::test]
async fn a_loss_is_told_once_and_any_sign_of_life_ends_it() {
    let rig = Rig::start_telling(SHORT).await;
    rig.device(&json!({"id": "0xA", "report_interval": LONG})).await;
    let receiver = rig.receiver("acme", &["0xA"]).await;
    set_interval(&rig, None).await;
    receiver.until(PATIENCE, told(DeviceEventKind::Lost, 1)).await.expect("lost though never seen");
    let latest = receiver.ledger().latest("0xA").expect("told").notification.clone();
    assert_eq!(
        (latest.connection, latest.value, latest.previous),
        (ConnectionStatus::Lost, Value::Null, Value::Null)
    );
    assert_eq!(rig.get("/v1/devices/0xA").await["state"]["last_seen_at"], Value::Null);

    set_interval(&rig, LONG).await;
    let refused = rig.json("POST", "/v1/reports", r#"{"device_id":"0xA","data":7}"#).await;
    assert_eq!(refused.status, 422, "refused, and a sign of life all the same");
    receiver.until(PATIENCE, told(DeviceEventKind::Restored, 2)).await.expect("restored");

    set_interval(&rig, None).await;
    receiver.until(PATIENCE, told(DeviceEventKind::Lost, 3)).await.expect("lost again");
    set_interval(&rig, LONG).await;
    rig.report("0xA", 1).await;
    receiver
        .until(PATIENCE, told(DeviceEventKind::Changed, 5))
        .await
        .expect("restored and changed by one report");
    let latest = receiver.ledger().latest("0xA").expect("told").notification.clone();
    assert_eq!(latest.types, [DeviceEventKind::Restored, DeviceEventKind::Changed]);
    assert_eq!(
        (latest.skipped, latest.previous, latest.connection),
        (1, Value::Null, ConnectionStatus::Online)
    );
    assert_eq!(receiver.counts().arrivals, 4, "each loss once, and nothing of the replaced return");

    let deliveries = rig.deliveries("0xA", 5, has_status("delivered")).await;
    let statuses = ["delivered", "delivered", "delivered", "superseded", "delivered"];
    assert_eq!(each(&deliveries, "status"), statuses);
}

#[tokio::test]
async fn silence_while_the_server_was_away_does_not_count() {
    let mut rig = Rig::start_telling(SHORT).await;
    rig.device(&json!({"id": "0xA", "report_interval": LONG})).await;
    let reporting = Instant::now();
    rig.report("0xA", 1).await;
    rig.kill().await;
    let heard_ms = reporting.elapsed().as_millis() as i64;
    let _clock = WallClock::of(&mut rig.site, AWAY).expect("a clock of its own");
    let back_ms = wall_clock::time(AWAY);
    rig.start_again().await;
    let state = rig.get("/v1/devices/0xA").await["state"].clone();
    assert_eq!(state["connection"], "online");
    set_interval(&rig, None).await;
    let lost = |device: &Value| device["state"]["connection"] == "lost";
    let device: Value = rig.api.until("/v1/devices/0xA", PATIENCE, lost).await.expect("lost in the end");
    assert_eq!(device["state"]["last_seen_at"], state["last_seen_at"]);
    let events = rig.feed("/v1/events?device=0xA&order=asc", 2).await;
    assert_eq!(each(&events, "type"), ["device.changed", "device.lost"]);
    assert_eq!(each(&events, "previous"), [Value::Null, json!(1)]);
    // The part of the second that was over at the kill counts, and the rest comes after the start.
    let lost_ms = events[1]["ts"].as_str().and_then(wire_time::parse_ms).expect("a time");
    let left_ms = 1_000 - heard_ms;
    assert!(lost_ms >= back_ms + left_ms, "{left_ms} ms were left at {back_ms}; it was lost at {lost_ms}");
    assert!(rig.stop().await.success());
}
