//! Far more reports than can be made durable, over both ways in at once, from far more senders than
//! are good for it.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use simulator::fleet::{FleetOutcome, PayloadFormat, Plan, ReportRecording, ReportingFleet, Way};
use simulator::traffic::{DeviceIds, Flood, LaneAction, LaneTraffic};
use tokio::time::timeout;

use crate::overload::raw::Mqtt;
use crate::overload::rig::{PATIENCE, Rig};

const REPORTS: u64 = 60_000;
const MQTT_LANES: u32 = 100;
const HTTP_LANES: u32 = 50;
/// All floods have been answered by then, even on a machine that is busy with other tests.
const ANSWERED_WITHIN: Duration = Duration::from_secs(300);
/// Between two looks of a lane that waits for the others.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A flood that begins once the lanes of all floods are connected: connecting has a time limit, and
/// among floods it may take long.
struct JointFlood {
    flood: Flood,
    unconnected: Arc<AtomicU32>,
    is_connected: bool,
}

impl LaneTraffic for JointFlood {
    fn next(&mut self, now: Instant) -> LaneAction {
        // A lane asks for the first time once it is connected.
        if !mem::replace(&mut self.is_connected, true) {
            self.unconnected.fetch_sub(1, Ordering::Relaxed);
        }
        match self.unconnected.load(Ordering::Relaxed) {
            0 => self.flood.next(now),
            _ => LaneAction::NotBefore(now + LOOK_EVERY),
        }
    }
}

fn flood(rig: &Rig, way: Way, prefix: &str, lanes: u32, unconnected: &Arc<AtomicU32>) -> ReportingFleet {
    let devices = DeviceIds::new(prefix, 1_000);
    let endpoint = if matches!(way, Way::Http { .. }) { &rig.site.http } else { &rig.site.mqtt }.clone();
    let share = REPORTS / u64::from(lanes);
    let joint = |lane| {
        let flood = Flood::new(devices.lane(lane, lanes), share, 10);
        JointFlood { flood, unconnected: Arc::clone(unconnected), is_connected: false }
    };
    let floods = (0..lanes).map(joint).collect();
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
    let unconnected = Arc::new(AtomicU32::new(MQTT_LANES + HTTP_LANES));
    let mqtt = flood(&rig, Way::LeanMqtt { in_flight: 1_000 }, "M", MQTT_LANES, &unconnected);
    let http = flood(&rig, Way::Http { lines: 1_000 }, "H", HTTP_LANES, &unconnected);
    for fleet in [&mqtt, &http] {
        assert!(fleet.until(PATIENCE, |stats| stats.sent > 0).await, "the floods have not begun");
    }
    // Who has little to say is heard among those who have much.
    let mut quiet = Mqtt::open(rig.mqtt).await.expect("connected");
    assert_eq!(quiet.connect("quiet").await.expect("answered"), 0);
    for value in [1, 0, 1] {
        let reported = timeout(PATIENCE, quiet.report("0xQ", value)).await.expect("in time");
        reported.expect("acknowledged");
    }
    let (mqtt, http) = tokio::join!(mqtt.finish(ANSWERED_WITHIN), http.finish(ANSWERED_WITHIN));
    is_acknowledged(&mqtt);
    is_acknowledged(&http);
    let expected = mqtt.stats.sent + http.stats.sent + 3;
    assert_eq!(rig.metric("fieldpost_engine_readings_total").await, expected, "each is stored once");
    rig.has_grown_less_than(128);
    rig.is_well("0xB").await;
    rig.stop().await;
}
