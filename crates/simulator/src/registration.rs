//! Putting a run's devices and clients into the registry, through the public API: one by one, or
//! any number by import.

use std::io;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api_client::{ApiClient, ApiError};
use crate::endpoint::Endpoint;
use crate::json_lines::HttpConnection;
use crate::places::FleetPlaces;
use crate::receiver::WebhookReceiver;
use crate::traffic::DeviceIds;

/// Devices registered at the same time.
const AT_ONCE: usize = 8;

/// Devices in one request of an import: enough that requests cost little, few enough to fit in
/// memory and patience.
const IMPORT_LINES: u32 = 5_000;

const IMPORT: &str = "/v1/devices/import";

/// What the server answers to a new client.
#[derive(Deserialize)]
struct NewClient {
    secret: String,
}

/// Registers client `id`, whose application is `receiver`; from then on that trusts only the
/// client's secret.
///
/// # Errors
/// What the API refuses or cannot answer in time; a secret that is not in the standard's form is
/// refused too.
pub async fn register_client(api: &ApiClient, id: &str, receiver: &WebhookReceiver) -> Result<(), ApiError> {
    let client = json!({"id": id, "name": format!("Client {id}"), "url": receiver.url()});
    let NewClient { secret } = api.post("/v1/clients", &client).await?;
    receiver.trust(&secret).map_err(|error| {
        let source = serde::de::Error::custom(error);
        ApiError::Unreadable { path: "/v1/clients".to_owned(), source, body: secret }
    })
}

/// Registers the locks `range` of `devices`, each linked to every one of `client_ids`;
/// `report_interval` as the server's default when it is not given.
///
/// # Errors
/// What the API refuses or cannot answer in time.
pub async fn register_locks(
    api: &ApiClient,
    devices: &DeviceIds,
    range: Range<u32>,
    report_interval: Option<Duration>,
    client_ids: &[&str],
) -> Result<(), ApiError> {
    let mut registering = JoinSet::new();
    for index in range {
        if registering.len() == AT_ONCE {
            ended(registering.join_next().await)?;
        }
        let (api, id) = (api.clone(), devices.id(index));
        let clients: Vec<String> = client_ids.iter().map(|client| (*client).to_owned()).collect();
        registering.spawn(async move { register_lock(&api, &id, report_interval, &clients).await });
    }
    while !registering.is_empty() {
        ended(registering.join_next().await)?;
    }
    Ok(())
}

/// Gives the locks `range` of `devices` another report interval.
///
/// # Errors
/// What the API refuses or cannot answer in time.
pub async fn change_interval(
    api: &ApiClient,
    devices: &DeviceIds,
    range: Range<u32>,
    report_interval: Duration,
) -> Result<(), ApiError> {
    for index in range {
        let change = json!({"report_interval": duration_text(report_interval)});
        api.patch(&format!("/v1/devices/{}", devices.id(index)), &change).await?;
    }
    Ok(())
}

/// What an import puts into the registry of each device.
#[derive(Debug, Clone, Default)]
pub struct DeviceTemplate {
    /// How often the server may expect a report; its default when not given.
    pub report_interval: Option<Duration>,
    /// The clients that are told about it; those that it has when none are given.
    pub client_ids: Vec<String>,
    /// Where they are; their labels stay as they are when it is not given.
    pub places: Option<FleetPlaces>,
}

/// What came of an import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportTotals {
    /// Devices that are new.
    pub created: u64,
    /// Devices that were there.
    pub updated: u64,
    /// Devices that were not taken.
    pub rejected: u64,
    /// Why the first of them was not.
    pub first_rejection: Option<String>,
}

/// Imports all `devices`, some thousands at a time; `advanced` is told how many have been answered
/// for, and may call it off.
///
/// # Errors
/// When the server cannot be reached or does not take the request at all. What was imported before
/// is there.
pub async fn import_devices(
    endpoint: &Endpoint,
    devices: &DeviceIds,
    registration: &DeviceTemplate,
    mut advanced: impl FnMut(u32) -> io::Result<()>,
) -> io::Result<ImportTotals> {
    let mut connection = HttpConnection::open(endpoint).await?;
    let mut imported = ImportTotals::default();
    let mut from = 0;
    while from < devices.count() {
        let until = devices.count().min(from.saturating_add(IMPORT_LINES));
        let lines: String = (from..until).map(|index| import_line(devices, index, registration)).collect();
        let answer = connection.post(IMPORT, lines.into()).await?;
        let answer: ImportAnswer = serde_json::from_slice(&answer).map_err(io::Error::other)?;
        imported.add(answer);
        from = until;
        advanced(until)?;
    }
    Ok(imported)
}

