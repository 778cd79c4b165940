//! Devices that report beside what is measured.

use std::sync::Arc;

use simulator::endpoint::Endpoint;
use simulator::fleet::{PayloadFormat, Plan, ReportRecording, ReportingFleet, Way};
use simulator::latency::Latency;
use simulator::traffic::{DeviceIds, Dial, DoorLockProfile, DoorLocks};

use super::{Failure, PATIENCE};

/// Connections that devices report over.
const CONNECTIONS: u32 = 64;
const IN_FLIGHT: u16 = 100;
const CHANGE_PER_MILLE: u32 = 100;
const SEED: u64 = 14;

/// Reports that go on until they are stopped.
pub(super) struct Reporting {
    fleet: ReportingFleet,
    dial: Arc<Dial>,
}

impl Reporting {
    pub(super) fn start(mqtt: &Endpoint, devices: &DeviceIds, per_second: u32) -> Self {
        let dial = Dial::new(devices);
        let pace = DoorLockProfile {
            reports_per_second: f64::from(per_second) / f64::from(CONNECTIONS),
            change_per_mille: CHANGE_PER_MILLE,
            seed: SEED,
        };
        let lane = |lane| DoorLocks::new(devices.lane(lane, CONNECTIONS), pace, Arc::clone(&dial));
        let lanes = (0..CONNECTIONS).map(lane).collect();
        let plan = Plan {
            way: Way::LeanMqtt { in_flight: IN_FLIGHT },
            endpoint: mqtt.clone(),
            devices: devices.clone(),
            payload: PayloadFormat::Dated,
            keep: ReportRecording::Counts,
        };
        Self { fleet: ReportingFleet::start(plan, lanes), dial }
    }

    /// How long their acknowledgements took, and how many there were.
    pub(super) async fn stop(self) -> Result<Latency, Failure> {
        self.dial.finish();
        let outcome = self.fleet.finish(PATIENCE).await;
        if outcome.unanswered > 0 || outcome.stats.broken > 0 {
            return Err(format!("reports went astray: {:?}", outcome.stats).into());
        }
        Ok(outcome.latency)
    }
}
