//! Closing an account: wait until things are quiet, ask the API, compare.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{Audit, Expected, NotifiedClient, ServerSnapshot, audit};
use crate::api_client::{ApiClient, ApiError, Looks};
use crate::receiver::WebhookReceiver;
use crate::sent::Sent;

/// The first page of the pending notifications.
#[derive(Deserialize)]
struct PendingPage {
    items: Vec<Value>,
}

/// Waits until no notification is pending, then holds `sent` and what `clients` were told against
/// the API. `clients` are ids and receivers; every device of the run is linked to each, from before
/// its first report.
///
/// Lists leave out unfinished writes. So the API is asked again until they agree, for up to
/// `patience` more. What does not agree then is a shortfall.
///
/// # Errors
/// What the API refuses or cannot answer in time, also when notifications are still pending after
/// `patience`.
pub async fn close(
    api: &ApiClient,
    sent: &Sent,
    clients: &[(&str, &WebhookReceiver)],
    expected: &Expected,
    patience: Duration,
) -> Result<Audit, ApiError> {
    let nothing = |pending: &PendingPage| pending.items.is_empty();
    api.until("/v1/deliveries?status=pending&limit=1", patience, nothing).await?;
    let taken = |id: &str| clients.iter().map(|(_, receiver)| times_taken(receiver, id)).sum();
    let looks = Looks::within(patience);
    let snapshot = loop {
        let snapshot = ServerSnapshot::take(api, sent.devices(), taken).await?;
        let is_whole = snapshot.is_whole(sent.devices(), clients.iter().map(|(client_id, _)| *client_id));
        if is_whole || !looks.again().await {
            break snapshot;
        }
    };
    let ledgers: Vec<_> =
        clients.iter().map(|(client_id, receiver)| (*client_id, receiver.ledger())).collect();
    let told: Vec<_> =
        ledgers.iter().map(|(client_id, ledger)| NotifiedClient { client_id, ledger }).collect();
    Ok(audit(sent, &snapshot, &told, expected))
}

fn times_taken(receiver: &WebhookReceiver, webhook_id: &str) -> u64 {
    receiver.ledger().seen(webhook_id).map_or(0, |(_, taken)| taken.into())
}
