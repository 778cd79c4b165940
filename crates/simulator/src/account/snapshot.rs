//! What the server says it holds, as the public API gives it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::api_client::{ApiClient, ApiError};
use crate::receiver::{ConnectionStatus, DeviceEventKind};
use crate::traffic::DeviceIds;

pub use wire::{Event, NotificationStatus};

#[cfg(test)]
mod tests;

/// Devices asked about at the same time.
const ASKED_AT_ONCE: usize = 4;

/// A device as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Its present value; null before its first report.
    pub value: Value,
    /// Whether it is heard from.
    pub connection: ConnectionStatus,
}

/// A reading of the history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryReading {
    /// The report's own time, milliseconds since 1970.
    pub ts_ms: i64,
    /// What it said.
    pub value: Value,
    /// Whether it changed the device's value.
    pub changed: bool,
}

/// What is known about one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSnapshot {
    /// As it is now.
    pub state: State,
    /// Everything it has reported, oldest first.
    pub readings: Vec<HistoryReading>,
    /// What has happened to it, oldest first.
    pub events: Vec<Event>,
}

/// A notification in the server's books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliverySnapshot {
    /// The webhook-id.
    pub id: String,
    /// To whom.
    pub client_id: String,
    /// About which device.
    pub device_id: String,
    /// What became of it.
    pub status: NotificationStatus,
    /// How often it was tried.
    pub attempt_count: u64,
    /// Attempts that ended without an answer that the server knows of; asked only where it matters.
    pub attempts_cut: u64,
}

/// Everything the account needs to know from the server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerSnapshot {
    /// Per device of the run; a device that is not registered is absent.
    pub devices: BTreeMap<u32, DeviceSnapshot>,
    /// All notifications, oldest first.
    pub deliveries: Vec<DeliverySnapshot>,
}

impl ServerSnapshot {
    /// Asks the API for everything about `devices`. `taken` says how often a webhook-id was taken
    /// by its receiver. Where that is more often than the server says, the attempts are read, too.
    ///
    /// # Errors
    /// What the API refuses or cannot answer in time.
    pub async fn take(
        api: &ApiClient,
        devices: &DeviceIds,
        taken: impl Fn(&str) -> u64,
    ) -> Result<Self, ApiError> {
        let mut snapshots = device_snapshots(api, devices).await?;
        for event in api.list::<Event>("/v1/events?order=asc").await? {
            if let Some(device) = devices.index(&event.device_id).and_then(|index| snapshots.get_mut(&index))
            {
                device.events.push(event);
            }
        }
        let mut deliveries = Vec::new();
        for delivery in api.list::<wire::WireDelivery>("/v1/deliveries?order=asc").await? {
            let in_doubt = taken(&delivery.id) > u64::from(delivery.status == NotificationStatus::Delivered);
            let attempts_cut = if in_doubt { attempts_cut(api, &delivery.id).await? } else { 0 };
            deliveries.push(delivery.with(attempts_cut));
        }
        Ok(Self { devices: snapshots, deliveries })
    }

    /// Whether the lists agree. No notification is pending, and each change in the history is an
    /// event. Each of `clients` has a notification of each event.
    pub(super) fn is_whole<'a>(
        &self,
        devices: &DeviceIds,
        mut clients: impl Iterator<Item = &'a str>,
    ) -> bool {
        self.deliveries.iter().all(|delivery| delivery.status != NotificationStatus::Pending)
            && self.devices.values().all(DeviceSnapshot::has_every_change)
            && clients.all(|client| self.has_every_delivery(devices, client))
    }

    fn has_every_delivery(&self, devices: &DeviceIds, client: &str) -> bool {
        let mut booked: BTreeMap<u32, usize> = BTreeMap::new();
        for delivery in self.deliveries.iter().filter(|delivery| delivery.client_id == client) {
            if let Some(index) = devices.index(&delivery.device_id) {
                *booked.entry(index).or_default() += 1;
            }
        }
        let booked = |index: &u32| booked.get(index).copied().unwrap_or(0);
        self.devices.iter().all(|(index, device)| booked(index) == device.events.len())
    }
}

impl DeviceSnapshot {
    fn has_every_change(&self) -> bool {
        let changes = self.readings.iter().filter(|reading| reading.changed).count();
        changes == self.events.iter().filter(|event| event.kind == DeviceEventKind::Changed).count()
    }
}

