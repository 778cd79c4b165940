//! A server with devices of a realistic fleet, which are connected and answer.

use std::sync::Arc;

use fieldpost_client::{Client, DeviceSelection};
use simulator::commands::{CommandLedger, CommandedDevices, ResponseProfile};
use simulator::places::FleetPlaces;
use simulator::registration::{DeviceTemplate, import_devices};
use simulator::traffic::DeviceIds;

use super::site::Fieldpost;
use super::{Failure, PATIENCE};

/// What the places of the fleet depend on.
pub(super) const SEED: u64 = 1;

/// A fleet at a server.
pub(super) struct Stage {
    pub(super) server: Fieldpost,
    pub(super) client: Client,
    pub(super) ledger: Arc<CommandLedger>,
    connected: CommandedDevices,
}

impl Stage {
    /// Registers so many devices with their places and connects them, over so many connections or
    /// as many as it takes.
    pub(super) async fn set(
        devices: u32,
        connections: u32,
        profile: ResponseProfile,
    ) -> Result<Self, Failure> {
        let server = Fieldpost::start().await?;
        let devices = DeviceIds::new("p", devices).of_kind("probe");
        let registration =
            DeviceTemplate { places: Some(FleetPlaces::seeded(SEED)), ..DeviceTemplate::default() };
        let imported = import_devices(&server.site.http, &devices, &registration, |_| Ok(())).await?;
        if imported.rejected > 0 {
            return Err(format!("not every device was registered: {imported:?}").into());
        }
        let ledger = Arc::new(CommandLedger::default());
        let mqtt = &server.site.mqtt;
        let connected = CommandedDevices::connect(mqtt, &devices, connections, profile, &ledger);
        if !connected.subscribed(devices.count().into(), PATIENCE).await {
            return Err(format!("not every device is subscribed: {}", told(&ledger)).into());
        }
        let client = Client::builder(server.url().await).timeout(PATIENCE).build()?;
        Ok(Self { server, client, ledger, connected })
    }

    /// How many of a selection are connected.
    pub(super) async fn connected(&self, selection: &DeviceSelection) -> Result<u64, Failure> {
        Ok(self.client.fleet().count(selection, None).await?.connected)
    }

    /// Waits until devices have had so many commands, each once, and their answers have been
    /// acknowledged.
    pub(super) async fn settled(&self, commands: u64) -> Result<(), Failure> {
        if self.ledger.until(PATIENCE, |counts| counts.settled >= commands).await {
            return Ok(());
        }
        Err(format!("{commands} commands were not all answered: {}", told(&self.ledger)).into())
    }

    /// Waits until devices have received so many commands.
    pub(super) async fn received(&self, commands: u64) -> Result<(), Failure> {
        if self.ledger.until(PATIENCE, |counts| counts.received >= commands).await {
            return Ok(());
        }
        Err(format!("{commands} commands did not all arrive: {}", told(&self.ledger)).into())
    }

    /// Says goodbye for every device, and stops the server.
    pub(super) async fn clear(self) -> Result<(), Failure> {
        self.connected.disconnect().await;
        self.server.stop().await
    }
}

/// What a ledger has to say when something went wrong.
fn told(ledger: &CommandLedger) -> String {
    format!("{:?}, {:?}", ledger.counts(), ledger.troubles())
}
