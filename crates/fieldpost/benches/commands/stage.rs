//! A server with devices that are registered, connected and told what to do.

use std::sync::Arc;

use simulator::commands::{CommandLedger, CommandLoad, CommandedDevices, LoadPlan, ResponseProfile};
use simulator::endpoint::Endpoint;
use simulator::registration::{DeviceTemplate, import_devices};
use simulator::traffic::DeviceIds;

use super::site::Fieldpost;
use super::{Failure, PATIENCE};

/// Connections that commands are sent over, each with one request at a time.
pub(super) const SENDERS: u32 = 240;

/// So many devices, none of which is registered yet.
pub(super) fn devices(count: u32) -> DeviceIds {
    DeviceIds::new("c", count).of_kind("gate")
}

/// Registers them.
pub(super) async fn register(server: &Fieldpost, devices: &DeviceIds) -> Result<(), Failure> {
    let imported = import_devices(&server.site.http, devices, &DeviceTemplate::default(), |_| Ok(())).await?;
    if imported.rejected > 0 {
        return Err(format!("not every device was registered: {imported:?}").into());
    }
    Ok(())
}

/// Connects each over a connection of its own, and waits until all are subscribed.
pub(super) async fn connect(
    mqtt: &Endpoint,
    devices: &DeviceIds,
    ledger: &Arc<CommandLedger>,
) -> Result<CommandedDevices, Failure> {
    let connected =
        CommandedDevices::connect(mqtt, devices, devices.count(), ResponseProfile::default(), ledger);
    if !connected.subscribed(devices.count().into(), PATIENCE).await {
        return Err(format!("not every device is subscribed: {}", told(ledger)).into());
    }
    Ok(connected)
}

/// Sends so many commands, in turn to each device.
pub(super) fn load(
    server: &Fieldpost,
    devices: &DeviceIds,
    commands: u64,
    per_second: f64,
    ledger: &Arc<CommandLedger>,
) -> CommandLoad {
    let plan = LoadPlan {
        endpoint: server.site.http.clone(),
        devices: devices.clone(),
        per_second,
        commands,
        connections: SENDERS,
        origin: "bench".to_owned(),
        payload: serde_json::from_str(r#"{"open":true}"#).expect("a constant that is JSON"),
    };
    CommandLoad::start(plan, ledger)
}

/// Waits until so many commands were accepted, done, and their answers acknowledged.
pub(super) async fn all_settled(ledger: &CommandLedger, commands: u64) -> Result<(), Failure> {
    let done = ledger.until(PATIENCE, |counts| counts.settled >= commands).await;
    let counts = ledger.counts();
    if !done || counts.unsent > 0 {
        return Err(format!("not every command was done: {}", told(ledger)).into());
    }
    Ok(())
}

/// What a ledger has to say when something went wrong.
pub(super) fn told(ledger: &CommandLedger) -> String {
    format!("{:?}, {:?}", ledger.counts(), ledger.troubles())
}
