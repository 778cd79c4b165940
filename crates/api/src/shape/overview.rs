//! How everything stands, in answers.

use base::Timestamp;
use engine::overview::OverviewCounts;
use serde::Serialize;
use utoipa::ToSchema;

use super::text::Time;
use crate::openapi::words;
use crate::overview::{Failing, PerSecond};

/// How everything stands.
#[derive(Serialize, ToSchema)]
#[schema(as = Overview)]
pub(crate) struct OverviewShape<'a> {
    at: Time,
    rates: RatesShape,
    devices: DeviceCountsShape,
    /// Not for who may look at devices and commands alone; so are those below.
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<JobCountsShape>,
    /// Refused reports that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantine: Option<u64>,
    /// What fails right now, worst first; at most 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    failing: Option<Vec<FailingShape<'a>>>,
}

/// How often it happened in a second, over the last few seconds.
#[derive(Serialize, ToSchema)]
#[schema(as = Rates)]
struct RatesShape {
    /// Messages of registered devices.
    reports: f64,
    changes: f64,
    losses: f64,
    /// Notifications that were made.
    deliveries: f64,
    /// Jobs that were published.
    jobs: f64,
    /// Commands that were given.
    commands: f64,
}

/// Devices, by connection.
#[derive(Serialize, ToSchema)]
#[schema(as = DeviceCounts)]
struct DeviceCountsShape {
    total: u64,
    online: u64,
    lost: u64,
    never_seen: u64,
    /// With a live session of their own.
    connected: u64,
}

/// Jobs of all queues, by state.
#[derive(Serialize, ToSchema)]
#[schema(as = JobCounts)]
struct JobCountsShape {
    scheduled: u64,
    ready: u64,
    reserved: u64,
    /// Dead letters.
    dead: u64,
    /// Queues that are paused.
    paused: u64,
}

/// Something that somebody should look at.
#[derive(Serialize, ToSchema)]
#[schema(as = Failing)]
struct FailingShape<'a> {
    #[schema(schema_with = words::failing)]
    what: &'static str,
    /// What it is about: "client acme".
    subject: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
    /// Where the console shows it, below `/console`.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'a str>,
}

impl<'a> OverviewShape<'a> {
    /// What happens, and how the devices stand.
    pub(crate) fn of(at: Timestamp, rates: PerSecond, overview: &OverviewCounts) -> Self {
        let PerSecond { reports, changes, losses, deliveries, jobs, commands } = rates;
        let devices = &overview.devices;
        Self {
            at: Time(at),
            rates: RatesShape { reports, changes, losses, deliveries, jobs, commands },
            devices: DeviceCountsShape {
                total: devices.online + devices.lost + devices.never_seen,
                online: devices.online,
                lost: devices.lost,
                never_seen: devices.never_seen,
                connected: overview.connected,
            },
            queues: None,
            quarantine: None,
            failing: None,
        }
    }

    /// The same with queues, refused reports and what fails.
    pub(crate) fn with_all(self, overview: &OverviewCounts, failing: &'a [Failing]) -> Self {
        let queues = &overview.queues;
        let counts = JobCountsShape {
            scheduled: queues.scheduled,
            ready: queues.ready,
            reserved: queues.reserved,
            dead: queues.dead,
            paused: queues.paused,
        };
        Self {
            queues: Some(counts),
            quarantine: Some(overview.devices.quarantined),
            failing: Some(failing.iter().map(FailingShape::from).collect()),
            ..self
        }
    }
}

impl<'a> From<&'a Failing> for FailingShape<'a> {
    fn from(failing: &'a Failing) -> Self {
        Self {
            what: failing.what.as_str(),
            subject: &failing.subject,
            detail: &failing.detail,
            count: failing.count,
            since: failing.since.map(Time),
            link: failing.link.as_deref(),
        }
    }
}
