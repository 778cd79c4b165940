//! Who plays: a server of its own, two receivers, and the locks, all of them told about to both.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use simulator::api_client::ApiClient;
use simulator::fleet::{PayloadFormat, Plan, ReportRecording, ReportingFleet, Way};
use simulator::receiver::{Retain, WebhookReceiver};
use simulator::registration::{change_interval, register_client, register_locks};
use simulator::server::{RunningServer, Site};
use simulator::traffic::{DeviceIds, Dial, DoorLockProfile, DoorLocks};

use super::Failure;

/// The client whose receiver is always well.
pub(super) const ACME: &str = "acme";
/// The client whose receiver is down for a while.
pub(super) const ZENITH: &str = "zenith";

/// Locks that report.
pub(super) const LOCKS: u32 = 300;
/// The first of them have a short report interval, and fall silent for a while.
pub(super) const HURRIED: Range<u32> = 0..24;
/// What is short.
pub(super) const HURRIED_INTERVAL: Duration = Duration::from_secs(3);
const USUAL_INTERVAL: Duration = Duration::from_secs(3600);

/// MQTT connections, each of which speaks for some locks, as a gate controller does.
pub(super) const CONNECTIONS: u32 = 60;
/// Reports that the locks make together.
pub(super) const REPORTS_PER_SECOND: u32 = 900;
/// The same, after the account.
const KEPT_REPORTS_PER_SECOND: u32 = 60;
const CHANGE_PER_MILLE: u32 = 200;
const IN_FLIGHT: u16 = 16;
const SEED: u64 = 2026;

/// Short times, so that half a minute is enough. Ten attempts from 700 ms on span 19 s, longer than
/// zenith is down.
const SETTINGS: [(&str, &str); 5] = [
    ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true"),
    ("FIELDPOST_NOTIFY__RETRY_BASE", "700ms"),
    ("FIELDPOST_NOTIFY__TIMEOUT", "2s"),
    ("FIELDPOST_DEVICES__RESTART_GRACE", "1s"),
    ("FIELDPOST_DURABILITY__SYNC", "always"),
];

/// How long the server may take to get ready.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(20);
/// How long a call of the API may take, restarts included.
const CALL_PATIENCE: Duration = Duration::from_secs(20);

/// See the module. The server's data are removed when this is dropped.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) site: Site,
    pub(super) api: ApiClient,
    pub(super) acme: WebhookReceiver,
    pub(super) zenith: WebhookReceiver,
    pub(super) devices: DeviceIds,
    pub(super) dial: Arc<Dial>,
}

impl Stage {
    /// Starts the server and registers everyone.
    pub(super) async fn set() -> Result<(Self, RunningServer), Failure> {
        let site = Site::new(&std::env::current_exe()?, &SETTINGS)?;
        let server = site.start(START_PATIENCE).await?;
        let api = ApiClient::new(site.http.clone(), CALL_PATIENCE);
        let (acme, zenith) =
            (WebhookReceiver::open(Retain::Everything)?, WebhookReceiver::open(Retain::Everything)?);
        register_client(&api, ACME, &acme).await?;
        register_client(&api, ZENITH, &zenith).await?;
        let devices = DeviceIds::new("lock", LOCKS);
        let clients = [ACME, ZENITH];
        register_locks(&api, &devices, HURRIED, Some(HURRIED_INTERVAL), &clients).await?;
        register_locks(&api, &devices, HURRIED.end..LOCKS, None, &clients).await?;
        let dial = Dial::new(&devices);
        Ok((Self { site, api, acme, zenith, devices, dial }, server))
    }

    /// Where the console is.
    pub(super) async fn console(&self) -> String {
        format!("http://{}/console/", self.site.http.address().await)
    }

    /// Lets the locks report.
    pub(super) fn start_locks(&self) -> ReportingFleet {
        self.start_fleet(REPORTS_PER_SECOND, ReportRecording::EveryReport)
    }

    /// Lets them report slowly, to be looked at.
    pub(super) fn start_kept_locks(&self) -> ReportingFleet {
        self.start_fleet(KEPT_REPORTS_PER_SECOND, ReportRecording::Counts)
    }

    fn start_fleet(&self, reports_per_second: u32, keep: ReportRecording) -> ReportingFleet {
        let pace = DoorLockProfile {
            reports_per_second: f64::from(reports_per_second) / f64::from(CONNECTIONS),
            change_per_mille: CHANGE_PER_MILLE,
            seed: SEED,
        };
        let lane = |lane| DoorLocks::new(self.devices.lane(lane, CONNECTIONS), pace, Arc::clone(&self.dial));
        let plan = Plan {
            way: Way::Mqtt { in_flight: IN_FLIGHT },
            endpoint: self.site.mqtt.clone(),
            devices: self.devices.clone(),
            payload: PayloadFormat::Dated,
            keep,
        };
        ReportingFleet::start(plan, (0..CONNECTIONS).map(lane).collect())
    }

    /// Gives the hurried locks the usual interval, so that the end of the traffic is not taken for
    /// silence.
    pub(super) async fn calm_the_hurried(&self) -> Result<(), Failure> {
        Ok(change_interval(&self.api, &self.devices, HURRIED, USUAL_INTERVAL).await?)
    }
}