fn import_line(devices: &DeviceIds, index: u32, registration: &DeviceTemplate) -> String {
    let mut device = json!({"id": devices.id(index), "kind": devices.kind()});
    if let Some(interval) = registration.report_interval {
        device["report_interval"] = duration_text(interval).into();
    }
    if !registration.client_ids.is_empty() {
        device["clients"] = registration.client_ids.clone().into();
    }
    if let Some(places) = &registration.places {
        let place = places.of(index);
        device["labels"] = place.labels().into_iter().collect();
    }
    format!("{device}\n")
}

/// The server's answer to an import.
#[derive(Debug, Deserialize)]
struct ImportAnswer {
    created: u64,
    updated: u64,
    rejected_count: u64,
    rejected: Vec<RejectedLine>,
}

#[derive(Debug, Deserialize)]
struct RejectedLine {
    code: String,
    detail: String,
}

impl ImportTotals {
    fn add(&mut self, answer: ImportAnswer) {
        self.created += answer.created;
        self.updated += answer.updated;
        self.rejected += answer.rejected_count;
        let first = answer.rejected.into_iter().next();
        let first = first.map(|RejectedLine { code, detail }| format!("{code}: {detail}"));
        self.first_rejection = self.first_rejection.take().or(first);
    }
}

async fn register_lock(
    api: &ApiClient,
    id: &str,
    report_interval: Option<Duration>,
    client_ids: &[String],
) -> Result<(), ApiError> {
    let mut device = json!({"id": id, "kind": "lock", "address": format!("12 Harbour St, door {id}")});
    if let Some(interval) = report_interval {
        device["report_interval"] = duration_text(interval).into();
    }
    api.post::<Value>("/v1/devices", &device).await?;
    for client_id in client_ids {
        api.put(&format!("/v1/devices/{id}/clients/{client_id}")).await?;
    }
    Ok(())
}

fn ended(registered: Option<Result<Result<(), ApiError>, tokio::task::JoinError>>) -> Result<(), ApiError> {
    registered.map_or(Ok(()), |done| done.expect("registering neither panics nor is aborted"))
}

fn duration_text(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_names_only_what_is_asked_for() {
        let devices = DeviceIds::new("d", 20).of_kind("gate");
        let line = |registration| import_line(&devices, 7, &registration);
        assert_eq!(line(DeviceTemplate::default()), "{\"id\":\"d07\",\"kind\":\"gate\"}\n");
        let full = DeviceTemplate {
            report_interval: Some(Duration::from_secs(2)),
            client_ids: vec!["acme".to_owned()],
            places: Some(FleetPlaces::seeded(1)),
        };
        let full: Value = serde_json::from_str(&line(full)).expect("it is JSON");
        assert_eq!(full["clients"], json!(["acme"]));
        assert_eq!(full["report_interval"], "2000ms");
        assert_eq!(full["labels"]["city"], FleetPlaces::seeded(1).of(7).city);
    }

    #[test]
    fn answers_to_an_import_add_up_and_the_first_rejection_is_kept() {
        let mut imported = ImportTotals::default();
        for answer in [
            json!({"created": 3, "updated": 0, "rejected_count": 0, "rejected": []}),
            json!({"created": 0, "updated": 1, "rejected_count": 1,
                   "rejected": [{"line": 2, "code": "kind_fixed", "detail": "it is a lock"}]}),
            json!({"created": 0, "updated": 0, "rejected_count": 1,
                   "rejected": [{"line": 1, "code": "other", "detail": ""}]}),
        ] {
            imported.add(serde_json::from_value(answer).expect("it is JSON"));
        }
        let first_rejection = Some("kind_fixed: it is a lock".to_owned());
        assert_eq!(imported, ImportTotals { created: 3, updated: 1, rejected: 2, first_rejection });
    }

    #[test]
    fn durations_have_the_text_of_the_contract() {
        assert_eq!(duration_text(Duration::from_secs(3)), "3000ms");
    }
}
