//! Commands for devices that are away: the memory that they take, and what they do to a start. Also
//! how soon a device that comes back is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use simulator::commands::CommandLedger;
use simulator::latency::Latency;
use simulator::traffic::DeviceIds;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::machine::{ms, resident_mib};
use super::raw::{Mqtt, packet, text};
use super::report::Report;
use super::site::Fieldpost;
use super::{Failure, PATIENCE, Sizes, percentiles, stage};

/// Devices that come back, one after the other.
const BACK: u32 = 500;

pub(super) async fn many_waiting(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let name = format!("commands_{}_waiting_for_{}absent", sizes.waiting, sizes.absent);
    let server = Fieldpost::start().await?;
    let devices = stage::devices(sizes.absent);
    stage::register(&server, &devices).await?;
    // The memory of a fresh process: what was needed to register them is not theirs.
    let (server, start_without) = server.restart().await?;
    let without = resident_mib(server.process_id()?)?;

    let ledger = Arc::new(CommandLedger::default());
    let begun = Instant::now();
    let mut load = stage::load(&server, &devices, sizes.waiting, f64::INFINITY, &ledger);
    load.sent().await;
    if ledger.counts().sent != sizes.waiting {
        return Err(format!("not every command was accepted: {}", stage::told(&ledger)).into());
    }
    let rate = report.round(&format!("{name} accepted"), sizes.waiting, begun.elapsed())?;
    report.rate(&format!("{name} accepted"), vec![rate], None);
    let live = resident_mib(server.process_id()?)?;

    let (server, start_with) = server.restart().await?;
    let with = resident_mib(server.process_id()?)?;
    report.note(&format!(
        "  {name}: {without} MiB with the devices alone, {live} MiB once all were accepted, {with} MiB after a \
         restart; ready after {start_without:?} without, {start_with:?} with"
    ))?;
    let above = |now: u64| now.saturating_sub(without);
    let memory = format!("{} MiB; {} MiB while accepting", above(with), above(live));
    report.figure(&format!("{name} memory above that of the devices"), memory);
    let longer = ms(start_with.saturating_sub(start_without));
    report.figure(&format!("{name} start_to_ready longer by"), format!("{longer:.0} ms"));

    let latency = come_back(server.site.mqtt.address().await, &devices).await?;
    report.note(&format!("  {name} first command after SUBSCRIBE: {latency}"))?;
    report.figure(&format!("{name} first_after_SUBSCRIBE p50 / p99"), percentiles(&latency));
    server.stop().await
}

/// From the SUBSCRIBE of a device until its first command, for one device after the other.
async fn come_back(address: SocketAddr, devices: &DeviceIds) -> Result<Latency, Failure> {
    let mut latency = Latency::default();
    let step = (devices.count() / BACK).max(1);
    for device in (0..devices.count()).step_by(step as usize).take(BACK as usize) {
        let id = devices.id(device);
        let mut line = Mqtt::open(address).await?;
        line.0.set_nodelay(true)?;
        if line.connect(&id).await? != 0 {
            return Err(format!("{id} is not let in").into());
        }
        let topic = text(&format!("dev/{}/{id}", devices.kind()));
        let begun = Instant::now();
        line.0.write_all(&packet(0x82, &[&[0, 1][..], &topic, &[1]].concat())).await?;
        timeout(PATIENCE, first_command(&mut line)).await??;
        latency.record(begun.elapsed());
    }
    Ok(latency)
}

/// Reads until a PUBLISH has begun; what it says is left unread.
async fn first_command(line: &mut Mqtt) -> Result<(), Failure> {
    const PUBLISH: u8 = 0x30;
    loop {
        let head = line.0.read_u8().await?;
        if head & 0xF0 == PUBLISH {
            return Ok(());
        }
        let length = line.0.read_u8().await?;
        line.0.read_exact(&mut vec![0; usize::from(length)]).await?;
    }
}
