//! Commands and reports beside each other: what either does to the other's latency.

use std::sync::Arc;
use std::time::Duration;

use simulator::commands::CommandLedger;
use simulator::fleet::{Fleet, Keep, Payload, Plan, Way};
use simulator::latency::Latency;
use simulator::traffic::{DeviceIds, Dial, Locks, Pace};

use super::machine::ms;
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, PATIENCE, Sizes, percentiles, stage};

/// Connections and devices that report.
const CONNECTIONS: u32 = 64;
const IN_FLIGHT: u16 = 100;
const REPORTING: u32 = 10_000;
const CHANGE_PER_MILLE: u32 = 100;
const SEED: u64 = 14;
/// Devices that take commands here.
const COMMANDED: u32 = 1_000;
/// Commands a second whose own latency is measured, and that reports have to bear.
const FEW_PER_SECOND: u64 = 1_000;
const MANY_PER_SECOND: u64 = 10_000;
/// Of the reports a second that commands have to bear, so many are measured beside many commands.
const PART_OF_REPORTS: u32 = 10;

/// Reports that go on until they are stopped.
struct Reporting {
    fleet: Fleet,
    dial: Arc<Dial>,
}

impl Reporting {
    fn start(server: &Fieldpost, per_second: u32) -> Self {
        let devices = DeviceIds::new("r", REPORTING);
        let dial = Dial::new(&devices);
        let pace = Pace {
            reports_per_second: f64::from(per_second) / f64::from(CONNECTIONS),
            change_per_mille: CHANGE_PER_MILLE,
            seed: SEED,
        };
        let lane = |lane| Locks::new(devices.lane(lane, CONNECTIONS), pace, Arc::clone(&dial));
        let lanes = (0..CONNECTIONS).map(lane).collect();
        let plan = Plan {
            way: Way::LeanMqtt { in_flight: IN_FLIGHT },
            endpoint: server.site.mqtt.clone(),
            devices: devices.clone(),
            payload: Payload::Dated,
            keep: Keep::Counts,
        };
        Self { fleet: Fleet::start(plan, lanes), dial }
    }

    /// How long their acknowledgements took, and how many there were.
    async fn stop(self) -> Result<Latency, Failure> {
        self.dial.finish();
        let outcome = self.fleet.finish(PATIENCE).await;
        if outcome.unanswered > 0 || outcome.figures.broken > 0 {
            return Err(format!("reports went astray: {:?}", outcome.figures).into());
        }
        Ok(outcome.latency)
    }
}

/// The latency of commands beside many reports.
pub(super) async fn commands(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let reports = sizes.reports_per_second;
    let name = format!("commands_{FEW_PER_SECOND}_per_s_beside_{reports}_reports_per_s");
    let (server, devices) = server().await?;
    let ledger = Arc::new(CommandLedger::default());
    let connected = stage::connect(&server.site.mqtt, &devices, &ledger).await?;
    let reporting = Reporting::start(&server, reports);
    let commands = FEW_PER_SECOND * sizes.seconds;
    let mut load = stage::load(&server, &devices, commands, FEW_PER_SECOND as f64, &ledger);
    stage::all_settled(&ledger, commands).await?;
    load.sent().await;
    let pubacks = reporting.stop().await?;
    let latency = ledger.latencies().asked_to_received;
    let rate = pubacks.count() / sizes.seconds;
    report.note(&format!("  {name}: {latency}; {rate} reports a second, PUBACK {pubacks}"))?;
    report.figure(&format!("{name} asked_to_received p50 / p99"), percentiles(&latency));
    connected.disconnect().await;
    server.stop().await
}

/// The latency of reports beside many commands, and without them.
pub(super) async fn reports(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let reports = sizes.reports_per_second / PART_OF_REPORTS;
    let name = format!("reports_{reports}_per_s_beside_{MANY_PER_SECOND}_commands_per_s");
    let (server, devices) = server().await?;
    let reporting = Reporting::start(&server, reports);
    tokio::time::sleep(Duration::from_secs(sizes.seconds)).await;
    let alone = reporting.stop().await?;
    let ledger = Arc::new(CommandLedger::default());
    let connected = stage::connect(&server.site.mqtt, &devices, &ledger).await?;
    let reporting = Reporting::start(&server, reports);
    let commands = MANY_PER_SECOND * sizes.seconds;
    let mut load = stage::load(&server, &devices, commands, MANY_PER_SECOND as f64, &ledger);
    load.sent().await;
    let beside = reporting.stop().await?;
    stage::all_settled(&ledger, commands).await?;
    let behind = load.behind();
    report
        .note(&format!("  {name}: {beside}; alone {alone}; commands {behind:?} behind their time at most"))?;
    let [beside, alone] = [beside, alone].map(|latency| ms(latency.percentile(99.0)));
    let figure = format!("{beside:.2} ms, {:.2} x of {alone:.2} ms alone", beside / alone);
    report.figure(&format!("{name} PUBACK p99"), figure);
    connected.disconnect().await;
    server.stop().await
}

async fn server() -> Result<(Fieldpost, DeviceIds), Failure> {
    let server = Fieldpost::start().await?;
    let devices = stage::devices(COMMANDED);
    stage::register(&server, &devices).await?;
    Ok((server, devices))
}
