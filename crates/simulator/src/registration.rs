//! Putting a run's locks and clients into the registry, through the public API.

use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api_client::{Api, ApiError};
use crate::receiver::Receiver;
use crate::traffic::DeviceIds;

/// Devices registered at the same time.
const AT_ONCE: usize = 8;

/// What the server answers to a new client.
#[derive(Deserialize)]
struct NewClient {
    secret: String,
}

/// Registers client `id`, whose application is `receiver`; from then on that trusts only the client's secret.
///
/// # Errors
/// What the API refuses or cannot answer in time; a secret that is not in the standard's form is refused too.
pub async fn register_client(api: &Api, id: &str, receiver: &Receiver) -> Result<(), ApiError> {
    let client = json!({"id": id, "name": format!("Client {id}"), "url": receiver.url()});
    let NewClient { secret } = api.post("/v1/clients", &client).await?;
    receiver.trust(&secret).map_err(|error| {
        let source = serde::de::Error::custom(error);
        ApiError::Unreadable { path: "/v1/clients".to_owned(), source, body: secret }
    })
}

/// Registers the locks `range` of `devices`, each linked to every one of `client_ids`; `report_interval` as the
/// server's default when it is not given.
///
/// # Errors
/// What the API refuses or cannot answer in time.
pub async fn register_locks(
    api: &Api,
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
    api: &Api,
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

async fn register_lock(
    api: &Api,
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
    fn durations_have_the_text_of_the_contract() {
        assert_eq!(duration_text(Duration::from_secs(3)), "3000ms");
    }
}
