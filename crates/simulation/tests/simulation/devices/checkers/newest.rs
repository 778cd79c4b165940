//! What the receivers know once all is quiet, and that no webhook-id ever stood for two things.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::EntityId;
use records::DeliveryStatus;

use crate::devices::model::notifications::Delivery;
use crate::devices::model::partition::Partition;
use crate::devices::model::registry::Registry;
use crate::devices::receivers::Receivers;
use crate::harness::violation::{Checked, Invariant};

/// The last notification that each client accepted of each device shows the device as it is: what
/// was given up has been told again.
pub(crate) fn check(partition: &Partition, registry: &Registry, receivers: &Receivers) -> Checked {
    for device in partition.devices.values() {
        for client in &device.links {
            let enabled =
                registry.clients.values().any(|known| known.incarnation == *client && known.enabled);
            let mut known = partition.deliveries.iter().enumerate().rev();
            let newest =
                known.find(|(_, delivery)| delivery.slot == device.slot && delivery.client == *client);
            let Some((place, newest)) = newest.filter(|_| enabled) else { continue };
            // What a link had left goes with it, and another link has nothing to be told again.
            let failed = device.pairs.get(client).and_then(|pair| pair.failed);
            let is_forgotten = newest.status == DeliveryStatus::Failed && failed != Some(place);
            if newest.status == DeliveryStatus::Cancelled || is_forgotten {
                continue;
            }
            let last = receivers.receipts(*client, &device.id).iter().rev().find(|receipt| receipt.accepted);
            let told =
                last.is_some_and(|last| last.delivery == newest.id && shows(&last.body, newest, device));
            Invariant::NEWEST_WINS.check(told && newest.status == DeliveryStatus::Delivered, || {
                format!(
                    "client {} was last told {:?} of {}; the newest is {:?} {:?}, at sequence {} of {}",
                    client.0, last, device.id, newest.id, newest.status, newest.sequence, device.sequence
                )
            })?;
        }
    }
    Ok(())
}

/// Whether a body shows the device as it is.
fn shows(body: &[u8], newest: &Delivery, device: &crate::devices::model::device::Device) -> bool {
    let Ok(body) = serde_json::from_slice::<serde_json::Value>(body) else { return false };
    let data = &body["data"];
    data["sequence"] == newest.sequence
        && (newest.sequence != device.sequence
            || (data["value"] == crate::devices::model::notifications::as_json(device.value.as_ref())
                && data["connection"] == device.connection.as_str()))
}

/// Nobody is told of a device by an older notification after a newer one.
pub(crate) fn check_order(receivers: &Receivers) -> Checked {
    for (who, receipts) in receivers.all() {
        let made: Vec<_> =
            receipts.iter().map(|receipt| (receipt.delivery.at, receipt.delivery.number)).collect();
        Invariant::NEWEST_WINS
            .check(made.is_sorted(), || format!("{who:?} was posted out of order: {made:?}"))?;
    }
    Ok(())
}

/// One webhook-id, one body, one client, one device.
pub(crate) fn check_ids(receivers: &Receivers) -> Checked {
    let mut seen: BTreeMap<EntityId, (String, Arc<[u8]>)> = BTreeMap::new();
    for (who, receipts) in receivers.all() {
        for receipt in receipts {
            let whose = format!("{who:?}");
            let first =
                seen.entry(receipt.delivery).or_insert_with(|| (whose.clone(), Arc::clone(&receipt.body)));
            Invariant::ONE_EFFECT_PER_CAUSE.check(*first == (whose, Arc::clone(&receipt.body)), || {
                format!("webhook-id {:?} stands for two notifications", receipt.delivery)
            })?;
        }
    }
    Ok(())
}
