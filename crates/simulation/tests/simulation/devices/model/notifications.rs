//! What a client has to be told of a device, and how far each notification has come.
//!
//! Kept as the contract words it: all events since the link, and how many of them the client knows.
//! Also kept is how many notifications have been in vain since it was last told. Nothing is folded
//! before somebody asks for the body.

use base::{DeviceId, EntityId, Incarnation, Timestamp, Value};
use records::{AttemptError, DeliveryStatus, DeviceSlot, EventKind};
use serde_json::json;

use super::device::Device;

/// Kinds that a body names at most.
const TYPES_MAX: usize = 8;

/// What a client has to be told of a device, and how far its notifications have come.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedNotifications {
    /// Every event since the first one to tell, with the value before it.
    pub(crate) events: Vec<(EventKind, Option<Value>)>,
    /// How many of them the client knows.
    pub(crate) told: usize,
    /// The device's newest event, while a client that knows everything is told it again by hand.
    pub(crate) again: Option<(EventKind, Option<Value>)>,
    /// Notifications superseded or failed since the last one delivered.
    pub(crate) skipped: u32,
    /// The delivery that waits.
    pub(crate) pending: Option<usize>,
    /// The newest delivery, if it has failed for good.
    pub(crate) failed: Option<usize>,
    /// When the latest attempt ended: nothing of this pair could go before.
    pub(crate) free_since: Timestamp,
    /// The delivery with an attempt under way.
    pub(crate) flight: Option<Flight>,
}

/// An attempt under way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) delivery: usize,
    /// The process that makes the attempt.
    pub(crate) process: u64,
    pub(crate) since: Timestamp,
    /// How many of the pair's events it tells.
    pub(crate) tells: usize,
    pub(crate) skipped: u32,
    /// The client was unlinked meanwhile: the attempt is the last.
    pub(crate) is_cancelled: bool,
}

/// A notification.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) id: EntityId,
    pub(crate) device: DeviceId,
    pub(crate) slot: DeviceSlot,
    pub(crate) client: Incarnation,
    pub(crate) kind: EventKind,
    pub(crate) sequence: u64,
    pub(crate) resend_of: Option<EntityId>,
    pub(crate) status: DeliveryStatus,
    /// Attempts made.
    pub(crate) attempts: u32,
    /// Those that count towards the last.
    pub(crate) counted: u32,
    /// Attempts that it may have.
    pub(crate) tries: u32,
    /// When the next attempt is due, while it waits for one.
    pub(crate) due: Option<Timestamp>,
    /// What it says, fixed at the first attempt.
    pub(crate) body: Option<serde_json::Value>,
    pub(crate) log: Vec<Attempt>,
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) at: Timestamp,
    pub(crate) took_ms: u32,
    pub(crate) status_code: Option<u16>,
    pub(crate) error: Option<AttemptError>,
}

impl ExpectedNotifications {
    /// Whether the client knows everything that it is to know: what was cancelled does not count.
    pub(crate) fn is_told(&self) -> bool {
        let flies = self.flight.as_ref().is_some_and(|flight| !flight.is_cancelled);
        let knows_all = self.told == self.events.len() && self.again.is_none();
        knows_all && self.pending.is_none() && !flies
    }

    /// Whether there is nothing to remember.
    pub(crate) fn is_over(&self) -> bool {
        self.is_told() && self.flight.is_none()
    }

    /// Something happened that the client is to know.
    pub(crate) fn add_event(&mut self, kind: EventKind, previous: Option<Value>) {
        self.again = None;
        self.events.push((kind, previous));
    }

    /// What the next notification tells, oldest first.
    pub(crate) fn to_tell(&self) -> &[(EventKind, Option<Value>)] {
        self.again.as_ref().map_or(&self.events[self.told..], std::slice::from_ref)
    }

    /// The delivery that waits takes off.
    pub(crate) fn take_off(&mut self, now: Timestamp, process: u64) -> Option<usize> {
        let delivery = self.pending.take()?;
        let flight = Flight {
            delivery,
            process,
            since: now,
            tells: self.events.len(),
            skipped: self.skipped,
            is_cancelled: false,
        };
        self.flight = Some(flight);
        Some(delivery)
    }

    /// What was in flight has been delivered.
    pub(crate) fn land(&mut self, flight: &Flight) {
        self.told = flight.tells;
        self.again = None;
        self.skipped -= flight.skipped;
    }
}

/// The complete picture of a device, as it is told now.
pub(crate) fn body(
    device: &Device,
    pair: &ExpectedNotifications,
    noticed_at: Timestamp,
) -> serde_json::Value {
    let to_tell = pair.to_tell();
    let newest = &to_tell[to_tell.len().saturating_sub(TYPES_MAX)..];
    let types: Vec<&str> = newest.iter().map(|(kind, _)| kind.as_str()).collect();
    json!({
        "type": types.last(),
        "timestamp": noticed_at.to_string(),
        "data": {
            "device_id": device.id.as_str(),
            "kind": device.kind,
            "address": device.address,
            "value": as_json(device.value.as_ref()),
            "previous": as_json(to_tell.first().and_then(|(_, before)| before.as_ref())),
            "connection": device.connection.as_str(),
            "changed_at": device.changed_at.map(|at| at.to_string()),
            "last_seen_at": device.seen.map(|(at, _)| at.to_string()),
            "sequence": device.sequence,
            "types": types,
            "skipped": pair.skipped,
        },
    })
}

/// A value as JSON.
pub(crate) fn as_json(value: Option<&Value>) -> serde_json::Value {
    value.map_or(serde_json::Value::Null, |value| {
        serde_json::from_str(&value.to_json()).expect("a value is JSON")
    })
}
