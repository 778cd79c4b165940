//! Load to break things under: locks that report over three ways in, two clients, and the account
//! at the end.
//!
//! Reports go over MQTT, through two independent clients, and over HTTP, each with an id. What goes
//! out again after a broken connection has no second effect, so the account is exact. A lane has
//! fewer reports of a device under way than the server remembers ids.

use std::sync::Arc;

use simulator::account::{Audit, Expected, close};
use simulator::api_client::{ApiClient, ApiError};
use simulator::fleet::{FleetStats, PayloadFormat, Plan, ReportRecording, ReportingFleet, Way};
use simulator::receiver::{Retain, WebhookReceiver};
use simulator::registration::{register_client, register_locks};
use simulator::sent::Sent;
use simulator::server::Site;
use simulator::traffic::{DeviceIds, Dial, DoorLockProfile, DoorLocks};

use crate::faults::PATIENCE;

const LOCKS: u32 = 60;
/// Each speaks for its own locks.
pub(crate) const LANES_OF_A_WAY: u32 = 4;
pub(crate) const LANES: u32 = 3 * LANES_OF_A_WAY;
/// Reports under way on a connection: of each of its five locks at most eight.
const IN_FLIGHT: u16 = 40;
/// Of a lane that leaves the server time.
const REPORTS_PER_SECOND: f64 = 100.0;
/// Of a lane that leaves it less.
const MORE_REPORTS_PER_SECOND: f64 = 1_000.0;
const CHANGE_PER_MILLE: u32 = 150;
/// So many shortfalls are named.
const NAMED_MAX: usize = 30;

/// See the module.
pub(crate) struct Load {
    pub api: ApiClient,
    devices: DeviceIds,
    dial: Arc<Dial>,
    fleets: Vec<(Way, ReportingFleet)>,
    well: WebhookReceiver,
    /// The receiver of the client that may get into trouble.
    pub troubled: WebhookReceiver,
}

impl Load {
    /// Registers locks and clients at the running server of `site`, and lets the locks report.
    pub(crate) async fn begin(site: &Site, seed: u64) -> Result<Self, ApiError> {
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        let receiver = || WebhookReceiver::open(Retain::Everything).expect("a free port");
        let (well, troubled) = (receiver(), receiver());
        register_client(&api, "well", &well).await?;
        register_client(&api, "troubled", &troubled).await?;
        let devices = DeviceIds::new("lock", LOCKS);
        register_locks(&api, &devices, 0..LOCKS, None, &["well", "troubled"]).await?;
        let dial = Dial::new(&devices);
        let fleets = fleets(site, &devices, &dial, seed);
        Ok(Self { api, devices, dial, fleets, well, troubled })
    }

    pub(crate) fn stats(&self) -> impl Iterator<Item = FleetStats> {
        self.fleets.iter().map(|(_, fleet)| fleet.progress().stats())
    }

    /// Lanes of each way whose present connection has not brought an acknowledgement.
    pub(crate) fn unconfirmed_lanes(&self) -> impl Iterator<Item = u64> {
        let lanes = u64::from(LANES_OF_A_WAY);
        self.fleets.iter().map(move |(_, fleet)| lanes.saturating_sub(fleet.progress().confirmed_lanes()))
    }

    fn acknowledged(&self) -> u64 {
        self.stats().map(|stats| stats.acknowledged).sum()
    }

    /// Waits until `more` reports have been acknowledged beyond those so far.
    pub(crate) async fn until_acknowledged(&self, more: u64) {
        let goal = self.acknowledged() + more;
        let reached = self.fleets[0].1.until(PATIENCE, |_| self.acknowledged() >= goal).await;
        assert!(reached, "{} reports were acknowledged, {goal} are awaited", self.acknowledged());
    }

    /// Waits until connections have broken `more` times beyond those so far; how many reports are
    /// acknowledged then.
    pub(crate) async fn until_broken(&self, more: u64) -> u64 {
        let broken = || self.stats().map(|stats| stats.broken).sum::<u64>();
        let goal = broken() + more;
        let reached = self.fleets[0].1.until(PATIENCE, |_| broken() >= goal).await;
        assert!(reached, "{} connections broke, {goal} are awaited", broken());
        self.acknowledged()
    }

    /// Lets every report that went out be answered, every notification come to its end, and makes
    /// up the account, in which nothing may be missing.
    pub(crate) async fn close(self) -> Result<Audit, ApiError> {
        let Self { api, devices, dial, fleets, well, troubled } = self;
        dial.finish();
        let mut sent = Sent::nothing(devices);
        let mut acknowledged = 0;
        for (way, fleet) in fleets {
            let outcome = fleet.finish(PATIENCE).await;
            let stats = outcome.stats;
            eprintln!("{way:?}: {stats:?}");
            assert_eq!((outcome.unanswered, stats.refused, stats.disordered), (0, 0, 0), "{way:?}");
            assert!(stats.acknowledged > 0, "{way:?}: {stats:?}");
            acknowledged += stats.acknowledged;
            sent.merge(outcome.sent);
        }
        let clients = [("well", &well), ("troubled", &troubled)];
        let expected = Expected { repeats_have_no_effect: true, ..Expected::default() };
        let audit = close(&api, &sent, &clients, &expected, PATIENCE).await?;
        tell(&audit);
        assert_eq!(audit.reports_acknowledged, acknowledged);
        let named: Vec<String> = audit.shortfalls.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        assert!(named.is_empty(), "{} things are missing:\n  {}", audit.shortfalls.len(), named.join("\n  "));
        Ok(audit)
    }
}

/// One fleet per way in, so that what each was answered can be told apart.
fn fleets(site: &Site, devices: &DeviceIds, dial: &Arc<Dial>, seed: u64) -> Vec<(Way, ReportingFleet)> {
    let ways = [
        (Way::Mqtt { in_flight: IN_FLIGHT }, &site.mqtt, REPORTS_PER_SECOND),
        (Way::LeanMqtt { in_flight: IN_FLIGHT }, &site.mqtt, MORE_REPORTS_PER_SECOND),
        (Way::Http { lines: IN_FLIGHT }, &site.http, REPORTS_PER_SECOND),
    ];
    let mut first = 0;
    let fleets = ways.map(|(way, endpoint, reports_per_second)| {
        let pace = DoorLockProfile { reports_per_second, change_per_mille: CHANGE_PER_MILLE, seed };
        let lanes = first..first + LANES_OF_A_WAY;
        first = lanes.end;
        let traffic = lanes.map(|lane| DoorLocks::new(devices.lane(lane, LANES), pace, Arc::clone(dial)));
        let plan = Plan {
            way,
            endpoint: endpoint.clone(),
            devices: devices.clone(),
            payload: PayloadFormat::Identified { run: seed },
            keep: ReportRecording::EveryReport,
        };
        (way, ReportingFleet::start(plan, traffic.collect()))
    });
    fleets.into()
}

fn tell(audit: &Audit) {
    eprintln!(
        "{} reports, {} changes; {} notifications: {} delivered, {} superseded, {} retried",
        audit.reports_sent,
        audit.changes,
        audit.notifications_due,
        audit.delivered,
        audit.superseded,
        audit.retried
    );
}
