//! Commands to devices that are all there: how many a second are done, and how soon one reaches its
//! device.

use std::sync::Arc;
use std::time::Instant;

use simulator::commands::CommandLedger;

use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, PATIENCE, Sizes, percentiles, stage};

/// Rounds of the rate; the median of them is the figure.
const ROUNDS: u64 = 3;
const PER_SECOND: u64 = 1_000;

/// One command for each device, sent as fast as they are accepted, until every answer is
/// acknowledged.
pub(super) async fn one_command_each(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let name = format!("commands_end_to_end_{}devices_1each", sizes.devices);
    let server = Fieldpost::start().await?;
    let devices = stage::devices(sizes.devices);
    stage::register(&server, &devices).await?;
    let ledger = Arc::new(CommandLedger::default());
    let connected = stage::connect(&server.site.mqtt, &devices, &ledger).await?;
    let mut rates = Vec::new();
    for round in 1..=ROUNDS {
        let begun = Instant::now();
        let commands = u64::from(sizes.devices);
        let mut load = stage::load(&server, &devices, commands, f64::INFINITY, &ledger);
        stage::all_settled(&ledger, commands * round).await?;
        rates.push(report.round(&name, commands, begun.elapsed())?);
        load.sent().await;
    }
    report.rate(&name, rates, None);
    connected.disconnect().await;
    server.stop().await
}

/// From the answer to the sender until the device has the command, and until its answer is
/// acknowledged, at a rate that is no burden.
pub(super) async fn at_a_thousand_a_second(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let name = format!("commands_{PER_SECOND}_per_s_{}devices", sizes.devices);
    let server = Fieldpost::start().await?;
    let devices = stage::devices(sizes.devices);
    stage::register(&server, &devices).await?;
    let ledger = Arc::new(CommandLedger::default());
    let connected = stage::connect(&server.site.mqtt, &devices, &ledger).await?;
    let commands = PER_SECOND * sizes.seconds;
    let mut load = stage::load(&server, &devices, commands, PER_SECOND as f64, &ledger);
    stage::all_settled(&ledger, commands).await?;
    tokio::time::timeout(PATIENCE, load.sent()).await?;
    let latencies = ledger.latencies();
    // A device may have a command before its sender has read that it was accepted.
    let measured = [
        ("asked_to_received", &latencies.asked_to_received),
        ("accepted_to_received", &latencies.accepted_to_received),
        ("accepted_to_settled", &latencies.accepted_to_settled),
    ];
    for (what, latency) in measured {
        report.note(&format!("  {name} {what}: {latency}"))?;
        report.figure(&format!("{name} {what} p50 / p99"), percentiles(latency));
    }
    connected.disconnect().await;
    server.stop().await
}
