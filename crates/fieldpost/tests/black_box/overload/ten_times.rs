//! Far more reports than can be made durable, over both ways in at once, from far more senders than
//! are good for it.

use simulator::fleet::{FleetOutcome, PayloadFormat, Plan, ReportRecording, ReportingFleet, Way};
use simulator::traffic::{DeviceIds, Flood};
use tokio::time::timeout;

use crate::overload::raw::Mqtt;
use crate::overload::rig::{PATIENCE, Rig};

const REPORTS: u64 = 60_000;

fn flood(rig: &Rig, way: Way, prefix: &str, lanes: u32) -> ReportingFleet {
    let devices = DeviceIds::new(prefix, 1_000);
    let endpoint = if matches!(way, Way::Http { .. }) { &rig.site.http } else { &rig.site.mqtt }.clone();
    let share = REPORTS / u64::from(lanes);
    let floods = (0..lanes).map(|lane| Flood::new(devices.lane(lane, lanes), share, 10)).collect();
    ReportingFleet::start(
        Plan { way, endpoint, devices, payload: PayloadFormat::Dated, keep: ReportRecording::Counts },
        floods,
    )
}

fn is_acknowledged(outcome: &FleetOutcome) {
    let stats = outcome.stats;
    assert_eq!((stats.acknowledged, outcome.unanswered), (stats.sent, 0), "{stats:?}");
    assert_eq!((stats.broken, stats.refused, stats.disordered), (0, 0, 0), "{stats:?}");
}

#[tokio::test]
async fn reports_beyond_what_can_be_done_are_slowed_and_none_is_lost() {
    let rig = Rig::start(&[]).await;
    let mqtt = flood(&rig, Way::LeanMqtt { in_flight: 1_000 }, "M", 100);
    let http = flood(&rig, Way::Http { lines: 1_000 }, "H", 50);
    // Who has little to say is heard among those who have much.
    let mut quiet = Mqtt::open(rig.mqtt).await.expect("connected");
    assert_eq!(quiet.connect("quiet").await.expect("answered"), 0);
    for value in [1, 0, 1] {
        let reported = timeout(PATIENCE, quiet.report("0xQ", value)).await.expect("in time");
        reported.expect("acknowledged");
    }
    let (mqtt, http) = tokio::join!(mqtt.finish(PATIENCE), http.finish(PATIENCE));
    is_acknowledged(&mqtt);
    is_acknowledged(&http);
    let expected = mqtt.stats.sent + http.stats.sent + 3;
    assert_eq!(rig.metric("fieldpost_engine_readings_total").await, expected, "each is stored once");
    rig.has_grown_less_than(128);
    rig.is_well("0xB").await;
    rig.stop().await;
}
