//! A device: what was registered, what it is like now, and each reading it gave.

use base::{Attended, DeviceId, Incarnation, Kind, Timestamp, Value, WayIn};

use crate::weight::{RECORD_BYTES, text_of, weighs};

/// A device's dense number within its partition; never used again. 256 neighbouring slots share
/// their history blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceSlot(pub u32);

impl DeviceSlot {
    /// Devices that share a slice of history.
    pub const SLICE_DEVICES: u32 = 256;

    /// The slice the device belongs to.
    #[must_use]
    pub fn slice(self) -> u32 {
        self.0 / Self::SLICE_DEVICES
    }

    /// The device's place within its slice.
    #[must_use]
    pub fn within_slice(self) -> u8 {
        (self.0 % Self::SLICE_DEVICES) as u8
    }
}

/// What was registered of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProfile {
    /// The id, unique among the registered.
    pub id: DeviceId,
    /// New at every registration.
    pub incarnation: Incarnation,
    /// Where its state and history are kept.
    pub slot: DeviceSlot,
    /// Cannot change.
    pub kind: Kind,
    /// Where it is installed.
    pub address: Option<String>,
    /// Sorted by key; keys are unique.
    pub labels: Vec<(String, String)>,
    /// In milliseconds; `None` is the setting `devices.report_interval`.
    pub report_interval_ms: Option<u64>,
    /// How commands go to it, as far as settings do not say so.
    pub pace: PaceOverride,
    /// When it was registered.
    pub registered_at: Timestamp,
    /// The reading of [`crate::AttendedReadings::every`] from which the silence of a device never
    /// seen is measured. It is the one at its registration, or at the time that import gave in its
    /// place.
    pub expected_from: Attended,
    /// The incarnations of the clients it is linked to, in the order of linking.
    pub clients: Vec<Incarnation>,
}

weighs!(DeviceProfile: |_| 63 * RECORD_BYTES);

/// How commands go to one device. What is `None` the settings say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaceOverride {
    /// How many may be unanswered at a time.
    pub in_flight: Option<u32>,
    /// Least time from one publish to the next, in milliseconds.
    pub gap_ms: Option<u64>,
}

/// Whether a device is heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    /// No sign of life since its registration, and not yet missed.
    #[default]
    NeverSeen,
    /// Its latest sign of life is recent enough.
    Online,
    /// It has been silent for too long; told once.
    Lost,
}

base::names! {
    /// Every state.
    pub Connection: NeverSeen = "never_seen", Online = "online", Lost = "lost"
}

/// What a device is like now, as far as it changes with an event. What every report moves is in
/// [`LastSeen`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// The present value; `None` before the first report.
    pub value: Option<Value>,
    /// The `ts` of the reading that changed the value.
    pub changed_at: Option<Timestamp>,
    /// Whether it is heard of.
    pub connection: Connection,
    /// The number of its latest event, from 1; 0 before the first.
    pub sequence: u64,
}

weighs!(DeviceState: |state| text_of(state.value.as_ref()));

/// A device's latest sign of life. Moves with every report, and dirties nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastSeen {
    /// When it was received.
    pub at: Timestamp,
    /// The way it came in.
    pub way: WayIn,
    /// The attended clock of that way at that time.
    pub attended: Attended,
    /// The readings kept of the device so far; the number of the latest one.
    pub readings: u32,
    /// The newest `ts` that any report of the device carried.
    pub newest_ts: Option<Timestamp>,
}

/// A stored report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Counts the device's readings from 1, in the order received; breaks ties between equal `ts`.
    pub number: u32,
    /// The report's own `ts`, else the time of receipt.
    pub ts: Timestamp,
    /// What was reported.
    pub value: Value,
    /// Whether it changed the device's value.
    pub changed: bool,
}
