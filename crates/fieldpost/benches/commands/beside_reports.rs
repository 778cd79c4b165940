//! Commands and reports beside each other: what either does to the other's latency.

use std::sync::Arc;
use std::time::Duration;

use simulator::commands::CommandLedger;
use simulator::traffic::DeviceIds;

use super::machine::ms;
use super::report::Report;
use super::reporting::Reporting;
use super::site::Fieldpost;
use super::{Failure, Sizes, percentiles, stage};

/// Devices that report.
const REPORTING: u32 = 10_000;
/// Devices that take commands here.
const COMMANDED: u32 = 1_000;
/// Commands a second whose own latency is measured, and that reports have to bear.
const FEW_PER_SECOND: u64 = 1_000;
const MANY_PER_SECOND: u64 = 10_000;
/// Of the reports a second that commands have to bear, so many are measured beside many commands.
const PART_OF_REPORTS: u32 = 10;

/// The latency of commands beside many reports.
pub(super) async fn commands(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let reports = sizes.reports_per_second;
    let name = format!("commands_{FEW_PER_SECOND}_per_s_beside_{reports}_reports_per_s");
    let (server, devices) = server().await?;
    let ledger = Arc::new(CommandLedger::default());
    let connected = stage::connect(&server.site.mqtt, &devices, &ledger).await?;
    let reporting = Reporting::start(&server.site.mqtt, &reporting_devices(), reports);
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
    let reporting = Reporting::start(&server.site.mqtt, &reporting_devices(), reports);
    tokio::time::sleep(Duration::from_secs(sizes.seconds)).await;
    let alone = reporting.stop().await?;
    let ledger = Arc::new(CommandLedger::default());
    let connected = stage::connect(&server.site.mqtt, &devices, &ledger).await?;
    let reporting = Reporting::start(&server.site.mqtt, &reporting_devices(), reports);
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

fn reporting_devices() -> DeviceIds {
    DeviceIds::new("r", REPORTING)
}

async fn server() -> Result<(Fieldpost, DeviceIds), Failure> {
    let server = Fieldpost::start().await?;
    let devices = stage::devices(COMMANDED);
    stage::register(&server, &devices).await?;
    Ok((server, devices))
}