async fn attempts_cut(api: &ApiClient, webhook_id: &str) -> Result<u64, ApiError> {
    let delivery: wire::Attempts = api.get(&format!("/v1/deliveries/{webhook_id}")).await?;
    Ok(delivery.attempts.iter().filter(|attempt| attempt.error.is_some()).count() as u64)
}

async fn device_snapshots(
    api: &ApiClient,
    devices: &DeviceIds,
) -> Result<BTreeMap<u32, DeviceSnapshot>, ApiError> {
    let mut snapshots = BTreeMap::new();
    let mut asking = JoinSet::new();
    for index in 0..devices.count() {
        if asking.len() == ASKED_AT_ONCE {
            keep_next(&mut asking, &mut snapshots).await?;
        }
        let (api, id) = (api.clone(), devices.id(index));
        asking.spawn(async move { device_snapshot(&api, &id).await.map(|snapshot| (index, snapshot)) });
    }
    while !asking.is_empty() {
        keep_next(&mut asking, &mut snapshots).await?;
    }
    Ok(snapshots)
}

type Asked = Result<(u32, DeviceSnapshot), ApiError>;

async fn keep_next(
    asking: &mut JoinSet<Asked>,
    snapshots: &mut BTreeMap<u32, DeviceSnapshot>,
) -> Result<(), ApiError> {
    if let Some(asked) = asking.join_next().await {
        let (index, snapshot) = asked.expect("asking the API neither panics nor is aborted")?;
        snapshots.insert(index, snapshot);
    }
    Ok(())
}

async fn device_snapshot(api: &ApiClient, id: &str) -> Result<DeviceSnapshot, ApiError> {
    let device: wire::Device = api.get(&format!("/v1/devices/{id}")).await?;
    let readings: Vec<wire::WireReading> = api.list(&format!("/v1/devices/{id}/readings?order=asc")).await?;
    let readings = readings.into_iter().map(wire::WireReading::into).collect();
    let state = State { value: device.state.value, connection: device.state.connection };
    Ok(DeviceSnapshot { state, readings, events: Vec::new() })
}

/// The contract's JSON.
mod wire {
    use super::{ConnectionStatus, Deserialize, DeviceEventKind, Value};
    use crate::receiver::{WireTime, nullable};

    /// What became of a notification.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum NotificationStatus {
        /// Waiting to be sent, or sent again.
        Pending,
        /// Taken by its receiver.
        Delivered,
        /// Given up.
        Failed,
        /// Replaced by a newer one.
        Superseded,
        /// Not wanted any more.
        Cancelled,
    }

    /// Something that has happened to a device.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    pub struct Event {
        /// The device.
        pub device_id: String,
        /// What has happened.
        #[serde(rename = "type")]
        pub kind: DeviceEventKind,
        /// Counts the device's events from 1.
        pub sequence: u64,
        /// The device's value then.
        pub value: Value,
        /// The value before.
        pub previous: Value,
    }

    #[derive(Deserialize)]
    pub(super) struct Device {
        pub(super) state: DeviceState,
    }

    #[derive(Deserialize)]
    pub(super) struct DeviceState {
        pub(super) value: Value,
        pub(super) connection: ConnectionStatus,
    }

    #[derive(Deserialize)]
    pub(super) struct WireReading {
        ts: WireTime,
        data: Value,
        changed: bool,
    }

    impl From<WireReading> for super::HistoryReading {
        fn from(reading: WireReading) -> Self {
            Self { ts_ms: reading.ts.0, value: reading.data, changed: reading.changed }
        }
    }

    #[derive(Deserialize)]
    pub(super) struct WireDelivery {
        pub(super) id: String,
        client_id: String,
        device_id: String,
        pub(super) status: NotificationStatus,
        attempt_count: u64,
    }

    impl WireDelivery {
        pub(super) fn with(self, attempts_cut: u64) -> super::DeliverySnapshot {
            let Self { id, client_id, device_id, status, attempt_count } = self;
            super::DeliverySnapshot { id, client_id, device_id, status, attempt_count, attempts_cut }
        }
    }

    #[derive(Deserialize)]
    pub(super) struct Attempts {
        pub(super) attempts: Vec<Attempt>,
    }

    #[derive(Deserialize)]
    pub(super) struct Attempt {
        #[serde(deserialize_with = "nullable")]
        pub(super) error: Option<String>,
    }
}
