//! Events: a device changed, was lost, or was restored.

use base::{EntityId, Timestamp, Value};

use crate::DeviceSlot;
use crate::weight::{RECORD_BYTES, text_of, weighs};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// The value is another than before; the first report ever counts.
    Changed,
    /// The device was silent for too long.
    Lost,
    /// A lost device gave a sign of life.
    Restored,
}

base::names! {
    /// Every kind.
    pub EventKind: Changed = "device.changed", Lost = "device.lost", Restored = "device.restored"
}

impl EventKind {
    /// The kind of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Where an event is kept within its partition, and the order of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey {
    /// When the server noticed.
    pub at: Timestamp,
    /// Its number among the partition's events, modulo 2^32.
    pub number: u32,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its id, which holds its key and its time.
    pub id: EntityId,
    /// The device it happened to.
    pub slot: DeviceSlot,
    /// The device's id at that time, so that a feed needs no second look-up.
    pub device: base::DeviceId,
    /// What happened.
    pub kind: EventKind,
    /// Counts the device's events from 1.
    pub sequence: u64,
    /// The value after it.
    pub value: Option<Value>,
    /// The value before it.
    pub previous: Option<Value>,
}

weighs!(Event: |event| RECORD_BYTES + text_of(event.value.as_ref()) + text_of(event.previous.as_ref()));
